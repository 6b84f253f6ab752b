//! Unix sockets between processes of one host: byte streams with whose first byte each end may hand
//! the other a lane. What the peer hands over is looked at only once it is let in.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

/// A connected stream and what its two ends hand each other.
pub(super) struct Near {
    stream: UnixStream,
    /// Until it has gone with the first byte.
    ours: Option<OwnedFd>,
    theirs: Theirs,
}

/// What the peer hands over.
enum Theirs {
    /// Nothing was read yet.
    Expected,
    /// What came with the first byte.
    Here(Option<OwnedFd>),
}

impl Near {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            ours: None,
            theirs: Theirs::Expected,
        }
    }

    /// Hands this over with the first byte that is written.
    pub(super) fn give(&mut self, lane: OwnedFd) {
        self.ours = Some(lane);
    }

    /// What came with the first byte.
    pub(super) fn taken(&mut self) -> Option<OwnedFd> {
        match &mut self.theirs {
            Theirs::Expected => None,
            Theirs::Here(lane) => lane.take(),
        }
    }

    /// The stream, once a byte went each way.
    pub(super) fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Has the current runtime tell when the stream is ready.
    pub(super) fn move_here(self) -> io::Result<Self> {
        Ok(Self {
            stream: UnixStream::from_std(self.stream.into_std()?)?,
            ..self
        })
    }
}

impl AsyncRead for Near {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, theirs, .. } = &mut *self;
        if let Theirs::Here(_) = theirs {
            return Pin::new(stream).poll_read(context, target);
        }
        loop {
            ready!(stream.poll_read_ready(context))?;
            let place = target.initialize_unfilled();
            match stream.try_io(Interest::READABLE, || receive(stream, place)) {
                Ok((read, lane)) => {
                    target.advance(read);
                    *theirs = Theirs::Here(lane);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Near {
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
        let Self { stream, ours, .. } = &mut *self;
        let Some(lane) = &ours else {
            return Pin::new(stream).poll_write_vectored(context, slices);
        };
        loop {
            ready!(stream.poll_write_ready(context))?;
            match stream.try_io(Interest::WRITABLE, || send(stream, slices, lane)) {
                Ok(written) => {
                    *ours = None;
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
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
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

fn send(stream: &UnixStream, slices: &[IoSlice<'_>], lane: &OwnedFd) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let descriptors = [lane.as_fd()];
    let fits = beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    assert!(fits, "the space is made for one descriptor");
    let flags = SendFlags::NOSIGNAL;
    Ok(sendmsg(stream.as_fd(), slices, &mut beside, flags)?)
}
