//! The two tasks that own a link's socket: one only reads, the other only writes, so that reading
//! never waits for writing (PROTOCOL 18).

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use resilin_core::frame::{
    self, Checksum, Credit, DataHeader, Encoding, FrameError, FrameKind, Kind, PRELUDE_BYTES,
    Prelude,
};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf,
};
use tokio::sync::{Semaphore, mpsc};

use super::assembly::Assembly;
use super::error::LinkError;
use super::inbox::Event;
use super::outbox::Work;
use super::shared::Shared;

#[cfg(target_endian = "big")]
compile_error!("payloads are little-endian f32 as they lie in memory; this target is big-endian");

/// Reads heads and short frames; longer payloads pass it by.
const READ_AHEAD: usize = 8 << 10;
/// Room for payload that is read only to be forgotten.
const DISCARD_BYTES: usize = 64 << 10;

pub(super) type Source = BufReader<Box<dyn AsyncRead + Send + Unpin>>;
pub(super) type Sink = Box<dyn AsyncWrite + Send + Unpin>;

/// Both directions of a connected socket.
pub(super) struct Socket {
    pub(super) source: Source,
    pub(super) sink: Sink,
}

impl Socket {
    pub(super) fn new(
        source: impl AsyncRead + Send + Unpin + 'static,
        sink: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            source: BufReader::with_capacity(READ_AHEAD, Box::new(source)),
            sink: Box::new(sink),
        }
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

/// Writes what the outbox gives until the link ends, then closes the sending direction.
pub(super) async fn write_until_end(mut sink: Sink, shared: Arc<Shared>) {
    tokio::select! {
        biased;
        _end = shared.until_end() => {}
        cause = write_all(&mut sink, &shared) => shared.end(cause),
    }
    // The peer may be gone already; then there is nobody to tell.
    let _ = sink.shutdown().await;
}

async fn write_all(sink: &mut Sink, shared: &Shared) -> LinkError {
    let mut scratch = Scratch::default();
    loop {
        let result = match shared.next_work().await {
            Ok(work) => write_one(sink, shared, work, &mut scratch).await,
            Err(end) => Err(end),
        };
        if let Err(cause) = result {
            return cause;
        }
    }
}

/// Memory of the writing task.
#[derive(Default)]
struct Scratch {
    head: Vec<u8>,
    /// A sparse piece.
    runs: Vec<u8>,
}

async fn write_one(
    sink: &mut Sink,
    shared: &Shared,
    work: Work,
    Scratch { head, runs }: &mut Scratch,
) -> Result<(), LinkError> {
    match work {
        Work::Control(frame) => {
            write_both(sink, &frame, &[]).await?;
            shared.count_out(frame.len());
        }
        Work::Credit(bytes) => {
            let frame = frame::credit_frame(Credit { bytes });
            write_both(sink, &frame, &[]).await?;
            shared.count_out(frame.len());
        }
        // Sums for a slice may be those of a table of which a few rows were touched.
        Work::Piece(piece)
            if piece.header.kind == Kind::Gradient && frame::encode_sparse(&piece.values, runs) =>
        {
            let header = DataHeader {
                encoding: Encoding::SparseRows,
                ..piece.header
            };
            frame::data_head(&header, runs, shared.checksum, head)?;
            write_both(sink, head, runs).await?;
            shared.count_out(head.len() + runs.len());
            shared.count_saved(size_of_val(&*piece.values) - runs.len());
        }
        Work::Piece(piece) => {
            let payload = bytemuck::cast_slice(&piece.values);
            let crc = || piece.values.crc();
            frame::data_head_of(&piece.header, payload.len(), shared.checksum, crc, head)?;
            write_both(sink, head, payload).await?;
            shared.count_out(head.len() + payload.len());
        }
    }
    Ok(())
}

/// The reading task.
pub(super) struct Reader {
    pub(super) source: Source,
    pub(super) shared: Arc<Shared>,
    pub(super) assembly: Assembly,
    pub(super) events: mpsc::Sender<Event>,
    /// Bytes of control messages that the consumer has not taken.
    pub(super) control_room: Arc<Semaphore>,
    /// Longest control message in bytes.
    pub(super) max_control: u32,
}

impl Reader {
    /// Reads until the link ends.
    pub(super) async fn read_until_end(mut self) {
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            biased;
            _end = shared.until_end() => {}
            cause = self.read_all() => shared.end(cause),
        }
    }

    async fn read_all(&mut self) -> LinkError {
        let mut scratch = Vec::new();
        loop {
            if let Err(cause) = self.read_one(&mut scratch).await {
                return cause;
            }
        }
    }

