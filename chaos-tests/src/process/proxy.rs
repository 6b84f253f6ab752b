//! A TCP proxy between the processes of a run, in user space and on a thread of its own: it knows
//! from its hello which process dials, and spoils that process's connections when told to.
//!
//! It has one address for the coordinator and a gate for each shard process. Whoever is told to dial
//! it finds no Unix socket beside its port, so nothing passes it by.
//!
//! What is held back is not lost: TCP would send it again, so it arrives once the link is healed.
//! What a process says while its link is silent, its end included, is held back in the same way.

mod pump;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use resilin_core::frame::{FrameKind, Message, PRELUDE_BYTES, Prelude};
use resilin_core::handshake::Hello;
use resilin_core::sorted::SortedMap;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::timeout;

use super::plan::Way;

/// Connections at a time; who comes then waits in the system's queue.
const CONNECTIONS: usize = 4096;

/// Time for a hello.
const HELLO: Duration = Duration::from_secs(5);

/// Longest hello in bytes.
const MAX_HELLO: u32 = 64 << 10;

/// What connections of a process suffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weather {
    /// Grows by one with each cut.
    cuts: u64,
    silent_up: bool,
    silent_down: bool,
    bytes_per_s: Option<u64>,
    delay: Duration,
}

impl Weather {
    /// Whether nothing is carried this way; `Both` is a question about either.
    fn is_silent(&self, way: Way) -> bool {
        match way {
            Way::Up => self.silent_up,
            Way::Down => self.silent_down,
            Way::Both => self.silent_up || self.silent_down,
        }
    }
}

/// Something that is done to all connections of a process, those that it opens later included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// Those that are open are reset; later ones are not.
    Cut,
    /// They carry nothing this way.
    Silence(Way),
    /// They carry so many bytes a second each way.
    Throttle(u64),
    /// What they carry comes so much later.
    Delay(Duration),
    /// They carry everything at once again, also what was held back.
    Heal,
}

/// A running proxy. Dropped, it resets all connections and ends.
pub struct Proxy {
    address: SocketAddr,
    target: watch::Sender<Option<String>>,
    shared: Arc<Shared>,
    runtime: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A further address of a proxy, and the one place where its connections lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Where processes dial.
    pub address: SocketAddr,
    /// Where the process behind it is to listen: nobody else takes the port there while this proxy
    /// runs.
    pub target: SocketAddr,
}

struct Shared {
    places: Arc<Semaphore>,
    peers: Mutex<SortedMap<u32, watch::Sender<Weather>>>,
}

impl Proxy {
    /// Listens on a free port of the loopback interface.
    ///
    /// # Errors
    /// The system's, if it has no port or no thread.
    pub fn start() -> io::Result<Self> {
        let (listener, address) = listen()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let shared = Arc::new(Shared {
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            peers: Mutex::default(),
        });
        let target = watch::Sender::new(None);
        let (end, ended) = oneshot::channel();
        let (served, aimed) = (Arc::clone(&shared), target.subscribe());
        let handle = runtime.handle().clone();
        let serve = move || {
            // Connections end with the runtime.
            runtime.block_on(async {
                tokio::select! {
                    _ = accept(listener, served, aimed) => {}
                    _ = ended => {}
                }
            });
        };
        let thread = thread::Builder::new().name("proxy".into()).spawn(serve)?;
        Ok(Self {
            address,
            target,
            shared,
            runtime: handle,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Where processes dial.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where connections lead, as `host:port`; until it is known they wait.
    pub fn aim(&self, target: &str) {
        self.target.send_replace(Some(target.into()));
    }

    /// One more address, which leads to the same port of the loopback interface's second address;
    /// Linux has all of 127.0.0.0/8.
    ///
    /// # Errors
    /// The system's, if it has no port.
    pub fn gate(&self) -> io::Result<Gate> {
        let (listener, address) = listen()?;
        let target = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), address.port()));
        let aimed = watch::Sender::new(Some(target.to_string())).subscribe();
        let served = Arc::clone(&self.shared);
        self.runtime.spawn(accept(listener, served, aimed));
        Ok(Gate { address, target })
    }

    /// The processes that have connections, by process id.
    #[must_use]
    pub fn peers(&self) -> Vec<u32> {
        let peers = self.shared.peers();
        let open = peers
            .iter()
            .filter(|(_, weather)| weather.receiver_count() > 0);
        open.map(|(pid, _)| *pid).collect()
    }

