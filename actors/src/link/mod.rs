//! Links: how tensors and control messages travel between processes.
//!
//! A link is one TCP connection or Unix socket with framed messages (`resilin_core::frame`). It
//! begins with a handshake, has a reading and a writing task that never wait for each other, and
//! bounds everything: frames, queues, unconsumed bytes by credit, buffers by a pool. The one thing
//! to know: whoever wants a tensor sent gives a shared buffer and it goes out as it lies in memory;
//! what comes in is read straight into a pooled buffer of the tensor's length. Between
//! processes of one host payloads pass through shared memory (`lane`).
//!
//! - [`dial`], [`Listener`], [`Knock`]: making a link;
//! - [`LinkSender`]: control, tensors, newest-only streams;
//! - [`Inbox`]: what came in;
//! - [`BufferPool`], [`SharedValues`], [`JointBuffer`], [`Coming`]: memory;
//! - [`Backoff`]: when to dial again.

mod assembly;
mod backoff;
mod coming;
mod connect;
mod error;
mod inbox;
mod lane;
mod listen;
mod near;
mod outbox;
mod part;
mod pool;
mod reader;
mod sender;
mod shared;
mod socket;
mod wire;
mod writer;

use std::sync::Arc;

use resilin_core::frame::{Checksum, MAX_CONTROL_BYTES};
use resilin_core::handshake::MIN_WINDOW;
use tokio::sync::{Semaphore, mpsc};

use assembly::Assembly;
use lane::Incoming;
use outbox::Outbox;
use reader::Reader;
use shared::Shared;
use socket::{Ends, Socket};

use crate::spawn;

pub use assembly::{Before, Filter, Wanted};
pub use backoff::Backoff;
pub use coming::{Coming, OutValues};
pub(crate) use connect::speaks_http;
pub use connect::{Address, dial};
pub use error::{BindError, DialError, LinkError, SendError};
pub use inbox::{ControlMessage, Inbox, Received};
pub use listen::{Knock, ListenOptions, Listener, Near};
pub use outbox::{OutTensor, Stream};
pub use part::{JointBuffer, Part};
pub use pool::{BufferPool, PooledBuffer, SharedValues};
pub use sender::LinkSender;
pub use shared::LinkCounters;

/// Default receive window and in-flight limit in bytes: two contributions of 16 MiB.
pub const DEFAULT_WINDOW: u32 = 32 << 20;

/// Messages and tensors that wait for the consumer; more than this stop the reader.
const EVENTS: usize = 256;
/// Bytes of control messages that wait for the consumer.
const CONTROL_ROOM: u32 = 2 * MAX_CONTROL_BYTES;

/// How a link behaves on this side.
pub struct LinkOptions {
    /// Whether this side asks for a crc of data payloads; it is used if either side asks.
    pub checksum: Checksum,
    /// Payload bytes taken before the consumer has taken any; at least
    /// [`MIN_WINDOW`].
    pub window: u32,
    /// Bytes of tensors that may wait to be sent.
    pub in_flight: usize,
    /// Longest tensor accepted, in values: the length of the slice; 0 on control links.
    pub max_values: u64,
    /// Where buffers for incoming tensors come from.
    pub pool: BufferPool,
    /// Which tensors are stored.
    pub want: Filter,
}

impl LinkOptions {
    /// A link for control messages only.
    #[must_use]
    pub fn control() -> Self {
        Self::data(0, BufferPool::new(0))
    }

    /// A link that also takes every tensor of at most `max_values` values.
    #[must_use]
    pub fn data(max_values: u64, pool: BufferPool) -> Self {
        Self {
            checksum: Checksum::On,
            window: DEFAULT_WINDOW,
            in_flight: DEFAULT_WINDOW as usize,
            max_values,
            pool,
            want: Box::new(|_header| Wanted::Take(None)),
        }
    }
}

/// Both ends of a link on this side. [`Link::split`] lets different tasks hold them.
pub struct Link {
    sender: LinkSender,
    inbox: Inbox,
}

impl Link {
    /// Starts the two tasks on the current runtime.
    fn start(socket: Socket, options: LinkOptions, checksum: Checksum, peer_window: u32) -> Self {
        let LinkOptions {
            checksum: _,
            window,
            in_flight,
            max_values,
            pool,
            want,
        } = options;
        assert!(
            window >= MIN_WINDOW,
            "a smaller window could stop a stream of pieces"
        );
        let Ends {
            source,
            sink,
            outgoing,
            incoming,
        } = socket.into_ends();
        let lane_bytes = incoming.as_ref().map_or(0, Incoming::bytes);
        let shared = Shared::new(
            Outbox::new(in_flight, peer_window, window, lane_bytes),
            checksum,
            window,
        );
        let (events, received) = mpsc::channel(EVENTS);
        let reader = Reader {
            source,
            shared: Arc::clone(&shared),
            assembly: Assembly::new(pool, want, max_values, window),
            lane: incoming,
            events,
            control_room: Arc::new(Semaphore::new(CONTROL_ROOM as usize)),
            max_control: MAX_CONTROL_BYTES,
        };
        let reader = spawn::apart(reader.read_until_end());
        spawn::apart(writer::write_until_end(sink, outgoing, Arc::clone(&shared)));
        Self {
            sender: LinkSender::new(Arc::clone(&shared)),
            inbox: Inbox {
                events: received,
                shared,
                reader,
            },
        }
    }

    /// The sending end; it can be cloned.
    #[must_use]
    pub fn sender(&self) -> &LinkSender {
        &self.sender
    }

    /// The next thing that came in; see [`Inbox::next`].
    pub async fn next(&mut self) -> Received {
        self.inbox.next().await
    }

    /// The two ends apart.
    #[must_use]
    pub fn split(self) -> (LinkSender, Inbox) {
        (self.sender, self.inbox)
    }
}

#[cfg(test)]
mod tests;
