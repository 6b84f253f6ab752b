//! A line of the ledger: readable JSON, chained by hash, checked byte for byte.
//!
//! `{"hash":"H","record":R}` with `H = BLAKE3(previous H || bytes of R)`; before the first line H is
//! all zeros. The frame around R is fixed, so R is hashed as it stands in the file.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use resilin_core::ledger::{Record, hex};
use serde::{Deserialize, Serialize};

use crate::error::{Result, StoreError};
use crate::files::Files;

/// Longest line: a step of a million nodes fits.
const LINE_LIMIT: u64 = 128 << 20;

const HEAD: &[u8] = b"{\"hash\":\"";
const MIDDLE: &[u8] = b"\",\"record\":";
const TAIL: &[u8] = b"}\n";

/// A place in a ledger: everything before it is fixed by the hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerMark {
    /// Bytes before the place.
    pub bytes: u64,
    /// Records before the place.
    pub records: u64,
    /// Hash of the last line before the place.
    #[serde(with = "hex")]
    pub hash: [u8; 32],
}

impl LedgerMark {
    /// The place after a line with this body.
    fn after(self, body: &[u8]) -> Self {
        let frame = HEAD.len() + 64 + MIDDLE.len() + TAIL.len();
        Self {
            bytes: self.bytes + (frame + body.len()) as u64,
            records: self.records + 1,
            hash: *blake3::Hasher::new()
                .update(&self.hash)
                .update(body)
                .finalize()
                .as_bytes(),
        }
    }
}

/// Appends a record's line to `out`; returns the place after it.
pub(crate) fn encode(mark: LedgerMark, record: &Record, out: &mut Vec<u8>) -> LedgerMark {
    let body = serde_json::to_vec(record).expect("a record has string keys only");
    let next = mark.after(&body);
    out.extend_from_slice(HEAD);
    out.extend_from_slice(blake3::Hash::from_bytes(next.hash).to_hex().as_bytes());
    out.extend_from_slice(MIDDLE);
    out.extend_from_slice(&body);
    out.extend_from_slice(TAIL);
    next
}

fn decode(mark: LedgerMark, line: &[u8]) -> Option<(LedgerMark, Record)> {
    let (hash, rest) = line.strip_prefix(HEAD)?.split_at_checked(64)?;
    let body = rest.strip_prefix(MIDDLE)?.strip_suffix(TAIL)?;
    let next = mark.after(body);
    let fits = blake3::Hash::from_bytes(next.hash).to_hex().as_bytes() == hash;
    fits.then(|| serde_json::from_slice(body).ok())?
        .map(|record| (next, record))
}

/// What follows the last line that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing.
    None,
    /// One last line that was not written to its end.
    Torn,
    /// Lines that do not fit, or more than one.
    Damaged,
}

/// Reads a ledger up to the first line that does not fit; a missing file is an empty ledger.
pub(crate) fn read(
    files: &dyn Files,
    path: &Path,
    mut each: impl FnMut(Record),
) -> Result<(LedgerMark, Rest)> {
    read_with_marks(files, path, |_, record| each(record))
}

/// The same; `each` is also given the place after the record.
pub(crate) fn read_with_marks(
    files: &dyn Files,
    path: &Path,
    mut each: impl FnMut(LedgerMark, Record),
) -> Result<(LedgerMark, Rest)> {
    let failed = || StoreError::io("read", path);
    let mut mark = LedgerMark::default();
    if files.length(path).map_err(failed())?.is_none() {
        return Ok((mark, Rest::None));
    }
    let mut input = BufReader::with_capacity(1 << 20, files.open(path).map_err(failed())?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut input).take(LINE_LIMIT);
        if limited.read_until(b'\n', &mut line).map_err(failed())? == 0 {
            return Ok((mark, Rest::None));
        }
        match decode(mark, &line) {
            Some((next, record)) => {
                mark = next;
                each(mark, record);
            }
            None if line.ends_with(b"\n") => return Ok((mark, Rest::Damaged)),
            None => return Ok((mark, Rest::Torn)),
        }
    }
}
