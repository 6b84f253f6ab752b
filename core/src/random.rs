//! Keyed, counter-based randomness: a draw is named by what it is for, never by who asks or when.
//!
//! ChaCha8 with nonce 0 and counter 0; the 32-byte key is
//! `seed u64 | clock u64 | partition u32 | purpose u32 | local_step u32 | index u32`, little-endian
//! (DESIGN 4). The mappings to floats, bounded integers, normals and shuffles are part of the
//! format: golden vectors in `random_test.rs` hold them still.

use chacha20::ChaCha8;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use serde::{Deserialize, Serialize};

#[cfg(test)]
#[path = "random_test.rs"]
mod tests;

/// What a stream is drawn for. The numbers are part of the format and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum Purpose {
    /// The order of an epoch; clock = epoch.
    Order = 1,
    /// Initial weights; index = tensor.
    Initial = 2,
    /// Dropout masks; index = layer.
    Dropout = 3,
    /// Train/test split.
    Split = 4,
    /// Synthetic data.
    Synthetic = 5,
    /// Which nodes are audited.
    Audit = 6,
    /// Stochastic rounding and sparsification.
    Compression = 7,
    /// Augmentation of samples.
    Augmentation = 8,
    /// Draws of a user's own model or data source.
    User = 9,
    /// Points drawn from a distribution that a built-in model makes; index = which of them.
    Noise = 10,
}

/// The name of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The job's seed.
    pub seed: u64,
    /// The step, or the epoch for sample orders.
    pub clock: u64,
    /// The partition, or `u32::MAX` where there is none.
    pub partition: u32,
    /// What the draw is for.
    pub purpose: Purpose,
    /// The local step within a communication window; 0 otherwise.
    pub local_step: u32,
    /// Tensor or layer number.
    pub index: u32,
}

impl Key {
    /// The key of a draw that belongs to no step, partition, local step or tensor.
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        Self {
            seed,
            clock: 0,
            partition: u32::MAX,
            purpose,
            local_step: 0,
            index: 0,
        }
    }

    /// The stream from its beginning.
    #[must_use]
    pub fn stream(self) -> Stream {
        let mut key = [0; 32];
        key[0..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&self.clock.to_le_bytes());
        key[16..20].copy_from_slice(&self.partition.to_le_bytes());
        key[20..24].copy_from_slice(&(self.purpose as u32).to_le_bytes());
        key[24..28].copy_from_slice(&self.local_step.to_le_bytes());
        key[28..32].copy_from_slice(&self.index.to_le_bytes());
        Stream {
            cipher: ChaCha8::new(&key.into(), &[0; 12].into()),
            buffer: [0; 256],
            used: 256,
        }
    }
}

/// A stream of 32-bit words; word `n` depends on the key and `n` only.
pub struct Stream {
    cipher: ChaCha8,
    buffer: [u8; 256],
    used: usize,
}

impl Stream {
    /// Goes to word `position`: for dropout and augmentation that is row x width + column.
    pub fn seek(&mut self, position: u64) {
        self.cipher.seek(position * 4);
        self.used = self.buffer.len();
    }

    /// The next word.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == self.buffer.len() {
            self.buffer.fill(0);
            self.cipher.apply_keystream(&mut self.buffer);
            self.used = 0;
        }
        let word = &self.buffer[self.used..self.used + 4];
        self.used += 4;
        u32::from_le_bytes(word.try_into().expect("four bytes"))
    }

    /// The next two words as one number, the first one low.
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) | u64::from(self.next_u32()) << 32
    }

    /// Uniform in [0, 1) with 24 bits: the upper 24 bits of a word times 2^-24.
    pub fn unit_f32(&mut self) -> f32 {
        (self.next_u32() >> 8) as f32 * (1.0 / (1 << 24) as f32)
    }

    /// Uniform in [0, 1) with 53 bits: the upper 53 bits of two words times 2^-53.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..bound` (bound at least 1), by multiplication with rejection (Lemire 2019).
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "nothing lies below zero");
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u64::from(self.next_u32()) * u64::from(bound);
            if product as u32 >= threshold {
                return (product >> 32) as u32;
            }
        }
    }

    /// Standard normal: Box-Muller in f64 with `libm`, the cosine branch only, two uniforms each.
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit_f64()));
        radius * libm::cos(2.0 * std::f64::consts::PI * self.unit_f64())
    }

    /// Fisher-Yates from the last place down.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = u32::try_from(last + 1).expect("fewer than 2^32 items");
            items.swap(last, self.below(bound) as usize);
        }
    }
}
