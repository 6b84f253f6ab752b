//! Bytes to records, one quote-aware pass (RFC 4180), with the line on which each record begins.
//!
//! Stricter than the usual readers where leniency loses rows: a quote that is never closed, or text
//! behind a closing quote, is refused. A quote inside a bare field is a plain character.

use std::io::BufRead;

use resilin_learn::dataset::DataError;

use crate::input::Input;

/// Longest record; beyond it a quote is most likely never closed.
const MOST_BYTES: usize = 16 << 20;

/// The fields of one record; reused from record to record.
#[derive(Default)]
pub(crate) struct Record {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Record {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field as text; bytes that are not UTF-8 become U+FFFD, so they never pass for a number.
    pub(crate) fn field(&self, index: usize) -> std::borrow::Cow<'_, str> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        String::from_utf8_lossy(&self.bytes[start..self.ends[index]])
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
        (0..self.len()).map(|index| self.field(index))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn end_field(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Nothing but an empty line.
    fn is_blank(&self) -> bool {
        self.ends.is_empty() && self.bytes.is_empty()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    FieldStart,
    Bare,
    Quoted,
    /// Behind a quote inside a quoted field: closing, or the first half of a doubled one.
    QuoteSeen,
}

/// Records of one file; empty lines are passed over.
pub(crate) struct Records {
    pub(crate) input: Input,
    delimiter: u8,
    line: u64,
    after_return: bool,
}

impl Records {
    pub(crate) fn new(mut input: Input, delimiter: u8) -> Result<Self, DataError> {
        skip_byte_order_mark(&mut input)?;
        Ok(Self {
            input,
            delimiter,
            line: 1,
            after_return: false,
        })
    }

    /// Reads the next record and tells its first line, counted from 1; `None` at the end.
    pub(crate) fn next(&mut self, record: &mut Record) -> Result<Option<u64>, DataError> {
        record.clear();
        let mut state = State::FieldStart;
        let mut first = self.line;
        while let Some(byte) = self.byte()? {
            if self.after_return {
                self.after_return = false;
                if byte == b'\n' {
                    continue;
                }
            }
            let ends_line = matches!(byte, b'\n' | b'\r');
            if ends_line {
                self.line += 1;
                self.after_return = byte == b'\r' && state != State::Quoted;
            }
            if ends_line && state != State::Quoted {
                if state == State::FieldStart && record.is_blank() {
                    first = self.line;
                    continue;
                }
                record.end_field();
                return Ok(Some(first));
            }
            state = self.take(byte, state, record)?;
            if record.bytes.len() > MOST_BYTES {
                return Err(self.refusal(first, "a row is longer than 16 MiB: close its quote"));
            }
        }
        match state {
            State::Quoted => Err(self.refusal(first, "a quote is never closed: close it")),
            State::FieldStart if record.is_blank() => Ok(None),
            State::FieldStart | State::Bare | State::QuoteSeen => {
                record.end_field();
                Ok(Some(first))
            }
        }
    }

    /// One byte that ends no record.
    fn take(&self, byte: u8, state: State, record: &mut Record) -> Result<State, DataError> {
        let delimits = byte == self.delimiter;
        match state {
            State::FieldStart if byte == b'"' => return Ok(State::Quoted),
            State::FieldStart | State::Bare | State::QuoteSeen if delimits => {
                record.end_field();
                return Ok(State::FieldStart);
            }
            State::Quoted if byte == b'"' => return Ok(State::QuoteSeen),
            State::QuoteSeen if byte != b'"' => {
                return Err(self.refusal(self.line, "text follows a closing quote: remove it"));
            }
            State::FieldStart | State::Bare | State::Quoted | State::QuoteSeen => {
                record.bytes.push(byte);
            }
        }
        Ok(match state {
            State::FieldStart | State::Bare => State::Bare,
            State::Quoted | State::QuoteSeen => State::Quoted,
        })
    }

    fn byte(&mut self) -> Result<Option<u8>, DataError> {
        let byte = match self.input.fill_buf() {
            Ok(buffer) => buffer.first().copied(),
            Err(error) => return Err(self.input.failed(&error)),
        };
        if byte.is_some() {
            self.input.consume(1);
        }
        Ok(byte)
    }

    fn refusal(&self, line: u64, what: &str) -> DataError {
        DataError(format!("{}, line {line}: {what}", self.input.path))
    }
}

/// Spreadsheets put one in front of the first header.
pub(crate) fn skip_byte_order_mark(input: &mut Input) -> Result<(), DataError> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let found = input.fill_buf().map(|start| start.starts_with(MARK));
    if found.map_err(|error| input.failed(&error))? {
        input.consume(MARK.len());
    }
    Ok(())
}
