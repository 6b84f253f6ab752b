//! One connection through the proxy: bytes in their order, when the weather lets them pass.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::{Weather, reset};
use crate::process::plan::Way;

/// Most bytes that pass at once; also what a throttled connection carries without a pause.
const CHUNK: usize = 16 << 10;

/// Chunks that are held back each way; then the sender waits, as with TCP's own window.
const CHUNKS: usize = 64;

/// Something on its way.
enum Chunk {
    /// Bytes, and when they came.
    Bytes(Instant, Vec<u8>),
    /// The sender has ended its direction.
    End,
    /// The sender's socket has failed.
    Broken(io::Error),
}

/// Carries both ways until either ends with an error, both have ended in peace, or it is cut.
/// `first` was read from the client before.
pub(super) async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    first: Vec<u8>,
    weather: watch::Receiver<Weather>,
) {
    let cuts = weather.borrow().cuts;
    let mut sky = weather.clone();
    // Only latency is lost if it fails.
    let _ = server.set_nodelay(true);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let carried = async {
        tokio::try_join!(
            pump(from_client, to_server, Way::Up, first, weather.clone()),
            pump(
                from_server,
                to_client,
                Way::Down,
                Vec::new(),
                weather.clone()
            ),
        )
    };
    let peaceful = tokio::select! {
        carried = carried => carried.is_ok(),
        // Its sender is gone: the proxy ends.
        _ = sky.wait_for(|weather| weather.cuts != cuts) => false,
    };
    if !peaceful {
        reset(&client);
        reset(&server);
    }
}

async fn pump(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    way: Way,
    first: Vec<u8>,
    weather: watch::Receiver<Weather>,
) -> io::Result<()> {
    let (queue, waiting) = mpsc::channel(CHUNKS);
    tokio::try_join!(fill(from, first, queue), drain(waiting, to, way, weather),)?;
    Ok(())
}

/// Reads until the end, which passes through the queue like everything else.
async fn fill(
    mut from: impl AsyncRead + Unpin,
    first: Vec<u8>,
    queue: mpsc::Sender<Chunk>,
) -> io::Result<()> {
    if !first.is_empty() {
        // The drain says why it is gone.
        let _ = queue.send(Chunk::Bytes(Instant::now(), first)).await;
    }
    loop {
        let mut bytes = vec![0; CHUNK];
        let chunk = match from.read(&mut bytes).await {
            Ok(0) => Chunk::End,
            Ok(read) => {
                bytes.truncate(read);
                Chunk::Bytes(Instant::now(), bytes)
            }
            Err(error) => Chunk::Broken(error),
        };
        let last = !matches!(chunk, Chunk::Bytes(..));
        if queue.send(chunk).await.is_err() || last {
            return Ok(());
        }
    }
}

async fn drain(
    mut waiting: mpsc::Receiver<Chunk>,
    mut to: impl AsyncWrite + Unpin,
    way: Way,
    mut weather: watch::Receiver<Weather>,
) -> io::Result<()> {
    let mut free = Instant::now();
    while let Some(chunk) = waiting.recv().await {
        let came = match &chunk {
            Chunk::Bytes(came, _) => *came,
            Chunk::End | Chunk::Broken(_) => Instant::now(),
        };
        until_due(came, free, way, &mut weather).await;
        match chunk {
            Chunk::Bytes(_, bytes) => {
                let written = to.write_all(&bytes).await;
                if let Err(error) = written {
                    // Its end is news that goes the other way.
                    until_due(Instant::now(), free, opposite(way), &mut weather).await;
                    return Err(error);
                }
                free = after(bytes.len(), &weather.borrow());
            }
            Chunk::End => return to.shutdown().await,
            Chunk::Broken(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns once something that came then may pass.
async fn until_due(came: Instant, free: Instant, way: Way, weather: &mut watch::Receiver<Weather>) {
    loop {
        let now = *weather.borrow_and_update();
        let due = match now.bytes_per_s {
            Some(_) => free.max(came + now.delay),
            None => came + now.delay,
        };
        let silent = now.is_silent(way);
        if !silent && due <= Instant::now() {
            return;
        }
        tokio::select! {
            () = sleep_until(due), if !silent => return,
            changed = weather.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// When the next bytes may follow.
fn after(bytes: usize, weather: &Weather) -> Instant {
    let pause = weather.bytes_per_s.map_or(Duration::ZERO, |rate| {
        Duration::from_secs_f64(bytes as f64 / rate as f64)
    });
    Instant::now() + pause
}

fn opposite(way: Way) -> Way {
    match way {
        Way::Up => Way::Down,
        Way::Down => Way::Up,
        Way::Both => Way::Both,
    }
}
