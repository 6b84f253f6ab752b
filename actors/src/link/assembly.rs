//! Puts the pieces of tensors together on the receiving side: a plain state machine.
//!
//! One tensor is under way at a time; the first piece of another one supersedes it (its sender
//! has a newer version). Credit for at most half the window is held back per tensor until the
//! consumer takes it, so two tensors of any size fit, and a tensor larger than the window too.

use std::ops::Range;

use resilin_core::frame::{DataHeader, FrameError};

use super::part::Part;
use super::pool::{BufferPool, PooledBuffer};

/// The receiver's answer to the first piece of a tensor.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Store it and deliver it.
    Take(Before),
    /// Store it there and deliver no values.
    Place(Part, Before),
    /// Read it off the link and forget it, such as a sum that is covered already.
    Discard,
}

/// The values of the version that the tensor is based on, as long as it, where its sender was told that
/// they are here: it may come as the changes since.
pub type Before = Option<Part>;

/// Decides on a tensor by the header of its first piece.
pub type Filter = Box<dyn FnMut(&DataHeader) -> Wanted + Send>;

/// A tensor that arrived whole.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) header: DataHeader,
    pub(super) values: PooledBuffer,
    /// Credit to be returned when the consumer takes it.
    pub(super) held: u64,
}

struct Partial {
    header: DataHeader,
    filled: usize,
    /// None while a tensor is discarded.
    target: Option<Target>,
    before: Before,
    held: u64,
}

/// Where a tensor is stored.
enum Target {
    Own(PooledBuffer),
    Part(Part),
}

impl Target {
    fn write<R>(&mut self, range: Range<usize>, act: impl FnOnce(&mut [f32]) -> R) -> R {
        match self {
            Self::Own(buffer) => act(&mut buffer[range]),
            Self::Part(part) => part.write(range, act),
        }
    }
}

pub(super) struct Assembly {
    partial: Option<Partial>,
    pool: BufferPool,
    want: Filter,
    max_values: u64,
    hold: u64,
}

impl Assembly {
    /// Takes tensors of at most `max_values` values; `window` is what the sender was granted.
    pub(super) fn new(pool: BufferPool, want: Filter, max_values: u64, window: u32) -> Self {
        Self {
            partial: None,
            pool,
            want,
            max_values,
            hold: u64::from(window / 2),
        }
    }

    /// Accepts the header of a piece of `values` values; returns the credit of a tensor that it
    /// supersedes. Nothing is allocated unless the tensor is within the limit and wanted.
    pub(super) fn begin(&mut self, header: DataHeader, values: usize) -> Result<u64, FrameError> {
        if let Some(partial) = &self.partial
            && header.continues(&partial.header)
        {
            if header.offset == partial.filled as u64 {
                return Ok(0);
            }
            return Err(FrameError::Data(format!(
                "piece at value {} where {} is next",
                header.offset, partial.filled
            )));
        }
        if header.offset != 0 {
            return Err(FrameError::Data(format!(
                "a tensor that begins at value {} with {values} values",
                header.offset
            )));
        }
        if header.total > self.max_values {
            return Err(FrameError::TooLong {
                part: "tensor",
                length: header.total.saturating_mul(4),
                limit: self.max_values.saturating_mul(4),
            });
        }
        // Before the new buffer is taken, so that a successor of equal length reuses this one.
        let released = self.partial.take().map_or(0, |partial| partial.held);
        let length = usize::try_from(header.total).expect("max_values fits the address space");
        let (target, before) = match (self.want)(&header) {
            Wanted::Take(before) => (Some(Target::Own(self.pool.take(length))), before),
            Wanted::Place(part, before) => (Some(Target::Part(part)), before),
            Wanted::Discard => (None, None),
        };
        let place = match &target {
            Some(Target::Part(part)) => Some(part),
            Some(Target::Own(_)) | None => None,
        };
        for part in place.into_iter().chain(&before) {
            if part.len() != length {
                return Err(FrameError::Data(format!(
                    "a tensor of {length} values where {} belong",
                    part.len()
                )));
            }
        }
        self.partial = Some(Partial {
            header,
            filled: 0,
            target,
            before,
            held: 0,
        });
        Ok(released)
    }

    /// Whether the tensor under way is read to be forgotten. Follows `begin`.
    pub(super) fn discards(&self) -> bool {
        let partial = self.partial.as_ref().expect("begin came first");
        partial.target.is_none()
    }

    /// Lets `act` write to where the next `values` values go; None if they are discarded. Follows
    /// `begin`; may be repeated before `end`.
    pub(super) fn fill<R>(
        &mut self,
        values: usize,
        act: impl FnOnce(&mut [f32]) -> R,
    ) -> Option<R> {
        let partial = self.partial.as_mut().expect("begin came first");
        let filled = partial.filled;
        let target = partial.target.as_mut();
        target.map(|target| target.write(filled..filled + values, act))
    }

    /// As [`Self::fill`], where the place has the values of the version before already.
    ///
    /// # Errors
    /// Nobody said that they are here.
    pub(super) fn change<R>(
        &mut self,
        values: usize,
        act: impl FnOnce(&mut [f32]) -> R,
    ) -> Result<Option<R>, FrameError> {
        let partial = self.partial.as_mut().expect("begin came first");
        let range = partial.filled..partial.filled + values;
        let Some(target) = &mut partial.target else {
            return Ok(None);
        };
        let Some(before) = &partial.before else {
            return Err(FrameError::Data("changes to what is not here".into()));
        };
        Ok(Some(target.write(range.clone(), |place| {
            before.copy_to(range, place);
            act(place)
        })))
    }

    /// The values have arrived: returns the credit to give back now, and the tensor if this was
    /// its last piece.
    pub(super) fn end(&mut self, values: usize) -> (u64, Option<Complete>) {
        let partial = self.partial.as_mut().expect("begin came first");
        partial.filled += values;
        let hold = match partial.target {
            Some(_) => self.hold,
            None => 0,
        };
        let owed = partial.held + values as u64 * 4;
        partial.held = owed.min(hold);
        let released = owed - partial.held;
        if partial.filled as u64 != partial.header.total {
            return (released, None);
        }
        let Some(Partial {
            mut header,
            target: Some(target),
            held,
            ..
        }) = self.partial.take()
        else {
            return (released, None);
        };
        let values = match target {
            Target::Own(values) => values,
            Target::Part(_) => self.pool.take(0),
        };
        header.offset = 0;
        (
            released,
            Some(Complete {
                header,
                values,
                held,
            }),
        )
    }
}

#[cfg(test)]
#[path = "assembly_test.rs"]
mod tests;
