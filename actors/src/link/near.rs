//! Unix sockets between processes of one host: byte streams with whose first byte each end may hand
//! the other a lane. What the peer hands over is looked at only once it is let in.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// What the two ends hand each other.
#[derive(Clone, Default)]
pub(super) struct Handover {
    ours: Arc<Mutex<Option<OwnedFd>>>,
    theirs: Arc<Mutex<Option<OwnedFd>>>,
}

impl Handover {
    /// Hands this over with the first byte that is written.
    pub(super) fn give(&self, lane: OwnedFd) {
        *lock(&self.ours) = Some(lane);
    }

    /// What came with the first byte.
    pub(super) fn take(&self) -> Option<OwnedFd> {
        lock(&self.theirs).take()
    }
}

/// Nothing panics while it holds the lock.
fn lock(place: &Mutex<Option<OwnedFd>>) -> MutexGuard<'_, Option<OwnedFd>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Both directions of a connected stream.
pub(super) fn split(stream: UnixStream) -> (NearSource, NearSink, Handover) {
    let handover = Handover::default();
    let (source, sink) = stream.into_split();
    let source = NearSource {
        source,
        first: Some(handover.clone()),
    };
    let sink = NearSink {
        sink,
        first: Some(handover.clone()),
    };
    (source, sink, handover)
}

/// The reading direction; `first` until a byte was read.
pub(super) struct NearSource {
    source: OwnedReadHalf,
    first: Option<Handover>,
}

impl AsyncRead for NearSource {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { source, first } = &mut *self;
        let Some(handover) = first else {
            return Pin::new(source).poll_read(context, target);
        };
        let stream = source.as_ref();
        loop {
            ready!(stream.poll_read_ready(context))?;
            let place = target.initialize_unfilled();
            match stream.try_io(Interest::READABLE, || receive(stream, place)) {
                Ok((read, lane)) => {
                    target.advance(read);
                    *lock(&handover.theirs) = lane;
                    *first = None;
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// The writing direction; `first` until a byte was written.
pub(super) struct NearSink {
    sink: OwnedWriteHalf,
    first: Option<Handover>,
}

impl AsyncWrite for NearSink {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { sink, first } = &mut *self;
        let Some(handover) = first else {
            return Pin::new(sink).poll_write_vectored(context, slices);
        };
        let stream = sink.as_ref();
        loop {
            ready!(stream.poll_write_ready(context))?;
            let lane = lock(&handover.ours);
            let sent = stream.try_io(Interest::WRITABLE, || send(stream, slices, lane.as_ref()));
            drop(lane);
            match sent {
                Ok(written) => {
                    *lock(&handover.ours) = None;
                    *first = None;
                    return Poll::Ready(Ok(written));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.sink).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.sink).poll_shutdown(context)
    }
}

/// Reads what is there, and the descriptor that came with it.
fn receive(stream: &UnixStream, target: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(target)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(stream.as_fd(), &mut slices, &mut beside, flags)?;
    let mut lane = None;
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            lane = descriptors.last();
        }
    }
    Ok((received.bytes, lane))
}

fn send(stream: &UnixStream, slices: &[IoSlice<'_>], lane: Option<&OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let descriptors = lane.map(|lane| [lane.as_fd()]);
    if let Some(descriptors) = &descriptors {
        let fits = beside.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(fits, "the space is made for one descriptor");
    }
    let flags = SendFlags::NOSIGNAL;
    Ok(sendmsg(stream.as_fd(), slices, &mut beside, flags)?)
}
