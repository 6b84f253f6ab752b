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
//! crc can be left out of data frames where both ends agreed to. Between two processes of one host,
//! the payload of a data frame may lie in memory that both see (flag); then nothing follows the
//! header. Lengths are checked against constants before anything is allocated for them.

mod decode;
mod error;
mod header;
mod message;
mod prelude;
mod sparse;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use error::FrameError;
pub use header::{DataHeader, Encoding, Kind};
pub use message::{Message, decode_message};
use prelude::sealed;
pub use prelude::{
    Checksum, FORMAT, FrameKind, MAGIC, MAX_CONTROL_BYTES, MAX_HEADER_BYTES, MAX_PIECE_BYTES,
    PRELUDE_BYTES, Prelude, Route,
};
pub use sparse::{PIECE_VALUES, decode_changed, decode_sparse, encode_changed, encode_sparse};

/// Deepest nesting of a msgpack message.
const MAX_DEPTH: usize = 64;

/// A grant: the receiver has consumed this many payload bytes, as many more may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credit {
    /// Payload bytes.
    pub bytes: u64,
    /// Bytes of the lane, counted from the beginning of the link, that were read and may be written
    /// again; 0 on a link without a lane.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lane: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// crc32 (IEEE) of a payload.
#[must_use]
pub fn crc(payload: &[u8]) -> u32 {
    crc32fast::hash(payload)
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
    data_head_of(header, payload.len(), checksum, Route::Socket, crc, head)
}

/// [`data_head`] for a payload of `length` bytes whose [`crc`] is known or made elsewhere; asked for
/// only where frames carry one.
pub fn data_head_of(
    header: &DataHeader,
    length: usize,
    checksum: Checksum,
    route: Route,
    crc: impl FnOnce() -> u32,
    head: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let kind = FrameKind::Data;
    write_head((kind, checksum, route), header, length, crc, head)
}

/// The whole frame of a credit.
#[must_use]
pub fn credit_frame(credit: Credit) -> Vec<u8> {
    let mut frame = Vec::new();
    let none = || crc(&[]);
    let kind = (FrameKind::Credit, Checksum::On, Route::Socket);
    write_head(kind, &credit, 0, none, &mut frame).expect("a credit is a few bytes");
    frame
}

/// The whole frame of a control message.
pub fn control_frame<M: Serialize>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; PRELUDE_BYTES];
    rmp_serde::encode::write_named(&mut frame, message).map_err(message_error)?;
    let payload = &frame[PRELUDE_BYTES..];
    let crc = || crc(payload);
    let kind = (FrameKind::Control, Checksum::On, Route::Socket);
    let prelude = sealed(kind, &[], payload.len(), crc)?;
    frame[..PRELUDE_BYTES].copy_from_slice(&prelude);
    Ok(frame)
}

fn write_head<H: Serialize>(
    kind: (FrameKind, Checksum, Route),
    header: &H,
    payload: usize,
    crc: impl FnOnce() -> u32,
    head: &mut Vec<u8>,
) -> Result<(), FrameError> {
    head.clear();
    head.resize(PRELUDE_BYTES, 0);
    rmp_serde::encode::write_named(head, header).map_err(message_error)?;
    let prelude = sealed(kind, &head[PRELUDE_BYTES..], payload, crc)?;
    head[..PRELUDE_BYTES].copy_from_slice(&prelude);
    Ok(())
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
        // There is no lane here.
        prelude.check_route(Route::Socket)?;
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
                let header = DataHeader::decode(header)?;
                header.check(payload.len())?;
                Self::Data(header, payload)
            }
            FrameKind::Credit => Self::Credit(Credit::decode(header)?),
        };
        Ok((frame, rest))
    }
}
