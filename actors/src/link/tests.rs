//! Links over real loopback sockets. Every wait has a deadline; nothing sleeps.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use resilin_core::frame::{self, Credit, DataHeader, Encoding, FrameError, Kind, PRELUDE_BYTES};
use resilin_core::handshake::{
    Expected, Fingerprint, Hello, HelloReply, MIN_WINDOW, PROTOCOL, RefusalCode, Role, Token,
};
use resilin_core::tree::Node;
use resilin_core::{Incarnation, MapNumber, RunId, SliceId, Step, Timeline, View};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const DEADLINE: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;

/// Fails a test that waits for what never comes.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future)
        .await
        .expect("not within the deadline")
}

fn hello() -> Hello {
    Hello {
        protocol: PROTOCOL,
        run: Some(RunId(7)),
        role: Role::WorkerData { slice: SliceId(0) },
        token: Some(Token::new("open sesame".into())),
        numerics: Fingerprint([1; 32]),
        data: None,
        incarnation: None,
        checksum: Checksum::On,
        window: DEFAULT_WINDOW,
    }
}

fn expected() -> Expected {
    Expected {
        run: Some(RunId(7)),
        token: Some(Token::new("open sesame".into())),
        numerics: Some(Fingerprint([1; 32])),
        data: None,
    }
}

fn header(step: u64, node: u32) -> DataHeader {
    DataHeader {
        run: RunId(7),
        kind: Kind::Gradient,
        timeline: Timeline {
            reign: 1,
            number: 1,
        },
        map: MapNumber(1),
        view: View {
            reign: 1,
            number: 1,
        },
        incarnation: Incarnation {
            reign: 1,
            number: 4,
        },
        sequence: 0,
        step: Step(step),
        based_on: None,
        node: Some(Node {
            level: 0,
            index: node,
        }),
        blocks: 0..3,
        offset: 0,
        total: 0,
        encoding: Encoding::F32,
        samples: 32,
        weight: 32.0,
        loss_sum: 0.25,
    }
}

fn tensor(step: u64, values: Vec<f32>) -> OutTensor {
    OutTensor {
        header: header(step, 0),
        values: SharedValues::new(Arc::new(values)),
    }
}

fn options() -> LinkOptions {
    LinkOptions::data(64 << 20, BufferPool::new(256 * MIB))
}

async fn listener() -> Listener {
    let address = Address::from("127.0.0.1:0");
    Listener::bind(&address, ListenOptions::default())
        .await
        .expect("a free port")
}

/// A dialled and an admitted end.
async fn pair_on(
    mut listener: Listener,
    dialler: LinkOptions,
    admitted: LinkOptions,
) -> (Link, Link) {
    let address = listener.address().clone();
    let admit = async { listener.next().await.admit(&expected(), admitted).await };
    let (dialled, admitted) =
        soon(async { tokio::join!(dial(&address, hello(), dialler, DEADLINE), admit) }).await;
    (dialled.expect("welcome"), admitted.expect("admitted"))
}

async fn pair(dialler: LinkOptions, admitted: LinkOptions) -> (Link, Link) {
    pair_on(listener().await, dialler, admitted).await
}

async fn next_tensor(link: &mut Link) -> (DataHeader, PooledBuffer) {
    match soon(link.next()).await {
        Received::Tensor { header, values } => (header, values),
        other => panic!("not a tensor: {other:?}"),
    }
}

async fn next_control(link: &mut Link) -> String {
    match soon(link.next()).await {
        Received::Control(message) => message.decode().expect("a string"),
        other => panic!("not a control message: {other:?}"),
    }
}

async fn next_end(link: &mut Link) -> LinkError {
    match soon(link.next()).await {
        Received::Closed(cause) => cause,
        other => panic!("not the end: {other:?}"),
    }
}

/// A peer below the link: a socket after its handshake, to be driven by hand.
struct Raw(TcpStream);

impl Raw {
    /// Dials a listener and is admitted by it; the admitted end has `options`.
    async fn admitted(options: LinkOptions) -> (Self, Link) {
        let mut listener = listener().await;
        let mut raw = Self(
            TcpStream::connect(listener.address().to_string())
                .await
                .unwrap(),
        );
        raw.write(&frame::control_frame(&hello()).unwrap()).await;
        let link = soon(listener.next())
            .await
            .admit(&expected(), options)
            .await
            .unwrap();
        raw.read_frame().await;
        (raw, link)
    }

    async fn write(&mut self, bytes: &[u8]) {
        soon(self.0.write_all(bytes))
            .await
            .expect("the link is open");
    }

