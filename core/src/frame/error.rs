//! What can be wrong with the bytes of a frame.

use super::FORMAT;

/// Why bytes are not a frame. Nothing of the frame was used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The peer speaks something else.
    #[error("not a Resilin frame: it starts with {0:02x?}; is the address right?")]
    Magic([u8; 4]),
    /// The peer is of another version.
    #[error(
        "frame format {found} where this build speaks {FORMAT}; use the same version on both ends"
    )]
    Format {
        /// What the peer sent.
        found: u16,
    },
    /// A kind that this format does not have.
    #[error("unknown frame kind {0}")]
    Kind(u8),
    /// A flag that this format does not have.
    #[error("unknown frame flags {0:#04x}")]
    Flags(u8),
    /// A length above its limit; nothing was allocated.
    #[error("{part} of {length} bytes is over the limit of {limit} bytes")]
    TooLong {
        /// Which part of the frame.
        part: &'static str,
        /// Declared length in bytes.
        length: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The bytes end before the frame does.
    #[error("frame cut short: {have} bytes of {need}")]
    Short {
        /// Bytes there are.
        have: usize,
        /// Bytes there should be.
        need: usize,
    },
    /// Bytes after the end of what was decoded.
    #[error("{0} bytes too many after the message")]
    Trailing(u64),
    /// A crc that does not match: the bytes were changed on the way.
    #[error("crc32 of the {0} does not match: bytes changed on the way")]
    Corrupt(&'static str),
    /// The msgpack is not the expected message.
    #[error("message does not decode: {0}")]
    Message(String),
    /// A data header that contradicts its payload, its limits or the piece before it.
    #[error("impossible data frame: {0}")]
    Data(String),
}
