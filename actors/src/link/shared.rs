//! What the ends of one link share inside a process: the outbox, the first cause of the end, and
//! the counters. The lock is held for a few instructions and never across a wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use resilin_core::frame::{self, Checksum, Credit};
use serde::Serialize;
use tokio::sync::Notify;

use super::error::{LinkError, SendError};
use super::outbox::{OutTensor, Outbox, Stream, Work};

/// Figures of one link since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkCounters {
    /// Frames received.
    pub frames_in: u64,
    /// Bytes received, heads included.
    pub bytes_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Bytes sent, heads included.
    pub bytes_out: u64,
    /// Bytes that were not sent because pieces went as the rows that are not zero.
    pub bytes_saved: u64,
    /// Bytes of those sent that went through the lane.
    pub bytes_by_lane: u64,
    /// Bytes of tensors that wait for the peer.
    pub queued_bytes: u64,
    /// Most bytes of tensors that ever waited.
    pub queued_bytes_max: u64,
    /// Versions of streams that were dropped for a newer one before they were sent whole.
    pub superseded: u64,
}

pub(super) struct Shared {
    state: Mutex<State>,
    /// The writer has something to do, or the link has ended.
    work: Arc<Notify>,
    /// The queue has become shorter, or the link has ended.
    space: Notify,
    ended: Notify,
    frames_in: AtomicU64,
    bytes_in: AtomicU64,
    frames_out: AtomicU64,
    bytes_out: AtomicU64,
    bytes_saved: AtomicU64,
    bytes_by_lane: AtomicU64,
    /// How far the peer has read its lane.
    lane_is_read: AtomicU64,
    pub(super) checksum: Checksum,
    window: u32,
}

struct State {
    outbox: Outbox,
    end: Option<LinkError>,
    writing: bool,
    queued_bytes_max: usize,
    /// Payload bytes received whose credit was not returned.
    unreturned: u64,
}

