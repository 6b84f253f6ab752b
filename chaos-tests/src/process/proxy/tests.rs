//! The proxy between two sockets of this process. What takes time is bounded below by what was
//! asked for, never above.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use resilin_core::frame::{self, Checksum};
use resilin_core::handshake::{Fingerprint, PROTOCOL, Role};

use super::*;

/// Bounds waits that a broken proxy would make endless.
const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough that something would have come, if it were let through.
const MOMENT: Duration = Duration::from_millis(100);

struct Pair {
    proxy: Proxy,
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

fn hello(pid: u32) -> Vec<u8> {
    let hello = Hello {
        protocol: PROTOCOL,
        run: None,
        role: Role::Worker,
        name: format!("host:{pid}"),
        token: None,
        numerics: Fingerprint([0; 32]),
        data: None,
        incarnation: None,
        checksum: Checksum::On,
        window: 4 << 20,
    };
    frame::control_frame(&hello).expect("a hello fits").to_vec()
}

fn connect(proxy: &Proxy, pid: u32) -> TcpStream {
    dial(proxy.address(), pid)
}

fn dial(address: SocketAddr, pid: u32) -> TcpStream {
    let mut client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client.write_all(&hello(pid)).expect("it takes a hello");
    client
}

fn accepted(listener: &TcpListener, pid: u32) -> TcpStream {
    let (mut server, _) = listener.accept().expect("it comes");
    server.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut bytes = hello(pid);
    let sent = bytes.clone();
    server
        .read_exact(&mut bytes)
        .expect("its hello comes first");
    assert_eq!(bytes, sent);
    server
}

fn pair() -> Pair {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = Proxy::start().expect("a proxy");
    let client = connect(&proxy, 7);
    // Who comes before the target is known waits for it.
    proxy.aim(&listener.local_addr().expect("bound").to_string());
    let server = accepted(&listener, 7);
    Pair {
        proxy,
        listener,
        client,
        server,
    }
}

fn passes(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(b"word").expect("written");
    let mut bytes = [0; 4];
    to.read_exact(&mut bytes).expect("it arrives");
    assert_eq!(&bytes, b"word");
}

/// Nothing comes for a moment.
fn quiet(at: &mut TcpStream) {
    at.set_read_timeout(Some(MOMENT)).expect("a timeout");
    let error = at.read(&mut [0; 4]).expect_err("nothing may come");
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    at.set_read_timeout(Some(PATIENCE)).expect("a timeout");
}

fn is_reset(at: &mut TcpStream) {
    let error = at.read(&mut [0; 4]).expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn words_and_ends_pass_in_both_directions() {
    let mut pair = pair();
    assert_eq!(pair.proxy.peers(), [7]);
    passes(&mut pair.client, &mut pair.server);
    passes(&mut pair.server, &mut pair.client);
    pair.client.shutdown(Shutdown::Write).expect("open");
    assert_eq!(pair.server.read(&mut [0; 4]).expect("an end"), 0);
    passes(&mut pair.server, &mut pair.client);
}

#[test]
fn a_cut_resets_both_ends_and_later_connections_live() {
    let mut pair = pair();
    assert!(pair.proxy.spoil(7, Spoil::Cut));
    assert!(!pair.proxy.spoil(8, Spoil::Cut), "nobody of that name");
    is_reset(&mut pair.client);
    is_reset(&mut pair.server);
    let mut client = connect(&pair.proxy, 7);
    let mut server = accepted(&pair.listener, 7);
    passes(&mut client, &mut server);
}

#[test]
fn a_silent_way_holds_back_and_the_other_one_speaks() {
    let mut pair = pair();
    assert!(pair.proxy.spoil(7, Spoil::Silence(Way::Up)));
    pair.client.write_all(b"held").expect("written");
    quiet(&mut pair.server);
    passes(&mut pair.server, &mut pair.client);
    pair.proxy.spoil(7, Spoil::Heal);
    let mut bytes = [0; 4];
    pair.server.read_exact(&mut bytes).expect("it comes now");
    assert_eq!(&bytes, b"held");

    // The end of a process is not told either.
    pair.proxy.spoil(7, Spoil::Silence(Way::Both));
    drop(pair.client);
    quiet(&mut pair.server);
    pair.proxy.heal_all();
    assert_eq!(pair.server.read(&mut [0; 4]).expect("an end"), 0);
}

#[test]
fn who_dials_into_silence_is_heard_after_it() {
    let pair = pair();
    pair.proxy.spoil(7, Spoil::Silence(Way::Both));
    let mut client = connect(&pair.proxy, 7);
    quiet(&mut client);
    pair.listener.set_nonblocking(true).expect("nonblocking");
    let nobody = pair.listener.accept().expect_err("nobody comes");
    assert_eq!(nobody.kind(), ErrorKind::WouldBlock);
    pair.listener.set_nonblocking(false).expect("blocking");
    pair.proxy.heal_all();
    let mut server = accepted(&pair.listener, 7);
    passes(&mut client, &mut server);
}

#[test]
fn a_slow_link_takes_its_time_and_loses_nothing() {
    let mut pair = pair();
    pair.proxy.spoil(7, Spoil::Throttle(1 << 20));
    let sent: Vec<u8> = (0..256u32 << 10).map(|at| (at % 251) as u8).collect();
    let begun = Instant::now();
    let mut writer = pair.client.try_clone().expect("a copy");
    let whole = sent.clone();
    let writing = thread::spawn(move || writer.write_all(&whole));
    let mut got = vec![0; sent.len()];
    pair.server.read_exact(&mut got).expect("all arrives");
    writing.join().expect("no panic").expect("written");
    assert!(got == sent);
    // The last chunk waits for nobody.
    assert!(
        begun.elapsed() >= Duration::from_millis(230),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_delayed_link_is_late_and_in_order() {
    let mut pair = pair();
    pair.proxy.spoil(7, Spoil::Delay(Duration::from_millis(60)));
    let begun = Instant::now();
    for word in [b"on", b"tw", b"th"] {
        pair.server.write_all(word).expect("written");
    }
    let mut bytes = [0; 6];
    pair.client.read_exact(&mut bytes).expect("all arrives");
    assert_eq!(&bytes, b"ontwth");
    assert!(begun.elapsed() >= Duration::from_millis(60));
}

#[test]
fn a_gate_leads_to_its_own_listener_under_the_same_weather() {
    let mut pair = pair();
    let gate = pair.proxy.gate().expect("a port");
    assert_eq!(gate.target.ip().to_string(), "127.0.0.2");
    let behind = TcpListener::bind(gate.target).expect("nobody else has it");
    let mut client = dial(gate.address, 7);
    let mut server = accepted(&behind, 7);
    passes(&mut client, &mut server);
    passes(&mut pair.client, &mut pair.server);

    assert!(pair.proxy.spoil(7, Spoil::Cut));
    for end in [&mut client, &mut server, &mut pair.client, &mut pair.server] {
        is_reset(end);
    }
}

#[test]
fn strangers_and_a_missing_target_are_reset() {
    let proxy = Proxy::start().expect("a proxy");
    let mut stranger = TcpStream::connect(proxy.address()).expect("it listens");
    stranger
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout");
    stranger.write_all(&[b'x'; 64]).expect("written");
    is_reset(&mut stranger);

    let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
    proxy.aim(&gone.local_addr().expect("bound").to_string());
    drop(gone);
    is_reset(&mut connect(&proxy, 7));
}
