//! The pieces of a message's bytes, each checked against what is there.

use rmp::Marker;
use rmp::decode::{self, NumValueReadError};

use super::Result;
use crate::frame::{FrameError, MAX_DEPTH, message_error};

/// Reads one message after the other.
pub(in crate::frame) struct Decoder<'de> {
    rest: &'de [u8],
    /// Containers that may still be opened within each other.
    depth: usize,
}

/// A number as it was written.
pub(super) enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

impl<'de> Decoder<'de> {
    pub(in crate::frame) fn new(bytes: &'de [u8]) -> Self {
        Self {
            rest: bytes,
            depth: MAX_DEPTH,
        }
    }

    /// Bytes that were not read.
    pub(in crate::frame) fn rest(&self) -> usize {
        self.rest.len()
    }

    fn marker(&self) -> Result<Marker> {
        let first = self.rest.first().copied();
        first
            .map(Marker::from_u8)
            .ok_or_else(|| message_error("it ends too early"))
    }

    pub(super) fn number(&mut self) -> Result<Number> {
        let (marker, rest) = (self.marker()?, &mut self.rest);
        Ok(match marker {
            Marker::F32 => Number::Float(decode::read_f32(rest).map_err(message_error)?.into()),
            Marker::F64 => Number::Float(decode::read_f64(rest).map_err(message_error)?),
            Marker::U64 => Number::Unsigned(decode::read_u64(rest).map_err(message_error)?),
            _ => {
                let read: std::result::Result<i64, NumValueReadError<_>> = decode::read_int(rest);
                let number = read.map_err(message_error)?;
                u64::try_from(number).map_or(Number::Signed(number), Number::Unsigned)
            }
        })
    }

    pub(super) fn nil(&mut self) -> Result<()> {
        decode::read_nil(&mut self.rest).map_err(message_error)
    }

    pub(super) fn text(&mut self) -> Result<&'de str> {
        let length = decode::read_str_len(&mut self.rest).map_err(message_error)?;
        std::str::from_utf8(self.take(length)?).map_err(message_error)
    }

    pub(super) fn binary(&mut self) -> Result<&'de [u8]> {
        let length = decode::read_bin_len(&mut self.rest).map_err(message_error)?;
        self.take(length)
    }

    pub(super) fn bool(&mut self) -> Result<bool> {
        decode::read_bool(&mut self.rest).map_err(message_error)
    }

    pub(super) fn is_nil(&self) -> Result<bool> {
        Ok(self.marker()? == Marker::Null)
    }

    fn take(&mut self, length: u32) -> Result<&'de [u8]> {
        let taken = self.rest.split_at_checked(length as usize);
        let (taken, rest) = taken.ok_or_else(|| message_error("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn open_array(&mut self) -> Result<u32> {
        let length = decode::read_array_len(&mut self.rest).map_err(message_error)?;
        self.open(length)
    }

    pub(super) fn open_map(&mut self) -> Result<u32> {
        let length = decode::read_map_len(&mut self.rest).map_err(message_error)?;
        self.open(length)
    }

    fn open(&mut self, length: u32) -> Result<u32> {
        let deeper = self.depth.checked_sub(1);
        self.depth = deeper.ok_or_else(|| message_error("it is nested too deeply"))?;
        Ok(length)
    }

    pub(super) fn close(&mut self, left: u32) -> Result<()> {
        self.depth += 1;
        match left {
            0 => Ok(()),
            left => Err(FrameError::Message(format!("{left} values too many"))),
        }
    }

    /// Opens what follows a variant's name, if anything does.
    pub(super) fn open_variant(&mut self) -> Result<bool> {
        if !is_map(self.marker()?) {
            return Ok(false);
        }
        match self.open_map()? {
            1 => Ok(true),
            other => Err(FrameError::Message(format!("a variant of {other} values"))),
        }
    }

    /// Passes a value over, whatever it is.
    pub(super) fn skip(&mut self) -> Result<()> {
        let mut values: u64 = 1;
        while values > 0 {
            values -= 1;
            match self.marker()? {
                marker if is_array(marker) => {
                    let length = decode::read_array_len(&mut self.rest).map_err(message_error)?;
                    values += u64::from(length);
                }
                marker if is_map(marker) => {
                    let length = decode::read_map_len(&mut self.rest).map_err(message_error)?;
                    values += 2 * u64::from(length);
                }
                Marker::Null => self.nil()?,
                Marker::True | Marker::False => {
                    self.bool()?;
                }
                Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                    self.text()?;
                }
                Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                    self.binary()?;
                }
                _ => {
                    self.number()?;
                }
            }
        }
        Ok(())
    }
}

fn is_array(marker: Marker) -> bool {
    matches!(
        marker,
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32
    )
}

fn is_map(marker: Marker) -> bool {
    matches!(marker, Marker::FixMap(_) | Marker::Map16 | Marker::Map32)
}
