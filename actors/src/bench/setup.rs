//! What the measurements have in common: how two ends meet over loopback, and what can go wrong.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use resilin_core::frame::{Checksum, DataHeader, Encoding, FrameError, Kind};
use resilin_core::handshake::{Fingerprint, Hello, PROTOCOL, Role};
use resilin_core::{Incarnation, MapNumber, RunId, Step, Timeline, View};

use crate::link::{BindError, DialError, LinkError, SendError};

/// Time for the handshakes.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The system has no socket, thread or memory for it.
    #[error("nothing can be measured here: {0}")]
    System(#[from] io::Error),
    /// No port on the loopback.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// No link.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// A link broke.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A message was not taken.
    #[error(transparent)]
    Send(#[from] SendError),
    /// A message did not decode.
    #[error(transparent)]
    Message(#[from] FrameError),
    /// One side ended early or sent what the other did not wait for; its own error says why.
    #[error("the {0} side ended early or spoke out of turn")]
    Side(&'static str),
}

/// Runs the receiving end in a thread of its own and the sending end in this one, each on a
/// runtime of its own. The receiver announces where it can be reached.
pub(super) fn run_both<Place, Sent, Received, Sending, Receiving>(
    receive: impl FnOnce(mpsc::Sender<Place>) -> Receiving + Send + 'static,
    send: impl FnOnce(Place) -> Sending,
) -> Result<(Sent, Received), BenchError>
where
    Place: Send + 'static,
    Received: Send + 'static,
    Sending: Future<Output = Result<Sent, BenchError>>,
    Receiving: Future<Output = Result<Received, BenchError>>,
{
    let (announce, announced) = mpsc::channel();
    let receiver = thread::Builder::new()
        .name("bench-receiver".into())
        .spawn(move || runtime()?.block_on(receive(announce)))?;
    let sent = match announced.recv() {
        Ok(place) => runtime()?.block_on(send(place)),
        Err(mpsc::RecvError) => Err(BenchError::Side("receiving")),
    };
    let received = receiver
        .join()
        .map_err(|_panic| BenchError::Side("receiving"))?;
    // The receiver's own error is the cause of whatever the sender saw.
    let received = received?;
    Ok((sent?, received))
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

pub(super) fn hello(role: Role) -> Hello {
    Hello {
        protocol: PROTOCOL,
        run: None,
        role,
        name: "bench".into(),
        token: None,
        numerics: Fingerprint([0; 32]),
        data: None,
        incarnation: None,
        checksum: Checksum::On,
        window: 0,
    }
}

/// The header of a contribution to `step`.
pub(super) fn header(step: Step) -> DataHeader {
    DataHeader {
        run: RunId(1),
        kind: Kind::Gradient,
        timeline: Timeline::first(1),
        map: MapNumber(1),
        view: View::first(1),
        incarnation: Incarnation::first(1),
        sequence: 0,
        step,
        based_on: None,
        node: None,
        blocks: 0..1,
        offset: 0,
        total: 0,
        encoding: Encoding::F32,
        samples: 1,
        weight: 1.0,
        loss_sum: 0.0,
    }
}
