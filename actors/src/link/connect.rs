//! Addresses, and the dialling side of the handshake.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use resilin_core::frame::{self, FrameError, FrameKind, MAX_PIECE_BYTES, Message};
use resilin_core::handshake::{Hello, HelloReply, MIN_WINDOW, Role};
use serde::Serialize;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::error::{DialError, LinkError};
use super::socket::Socket;
use super::wire::{self, read_control, read_prelude};
use super::{Link, LinkOptions};

/// Longest handshake message in bytes: a stranger cannot make us hold more.
const MAX_HANDSHAKE_BYTES: u32 = 16 << 10;

/// Time for a server of HTTP to show itself.
const PROBE: Duration = Duration::from_secs(2);

/// Bytes that a Unix socket takes before its writer waits for the reader (the system doubles it, for
/// its own records): so few that what is passed on stays in the cache, enough for both to work.
const SEND_BUFFER: usize = MAX_PIECE_BYTES as usize / 4;

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
        let mut socket =
            connect(address, hello.role)
                .await
                .map_err(|source| DialError::Connect {
                    address: address.to_string(),
                    source,
                })?;
        socket.offer_lane(options.max_values);
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

/// Whether what listens there is a server of HTTP, which most of them say only when they are asked.
pub(crate) async fn speaks_http(address: &Address) -> bool {
    let Address::Tcp(host) = address else {
        return false;
    };
    let ask = async {
        let mut stream = TcpStream::connect(host).await?;
        stream.write_all(b"HEAD / HTTP/1.0\r\n\r\n").await?;
        let mut begin = [0; 4];
        stream.read_exact(&mut begin).await?;
        io::Result::Ok(begin == *b"HTTP")
    };
    matches!(tokio::time::timeout(PROBE, ask).await, Ok(Ok(true)))
}

async fn connect(address: &Address, role: Role) -> io::Result<Socket> {
    match address {
        Address::Tcp(host) => match near(host, role).await {
            Some(socket) => Ok(socket),
            None => tcp(TcpStream::connect(host).await?),
        },
        Address::Unix(path) => Ok(unix(UnixStream::connect(path).await?)),
    }
}

/// The socket beside a TCP listener of this host, for links that carry tensors: it costs less than
/// half of loopback TCP. Only another process of the same user is believed to be that listener,
/// since the name could be anybody's.
async fn near(host: &str, role: Role) -> Option<Socket> {
    match role {
        Role::WorkerData { .. } | Role::Backup { .. } | Role::Store { .. } => {}
        Role::Worker | Role::Shard | Role::ShardPeer { .. } | Role::Supervisor => return None,
    }
    let stream = UnixStream::connect(near_path(host.parse().ok()?)?).await;
    let stream = stream.ok()?;
    let owner = stream.peer_cred().ok()?.uid();
    (owner == rustix::process::geteuid().as_raw()).then(|| unix(stream))
}

/// Where a process listens beside the TCP address: a socket without a file, in the namespace of the
/// same network, so that it is there exactly as long as the TCP listener. `None` for an address
/// that other hosts have, and of no use on systems without such sockets.
pub(super) fn near_path(address: SocketAddr) -> Option<PathBuf> {
    let loopback = match address.ip() {
        ip if ip.is_loopback() => ip,
        ip if ip.is_unspecified() && ip.is_ipv4() => Ipv4Addr::LOCALHOST.into(),
        ip if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        _ => return None,
    };
    let name = SocketAddr::new(loopback, address.port());
    Some(format!("\0resilin/{name}").into())
}

/// Prepares a connected TCP stream. Without nodelay, delayed acknowledgements stall small frames
/// for 40 ms.
pub(super) fn tcp(stream: TcpStream) -> io::Result<Socket> {
    stream.set_nodelay(true)?;
    Ok(stream.into())
}

/// Prepares a connected Unix stream.
pub(super) fn unix(stream: UnixStream) -> Socket {
    // With the system's own buffer both ends are woken for every fifth of a piece; it works as well.
    let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER);
    stream.into()
}

async fn introduce(socket: &mut Socket, hello: &Hello) -> Result<HelloReply, LinkError> {
    tell(socket, hello).await?;
    listen_for(socket).await
}

/// Writes one handshake message.
pub(super) async fn tell<M: Serialize>(socket: &mut Socket, message: &M) -> Result<(), LinkError> {
    let frame = frame::control_frame(message)?;
    wire::write_both(socket, &frame, &[]).await?;
    Ok(socket.flush().await?)
}

/// Reads one handshake message.
pub(super) async fn listen_for<M: Message>(socket: &mut Socket) -> Result<M, LinkError> {
    let prelude = read_prelude(socket).await?;
    match prelude.kind {
        FrameKind::Control => {}
        kind @ (FrameKind::Data | FrameKind::Credit) => {
            return Err(FrameError::Kind(kind as u8).into());
        }
    }
    let message = read_control(socket, &prelude, MAX_HANDSHAKE_BYTES).await?;
    Ok(M::decode(&message)?)
}
