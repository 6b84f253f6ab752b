//! A message's msgpack, read by the shape of the type that is asked for.
//!
//! `rmp` reads the pieces; here is only the order in which serde wants them. `rmp_serde`, which
//! writes messages, reads them by what the bytes say, and that much code for each type of a field
//! took a third of this crate's time to build. What is read is what is written: named fields, and
//! variants by name. Nothing is copied or allocated for a length that the bytes only claim.

mod pieces;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::{FrameError, message_error};
pub(super) use pieces::Decoder;
use pieces::Number;

type Result<T> = std::result::Result<T, FrameError>;

impl de::Error for FrameError {
    fn custom<T: std::fmt::Display>(text: T) -> Self {
        message_error(text)
    }
}

/// Methods for types that are all read the same way.
macro_rules! read_as {
    ($target:ident: $($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            self.$target(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Decoder<'de> {
    type Error = FrameError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value> {
        Err(FrameError::custom("a field of a message must say its type"))
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.number()? {
            Number::Unsigned(number) => visitor.visit_u64(number),
            Number::Signed(number) => visitor.visit_i64(number),
            Number::Float(number) => visitor.visit_f64(number),
        }
    }

    read_as!(deserialize_u64: deserialize_u8 deserialize_u16 deserialize_u32 deserialize_i8
        deserialize_i16 deserialize_i32 deserialize_i64 deserialize_f32 deserialize_f64);

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_bool(self.bool()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.text()?)
    }

    read_as!(deserialize_str: deserialize_string deserialize_char deserialize_identifier);

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_bytes(self.binary()?)
    }

    read_as!(deserialize_bytes: deserialize_byte_buf);

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.nil()?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        // Written as an array of nothing.
        let left = self.open_array()?;
        self.close(left)?;
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.is_nil()? {
            true => {
                self.nil()?;
                visitor.visit_none()
            }
            false => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let mut left = self.open_array()?;
        let value = visitor.visit_seq(Values {
            decoder: self,
            left: &mut left,
        })?;
        self.close(left)?;
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let mut left = self.open_map()?;
        let value = visitor.visit_map(Values {
            decoder: self,
            left: &mut left,
        })?;
        self.close(left)?;
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let full = self.open_variant()?;
        let value = visitor.visit_enum(Variant {
            decoder: self,
            full,
        })?;
        if full {
            self.close(0)?;
        }
        Ok(value)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// What is within an array or a map.
struct Values<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    /// Values, or pairs of them, that were not read.
    left: &'a mut u32,
}

impl<'de> Values<'_, 'de> {
    fn next<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        *self.left = left;
        seed.deserialize(&mut *self.decoder).map(Some)
    }
}

impl<'de> SeqAccess<'de> for Values<'_, 'de> {
    type Error = FrameError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        self.next(seed)
    }

    /// As many as are claimed and can be there.
    fn size_hint(&self) -> Option<usize> {
        Some(self.decoder.rest().min(*self.left as usize))
    }
}

impl<'de> MapAccess<'de> for Values<'_, 'de> {
    type Error = FrameError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        self.next(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        seed.deserialize(&mut *self.decoder)
    }
}

/// A variant by its name, `full` if a value follows it.
struct Variant<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    full: bool,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = FrameError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self)> {
        let name = seed.deserialize(&mut *self.decoder)?;
        Ok((name, self))
    }
}

impl<'de> Variant<'_, 'de> {
    fn check_full(&self) -> Result<()> {
        match self.full {
            true => Ok(()),
            false => Err(FrameError::custom("a variant without its value")),
        }
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = FrameError;

    fn unit_variant(self) -> Result<()> {
        match self.full {
            true => self.decoder.nil(),
            false => Ok(()),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value> {
        self.check_full()?;
        seed.deserialize(self.decoder)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.check_full()?;
        self.decoder.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.check_full()?;
        self.decoder.deserialize_map(visitor)
    }
}

#[cfg(test)]
#[path = "decode_test.rs"]
mod tests;