    /// Does it to the connections of a process; whether it has any.
    pub fn spoil(&self, pid: u32, spoil: Spoil) -> bool {
        let peers = self.shared.peers();
        let Some(weather) = peers.get(&pid) else {
            return false;
        };
        // Before the change: a cut may have ended them by the time that it has been told.
        let connected = weather.receiver_count() > 0;
        weather.send_modify(|weather| match spoil {
            Spoil::Cut => weather.cuts += 1,
            Spoil::Silence(way) => {
                weather.silent_up |= way != Way::Down;
                weather.silent_down |= way != Way::Up;
            }
            Spoil::Throttle(bytes) => weather.bytes_per_s = Some(bytes.max(1)),
            Spoil::Delay(delay) => weather.delay = delay,
            Spoil::Heal => {
                *weather = Weather {
                    cuts: weather.cuts,
                    ..Weather::default()
                };
            }
        });
        connected
    }

    /// Heals the connections of all processes.
    pub fn heal_all(&self) {
        let pids: Vec<u32> = self.shared.peers().keys().copied().collect();
        for pid in pids {
            self.spoil(pid, Spoil::Heal);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn peers(&self) -> MutexGuard<'_, SortedMap<u32, watch::Sender<Weather>>> {
        self.peers
            .lock()
            .expect("nothing panics while the peers are held")
    }

    /// The weather over a process, which outlives its connections while it is bad.
    fn weather(&self, pid: u32) -> watch::Receiver<Weather> {
        let mut peers = self.peers();
        peers.retain(|_, weather| {
            let calm = Weather {
                cuts: weather.borrow().cuts,
                ..Weather::default()
            };
            weather.receiver_count() > 0 || *weather.borrow() != calm
        });
        peers.entry(pid).or_default().subscribe()
    }
}

/// A free port of the loopback interface.
fn listen() -> io::Result<(StdListener, SocketAddr)> {
    let listener = StdListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Where connections of one address lead, once it is known.
type Target = watch::Receiver<Option<String>>;

async fn accept(listener: StdListener, shared: Arc<Shared>, target: Target) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // The system has no descriptor left for a moment.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let place = Arc::clone(&shared.places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let life = serve(client, Arc::clone(&shared), target.clone(), place);
        drop(tokio::spawn(life));
    }
}

/// The life of one connection.
async fn serve(
    mut client: TcpStream,
    shared: Arc<Shared>,
    mut target: Target,
    _place: OwnedSemaphorePermit,
) {
    let Ok(Ok((hello, pid))) = timeout(HELLO, identify(&mut client)).await else {
        // Nobody of ours; it would be refused behind this proxy as well.
        return reset(&client);
    };
    let mut weather = shared.weather(pid);
    let cuts = weather.borrow().cuts;
    // The way to the other side does not exist while it is silent.
    let open = weather.wait_for(|weather| weather.cuts != cuts || !weather.is_silent(Way::Up));
    let is_cut = open.await.map_or(true, |weather| weather.cuts != cuts);
    let Ok(target) = target
        .wait_for(Option::is_some)
        .await
        .map(|known| known.clone())
    else {
        return;
    };
    let target = target.expect("it was waited for");
    match TcpStream::connect(&target).await {
        Ok(server) if !is_cut => pump::carry(client, server, hello, weather).await,
        Ok(_) | Err(_) => reset(&client),
    }
}

/// Reads the first frame of a process: its bytes, and the process id at the end of its name.
async fn identify(client: &mut TcpStream) -> io::Result<(Vec<u8>, u32)> {
    client.set_nodelay(true)?;
    let strange = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut bytes = vec![0; PRELUDE_BYTES];
    client.read_exact(&mut bytes).await?;
    let head: &[u8; PRELUDE_BYTES] = bytes.first_chunk().expect("it is as long");
    let prelude = Prelude::parse(head).map_err(|error| strange(&error.to_string()))?;
    if prelude.kind != FrameKind::Control || prelude.payload > MAX_HELLO {
        return Err(strange("no hello"));
    }
    bytes.resize(PRELUDE_BYTES + prelude.payload as usize, 0);
    client.read_exact(&mut bytes[PRELUDE_BYTES..]).await?;
    let hello =
        Hello::decode(&bytes[PRELUDE_BYTES..]).map_err(|error| strange(&error.to_string()))?;
    let pid = hello
        .name
        .rsplit_once(':')
        .and_then(|(_, pid)| pid.parse().ok());
    let pid = pid.ok_or_else(|| strange("a name without a process id"))?;
    Ok((bytes, pid))
}

/// Makes the end of a connection a reset: its peer sees an error and no orderly end.
fn reset(socket: &TcpStream) {
    // It may be gone already.
    let _ = socket.set_zero_linger();
}
