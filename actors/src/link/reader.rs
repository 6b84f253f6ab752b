//! The task that reads a link's socket; it never waits for writing (PROTOCOL 18).

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use resilin_core::frame::{
    self, Checksum, Credit, DataHeader, Encoding, FrameError, FrameKind, Message, PRELUDE_BYTES,
    Prelude, Route,
};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::{Semaphore, mpsc};

use super::assembly::Assembly;
use super::error::LinkError;
use super::inbox::Event;
use super::lane::Incoming;
use super::shared::Shared;
use super::wire::{Source, hasher, read_control, read_prelude};

/// Room for payload that is read only to be forgotten.
const DISCARD_BYTES: usize = 64 << 10;

/// The reading task.
pub(super) struct Reader {
    pub(super) source: Source,
    pub(super) shared: Arc<Shared>,
    pub(super) assembly: Assembly,
    pub(super) lane: Option<Incoming>,
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
                self.shared.grant(credit);
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

    async fn header<H: Message>(
        &mut self,
        prelude: &Prelude,
        scratch: &mut Vec<u8>,
    ) -> Result<H, LinkError> {
        scratch.resize(prelude.header as usize, 0);
        self.source.read_exact(scratch).await?;
        prelude.check_head(scratch)?;
        Ok(H::decode(scratch)?)
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
        if prelude.route == Route::Lane {
            return self.lane_piece(prelude, header, values).await;
        }
        match header.encoding {
            Encoding::SparseRows { .. } | Encoding::ChangedRows { .. } => {
                return self.piece_in_runs(prelude, header, values, scratch).await;
            }
            Encoding::F32 | Encoding::Bf16 | Encoding::Int8 | Encoding::TopK => {}
        }
        let superseded = self.assembly.begin(header, values)?;
        self.shared.consumed(superseded);
        let mut hasher = hasher(prelude.checksum);
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

    /// A piece of `values` values that lies in the lane.
    async fn lane_piece(
        &mut self,
        prelude: &Prelude,
        header: DataHeader,
        values: usize,
    ) -> Result<(), LinkError> {
        let (Some(lane), Encoding::F32) = (&mut self.lane, header.encoding) else {
            return Ok(prelude.check_route(Route::Socket)?);
        };
        let place = lane.place(prelude.payload as usize)?;
        let superseded = self.assembly.begin(header, values)?;
        let mut hasher = hasher(prelude.checksum);
        let stored = self.assembly.fill(values, |piece| {
            lane.read(&place, bytemuck::cast_slice_mut(piece), &mut hasher);
        });
        let passed = lane.pass(place);
        // What is forgotten is not looked at either.
        if stored.is_some() {
            prelude.check_payload(hasher.map_or(0, crc32fast::Hasher::finalize))?;
        }
        self.shared.consumed(superseded);
        self.shared.lane_read(passed);
        self.piece_is_here(values).await
    }

    /// A piece of `values` values as runs; whoever takes the tensor does not see that they were.
    async fn piece_in_runs(
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
        let changes = matches!(header.encoding, Encoding::ChangedRows { .. });
        let header = DataHeader {
            encoding: Encoding::F32,
            ..header
        };
        let superseded = self.assembly.begin(header, values)?;
        self.shared.consumed(superseded);
        let decoded = match changes {
            true => self
                .assembly
                .change(values, |piece| frame::decode_changed(runs, piece))?,
            false => self
                .assembly
                .fill(values, |piece| frame::decode_sparse(runs, piece)),
        };
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
