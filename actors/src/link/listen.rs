//! The listening side: who knocks is heard, judged, and let in or sent away.
//!
//! Strangers are cheap: each has a deadline for its hello, few may be in the middle of one at a
//! time, and none can make this process hold more than a handshake message.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resilin_core::frame::{Checksum, FrameError};
use resilin_core::handshake::{Expected, Hello, HelloReply, Refusal, RefusalCode, judge};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::connect::{Address, listen_for, near_path, tcp, tell, unix};
use super::error::{BindError, LinkError};
use super::socket::Socket;
use super::{Link, LinkOptions};
use crate::spawn;

/// Pause after the system could not accept, such as without file descriptors: trying again at
/// once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits of a listener towards strangers.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// Time for a whole hello.
    pub deadline: Duration,
    /// Connections that may be before or in their hello, or wait to be judged, at a time.
    pub pending: usize,
    /// Whether processes of this host get a way that is shorter than TCP.
    pub near: Near,
}

/// The way of processes of the same host and user to a TCP listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// Links for tensors come in by a Unix socket.
    UnixSocket,
    /// They come in by TCP as from everywhere.
    Tcp,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(5),
            pending: 256,
            near: Near::Tcp,
        }
    }
}

impl ListenOptions {
    /// The default, with the short way for processes of this host.
    #[must_use]
    pub fn with_near_socket() -> Self {
        Self {
            near: Near::UnixSocket,
            ..Self::default()
        }
    }
}

/// Accepts connections and hears their hello. Dropped, it stops.
pub struct Listener {
    address: Address,
    knocks: mpsc::Receiver<Knock>,
    task: JoinHandle<()>,
}

enum Bound {
    Tcp(TcpListener),
    Near(TcpListener, UnixListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens on `address`; port 0 takes a free one, which [`Listener::address`] names.
    pub async fn bind(address: &Address, options: ListenOptions) -> Result<Self, BindError> {
        let fail = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse {
                address: address.to_string(),
            },
            _ => BindError::Other {
                address: address.to_string(),
                source,
            },
        };
        let (listener, bound) = match address {
            Address::Tcp(host) => {
                let listener = TcpListener::bind(host).await.map_err(fail)?;
                let bound: SocketAddr = listener.local_addr().map_err(fail)?;
                let address = Address::Tcp(bound.to_string());
                (beside(listener, bound, options.near), address)
            }
            Address::Unix(path) => {
                let listener = bind_unix(path).map_err(fail)?;
                (Bound::Unix(listener), address.clone())
            }
        };
        let (send, knocks) = mpsc::channel(options.pending.max(1));
        let task = spawn::apart(accept_all(listener, options, send));
        Ok(Self {
            address: bound,
            knocks,
            task,
        })
    }

    /// Where it listens, with the real port.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next connection that has said a well-formed hello.
    pub async fn next(&mut self) -> Knock {
        self.knocks
            .recv()
            .await
            .expect("the accepting task ends only with this listener")
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Adds the Unix socket for this host; without one, everybody takes the TCP socket.
fn beside(listener: TcpListener, bound: SocketAddr, near: Near) -> Bound {
    let path = match near {
        Near::UnixSocket => near_path(bound),
        Near::Tcp => None,
    };
    match path.map(UnixListener::bind) {
        Some(Ok(near)) => Bound::Near(listener, near),
        Some(Err(error)) => {
            tracing::debug!(%bound, %error, "no Unix socket beside the TCP socket");
            Bound::Tcp(listener)
        }
        None => Bound::Tcp(listener),
    }
}

/// Binds a Unix socket, also where a killed process left its file behind.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        result => result,
    }
}

