//! A value as it stands in a job file, and the one way in which it is written back.
//!
//! The text that [`Value::literal`] makes goes into the digest that names a run, so it is ours and
//! does not follow a library's taste.

use std::fmt::Write as _;

use toml::de::DeValue;

/// A value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number; wider than TOML asks for, so that a seed may be any u64.
    Integer(i128),
    /// A number with a point or an exponent.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Self>),
    /// What no key takes: a date, a nested table, a number out of all bounds. Holds its name.
    Foreign(&'static str),
}

impl Value {
    pub(crate) fn from_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.clone().into_owned()),
            DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
                .map_or(Self::Foreign("an integer beyond 128 bits"), Self::Integer),
            DeValue::Float(number) => number
                .as_str()
                .parse()
                .map_or(Self::Foreign("an unreadable float"), Self::Float),
            DeValue::Boolean(boolean) => Self::Boolean(*boolean),
            DeValue::Datetime(_) => Self::Foreign("a date"),
            DeValue::Array(items) => {
                Self::List(items.iter().map(|i| Self::from_toml(i.get_ref())).collect())
            }
            DeValue::Table(_) => Self::Foreign("a table"),
        }
    }

    /// The value in TOML, always the same text for the same value.
    #[must_use]
    pub fn literal(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            // `{:?}` is the shortest text that reads back to the same bits, with a point or an
            // exponent; `+ 0.0` makes -0.0 and 0.0 one value.
            Self::Float(number) => format!("{:?}", number + 0.0),
            Self::Boolean(boolean) => boolean.to_string(),
            Self::Text(text) => quoted(text),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::literal).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Foreign(name) => (*name).into(),
        }
    }

    /// The value as an error shows it: at most some 60 characters.
    pub(crate) fn shown(&self) -> String {
        let literal = self.literal();
        match literal.char_indices().nth(60) {
            Some((end, _)) => format!("{}...", &literal[..end]),
            None => literal,
        }
    }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                write!(out, "\\u{:04X}", u32::from(c)).expect("a string takes every write");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

macro_rules! value_from {
    ($($type:ty => $make:expr),* $(,)?) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                let make: fn($type) -> Self = $make;
                make(value)
            }
        })*
    };
}

value_from! {
    i32 => |v| Self::Integer(v.into()),
    i64 => |v| Self::Integer(v.into()),
    u64 => |v| Self::Integer(v.into()),
    u32 => |v| Self::Integer(v.into()),
    f64 => Self::Float,
    bool => Self::Boolean,
    String => Self::Text,
    &str => |v| Self::Text(v.into()),
}
