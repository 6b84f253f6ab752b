//! Addresses, and the dialling side of the handshake.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use resilin_core::frame::{self, FrameError, FrameKind};
use resilin_core::handshake::{Hello, HelloReply, MIN_WINDOW};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};

use super::error::{DialError, LinkError};
use super::wire::{self, Socket, read_control, read_prelude};
use super::{Link, LinkOptions};

/// Longest handshake message in bytes: a stranger cannot make us hold more.
const MAX_HANDSHAKE_BYTES: u32 = 16 << 10;

/// Where a process listens: `host:port`, or `unix:/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP host and port.
    Tcp(String),
    /// A Unix socket; faster, on one host only.
    Unix(PathBuf),
}

impl Address {
    /// `address` as it is reached from another machine: a process that listens on all interfaces is
    /// found at `host`, where something else of its machine was reached.
    #[must_use]
    pub fn on(address: &str, host: &str) -> String {
        let (bound, port) = address.rsplit_once(':').unwrap_or_default();
        match bound.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
            Ok(ip) if ip.is_unspecified() => format!("{host}:{port}"),
            Ok(_) | Err(_) => address.into(),
        }
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        match text.strip_prefix("unix:") {
            Some(path) => Self::Unix(path.into()),
            None => Self::Tcp(text.into()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host) => f.write_str(host),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Dials `address`, introduces itself with `hello` and waits for the answer, all within
/// `deadline`. Checksum and window of the hello are taken from the options.
pub async fn dial(
    address: &Address,
    hello: Hello,
    options: LinkOptions,
    deadline: Duration,
) -> Result<Link, DialError> {
    let hello = Hello {
        checksum: options.checksum,
        window: options.window,
        ..hello
    };
    let attempt = async {
        let mut socket = connect(address)
            .await
            .map_err(|source| DialError::Connect {
                address: address.to_string(),
                source,
            })?;
        let reply = introduce(&mut socket, &hello).await.map_err(|source| {
            let address = address.to_string();
            DialError::Handshake { address, source }
        })?;
        match reply {
            HelloReply::Welcome { window, .. } if window < MIN_WINDOW => {
                let fault = format!("a window of {window} bytes is below {MIN_WINDOW}");
                let source = LinkError::Frame(FrameError::Data(fault));
                Err(DialError::Handshake {
                    address: address.to_string(),
                    source,
                })
            }
            HelloReply::Welcome { checksum, window } => {
                Ok(Link::start(socket, options, checksum, window))
            }
            HelloReply::Refused(refusal) => Err(DialError::Refused {
                address: address.to_string(),
                refusal,
            }),
        }
    };
    match tokio::time::timeout(deadline, attempt).await {
        Ok(result) => result,
        Err(_elapsed) => Err(DialError::Timeout {
            address: address.to_string(),
            seconds: deadline.as_secs_f64(),
        }),
    }
}

async fn connect(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Tcp(host) => tcp(TcpStream::connect(host).await?),
        Address::Unix(path) => Ok(unix(UnixStream::connect(path).await?)),
    }
}

/// Prepares a connected TCP stream. Without nodelay, delayed acknowledgements stall small frames
/// for 40 ms.
pub(super) fn tcp(stream: TcpStream) -> io::Result<Socket> {
    stream.set_nodelay(true)?;
    let (source, sink) = stream.into_split();
    Ok(Socket::new(source, sink))
}

pub(super) fn unix(stream: UnixStream) -> Socket {
    let (source, sink) = stream.into_split();
    Socket::new(source, sink)
}

async fn introduce(socket: &mut Socket, hello: &Hello) -> Result<HelloReply, LinkError> {
    tell(socket, hello).await?;
    listen_for(socket).await
}

/// Writes one handshake message.
pub(super) async fn tell<M: Serialize>(socket: &mut Socket, message: &M) -> Result<(), LinkError> {
    let frame = frame::control_frame(message)?;
    wire::write_both(&mut socket.sink, &frame, &[]).await?;
    Ok(socket.sink.flush().await?)
}

/// Reads one handshake message.
pub(super) async fn listen_for<M: DeserializeOwned>(socket: &mut Socket) -> Result<M, LinkError> {
    let prelude = read_prelude(&mut socket.source).await?;
    match prelude.kind {
        FrameKind::Control => {}
        kind @ (FrameKind::Data | FrameKind::Credit) => {
            return Err(FrameError::Kind(kind as u8).into());
        }
    }
    let message = read_control(&mut socket.source, &prelude, MAX_HANDSHAKE_BYTES).await?;
    Ok(frame::decode_message(&message)?)
}