/// Whether nobody listens on a socket file any more.
fn is_abandoned(path: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

async fn accept(listener: &Bound) -> io::Result<(Socket, String)> {
    match listener {
        Bound::Tcp(listener) => accept_tcp(listener).await,
        Bound::Near(listener, near) => {
            tokio::select! {
                accepted = accept_tcp(listener) => accepted,
                accepted = accept_unix(near) => accepted,
            }
        }
        Bound::Unix(listener) => accept_unix(listener).await,
    }
}

async fn accept_tcp(listener: &TcpListener) -> io::Result<(Socket, String)> {
    let (stream, peer) = listener.accept().await?;
    Ok((tcp(stream)?, peer.to_string()))
}

async fn accept_unix(listener: &UnixListener) -> io::Result<(Socket, String)> {
    let (stream, _peer) = listener.accept().await?;
    Ok((unix(stream), "unix socket".into()))
}

async fn accept_all(listener: Bound, options: ListenOptions, knocks: mpsc::Sender<Knock>) {
    let places = Arc::new(Semaphore::new(options.pending.max(1)));
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        match accept(&listener).await {
            Ok((socket, peer)) => {
                let knocks = knocks.clone();
                spawn::apart(hear(socket, peer, place, options.deadline, knocks));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Hears one hello; a peer that says anything else, or nothing, costs one log line.
async fn hear(
    mut socket: Socket,
    peer: String,
    place: OwnedSemaphorePermit,
    deadline: Duration,
    knocks: mpsc::Sender<Knock>,
) {
    match tokio::time::timeout(deadline, listen_for(&mut socket)).await {
        Ok(Ok(hello)) => {
            let knock = Knock {
                hello,
                peer,
                deadline,
                socket,
                _place: place,
            };
            // The listener is gone: so is the wish for links.
            let _ = knocks.send(knock).await;
        }
        // A dialler that changed its mind, as all do whose slice moved or whose run ended.
        Ok(Err(error)) if error.is_hang_up() => {
            tracing::debug!(peer, %error, "a connection ended before its hello");
        }
        Ok(Err(error)) => {
            tracing::warn!(peer, %error, "dropped a connection without a hello");
            if let LinkError::Frame(error @ FrameError::Format { .. }) = error {
                let refusal = Refusal {
                    code: RefusalCode::Protocol,
                    reason: error.to_string(),
                };
                let reply = HelloReply::Refused(refusal);
                // Out of courtesy; it may not even understand the answer.
                let _ = tokio::time::timeout(deadline, tell(&mut socket, &reply)).await;
            }
        }
        Err(_elapsed) => {
            let seconds = deadline.as_secs_f64();
            tracing::warn!(
                peer,
                seconds,
                "dropped a connection without a hello in time"
            );
        }
    }
}

/// A connection that has said hello and waits for an answer.
pub struct Knock {
    /// What it said; nothing of it is checked yet.
    pub hello: Hello,
    /// Address of the peer, for messages.
    pub peer: String,
    deadline: Duration,
    socket: Socket,
    _place: OwnedSemaphorePermit,
}

impl Knock {
    /// What people know the process by; its address, if it says nothing that can be shown.
    #[must_use]
    pub fn name(&self) -> &str {
        self.hello.name_or(&self.peer)
    }

    /// Judges the hello and lets the peer in, or refuses it and says why.
    pub async fn admit(self, expected: &Expected, options: LinkOptions) -> Result<Link, LinkError> {
        match judge(&self.hello, expected) {
            Ok(()) => self.welcome(options).await,
            Err(refusal) => {
                let reason = format!("refused {}: {refusal}", self.name());
                self.refuse(refusal).await;
                Err(LinkError::ClosedHere(reason))
            }
        }
    }

    /// Lets the peer in without judging.
    pub async fn welcome(mut self, options: LinkOptions) -> Result<Link, LinkError> {
        let checksum = match (options.checksum, self.hello.checksum) {
            (Checksum::Off, Checksum::Off) => Checksum::Off,
            (Checksum::On, _) | (_, Checksum::On) => Checksum::On,
        };
        let reply = HelloReply::Welcome {
            checksum,
            window: options.window,
        };
        self.socket = self.socket.move_here()?;
        self.socket.offer_lane(options.max_values);
        self.answer(&reply).await?;
        Ok(Link::start(
            self.socket,
            options,
            checksum,
            self.hello.window,
        ))
    }

    /// Sends the peer away with a reason.
    pub async fn refuse(mut self, refusal: Refusal) {
        let (name, peer, code) = (self.name(), &self.peer, refusal.code);
        let reason = &refusal.reason;
        match code {
            // Somebody has to mend it.
            RefusalCode::Protocol
            | RefusalCode::Token
            | RefusalCode::Run
            | RefusalCode::Numerics
            | RefusalCode::Data
            | RefusalCode::Model
            | RefusalCode::Window => tracing::warn!(name, peer, ?code, reason, "refused"),
            // Who comes too early, too late or to where a slice was dials again.
            RefusalCode::Role | RefusalCode::Fenced | RefusalCode::Finished => {
                tracing::info!(name, peer, ?code, reason, "refused");
            }
        }
        // It is sent away whether or not it hears why.
        let _ = self.answer(&HelloReply::Refused(refusal)).await;
    }

    async fn answer(&mut self, reply: &HelloReply) -> Result<(), LinkError> {
        match tokio::time::timeout(self.deadline, tell(&mut self.socket, reply)).await {
            Ok(result) => result,
            Err(_elapsed) => Err(LinkError::ClosedHere(
                "no room for the answer in time".into(),
            )),
        }
    }
}
