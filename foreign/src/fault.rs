//! What a model's command can do wrong: each in one line, with the remedy.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use resilin_learn::model::ModelError;

use crate::command::CommandLine;
use crate::message::PROTOCOL;

/// Most characters of the command's own words in an error.
const SHOWN: usize = 200;

/// One thing that went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// There is no such program, or the system has no room for it.
    #[error("cannot be started: {0}; install it, or correct [model] command")]
    Start(std::io::Error),
    /// The memory between the processes.
    #[error("cannot be given memory: {0}; free some, or use a smaller model or batch")]
    Memory(std::io::Error),
    /// It ended, by itself or by a signal.
    #[error("ended ({how}) {when}{}; the lines it wrote say where", after(.said))]
    Ended {
        how: ExitStatus,
        when: &'static str,
        said: Option<String>,
    },
    /// It cannot answer any more, and went on.
    #[error("closed its standard output and went on; leave it to resilin_model.py")]
    Closed,
    /// It does not answer.
    #[error("has not answered for {} s; mend it, or raise [model] deadline", .0.as_secs_f64())]
    Silent(Duration),
    /// A line that is no answer.
    #[error(
        "wrote what is no answer: {}; leave its standard output to resilin_model.py, and print \
         after it is imported or to standard error",
        shown(.0)
    )]
    Garbage(String),
    /// An answer that lacks something, or has it otherwise.
    #[error("gave an answer that cannot be read: {0}; docs/foreign-models.md has its keys")]
    Answer(serde_json::Error),
    /// An answer to another question.
    #[error(
        "gave an answer to another question; leave its standard input and output to resilin_model.py"
    )]
    Unexpected,
    /// It is made for another version.
    #[error(
        "speaks protocol {0}, and this program {PROTOCOL}; use the resilin_model.py of this version"
    )]
    Protocol(u32),
    /// It says that it cannot.
    #[error("failed: {}; the lines it wrote say where", shown(.0))]
    Failed(String),
    /// Something does not fit.
    #[error("{0}")]
    Wrong(String),
}

impl Fault {
    /// Whether somebody else ended it.
    pub(crate) fn is_kill(&self) -> bool {
        matches!(self, Self::Ended { how, .. } if how.signal().is_some())
    }

    /// The error of the model with this command.
    pub(crate) fn of(self, command: &CommandLine) -> ModelError {
        ModelError(format!("the model command {command} {self}"))
    }
}

fn after(line: &Option<String>) -> String {
    line.as_ref()
        .map_or_else(String::new, |line| format!(": {}", shown(line)))
}

/// Foreign words on one line, and not too many.
fn shown(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(SHOWN)
        .collect();
    if line.len() < text.len() {
        line += "...";
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_short_line_that_names_the_command() {
        let command = CommandLine::parse("python3 model.py").unwrap();
        let garbage = Fault::Garbage(format!("one\ntwo{}", "x".repeat(SHOWN))).of(&command);
        let expected = format!(
            "the model command `python3 model.py` wrote what is no answer: one two{}...; leave its \
             standard output to resilin_model.py, and print after it is imported or to standard \
             error",
            "x".repeat(SHOWN - 7)
        );
        assert_eq!(garbage.to_string(), expected);
    }
}
