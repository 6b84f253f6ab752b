//! A connected socket, and what both of the tasks that own it use.

use std::io::{self, IoSlice};

use resilin_core::frame::{self, Checksum, FrameError, PRELUDE_BYTES, Prelude};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::error::LinkError;
use super::lane::{Incoming, Outgoing};
use super::near::{self, Handover};

#[cfg(target_endian = "big")]
compile_error!("payloads are little-endian f32 as they lie in memory; this target is big-endian");

/// Reads heads and short frames; longer payloads pass it by.
const READ_AHEAD: usize = 8 << 10;

pub(super) type Source = BufReader<Box<dyn AsyncRead + Send + Unpin>>;
pub(super) type Sink = Box<dyn AsyncWrite + Send + Unpin>;

/// Both directions of a connected socket.
pub(super) struct Socket {
    pub(super) source: Source,
    pub(super) sink: Sink,
    /// Only another process of this host can be handed something.
    handover: Option<Handover>,
    incoming: Option<Incoming>,
}

impl Socket {
    pub(super) fn new(
        source: impl AsyncRead + Send + Unpin + 'static,
        sink: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            source: BufReader::with_capacity(READ_AHEAD, Box::new(source)),
            sink: Box::new(sink),
            handover: None,
            incoming: None,
        }
    }

    /// A socket whose ends can hand each other lanes.
    pub(super) fn near(stream: UnixStream) -> Self {
        let (source, sink, handover) = near::split(stream);
        Self {
            handover: Some(handover),
            ..Self::new(source, sink)
        }
    }

    /// Hands the peer a lane for tensors of up to `values` values, with the first byte that is
    /// written. Without one, all payloads come by the socket.
    pub(super) fn offer_lane(&mut self, values: u64) {
        let Some(handover) = &self.handover else {
            return;
        };
        match Incoming::new(values) {
            Ok((incoming, lane)) => {
                handover.give(lane);
                self.incoming = Some(incoming);
            }
            Err(error) => tracing::debug!(%error, "no lane for a link"),
        }
    }

    /// The lane that the peer has handed over, and the one that it was offered.
    pub(super) fn lanes(&mut self) -> (Option<Outgoing>, Option<Incoming>) {
        let lane = self.handover.take().and_then(|handover| handover.take());
        let outgoing = lane.and_then(|lane| match Outgoing::open(lane) {
            Ok(outgoing) => Some(outgoing),
            Err(error) => {
                tracing::debug!(%error, "a lane of no use");
                None
            }
        });
        (outgoing, self.incoming.take())
    }
}

/// Reads a prelude, or says that the peer has closed.
pub(super) async fn read_prelude(source: &mut Source) -> Result<Prelude, LinkError> {
    if source.fill_buf().await?.is_empty() {
        return Err(LinkError::PeerClosed);
    }
    let mut bytes = [0; PRELUDE_BYTES];
    source.read_exact(&mut bytes).await?;
    Ok(Prelude::parse(&bytes)?)
}

/// Reads the payload of a control frame that is at most `limit` bytes long.
pub(super) async fn read_control(
    source: &mut Source,
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
pub(super) async fn write_both(sink: &mut Sink, first: &[u8], second: &[u8]) -> io::Result<()> {
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
