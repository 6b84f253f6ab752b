//! What is read from and written to a socket, in a handshake and by the tasks of a link.

use std::io::{self, IoSlice};

use resilin_core::frame::{self, Checksum, FrameError, PRELUDE_BYTES, Prelude};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use super::error::LinkError;

#[cfg(target_endian = "big")]
compile_error!("payloads are little-endian f32 as they lie in memory; this target is big-endian");

pub(super) type Source = BufReader<Box<dyn AsyncRead + Send + Unpin>>;
pub(super) type Sink = Box<dyn AsyncWrite + Send + Unpin>;

/// Reads a prelude, or says that the peer has closed.
pub(super) async fn read_prelude(
    source: &mut (impl AsyncRead + Unpin),
) -> Result<Prelude, LinkError> {
    let mut bytes = [0; PRELUDE_BYTES];
    let read = source.read(&mut bytes).await?;
    if read == 0 {
        return Err(LinkError::PeerClosed);
    }
    source.read_exact(&mut bytes[read..]).await?;
    Ok(Prelude::parse(&bytes)?)
}

/// Reads the payload of a control frame that is at most `limit` bytes long.
pub(super) async fn read_control(
    source: &mut (impl AsyncRead + Unpin),
    prelude: &Prelude,
    limit: u32,
) -> Result<Vec<u8>, LinkError> {
    prelude.check_head(&[])?;
    if prelude.checksum == Checksum::Off {
        return Err(FrameError::Flags(0).into());
    }
    if prelude.payload > limit {
        let (length, limit) = (prelude.payload.into(), limit.into());
        return Err(FrameError::TooLong {
            part: "payload",
            length,
            limit,
        }
        .into());
    }
    let mut payload = vec![0; prelude.payload as usize];
    source.read_exact(&mut payload).await?;
    prelude.check_payload(frame::crc(&payload))?;
    Ok(payload)
}

/// Writes two slices one after the other with as few system calls as the socket allows.
pub(super) async fn write_both(
    sink: &mut (impl AsyncWrite + Unpin),
    first: &[u8],
    second: &[u8],
) -> io::Result<()> {
    let (mut first, mut second) = (first, second);
    while !first.is_empty() || !second.is_empty() {
        let written = sink
            .write_vectored(&[IoSlice::new(first), IoSlice::new(second)])
            .await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let of_first = written.min(first.len());
        first = &first[of_first..];
        second = &second[written - of_first..];
    }
    Ok(())
}

/// For a payload whose crc is to be checked.
pub(super) fn hasher(checksum: Checksum) -> Option<crc32fast::Hasher> {
    match checksum {
        Checksum::On => Some(crc32fast::Hasher::new()),
        Checksum::Off => None,
    }
}