impl Shared {
    pub(super) fn new(outbox: Outbox, checksum: Checksum, window: u32) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                outbox,
                end: None,
                writing: false,
                queued_bytes_max: 0,
                unreturned: 0,
            }),
            work: Arc::default(),
            space: Notify::new(),
            ended: Notify::new(),
            frames_in: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            frames_out: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            bytes_saved: AtomicU64::new(0),
            bytes_by_lane: AtomicU64::new(0),
            lane_is_read: AtomicU64::new(0),
            checksum,
            window,
        })
    }

    /// No code panics while it holds the lock half-way through a change.
    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Acts on the outbox of a link that has not ended, and wakes the writer.
    fn queue<R>(&self, act: impl FnOnce(&mut Outbox) -> R) -> Result<R, LinkError> {
        let result = self.with(|state| {
            if let Some(end) = &state.end {
                return Err(end.clone());
            }
            let result = act(&mut state.outbox);
            state.queued_bytes_max = state.queued_bytes_max.max(state.outbox.queued_bytes());
            Ok(result)
        })?;
        self.work.notify_one();
        Ok(result)
    }

    pub(super) fn push_control(&self, frame: Vec<u8>) -> Result<(), SendError> {
        self.queue(|outbox| outbox.push_control(frame))?
            .map_err(|_full| SendError::Full)
    }

    /// Queues the tensor if there is room for it.
    pub(super) fn push_tensor(&self, tensor: &OutTensor) -> Result<(), SendError> {
        self.queue(|outbox| outbox.push_tensor(tensor))?
            .map_err(|_full| SendError::Full)?;
        tensor.values.listen(&self.work);
        Ok(())
    }

    pub(super) fn set_newest(&self, stream: Stream, tensor: OutTensor) -> Result<(), LinkError> {
        self.queue(|outbox| outbox.set_newest(stream, tensor))
    }

    /// The peer has granted `bytes`, and says how far it has read its lane.
    pub(super) fn grant(&self, Credit { bytes, lane }: Credit) {
        self.lane_is_read.fetch_max(lane, Ordering::Relaxed);
        // A link that has ended needs no credit.
        let _ = self.queue(|outbox| outbox.grant(bytes));
    }

    /// How far the peer has read the lane that it gave.
    pub(super) fn lane_is_read(&self) -> u64 {
        self.lane_is_read.load(Ordering::Relaxed)
    }

    /// This side has read its lane as far as `until`.
    pub(super) fn lane_read(&self, until: u64) {
        if self.with(|state| state.outbox.lane_read(until)) {
            self.work.notify_one();
        }
    }

    /// Counts payload that arrived against the window.
    pub(super) fn arrived(&self, bytes: u64) -> Result<(), LinkError> {
        let sent = self.with(|state| {
            state.unreturned += bytes;
            state.unreturned
        });
        if sent > u64::from(self.window) {
            return Err(LinkError::WindowOverrun {
                sent,
                window: self.window,
            });
        }
        Ok(())
    }

    /// Payload was consumed: its credit goes back to the peer, gathered into few frames.
    pub(super) fn consumed(&self, bytes: u64) {
        let due = self.with(|state| {
            state.unreturned = state.unreturned.saturating_sub(bytes);
            state.outbox.owe(bytes)
        });
        if due {
            self.work.notify_one();
        }
    }

    /// The next thing to write; an error once the link has ended.
    pub(super) async fn next_work(&self) -> Result<Work, LinkError> {
        loop {
            let next = self.with(|state| {
                if let Some(end) = &state.end {
                    return Err(end.clone());
                }
                let work = state.outbox.next();
                state.writing = work.is_some();
                Ok(work)
            })?;
            self.space.notify_waiters();
            match next {
                Some(work) => return Ok(work),
                None => self.work.notified().await,
            }
        }
    }

    /// Waits until `ready` gives a value or the link has ended; asked again whenever the writer
    /// has taken something.
    pub(super) async fn when_space<R>(
        &self,
        mut ready: impl FnMut(&Self) -> Result<Option<R>, LinkError>,
    ) -> Result<R, LinkError> {
        loop {
            let mut space = std::pin::pin!(self.space.notified());
            space.as_mut().enable();
            match ready(self)? {
                Some(result) => return Ok(result),
                None => space.await,
            }
        }
    }

    /// Whether everything queued was written.
    pub(super) fn is_flushed(&self) -> Result<bool, LinkError> {
        self.with(|state| match &state.end {
            Some(end) => Err(end.clone()),
            None => Ok(state.outbox.is_empty() && !state.writing),
        })
    }

    /// Ends the link; the first cause stays. What is queued is dropped at once.
    pub(super) fn end(&self, cause: LinkError) {
        let first = self.with(|state| {
            state.outbox.clear();
            let first = state.end.is_none();
            state.end.get_or_insert(cause);
            first
        });
        if first {
            self.tell_saved();
        }
        self.work.notify_one();
        self.space.notify_waiters();
        self.ended.notify_waiters();
    }

    /// Waits for the end of the link.
    pub(super) async fn until_end(&self) -> LinkError {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if let Some(end) = self.with(|state| state.end.clone()) {
                return end;
            }
            ended.await;
        }
    }

    pub(super) fn count_in(&self, bytes: usize) {
        self.frames_in.fetch_add(1, Ordering::Relaxed);
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_out(&self, bytes: usize) {
        self.frames_out.fetch_add(1, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_by_lane(&self, bytes: usize) {
        self.bytes_by_lane
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_saved(&self, bytes: usize) {
        self.bytes_saved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Tells, at the end of a link, what travelled in fewer bytes than it has.
    fn tell_saved(&self) {
        let saved = self.bytes_saved.load(Ordering::Relaxed);
        let sent = self.bytes_out.load(Ordering::Relaxed);
        if saved > 0 {
            tracing::info!(
                sent_bytes = sent,
                saved_bytes = saved,
                "tensors went as the rows that were touched"
            );
        }
    }

    pub(super) fn counters(&self) -> LinkCounters {
        let (queued, queued_max, superseded) = self.with(|state| {
            let outbox = &state.outbox;
            (
                outbox.queued_bytes(),
                state.queued_bytes_max,
                outbox.superseded(),
            )
        });
        LinkCounters {
            frames_in: self.frames_in.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            frames_out: self.frames_out.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            bytes_saved: self.bytes_saved.load(Ordering::Relaxed),
            bytes_by_lane: self.bytes_by_lane.load(Ordering::Relaxed),
            queued_bytes: queued as u64,
            queued_bytes_max: queued_max as u64,
            superseded,
        }
    }
}

/// The bytes of a control message, checked against the limit.
pub(super) fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, SendError> {
    Ok(frame::control_frame(message)?)
}