    async fn read_one(&mut self, scratch: &mut Vec<u8>) -> Result<(), LinkError> {
        let prelude = read_prelude(&mut self.source).await?;
        match prelude.kind {
            FrameKind::Control => self.control(&prelude).await?,
            FrameKind::Credit => {
                let credit: Credit = self.header(&prelude, scratch).await?;
                self.shared.grant(credit.bytes);
            }
            FrameKind::Data => {
                let header = self.header(&prelude, scratch).await?;
                self.piece(&prelude, header, scratch).await?;
            }
        }
        let length = PRELUDE_BYTES + prelude.header as usize + prelude.payload as usize;
        self.shared.count_in(length);
        Ok(())
    }

    async fn control(&mut self, prelude: &Prelude) -> Result<(), LinkError> {
        let room = Arc::clone(&self.control_room)
            .acquire_many_owned(prelude.payload.min(self.max_control))
            .await
            .expect("the semaphore is never closed");
        let message = read_control(&mut self.source, prelude, self.max_control).await?;
        self.deliver(Event::Control { message, room }).await
    }

    async fn header<H: serde::de::DeserializeOwned>(
        &mut self,
        prelude: &Prelude,
        scratch: &mut Vec<u8>,
    ) -> Result<H, LinkError> {
        scratch.resize(prelude.header as usize, 0);
        self.source.read_exact(scratch).await?;
        prelude.check_head(scratch)?;
        Ok(frame::decode_message(scratch)?)
    }

    async fn piece(
        &mut self,
        prelude: &Prelude,
        header: DataHeader,
        scratch: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        if prelude.checksum != self.shared.checksum {
            return Err(FrameError::Flags(u8::from(prelude.checksum == Checksum::On)).into());
        }
        let values = header.check(prelude.payload as usize)?;
        // Credit is for the memory that values take here, however they travel.
        self.shared.arrived(values as u64 * 4)?;
        match header.encoding {
            Encoding::SparseRows => {
                return self.sparse_piece(prelude, header, values, scratch).await;
            }
            Encoding::F32 | Encoding::Bf16 | Encoding::Int8 | Encoding::TopK => {}
        }
        let superseded = self.assembly.begin(header, values)?;
        self.shared.consumed(superseded);
        let mut hasher = match prelude.checksum {
            Checksum::On => Some(crc32fast::Hasher::new()),
            Checksum::Off => None,
        };
        if self.assembly.discards() {
            scratch.resize(DISCARD_BYTES, 0);
        }
        let payload = prelude.payload as usize;
        let mut filled = 0;
        while filled < payload {
            let Self {
                source, assembly, ..
            } = self;
            let read = poll_fn(|context| {
                let mut read = |target: &mut [u8]| poll_read(source, context, target, &mut hasher);
                let stored = assembly.fill(values, |piece| {
                    read(&mut bytemuck::cast_slice_mut(piece)[filled..])
                });
                let left = (payload - filled).min(DISCARD_BYTES);
                stored.unwrap_or_else(|| read(&mut scratch[..left]))
            });
            let read = read.await?;
            if read == 0 {
                let (have, need) = (filled, payload);
                return Err(FrameError::Short { have, need }.into());
            }
            filled += read;
        }
        prelude.check_payload(hasher.map_or(0, crc32fast::Hasher::finalize))?;
        self.piece_is_here(values).await
    }

    /// A piece of `values` values as runs; whoever takes the tensor does not see that it was sparse.
    async fn sparse_piece(
        &mut self,
        prelude: &Prelude,
        header: DataHeader,
        values: usize,
        runs: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        runs.resize(prelude.payload as usize, 0);
        self.source.read_exact(runs).await?;
        prelude.check_payload(match prelude.checksum {
            Checksum::On => frame::crc(runs),
            Checksum::Off => 0,
        })?;
        let header = DataHeader {
            encoding: Encoding::F32,
            ..header
        };
        let superseded = self.assembly.begin(header, values)?;
        self.shared.consumed(superseded);
        let decoded = self
            .assembly
            .fill(values, |piece| frame::decode_sparse(runs, piece));
        decoded.transpose()?;
        self.piece_is_here(values).await
    }

    async fn piece_is_here(&mut self, values: usize) -> Result<(), LinkError> {
        let (released, complete) = self.assembly.end(values);
        self.shared.consumed(released);
        match complete {
            Some(tensor) => self.deliver(Event::Tensor(tensor)).await,
            None => Ok(()),
        }
    }

    async fn deliver(&mut self, event: Event) -> Result<(), LinkError> {
        let gone = |_| LinkError::ClosedHere("nobody listens to the link any more".into());
        self.events.send(event).await.map_err(gone)
    }
}

/// Reads what is there, adding it to the crc while it is still in the cache.
fn poll_read(
    source: &mut Source,
    context: &mut Context<'_>,
    target: &mut [u8],
    hasher: &mut Option<crc32fast::Hasher>,
) -> Poll<io::Result<usize>> {
    let mut target = ReadBuf::new(target);
    ready!(Pin::new(source).poll_read(context, &mut target))?;
    let read = target.filled();
    if let Some(hasher) = hasher {
        hasher.update(read);
    }
    Poll::Ready(Ok(read.len()))
}
