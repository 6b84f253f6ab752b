//! The sending end of a link.

use std::sync::Arc;

use serde::Serialize;

use super::error::{LinkError, SendError};
use super::outbox::{OutTensor, Stream};
use super::shared::{LinkCounters, Shared, encode};

/// Sends on a link. Clones share the link; it lives as long as its [`Inbox`](super::Inbox).
#[derive(Clone)]
pub struct LinkSender {
    shared: Arc<Shared>,
}

impl LinkSender {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Queues a control message; it goes before all tensors.
    pub fn send_control<M: Serialize>(&self, message: &M) -> Result<(), SendError> {
        self.shared.push_control(encode(message)?)
    }

    /// Queues a tensor if there is room for it, without waiting; its values are not copied.
    pub fn try_send(&self, tensor: &OutTensor) -> Result<(), SendError> {
        self.shared.push_tensor(tensor)
    }

    /// Queues a tensor as soon as there is room for it.
    pub async fn send(&self, tensor: &OutTensor) -> Result<(), LinkError> {
        let queued = |shared: &Shared| match shared.push_tensor(tensor) {
            Ok(()) => Ok(Some(())),
            Err(SendError::Full) => Ok(None),
            Err(SendError::Closed(cause)) => Err(cause),
            Err(SendError::Message(fault)) => Err(fault.into()),
        };
        self.shared.when_space(queued).await
    }

    /// Makes `tensor` the newest version of a stream. What an older version has not sent yet is
    /// dropped, also half-way; the peer forgets the half it has.
    pub fn send_newest(&self, stream: Stream, tensor: OutTensor) -> Result<(), LinkError> {
        self.shared.set_newest(stream, tensor)
    }

    /// Waits until everything queued was handed to the operating system.
    pub async fn flush(&self) -> Result<(), LinkError> {
        self.shared
            .when_space(|shared| Ok(shared.is_flushed()?.then_some(())))
            .await
    }

    /// Ends the link at once; what is queued is dropped. `reason` is what the owner of the inbox
    /// reads.
    pub fn close(&self, reason: impl Into<String>) {
        self.shared.end(LinkError::ClosedHere(reason.into()));
    }

    /// Waits for the end of the link and returns its cause.
    pub async fn closed(&self) -> LinkError {
        self.shared.until_end().await
    }

    /// Figures of the link so far.
    #[must_use]
    pub fn counters(&self) -> LinkCounters {
        self.shared.counters()
    }
}
