//! The bytes of a frame: what every link and the simulator agree on.
//!
//! ```text
//! prelude (24 bytes, little-endian)          header          payload
//! magic "RSLN" | format u16 | kind u8 |      msgpack         raw little-endian values (data)
//! flags u8 | header length u32 |             named map       or a msgpack named map (control)
//! payload length u32 | payload crc u32 |     (data, credit)
//! head crc u32
//! ```
//! The head crc covers the rest of the prelude and the header, and is always there; the payload
//! crc can be left out of data frames where both ends agreed to. Lengths are checked against
//! constants before anything is allocated for them.

mod error;
mod header;
mod sparse;
#[cfg(test)]
mod tests;

use std::io::Cursor;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use error::FrameError;
pub use header::{DataHeader, Encoding, Kind};
pub use sparse::{PIECE_VALUES, decode_sparse, encode_sparse};

/// First bytes of every frame.
pub const MAGIC: [u8; 4] = *b"RSLN";
/// Version of the frame format; a peer with another one is refused.
pub const FORMAT: u16 = 1;
/// Length of the prelude in bytes.
pub const PRELUDE_BYTES: usize = 24;
/// Longest header in bytes.
pub const MAX_HEADER_BYTES: u32 = 64 << 10;
/// Longest payload of a data frame in bytes: a tensor travels in pieces of at most this (PROTOCOL
/// 18), so that control frames never wait for more.
pub const MAX_PIECE_BYTES: u32 = 1 << 20;
/// Longest control message in bytes.
pub const MAX_CONTROL_BYTES: u32 = 4 << 20;

/// Deepest nesting of a msgpack message.
const MAX_DEPTH: usize = 64;
/// Flag: the payload crc is present.
const FLAG_CHECKSUM: u8 = 1;
/// Bytes of the prelude before the head crc.
const COVERED: usize = PRELUDE_BYTES - 4;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A message of the control plane: no header, the payload is its msgpack.
    Control = 1,
    /// A piece of a tensor, under a [`DataHeader`].
    Data = 2,
    /// Permission to send more payload bytes, under a [`Credit`]; no payload.
    Credit = 3,
}

impl FrameKind {
    fn parse(byte: u8) -> Result<Self, FrameError> {
        match byte {
            1 => Ok(Self::Control),
            2 => Ok(Self::Data),
            3 => Ok(Self::Credit),
            unknown => Err(FrameError::Kind(unknown)),
        }
    }

    /// Longest header and longest payload in bytes.
    fn limits(self) -> (u32, u32) {
        match self {
            Self::Control => (0, MAX_CONTROL_BYTES),
            Self::Data => (MAX_HEADER_BYTES, MAX_PIECE_BYTES),
            Self::Credit => (MAX_HEADER_BYTES, 0),
        }
    }
}

/// Whether data payloads carry a crc. Off is for measuring what the crc costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// Every payload is checked.
    #[default]
    On,
    /// Only heads and control messages are checked.
    Off,
}

/// A grant: the receiver has consumed this many payload bytes, as many more may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credit {
    /// Payload bytes.
    pub bytes: u64,
}

/// The fixed part in front of every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prelude {
    /// What follows.
    pub kind: FrameKind,
    /// Whether the payload has a crc.
    pub checksum: Checksum,
    /// Length of the header in bytes.
    pub header: u32,
    /// Length of the payload in bytes.
    pub payload: u32,
    payload_crc: u32,
    head_crc: u32,
}

impl Prelude {
    /// Reads a prelude and checks both lengths against the limits of its kind.
    pub fn parse(bytes: &[u8; PRELUDE_BYTES]) -> Result<Self, FrameError> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        let found = u16::from_le_bytes([bytes[4], bytes[5]]);
        if found != FORMAT {
            return Err(FrameError::Format { found });
        }
        let kind = FrameKind::parse(bytes[6])?;
        let checksum = match bytes[7] {
            FLAG_CHECKSUM => Checksum::On,
            0 => Checksum::Off,
            unknown => return Err(FrameError::Flags(unknown)),
        };
        let prelude = Self {
            kind,
            checksum,
            header: word(8),
            payload: word(12),
            payload_crc: word(16),
            head_crc: word(20),
        };
        let (header, payload) = kind.limits();
        within("header", prelude.header, header)?;
        within("payload", prelude.payload, payload)?;
        Ok(prelude)
    }

    /// Checks the head crc over this prelude and its `header`.
    pub fn check_head(&self, header: &[u8]) -> Result<(), FrameError> {
        if head_crc(&self.covered(), header) == self.head_crc {
            Ok(())
        } else {
            Err(FrameError::Corrupt("header"))
        }
    }

    /// Checks the crc of a payload, given as computed by [`crc`]; true without one.
    pub fn check_payload(&self, computed: u32) -> Result<(), FrameError> {
        match self.checksum {
            Checksum::On if computed != self.payload_crc => Err(FrameError::Corrupt("payload")),
            Checksum::On | Checksum::Off => Ok(()),
        }
    }

    fn covered(&self) -> [u8; COVERED] {
        let mut bytes = [0; COVERED];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[6] = self.kind as u8;
        bytes[7] = match self.checksum {
            Checksum::On => FLAG_CHECKSUM,
            Checksum::Off => 0,
        };
        bytes[8..12].copy_from_slice(&self.header.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload.to_le_bytes());
        bytes[16..].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes
    }
}

/// crc32 (IEEE) of a payload.
#[must_use]
pub fn crc(payload: &[u8]) -> u32 {
    crc32fast::hash(payload)
}

