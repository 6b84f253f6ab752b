//! A connected socket, whole until its link begins: both sides of a handshake speak on it.
//!
//! A listener hears all hellos on one thread, and links are served on others. A socket tells the
//! runtime that registered it when it is ready, so it moves before its link begins ([`Socket::move_here`]):
//! else each frame would wake the listener's thread first.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::lane::{Incoming, Outgoing};
use super::near::Near;
use super::wire::{Sink, Source};

/// Reads heads and short frames; longer payloads pass it by.
const READ_AHEAD: usize = 8 << 10;

/// Both directions of a connected socket.
pub(super) struct Socket {
    stream: Stream,
    incoming: Option<Incoming>,
}

enum Stream {
    Tcp(TcpStream),
    /// Only another process of this host can be handed something.
    Near(Near),
}

/// What a link is made of.
pub(super) struct Ends {
    pub(super) source: Source,
    pub(super) sink: Sink,
    /// The lane that the peer has handed over.
    pub(super) outgoing: Option<Outgoing>,
    /// The one that it was offered.
    pub(super) incoming: Option<Incoming>,
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self {
            stream: Stream::Tcp(stream),
            incoming: None,
        }
    }
}

impl From<UnixStream> for Socket {
    /// A socket whose ends can hand each other lanes.
    fn from(stream: UnixStream) -> Self {
        Self {
            stream: Stream::Near(Near::new(stream)),
            incoming: None,
        }
    }
}

impl Socket {
    /// Hands the peer a lane for tensors of up to `values` values, with the first byte that is
    /// written. Without one, all payloads come by the socket.
    pub(super) fn offer_lane(&mut self, values: u64) {
        let Stream::Near(near) = &mut self.stream else {
            return;
        };
        match Incoming::new(values) {
            Ok((incoming, lane)) => {
                near.give(lane);
                self.incoming = Some(incoming);
            }
            Err(error) => tracing::debug!(%error, "no lane for a link"),
        }
    }

    /// Has the current runtime tell when the socket is ready.
    pub(super) fn move_here(self) -> io::Result<Self> {
        let stream = match self.stream {
            Stream::Tcp(stream) => Stream::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Stream::Near(near) => Stream::Near(near.move_here()?),
        };
        Ok(Self { stream, ..self })
    }

    /// What the link is made of, once both sides have said their first word.
    pub(super) fn into_ends(self) -> Ends {
        match self.stream {
            Stream::Tcp(stream) => {
                let (source, sink) = stream.into_split();
                ends(source, sink)
            }
            Stream::Near(mut near) => {
                let outgoing = near.taken().and_then(|lane| match Outgoing::open(lane) {
                    Ok(outgoing) => Some(outgoing),
                    Err(error) => {
                        tracing::debug!(%error, "a lane of no use");
                        None
                    }
                });
                let (source, sink) = near.into_stream().into_split();
                Ends {
                    outgoing,
                    incoming: self.incoming,
                    ..ends(source, sink)
                }
            }
        }
    }
}

fn ends(
    source: impl AsyncRead + Send + Unpin + 'static,
    sink: impl AsyncWrite + Send + Unpin + 'static,
) -> Ends {
    Ends {
        source: BufReader::with_capacity(READ_AHEAD, Box::new(source)),
        sink: Box::new(sink),
        outgoing: None,
        incoming: None,
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, target),
            Stream::Near(near) => Pin::new(near).poll_read(context, target),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Near(near) => Pin::new(near).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Near(near) => Pin::new(near).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Near(near) => Pin::new(near).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Near(near) => Pin::new(near).poll_shutdown(context),
        }
    }
}
