//! The command of a model: words for the system, and the text by which errors name it.

use std::fmt;

/// A program and its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    text: String,
    /// Never empty.
    words: Vec<String>,
}

impl CommandLine {
    /// Splits at blanks; what stands in single or double quotes stays together. There are no
    /// escapes, variables or patterns: that is what a shell is for, which can be named here.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in text.chars() {
            match quote {
                Some(open) if c == open => quote = None,
                Some(_) => word.get_or_insert_default().push(c),
                None if c == '"' || c == '\'' => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                None if c.is_whitespace() => words.extend(word.take()),
                None => word.get_or_insert_default().push(c),
            }
        }
        if let Some(open) = quote {
            return Err(format!("a quote {open} is not closed; close it"));
        }
        words.extend(word);
        if words.first().is_none_or(String::is_empty) {
            return Err("names no program; write one, such as \"python3 model.py\"".into());
        }
        let text = text.trim().replace(char::is_control, " ");
        Ok(Self { text, words })
    }

    /// The program.
    pub(crate) fn program(&self) -> &str {
        &self.words[0]
    }

    /// What it is started with.
    pub(crate) fn arguments(&self) -> &[String] {
        &self.words[1..]
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        let command = CommandLine::parse(" python3  'my model.py' --rate=\"0 1\" '' ").unwrap();
        assert_eq!(command.program(), "python3");
        assert_eq!(command.arguments(), ["my model.py", "--rate=0 1", ""]);
        assert_eq!(
            command.to_string(),
            "`python3  'my model.py' --rate=\"0 1\" ''`"
        );
    }

    #[test]
    fn what_names_no_program_is_refused() {
        let none = "names no program; write one, such as \"python3 model.py\"";
        for (text, why) in [
            ("", none),
            (" \t", none),
            ("'' x", none),
            ("python3 'model.py", "a quote ' is not closed; close it"),
        ] {
            assert_eq!(CommandLine::parse(text), Err(why.into()), "{text:?}");
        }
    }
}