fn head_crc(covered: &[u8; COVERED], header: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(covered);
    hasher.update(header);
    hasher.finalize()
}

fn within(part: &'static str, length: u32, limit: u32) -> Result<(), FrameError> {
    if length <= limit {
        return Ok(());
    }
    Err(FrameError::TooLong {
        part,
        length: length.into(),
        limit: limit.into(),
    })
}

/// Writes prelude and header of a data frame to `head` (cleared first); the payload follows them
/// on the wire as it lies in memory.
pub fn data_head(
    header: &DataHeader,
    payload: &[u8],
    checksum: Checksum,
    head: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let crc = || crc(payload);
    write_head(FrameKind::Data, header, payload.len(), checksum, crc, head)
}

/// [`data_head`] for a payload of `length` bytes whose [`crc`] is known or made elsewhere; asked for
/// only where frames carry one.
pub fn data_head_of(
    header: &DataHeader,
    length: usize,
    checksum: Checksum,
    crc: impl FnOnce() -> u32,
    head: &mut Vec<u8>,
) -> Result<(), FrameError> {
    write_head(FrameKind::Data, header, length, checksum, crc, head)
}

/// The whole frame of a credit.
#[must_use]
pub fn credit_frame(credit: Credit) -> Vec<u8> {
    let mut frame = Vec::new();
    let none = || crc(&[]);
    write_head(
        FrameKind::Credit,
        &credit,
        0,
        Checksum::On,
        none,
        &mut frame,
    )
    .expect("a credit is a few bytes");
    frame
}

/// The whole frame of a control message.
pub fn control_frame<M: Serialize>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; PRELUDE_BYTES];
    rmp_serde::encode::write_named(&mut frame, message).map_err(message_error)?;
    let payload = &frame[PRELUDE_BYTES..];
    let crc = || crc(payload);
    let prelude = sealed(FrameKind::Control, Checksum::On, &[], payload.len(), crc)?;
    frame[..PRELUDE_BYTES].copy_from_slice(&prelude);
    Ok(frame)
}

fn write_head<H: Serialize>(
    kind: FrameKind,
    header: &H,
    payload: usize,
    checksum: Checksum,
    crc: impl FnOnce() -> u32,
    head: &mut Vec<u8>,
) -> Result<(), FrameError> {
    head.clear();
    head.resize(PRELUDE_BYTES, 0);
    rmp_serde::encode::write_named(head, header).map_err(message_error)?;
    let prelude = sealed(kind, checksum, &head[PRELUDE_BYTES..], payload, crc)?;
    head[..PRELUDE_BYTES].copy_from_slice(&prelude);
    Ok(())
}

/// The prelude with both crcs.
fn sealed(
    kind: FrameKind,
    checksum: Checksum,
    header: &[u8],
    payload: usize,
    crc: impl FnOnce() -> u32,
) -> Result<[u8; PRELUDE_BYTES], FrameError> {
    let (max_header, max_payload) = kind.limits();
    let short = |part, length: usize, limit| {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        within(part, length, limit).map(|()| length)
    };
    let mut prelude = Prelude {
        kind,
        checksum,
        header: short("header", header.len(), max_header)?,
        payload: short("payload", payload, max_payload)?,
        payload_crc: match checksum {
            Checksum::On => crc(),
            Checksum::Off => 0,
        },
        head_crc: 0,
    };
    let covered = prelude.covered();
    prelude.head_crc = head_crc(&covered, header);
    let mut bytes = [0; PRELUDE_BYTES];
    bytes[..COVERED].copy_from_slice(&covered);
    bytes[COVERED..].copy_from_slice(&prelude.head_crc.to_le_bytes());
    Ok(bytes)
}

/// Decodes a control payload or a header; bytes after the message are an error.
pub fn decode_message<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, FrameError> {
    let mut deserializer = rmp_serde::Deserializer::new(Cursor::new(bytes));
    deserializer.set_max_depth(MAX_DEPTH);
    let message = M::deserialize(&mut deserializer).map_err(message_error)?;
    match bytes.len() as u64 - deserializer.position() {
        0 => Ok(message),
        trailing => Err(FrameError::Trailing(trailing)),
    }
}

fn message_error(error: impl std::fmt::Display) -> FrameError {
    FrameError::Message(error.to_string())
}

/// A decoded frame that borrows its payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// A control message, still in msgpack.
    Control(&'a [u8]),
    /// A piece of a tensor.
    Data(DataHeader, &'a [u8]),
    /// A grant.
    Credit(Credit),
}

impl<'a> Frame<'a> {
    /// Decodes the frame at the start of `bytes`; also returns the bytes after it.
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), FrameError> {
        let (prelude, rest) = bytes.split_first_chunk().ok_or(FrameError::Short {
            have: bytes.len(),
            need: PRELUDE_BYTES,
        })?;
        let prelude = Prelude::parse(prelude)?;
        let need = prelude.header as usize + prelude.payload as usize;
        if rest.len() < need {
            return Err(FrameError::Short {
                have: rest.len(),
                need,
            });
        }
        let (header, rest) = rest.split_at(prelude.header as usize);
        let (payload, rest) = rest.split_at(prelude.payload as usize);
        prelude.check_head(header)?;
        prelude.check_payload(crc(payload))?;
        let frame = match prelude.kind {
            FrameKind::Control => Self::Control(payload),
            FrameKind::Data => {
                let header: DataHeader = decode_message(header)?;
                header.check(payload.len())?;
                Self::Data(header, payload)
            }
            FrameKind::Credit => Self::Credit(decode_message(header)?),
        };
        Ok((frame, rest))
    }
}
