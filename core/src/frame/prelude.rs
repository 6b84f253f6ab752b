//! The fixed part in front of every frame: what follows, how long it is, and two crcs.

use serde::{Deserialize, Serialize};

use super::FrameError;

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

/// Flag: the payload crc is present.
const FLAG_CHECKSUM: u8 = 1;
/// Flag: the payload lies in the link's lane.
const FLAG_LANE: u8 = 2;
/// Bytes of the prelude before the head crc.
const COVERED: usize = PRELUDE_BYTES - 4;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A message of the control plane: no header, the payload is its msgpack.
    Control = 1,
    /// A piece of a tensor, under a [`DataHeader`](super::DataHeader).
    Data = 2,
    /// Permission to send more payload bytes, under a [`Credit`](super::Credit); no payload.
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

/// How the payload of a data frame travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// It follows its header on the socket.
    #[default]
    Socket,
    /// It lies where the link's lane goes on: memory that sender and receiver see.
    Lane,
}

/// The fixed part in front of every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prelude {
    /// What follows.
    pub kind: FrameKind,
    /// Whether the payload has a crc.
    pub checksum: Checksum,
    /// Where the payload is.
    pub route: Route,
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
        let (checksum, route) = flags(kind, bytes[7])?;
        let prelude = Self {
            kind,
            checksum,
            route,
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

    /// Checks the crc of a payload, given as computed by [`crc`](super::crc); true without one.
    pub fn check_payload(&self, computed: u32) -> Result<(), FrameError> {
        match self.checksum {
            Checksum::On if computed != self.payload_crc => Err(FrameError::Corrupt("payload")),
            Checksum::On | Checksum::Off => Ok(()),
        }
    }

    /// Refuses a payload that travels another way.
    pub fn check_route(&self, route: Route) -> Result<(), FrameError> {
        if self.route == route {
            Ok(())
        } else {
            Err(FrameError::Flags(self.flags()))
        }
    }

    fn flags(&self) -> u8 {
        let checksum = match self.checksum {
            Checksum::On => FLAG_CHECKSUM,
            Checksum::Off => 0,
        };
        let route = match self.route {
            Route::Socket => 0,
            Route::Lane => FLAG_LANE,
        };
        checksum | route
    }

    fn covered(&self) -> [u8; COVERED] {
        let mut bytes = [0; COVERED];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[6] = self.kind as u8;
        bytes[7] = self.flags();
        bytes[8..12].copy_from_slice(&self.header.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload.to_le_bytes());
        bytes[16..].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes
    }
}

/// Only data has a lane: everything else goes by the socket.
fn flags(kind: FrameKind, byte: u8) -> Result<(Checksum, Route), FrameError> {
    let checksum = match byte & FLAG_CHECKSUM {
        0 => Checksum::Off,
        _ => Checksum::On,
    };
    match (byte & !FLAG_CHECKSUM, kind) {
        (0, _) => Ok((checksum, Route::Socket)),
        (FLAG_LANE, FrameKind::Data) => Ok((checksum, Route::Lane)),
        _ => Err(FrameError::Flags(byte)),
    }
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

/// The prelude with both crcs.
pub(super) fn sealed(
    (kind, checksum, route): (FrameKind, Checksum, Route),
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
        route,
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
