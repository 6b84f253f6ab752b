//! The receiving end of a link, as its owner sees it.

use std::sync::Arc;
use std::time::Duration;

use resilin_core::frame::{DataHeader, FrameError, Message};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;

use super::assembly::Complete;
use super::error::LinkError;
use super::pool::PooledBuffer;
use super::shared::Shared;

/// What came in.
#[derive(Debug)]
pub enum Received {
    /// A message of the control plane.
    Control(ControlMessage),
    /// A whole tensor.
    Tensor {
        /// What it is; `offset` is 0.
        header: DataHeader,
        /// Its values; dropped, the buffer is used again. None where the filter said where they go.
        values: PooledBuffer,
    },
    /// The link has ended; nothing comes after this.
    Closed(LinkError),
}

/// A control message as it came, not decoded yet.
#[derive(Debug)]
pub struct ControlMessage(Vec<u8>);

impl ControlMessage {
    /// Decodes the message; bytes after it are an error.
    pub fn decode<M: Message>(&self) -> Result<M, FrameError> {
        M::decode(&self.0)
    }

    /// The msgpack bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

pub(super) enum Event {
    Control {
        message: Vec<u8>,
        room: OwnedSemaphorePermit,
    },
    Tensor(Complete),
}

/// Receives from a link. Dropped, it ends the link.
pub struct Inbox {
    pub(super) events: mpsc::Receiver<Event>,
    pub(super) shared: Arc<Shared>,
    pub(super) reader: JoinHandle<()>,
}

impl Inbox {
    /// The next thing that came in. Taking a tensor returns its credit to the sender, so a
    /// consumer that stops calling this stops the sender. Never wait for room to send in the task
    /// that calls this: two peers that did would wait for each other.
    pub async fn next(&mut self) -> Received {
        match self.events.recv().await {
            Some(event) => self.taken(event),
            None => Received::Closed(self.shared.until_end().await),
        }
    }

    /// What came in already, if anything did.
    pub fn ready(&mut self) -> Option<Received> {
        let event = self.events.try_recv().ok()?;
        Some(self.taken(event))
    }

    fn taken(&self, event: Event) -> Received {
        match event {
            Event::Control { message, room } => {
                drop(room);
                Received::Control(ControlMessage(message))
            }
            Event::Tensor(Complete {
                header,
                values,
                held,
            }) => {
                self.shared.consumed(held);
                Received::Tensor { header, values }
            }
        }
    }

    /// The same, or `None` once not a byte has come for as long as `silence`: a peer that is cut off
    /// without a reset never ends its link. What comes in pieces may take longer as a whole.
    pub async fn next_within(&mut self, silence: Duration) -> Option<Received> {
        loop {
            let bytes = self.shared.counters().bytes_in;
            match tokio::time::timeout(silence, self.next()).await {
                Ok(received) => return Some(received),
                Err(_elapsed) if self.shared.counters().bytes_in == bytes => return None,
                Err(_elapsed) => {}
            }
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.shared
            .end(LinkError::ClosedHere("the owner let go of it".into()));
        self.reader.abort();
    }
}
