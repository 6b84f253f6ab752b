//! The yardstick of the data path: what the sockets of this machine carry with nothing around.
//!
//! One vectored write a contribution (a head of the usual length, then the values as they lie in
//! memory), read into reused buffers, answered with a few bytes; one contribution in flight. On the
//! same runtime as the links: blocking sockets were slower here, and would flatter them.

use std::io::{self, IoSlice};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes in front of the values, about what a data frame's head takes.
const HEAD_BYTES: usize = 280;
/// Bytes of an answer.
const ANSWER_BYTES: usize = 24;

/// The sending end.
pub(super) struct BareSender {
    stream: TcpStream,
    head: [u8; HEAD_BYTES],
}

impl BareSender {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            head: [0; HEAD_BYTES],
        })
    }

    /// Sends the values and waits for the answer.
    pub(super) async fn push(&mut self, values: &[f32]) -> io::Result<()> {
        let mut parts = [
            IoSlice::new(&self.head),
            IoSlice::new(bytemuck::cast_slice(values)),
        ];
        let mut left = parts.as_mut_slice();
        while !left.is_empty() {
            let written = self.stream.write_vectored(left).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut left, written);
        }
        self.stream.read_exact(&mut [0; ANSWER_BYTES]).await?;
        Ok(())
    }
}

/// The receiving end.
pub(super) struct BareReceiver {
    stream: TcpStream,
}

impl BareReceiver {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    /// Receives one contribution into `values` and answers it.
    pub(super) async fn take(&mut self, values: &mut [f32]) -> io::Result<()> {
        self.stream.read_exact(&mut [0; HEAD_BYTES]).await?;
        self.stream
            .read_exact(bytemuck::cast_slice_mut(values))
            .await?;
        self.stream.write_all(&[0; ANSWER_BYTES]).await
    }
}