    /// The next frame, whole.
    async fn read_frame(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; PRELUDE_BYTES];
        soon(self.0.read_exact(&mut bytes))
            .await
            .expect("a prelude");
        let prelude = frame::Prelude::parse(bytes.first_chunk().unwrap()).expect("well formed");
        bytes.resize(
            PRELUDE_BYTES + (prelude.header + prelude.payload) as usize,
            0,
        );
        soon(self.0.read_exact(&mut bytes[PRELUDE_BYTES..]))
            .await
            .expect("the rest");
        bytes
    }

    /// Step and offset of the next piece.
    async fn read_piece(&mut self) -> (u64, u64) {
        match frame::Frame::decode(&self.read_frame().await)
            .expect("well formed")
            .0
        {
            frame::Frame::Data(header, _) => (header.step.0, header.offset),
            other => panic!("not a piece: {other:?}"),
        }
    }

    /// Whether the other side has hung up, by closing or by a reset.
    async fn is_dropped(&mut self) -> bool {
        soon(self.0.read_to_end(&mut Vec::new()))
            .await
            .map_or(true, |_| true)
    }
}

fn piece(header: &DataHeader, values: &[f32]) -> Vec<u8> {
    let payload = bytemuck::cast_slice(values);
    let mut bytes = Vec::new();
    frame::data_head(header, payload, Checksum::On, &mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// A value for every place, with two NaNs, both zeros and a subnormal among them.
fn awkward(length: usize) -> Vec<f32> {
    let special = [0x7fc0_1234, 0xffa0_0001, 0x8000_0000, 0, 1];
    (0..length)
        .map(|at| f32::from_bits(special.get(at % 1009).copied().unwrap_or(at as u32)))
        .collect()
}

#[tokio::test]
async fn every_bit_arrives_in_one_piece_and_in_many() {
    let directory = tempfile::tempdir().unwrap();
    let unix = Address::Unix(directory.path().join("link"));
    for (address, checksum) in [
        (Address::from("127.0.0.1:0"), Checksum::On),
        (Address::from("127.0.0.1:0"), Checksum::Off),
        (unix.clone(), Checksum::On),
        (unix, Checksum::Off),
    ] {
        let listener = Listener::bind(&address, ListenOptions::default())
            .await
            .unwrap();
        let side = || LinkOptions {
            checksum,
            ..options()
        };
        let (mut there, mut here) = pair_on(listener, side(), side()).await;
        for length in [0, 1, 1000, MIB / 4, 5 * MIB / 2 + 3] {
            let values = awkward(length);
            there
                .sender()
                .try_send(&tensor(length as u64, values.clone()))
                .unwrap();
            let (arrived, buffer) = next_tensor(&mut here).await;
            assert_eq!(
                bits(&buffer),
                bits(&values),
                "{length} values, crc {checksum:?}"
            );
            let expected = DataHeader {
                total: length as u64,
                ..header(length as u64, 0)
            };
            assert_eq!(
                DataHeader {
                    sequence: 0,
                    ..arrived
                },
                expected
            );
            here.sender()
                .send_newest(
                    Stream(0),
                    OutTensor {
                        header: expected,
                        values: buffer.share(),
                    },
                )
                .unwrap();
            assert_eq!(bits(&next_tensor(&mut there).await.1), bits(&values));
        }
    }
}

#[tokio::test]
async fn a_crc_is_used_if_either_side_asks_for_it() {
    let off = LinkOptions {
        checksum: Checksum::Off,
        ..options()
    };
    let (there, mut here) = pair(off, options()).await;
    there.sender().try_send(&tensor(1, vec![1.0])).unwrap();
    assert_eq!(
        *next_tensor(&mut here).await.1,
        [1.0],
        "both sides agree on the crc"
    );
}

#[tokio::test]
async fn control_overtakes_a_tensor_that_is_queued() {
    let (there, mut here) = pair(options(), options()).await;
    there
        .sender()
        .try_send(&tensor(1, vec![1.0; 10 * MIB]))
        .unwrap();
    there.sender().send_control(&"first").unwrap();
    assert_eq!(next_control(&mut here).await, "first");
    assert_eq!(next_tensor(&mut here).await.1.len(), 10 * MIB);
}

#[tokio::test]
async fn tensors_larger_than_the_window_flow_and_buffers_are_used_again() {
    let pool = BufferPool::new(256 * MIB);
    let receiver = LinkOptions {
        window: MIN_WINDOW,
        ..LinkOptions::data(64 << 20, pool.clone())
    };
    let (there, mut here) = pair(options(), receiver).await;
    let (sender, _inbox) = there.split();
    let pushing = tokio::spawn(async move {
        for step in 0..6 {
            sender.send(&tensor(step, awkward(3 * MIB))).await.unwrap();
        }
        sender.flush().await
    });
    for step in 0..6 {
        let (header, values) = next_tensor(&mut here).await;
        assert_eq!((header.step, values.len()), (Step(step), 3 * MIB));
    }
    assert_eq!(soon(pushing).await.unwrap(), Ok(()));
    assert!(
        pool.idle_bytes() <= 2 * 12 * MIB,
        "two buffers at most: one taken, one filling"
    );
}

#[tokio::test]
async fn a_peer_that_does_not_read_bounds_the_sender_and_stops_nobody_else() {
    let in_flight = 8 * MIB;
    let (raw, mut stuck) = Raw::admitted(LinkOptions {
        in_flight,
        ..options()
    })
    .await;
    let values = SharedValues::new(Arc::new(vec![1.0; MIB / 4]));
    let tensor = || OutTensor {
        header: header(1, 0),
        values: values.clone(),
    };
    let mut accepted = 0;
    while stuck.sender().try_send(&tensor()) != Err(SendError::Full) {
        accepted += 1;
        assert!(accepted <= 1000, "nothing pushes back");
        tokio::task::yield_now().await;
    }
    let waiting = tokio::spawn({
        let (sender, tensor) = (stuck.sender().clone(), tensor());
        async move { sender.send(&tensor).await }
    });
    let (mut there, mut here) = pair(LinkOptions::control(), LinkOptions::control()).await;
    for beat in 0..100 {
        there
            .sender()
            .send_control(&format!("beat {beat}"))
            .unwrap();
        assert_eq!(next_control(&mut here).await, format!("beat {beat}"));
        here.sender().send_control(&"seen").unwrap();
        assert_eq!(next_control(&mut there).await, "seen");
    }
    let counters = stuck.sender().counters();
    assert!(
        counters.queued_bytes_max <= in_flight as u64,
        "{counters:?}"
    );
    assert!(!waiting.is_finished(), "there was no room");

    drop(raw);
    let cause = next_end(&mut stuck).await;
    assert!(
        matches!(cause, LinkError::Lost { .. } | LinkError::PeerClosed),
        "{cause}"
    );
    assert_eq!(soon(waiting).await.unwrap(), Err(cause));
    assert_eq!(stuck.sender().counters().queued_bytes, 0);
}

#[tokio::test]
async fn a_newer_version_aborts_the_older_half_way() {
    let (mut raw, link) = Raw::admitted(options()).await;
    let weights = |step| tensor(step, vec![step as f32; 12 * MIB]);
    link.sender().send_newest(Stream(0), weights(1)).unwrap();
    // The raw peer's window of 32 MiB; then there is no credit, with 16 MiB to go.
    for at in 0..32 {
        assert_eq!(raw.read_piece().await, (1, at * MIB as u64 / 4));
    }
    link.sender().send_newest(Stream(0), weights(2)).unwrap();
    link.sender().send_newest(Stream(0), weights(3)).unwrap();
    raw.write(&frame::credit_frame(Credit { bytes: 1 << 20 }))
        .await;
    assert_eq!(raw.read_piece().await, (3, 0));
    assert_eq!(link.sender().counters().superseded, 2);
}

#[tokio::test]
async fn an_aborted_tensor_is_forgotten_by_the_receiver() {
    let (mut raw, mut link) = Raw::admitted(options()).await;
    let first = DataHeader {
        sequence: 1,
        total: 4,
        ..header(1, 0)
    };
    let second = DataHeader {
        sequence: 2,
        total: 2,
        ..header(2, 0)
    };
    raw.write(&piece(&first, &[1.0, 1.0])).await;
    raw.write(&piece(&second, &[2.0, 2.0])).await;
    let (header, values) = next_tensor(&mut link).await;
    assert_eq!((header, &*values), (second, [2.0, 2.0].as_slice()));
}

#[tokio::test]
async fn covered_pushes_are_read_without_a_buffer() {
    let pool = BufferPool::new(256 * MIB);
    let receiver = LinkOptions {
        want: Box::new(|header| match header.step {
            Step(1) => Wanted::Discard,
            Step(_) => Wanted::Take,
        }),
        ..LinkOptions::data(64 << 20, pool.clone())
    };
    let (there, mut here) = pair(options(), receiver).await;
    let (sender, _inbox) = there.split();
    for _ in 0..4 {
        sender.send(&tensor(1, vec![1.0; 6 * MIB])).await.unwrap();
    }
    sender.send(&tensor(2, vec![2.0; 2])).await.unwrap();
    let (header, values) = next_tensor(&mut here).await;
    assert_eq!((header.step, &*values), (Step(2), [2.0, 2.0].as_slice()));
    assert_eq!(pool.idle_bytes(), 0);
}

#[tokio::test]
async fn a_changed_payload_drops_the_link() {
    let pool = BufferPool::new(MIB);
    let (mut raw, mut link) = Raw::admitted(LinkOptions::data(8, pool.clone())).await;
    let mut bytes = piece(
        &DataHeader {
            total: 2,
            ..header(1, 0)
        },
        &[1.0, 2.0],
    );
    *bytes.last_mut().unwrap() ^= 1;
    raw.write(&bytes).await;
    assert_eq!(
        next_end(&mut link).await,
        LinkError::Frame(FrameError::Corrupt("payload"))
    );
    assert!(raw.is_dropped().await);
}

#[tokio::test]
async fn limits_hold_before_anything_is_allocated() {
    let pool = BufferPool::new(MIB);
    let (mut raw, mut link) = Raw::admitted(LinkOptions::data(8, pool.clone())).await;
    raw.write(&piece(
        &DataHeader {
            total: 1 << 60,
            ..header(1, 0)
        },
        &[1.0],
    ))
    .await;
    let limit = FrameError::TooLong {
        part: "tensor",
        length: 1 << 62,
        limit: 32,
    };
    assert_eq!(next_end(&mut link).await, LinkError::Frame(limit));

    let (mut raw, mut link) = Raw::admitted(options()).await;
    let mut bytes = frame::control_frame(&"huge").unwrap();
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    raw.write(&bytes).await;
    let limit = FrameError::TooLong {
        part: "payload",
        length: u32::MAX.into(),
        limit: MAX_CONTROL_BYTES.into(),
    };
    assert_eq!(next_end(&mut link).await, LinkError::Frame(limit));
}

#[tokio::test]
async fn a_sender_that_ignores_its_credit_is_dropped() {
    let receiver = LinkOptions {
        window: MIN_WINDOW,
        ..options()
    };
    let (mut raw, mut link) = Raw::admitted(receiver).await;
    let full = vec![0.0; MIB / 4];
    for sequence in 0..5 {
        let header = DataHeader {
            sequence,
            total: MIB as u64 / 4,
            ..header(1, 0)
        };
        raw.write(&piece(&header, &full)).await;
    }
    // Nothing was taken while the pieces came in.
    let overrun = LinkError::WindowOverrun {
        sent: 5 << 20,
        window: MIN_WINDOW,
    };
    assert_eq!(soon(link.sender().closed()).await, overrun);
    for _ in 0..4 {
        next_tensor(&mut link).await;
    }
    assert_eq!(next_end(&mut link).await, overrun);
}

#[tokio::test]
async fn pieces_out_of_order_drop_the_link() {
    let (mut raw, mut link) = Raw::admitted(options()).await;
    let second = DataHeader {
        total: 4,
        offset: 2,
        ..header(1, 0)
    };
    raw.write(&piece(&second, &[1.0, 1.0])).await;
    let cause = next_end(&mut link).await;
    assert!(
        matches!(cause, LinkError::Frame(FrameError::Data(_))),
        "{cause}"
    );
}

#[tokio::test]
async fn both_ends_learn_of_a_close() {
    let (mut there, mut here) = pair(options(), options()).await;
    there.sender().send_control(&"last words").unwrap();
    soon(there.sender().flush()).await.unwrap();
    there.sender().close("fenced");
    assert_eq!(
        next_end(&mut there).await,
        LinkError::ClosedHere("fenced".into())
    );
    assert_eq!(
        there.sender().try_send(&tensor(1, vec![1.0])),
        Err(SendError::Closed(LinkError::ClosedHere("fenced".into())))
    );
    assert_eq!(next_control(&mut here).await, "last words");
    assert_eq!(next_end(&mut here).await, LinkError::PeerClosed);
}

#[tokio::test]
async fn a_link_counts_what_it_carries() {
    let (there, mut here) = pair(options(), options()).await;
    there.sender().send_control(&"one").unwrap();
    there
        .sender()
        .try_send(&tensor(1, vec![1.0; 3 * MIB / 8]))
        .unwrap();
    next_control(&mut here).await;
    next_tensor(&mut here).await;
    soon(there.sender().flush()).await.unwrap();
    let (out, into) = (there.sender().counters(), here.sender().counters());
    assert_eq!((out.frames_out, into.frames_in), (3, 3));
    assert_eq!(out.bytes_out, into.bytes_in);
    assert!(out.bytes_out > 3 * MIB as u64 / 2);
    assert_eq!(
        (out.queued_bytes, out.queued_bytes_max),
        (0, 3 * MIB as u64 / 2)
    );
}

#[tokio::test]
async fn each_refusal_reaches_the_dialler_with_its_code() {
    let mut listener = listener().await;
    let address = listener.address().clone();
    let judging = tokio::spawn(async move {
        for _ in 0..4 {
            assert!(
                listener
                    .next()
                    .await
                    .admit(&expected(), options())
                    .await
                    .is_err()
            );
        }
    });
    let wrong = Token::new("guess".into());
    for (wrong, code) in [
        (
            Hello {
                token: Some(wrong),
                ..hello()
            },
            RefusalCode::Token,
        ),
        (
            Hello {
                run: Some(RunId(8)),
                ..hello()
            },
            RefusalCode::Run,
        ),
        (
            Hello {
                protocol: PROTOCOL + 1,
                ..hello()
            },
            RefusalCode::Protocol,
        ),
        (
            Hello {
                numerics: Fingerprint([9; 32]),
                ..hello()
            },
            RefusalCode::Numerics,
        ),
    ] {
        match dial(&address, wrong, options(), DEADLINE).await {
            Err(DialError::Refused { refusal, .. }) => assert_eq!(refusal.code, code),
            Err(other) => panic!("{code:?}: {other}"),
            Ok(_) => panic!("{code:?}: was let in"),
        }
    }
    soon(judging).await.unwrap();
}

#[tokio::test]
async fn garbage_costs_the_stranger_its_connection_and_nobody_else_anything() {
    let address = Address::from("127.0.0.1:0");
    let strict = ListenOptions {
        deadline: Duration::from_millis(200),
        pending: 2,
    };
    let mut listener = Listener::bind(&address, strict).await.unwrap();
    let mut future = frame::control_frame(&hello()).unwrap();
    future[4] = 9;
    let noise: Vec<u8> = (0..4096_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let long = frame::control_frame(&"x".repeat(20_000)).unwrap();
    let data = piece(
        &DataHeader {
            total: 1,
            ..header(1, 0)
        },
        &[1.0],
    );
    let not_hello = frame::control_frame(&HelloReply::Welcome {
        checksum: Checksum::On,
        window: 0,
    });
    let strangers: [&[u8]; 8] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &noise,
        &long,
        &data,
        &not_hello.unwrap(),
        &future,
        b"RSLN",
        b"",
    ];
    for stranger in strangers {
        let mut raw = Raw(TcpStream::connect(listener.address().to_string())
            .await
            .unwrap());
        raw.write(stranger).await;
        assert!(
            raw.is_dropped().await,
            "{:?}",
            &stranger[..stranger.len().min(16)]
        );
    }
    let address = listener.address().clone();
    let admit = async { listener.next().await.admit(&expected(), options()).await };
    let (dialled, admitted) =
        soon(async { tokio::join!(dial(&address, hello(), options(), DEADLINE), admit) }).await;
    assert!(dialled.is_ok() && admitted.is_ok());
}

#[tokio::test]
async fn an_address_in_use_is_named_with_a_remedy() {
    let first = listener().await;
    let error = Listener::bind(first.address(), ListenOptions::default()).await;
    let error = error.err().expect("the port is taken").to_string();
    let expected = format!(
        "{} is in use by another process; stop it or choose another port (0 takes a free one)",
        first.address()
    );
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_socket_file_left_by_a_killed_process_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Unix(directory.path().join("link"));
    drop(
        Listener::bind(&address, ListenOptions::default())
            .await
            .unwrap(),
    );
    // The aborted task drops the socket when it is next scheduled.
    let bind = async {
        loop {
            match Listener::bind(&address, ListenOptions::default()).await {
                Ok(listener) => break listener,
                Err(BindError::InUse { .. }) => tokio::task::yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    };
    let second = soon(bind).await;
    let third = Listener::bind(second.address(), ListenOptions::default()).await;
    assert!(
        matches!(third, Err(BindError::InUse { .. })),
        "a live one is left alone"
    );
}

#[tokio::test]
async fn dialling_nobody_and_dialling_the_deaf_are_told_apart() {
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp(deaf.local_addr().unwrap().to_string());
    let quick = Duration::from_millis(100);
    let silent = dial(&address, hello(), options(), quick).await;
    assert!(matches!(silent, Err(DialError::Timeout { .. })));
    drop(deaf);
    let nobody = dial(&address, hello(), options(), DEADLINE).await;
    assert!(matches!(nobody, Err(DialError::Connect { .. })));
}
