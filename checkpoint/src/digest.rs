//! SHA-256 in hex: what manifests name files by, so that any tool can check them.

use sha2::{Digest, Sha256};

/// Lower-case hex digits of some bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of some bytes, in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
