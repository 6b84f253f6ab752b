//! Records of one file, each with the line on which it begins; the `csv` crate splits them.
//!
//! That crate never fails on quotes, which loses rows: one that is never closed swallows the rest of
//! the file. So the raw bytes of every record are held against RFC 4180, and its lines are counted
//! from them (the crate counts `\n` alone, and blank lines as part of the record behind them).

use std::io::{self, BufRead, Read};

use ::csv::{ByteRecord, Reader, ReaderBuilder, StringRecord};
use resilin_learn::dataset::DataError;

use crate::input::Input;

/// Longest record; beyond it a quote is most likely never closed.
const MOST_BYTES: usize = 16 << 20;

/// Records of one file; empty lines are passed over.
pub(crate) struct Records {
    reader: Reader<Tap>,
    delimiter: u8,
    lines: Lines,
}

impl Records {
    /// The records behind the first `skip` lines, whatever these hold.
    pub(crate) fn new(mut input: Input, delimiter: u8, skip: u64) -> Result<Self, DataError> {
        let mut lines = Lines::default();
        while lines.ended < skip {
            let Some(byte) = input.by_ref().bytes().next() else {
                break;
            };
            lines.pass(&[byte.map_err(|error| input.failed(&error))?]);
        }
        skip_byte_order_mark(&mut input)?;
        let tap = Tap {
            input,
            kept: Vec::new(),
            done: 0,
        };
        // Widths are checked by the caller, who knows the place of the row.
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .flexible(true)
            .from_reader(tap);
        Ok(Self {
            reader,
            delimiter,
            lines,
        })
    }

    /// The path as errors name it.
    pub(crate) fn path(&self) -> &str {
        &self.reader.get_ref().input.path
    }

    /// The file, read to where the last record ended.
    pub(crate) fn into_input(self) -> Input {
        self.reader.into_inner().input
    }

    /// Reads the next record and tells its first line, counted from 1; `None` at the end. Bytes
    /// that are not UTF-8 become U+FFFD, so they never pass for a number.
    pub(crate) fn next(&mut self, record: &mut StringRecord) -> Result<Option<u64>, DataError> {
        let mut fields = std::mem::take(record).into_byte_record();
        let before = self.reader.position().byte();
        let read = self.reader.read_byte_record(&mut fields);
        let length = (self.reader.position().byte() - before) as usize;
        let tap = self.reader.get_mut();
        let raw = &tap.kept[tap.done..][..length];
        tap.done += length;
        let blank = raw.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
        let (blank, raw) = raw.split_at(blank.count());
        self.lines.pass(blank);
        let first = self.lines.ended + 1;
        let path = &tap.input.path;
        let refusal = |line, what| DataError(format!("{path}, line {line}: {what}"));
        match read {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(_) if tap.kept.len() > MOST_BYTES => {
                let what = "a row is longer than 16 MiB: close its quote";
                return Err(refusal(first, what));
            }
            Err(error) => return Err(tap.input.failed(&error.into())),
        }
        if let Err((offset, what)) = check_quotes(raw, &fields, self.delimiter) {
            self.lines.pass(&raw[..offset]);
            return Err(refusal(self.lines.ended + 1, what));
        }
        self.lines.pass(raw);
        *record = StringRecord::from_byte_record_lossy(fields);
        Ok(Some(first))
    }
}

/// Keeps the bytes from the record at hand on: the splitter reads ahead.
struct Tap {
    input: Input,
    kept: Vec<u8>,
    /// How many of the kept bytes belong to earlier records.
    done: usize,
}

impl Read for Tap {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.kept.drain(..self.done);
        self.done = 0;
        if self.kept.len() > MOST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let count = self.input.read(buffer)?;
        self.kept.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

/// Counts lines that end with `\n`, `\r` or `\r\n`.
#[derive(Default)]
struct Lines {
    ended: u64,
    last: u8,
}

impl Lines {
    fn pass(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let ends = *byte == b'\r' || *byte == b'\n' && self.last != b'\r';
            self.ended += u64::from(ends);
            self.last = *byte;
        }
    }
}

/// Refuses what the splitter accepts and RFC 4180 does not, with an offset in the record. A quote
/// inside a bare field is a plain character.
fn check_quotes(
    raw: &[u8],
    fields: &ByteRecord,
    delimiter: u8,
) -> Result<(), (usize, &'static str)> {
    let mut at = 0;
    for field in fields {
        if raw.get(at) == Some(&b'"') {
            at = closed(raw, at).ok_or((0, "a quote is never closed: close it"))?;
            let next = raw.get(at).copied().unwrap_or(b'\n');
            if ![delimiter, b'\r', b'\n'].contains(&next) {
                return Err((at, "text follows a closing quote: remove it"));
            }
        } else {
            at += field.len();
        }
        at += 1;
    }
    Ok(())
}

/// Where the quoted field that opens at `at` is closed: behind its first quote that is not doubled.
fn closed(raw: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1;
        at += raw[at..].iter().position(|byte| *byte == b'"')? + 1;
        if raw.get(at) != Some(&b'"') {
            return Some(at);
        }
    }
}

/// Spreadsheets put one in front of the first header. All go here: the splitter would pass over
/// one unseen, and the bytes of its first record would not be those of the file.
pub(crate) fn skip_byte_order_mark(input: &mut Input) -> Result<(), DataError> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    loop {
        let found = input.fill_buf().map(|start| start.starts_with(MARK));
        if !found.map_err(|error| input.failed(&error))? {
            return Ok(());
        }
        input.consume(MARK.len());
    }
}
