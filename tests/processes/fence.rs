//! A contribution that is repeated after its time, bit for bit, on a link of its own: it is answered
//! as stale and changes nothing, whoever is a member meanwhile.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use resilin_core::frame::{DataHeader, Frame, Kind, Message};
use resilin_core::handshake::{Hello, Role};
use resilin_core::message::{ShardSays, Verdict};
use rustix::process::Signal;

use crate::scene::{JOB, Running, Scene, active, assert_success};

/// Bounds waits that would otherwise have no end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes kept of what one connection carries to the coordinator.
const KEPT: usize = 1 << 20;

/// Lies before the coordinator, carries everything, and keeps what workers say first.
struct Tap {
    address: String,
    target: Arc<OnceLock<String>>,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A contribution on its way: the hello of its link and the frame, as they were sent.
struct Recorded {
    hello: Vec<u8>,
    frame: Vec<u8>,
    header: DataHeader,
}

impl Tap {
    /// Its threads end with the connections, and the one that accepts with the test.
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let tap = Self {
            address: listener.local_addr().expect("bound").to_string(),
            target: Arc::default(),
            heard: Arc::default(),
        };
        let (target, heard) = (Arc::clone(&tap.target), Arc::clone(&tap.heard));
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.expect("somebody dials");
                let far = TcpStream::connect(target.wait()).expect("the coordinator listens");
                let number = {
                    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                    heard.push(Vec::new());
                    heard.len() - 1
                };
                let heard = Arc::clone(&heard);
                let (up, down) = (near.try_clone(), far.try_clone());
                let (up, down) = (up.expect("a copy"), down.expect("a copy"));
                thread::spawn(move || {
                    carry(up, far, |bytes| {
                        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                        let kept = &mut heard[number];
                        let room = KEPT - kept.len();
                        kept.extend(&bytes[..bytes.len().min(room)]);
                    });
                });
                thread::spawn(move || carry(down, near, |_| ()));
            }
        });
        tap
    }

    /// The first contribution that came by.
    fn contribution(&self) -> Recorded {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(recorded) = heard.iter().find_map(|bytes| recorded(bytes)) {
                return recorded;
            }
            drop(heard);
            assert!(Instant::now() < deadline, "no contribution came by");
            thread::yield_now();
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, mut keep: impl FnMut(&[u8])) {
    let mut bytes = vec![0; 64 << 10];
    // An end or an error of one side is the other's as well.
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        keep(&bytes[..read]);
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// The first whole gradient of a connection, if it is a worker's data link.
fn recorded(bytes: &[u8]) -> Option<Recorded> {
    let (Frame::Control(hello), mut rest) = Frame::decode(bytes).ok()? else {
        return None;
    };
    let said = Hello::decode(hello).ok()?;
    if !matches!(said.role, Role::WorkerData { .. }) {
        return None;
    }
    let hello = bytes[..bytes.len() - rest.len()].to_vec();
    loop {
        let (frame, after) = Frame::decode(rest).ok()?;
        let whole = rest[..rest.len() - after.len()].to_vec();
        match frame {
            Frame::Data(header, payload) if header.kind == Kind::Gradient => {
                assert_eq!(payload.len() as u64, 4 * header.total, "one piece");
                return Some(Recorded {
                    hello,
                    frame: whole,
                    header,
                });
            }
            Frame::Data(..) | Frame::Control(_) | Frame::Credit(_) => rest = after,
        }
    }
}

/// Sends it again on a link of its own; what the slice answers.
fn repeat(recorded: &Recorded, target: &str) -> Verdict {
    let mut link = TcpStream::connect(target).expect("the coordinator listens");
    link.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    link.write_all(&recorded.hello).expect("it takes a hello");
    link.write_all(&recorded.frame)
        .expect("it takes the gradient");
    let (mut heard, mut bytes) = (Vec::new(), vec![0; 64 << 10]);
    let mut welcomed = false;
    loop {
        let read = link.read(&mut bytes).expect("it answers in time");
        assert_ne!(read, 0, "it answers before it hangs up");
        heard.extend(&bytes[..read]);
        while let Ok((frame, after)) = Frame::decode(&heard) {
            if let Frame::Control(message) = frame
                // The first message is the handshake's.
                && std::mem::replace(&mut welcomed, true)
                && let ShardSays::Answer {
                    step,
                    node,
                    verdict,
                    ..
                } = ShardSays::decode(message).expect("a slice speaks")
                && (step, Some(node)) == (recorded.header.step, recorded.header.node)
            {
                return verdict;
            }
            let used = heard.len() - after.len();
            heard.drain(..used);
        }
    }
}

#[test]
fn a_gradient_from_before_a_change_of_members_is_stale() {
    let scene = Scene::new(JOB);
    let (chain, _) = scene.reference();
    let tap = Tap::start();
    let train = scene.start(&[
        "train",
        "job.toml",
        "--workers",
        "0",
        "--advertise",
        &tap.address,
        "--hash-chain",
        "train.chain",
    ]);
    let location = scene.until("the coordinator answers", |_| true).location;
    tap.target.set(location.listen.clone()).expect("set once");
    let worker = || scene.start(&["worker", "--join", &tap.address]);
    let first: Vec<Running> = (0..2).map(|_| worker()).collect();
    let recorded = tap.contribution();
    let before = scene.until_step(recorded.header.step.0 + 1);

    // Nobody is left, so the run rests: this is no matter of moments.
    for killed in &first {
        killed.signal(Signal::KILL);
    }
    let rests = scene.until("both are lost", |status| {
        active(status, 0) && status.job.generation > before.job.generation
    });
    assert!(rests.job.step.0 < rests.job.total_steps, "too fast");
    assert_eq!(repeat(&recorded, &location.listen), Verdict::StaleStep);
    let after = scene.until("it answers", |_| true);
    assert_eq!(
        (after.job.step, after.job.timeline, after.job.samples),
        (rests.job.step, rests.job.timeline, rests.job.samples)
    );

    let last = worker();
    assert_success(&train.output());
    assert_success(&last.output());
    drop(first);
    scene.assert_empty();
    assert_eq!(scene.read("train.chain"), chain);
    assert_success(&scene.run(&["audit"]));
}
