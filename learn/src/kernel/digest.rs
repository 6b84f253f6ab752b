//! Digests of weights: BLAKE3 a block, one chain line a step, SHA-256 of the end result (DESIGN 4).
//!
//! Values are hashed as little-endian f32, NaNs in one canonical pattern, so that digests compare
//! across processors.

use std::fmt::Write;

use sha2::{Digest as _, Sha256};

use super::sum::{all_finite, canonical};

/// A 32-byte digest.
pub type Digest = [u8; 32];

/// Values converted to bytes at a time: enough for the widest hash kernel, small enough to stay in
/// cache.
const VALUES: usize = 4096;

/// Hashes runs of values, with its own conversion buffer.
pub struct BlockHasher {
    bytes: Vec<u8>,
}

impl Default for BlockHasher {
    fn default() -> Self {
        Self {
            bytes: vec![0; VALUES * 4],
        }
    }
}

impl BlockHasher {
    /// BLAKE3 of the values.
    pub fn digest(&mut self, values: &[f32]) -> Digest {
        if cfg!(target_endian = "little") && all_finite(values) {
            // The values' bytes as they lie in memory are what is hashed.
            return *blake3::hash(bytemuck::cast_slice(values)).as_bytes();
        }
        let mut hasher = blake3::Hasher::new();
        for part in values.chunks(VALUES) {
            hasher.update(encode(part, &mut self.bytes));
        }
        *hasher.finalize().as_bytes()
    }
}

/// The line of a step: BLAKE3 over the digests of all blocks, in block order.
#[must_use]
pub fn chain_line<'a>(digests: impl IntoIterator<Item = &'a Digest>) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for digest in digests {
        hasher.update(digest);
    }
    *hasher.finalize().as_bytes()
}

/// Plain SHA-256 of the whole flat vector; made once, at the end of a run.
#[must_use]
pub fn weights_sha256(values: &[f32]) -> Digest {
    let mut bytes = vec![0; VALUES * 4];
    let mut hasher = Sha256::new();
    for part in values.chunks(VALUES) {
        hasher.update(encode(part, &mut bytes));
    }
    hasher.finalize().into()
}

/// Whether two vectors have the same digest, without making it; false for other lengths.
#[must_use]
pub fn same(one: &[f32], other: &[f32]) -> bool {
    let bits = |value: &f32| canonical(*value).to_bits();
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| bits(a) == bits(b))
}

/// Lower-case hex.
#[must_use]
pub fn hex(digest: &Digest) -> String {
    digest
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes everything");
            text
        })
}

fn encode<'a>(values: &[f32], bytes: &'a mut [u8]) -> &'a [u8] {
    let bytes = &mut bytes[..values.len() * 4];
    for (four, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
        *four = canonical(*value).to_le_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_plain_bytes() {
        let values: Vec<f32> = (0..10_000).map(|i| i as f32 * -0.25).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let digest = BlockHasher::default().digest(&values);
        assert_eq!(digest, *blake3::hash(&bytes).as_bytes());
        assert_eq!(
            hex(&weights_sha256(&values)),
            hex(&Sha256::digest(&bytes).into())
        );
        assert_eq!(
            chain_line([&digest, &digest]),
            *blake3::hash(&[digest, digest].concat()).as_bytes()
        );
    }

    #[test]
    fn vectors_are_the_same_if_their_digests_are() {
        let (nan, odd) = (f32::from_bits(0x7fc0_0000), f32::from_bits(0xffc0_1234));
        for (one, other, alike) in [
            (vec![1.0, nan], vec![1.0, odd], true),
            (vec![0.0], vec![-0.0], false),
            (vec![1.0], vec![1.0, 2.0], false),
        ] {
            assert_eq!(same(&one, &other), alike, "{one:?} {other:?}");
            let [a, b] = [one, other].map(|values| BlockHasher::default().digest(&values));
            assert_eq!(a == b, alike);
        }
    }

    #[test]
    fn every_nan_has_one_digest() {
        let mut hasher = BlockHasher::default();
        let odd = f32::from_bits(0xffc0_1234);
        let usual = f32::from_bits(0x7fc0_0000);
        assert_eq!(hasher.digest(&[odd]), hasher.digest(&[usual]));
        assert_eq!(
            hasher.digest(&[usual]),
            *blake3::hash(&0x7fc0_0000u32.to_le_bytes()).as_bytes()
        );
    }
}
