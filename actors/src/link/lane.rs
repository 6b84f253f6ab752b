//! Lanes: memory that two processes of one host see, through which the payloads of one direction
//! of a link pass. Two copies in memory take the place of two through the system's socket, which
//! cost about three times as much and wake both ends again and again.
//!
//! The receiver makes a lane, so it decides how much memory it gives; the sender uses it for what
//! has room and sends the rest by the socket. A lane has no name: it is gone with the last process
//! that holds it. Both ends count where the next piece lies, so no position travels; a piece is
//! announced, in order, by its frame on the socket, and the crc is made of the receiver's copy.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use resilin_core::frame::FrameError;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// Shorter payloads go by the socket: the system call is there anyway.
pub(super) const SHORTEST: usize = 16 << 10;
/// Longest lane in bytes: four pieces, so that both ends work at the same time.
const LONGEST: u64 = 4 << 20;
/// Bytes that are copied before their crc is made, while they are in the cache.
const PORTION: usize = 64 << 10;

/// The sender's end.
pub(super) struct Outgoing {
    memory: MmapRegion,
    track: Track,
}

/// The receiver's end.
pub(super) struct Incoming {
    memory: MmapRegion,
    track: Track,
}

/// Where pieces lie one after the other, in bytes since the beginning of the link.
#[derive(Debug)]
struct Track {
    /// Length of the lane, which repeats for ever.
    bytes: u64,
    next: u64,
}

impl Outgoing {
    /// Maps a lane that the receiver has made; an error if it could shrink under this process.
    pub(super) fn open(lane: OwnedFd) -> io::Result<Self> {
        if !fcntl_get_seals(&lane)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("a lane must not shrink"));
        }
        let file = File::from(lane);
        let bytes = file.metadata()?.len();
        if bytes > LONGEST {
            return Err(io::Error::other("no lane is as long"));
        }
        Ok(Self {
            memory: map(file, bytes)?,
            track: Track { bytes, next: 0 },
        })
    }

    /// Writes a payload, and adds it to the crc, unless that needs bytes which the receiver has not
    /// read; it has read all before `read`.
    pub(super) fn write(
        &mut self,
        payload: &[u8],
        read: u64,
        hasher: &mut Option<crc32fast::Hasher>,
    ) -> bool {
        let length = payload.len();
        if length < SHORTEST || length as u64 > self.track.longest() {
            return false;
        }
        let place = self.track.place(length as u64);
        if place.end > read.saturating_add(self.track.bytes) {
            return false;
        }
        let piece = slice(&self.memory, &self.track, &place);
        for (number, portion) in payload.chunks(PORTION).enumerate() {
            let rest = piece.offset(number * PORTION);
            rest.expect("as long as the payload").copy_from(portion);
            if let Some(hasher) = hasher {
                hasher.update(portion);
            }
        }
        self.track.next = place.end;
        true
    }
}

impl Incoming {
    /// A lane for tensors of up to `values` values, and what the sender opens it with.
    pub(super) fn new(values: u64) -> io::Result<(Self, OwnedFd)> {
        let bytes = values.saturating_mul(2 * size_of::<f32>() as u64);
        let bytes = bytes.min(LONGEST);
        let lane = memfd_create(
            "resilin-lane",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        let file = File::from(lane);
        file.set_len(bytes)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let incoming = Self {
            memory: map(file.try_clone()?, bytes)?,
            track: Track { bytes, next: 0 },
        };
        Ok((incoming, file.into()))
    }

    /// Length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.track.bytes
    }

    /// Where the next piece lies. [`Self::pass`] follows when it is read.
    pub(super) fn place(&self, payload: usize) -> Result<Range<u64>, FrameError> {
        let (length, limit) = (payload as u64, self.track.longest());
        if length > limit {
            return Err(FrameError::TooLong {
                part: "payload in a lane",
                length,
                limit,
            });
        }
        Ok(self.track.place(length))
    }

    /// Copies a piece to `target`, which is as long, and adds it to the crc.
    pub(super) fn read(
        &self,
        place: &Range<u64>,
        target: &mut [u8],
        hasher: &mut Option<crc32fast::Hasher>,
    ) {
        let piece = slice(&self.memory, &self.track, place);
        for (number, portion) in target.chunks_mut(PORTION).enumerate() {
            let rest = piece.offset(number * PORTION);
            rest.expect("as long as the target").copy_to(portion);
            if let Some(hasher) = hasher {
                hasher.update(portion);
            }
        }
    }

    /// Goes on behind a piece; returns how far the lane may be written again.
    pub(super) fn pass(&mut self, place: Range<u64>) -> u64 {
        self.track.next = place.end;
        place.end
    }
}

impl Track {
    /// Longest piece: behind one that was left out at the end of the lane there is room for it, so
    /// that no piece is ever too long for an empty lane.
    fn longest(&self) -> u64 {
        self.bytes / 2
    }

    /// Where a piece that is not too long lies: where the last one ended, or at the beginning of the
    /// lane if it would reach over the end.
    fn place(&self, length: u64) -> Range<u64> {
        let at = self.next % self.bytes;
        let start = match self.bytes.checked_sub(at + length) {
            Some(_) => self.next,
            None => self.next - at + self.bytes,
        };
        start..start + length
    }
}

fn map(file: File, bytes: u64) -> io::Result<MmapRegion> {
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    MmapRegion::from_file(FileOffset::new(file, 0), bytes).map_err(io::Error::other)
}

fn slice<'a>(memory: &'a MmapRegion, track: &Track, place: &Range<u64>) -> VolatileSlice<'a> {
    let at = (place.start % track.bytes) as usize;
    let length = (place.end - place.start) as usize;
    let slice = memory.get_slice(at, length);
    slice.expect("places lie within the lane")
}

#[cfg(test)]
#[path = "lane_test.rs"]
mod tests;
