//! Links over real loopback sockets. Every wait has a deadline; nothing sleeps.

mod coming;
mod faults;
mod flow;
mod handshake;
mod lanes;

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
        name: "desk-3:4711".into(),
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
        values: SharedValues::new(Arc::new(values)).into(),
        before: None,
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
        Received::Control(message) => frame::decode_message(message.bytes()).expect("a string"),
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
