//! What a reader that takes nothing for seconds does to the sender's memory and to heartbeats.
//!
//! A sending and a receiving thread over loopback TCP, joined by a data link and by a control
//! connection, as a worker and a shard's process are. The sender pushes tensors as fast as it is
//! let; the receiver's consumer takes none at first, then all. A heartbeat goes over the control
//! connection every period, and its gaps are counted where it arrives.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use resilin_core::frame::decode_message;
use resilin_core::handshake::Role;
use resilin_core::{SliceId, Step};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use super::held::{Held, HeldTensor, pattern};
use super::resident_bytes;
use super::setup::{BenchError, DEADLINE, header, hello, run_both};
use crate::link::{
    Address, BufferPool, DEFAULT_WINDOW, Link, LinkOptions, LinkSender, ListenOptions, Listener,
    OutTensor, Received, SharedValues, dial,
};

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct SlowReaderPlan {
    /// Values of one tensor.
    pub values: usize,
    /// Tensors in all; more than window and in-flight limit hold, or the sender is never stopped.
    pub tensors: u64,
    /// How long the reader takes nothing.
    pub slow: Duration,
    /// From heartbeat to heartbeat.
    pub heartbeat: Duration,
    /// Bytes that the receiving link takes before its consumer does.
    pub window: u32,
    /// Bytes of tensors that may wait in the sending link.
    pub in_flight: usize,
}

impl Default for SlowReaderPlan {
    /// 12 tensors of 16 MiB, 5 s, a quarter of the usual lease, the usual limits.
    fn default() -> Self {
        Self {
            values: 4 << 20,
            tensors: 12,
            slow: Duration::from_secs(5),
            heartbeat: Duration::from_millis(250),
            window: DEFAULT_WINDOW,
            in_flight: DEFAULT_WINDOW as usize,
        }
    }
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SlowReaderReport {
    /// Bytes of one tensor.
    pub tensor_bytes: usize,
    /// Tensors sent.
    pub tensors: u64,
    /// Tensors that arrived in their turn and bit for bit.
    pub intact: u64,
    /// How long the reader took nothing, in seconds.
    pub slow_s: f64,
    /// The longest that the sender waited for room, in seconds.
    pub stopped_s: f64,
    /// Limit of what may wait in the sending link, in bytes.
    pub in_flight_bytes: usize,
    /// Most bytes that waited in it.
    pub queued_max_bytes: u64,
    /// Most bytes of tensors alive in the sender: also the one that waits for room, and one whose
    /// last piece is being written.
    pub held_max_bytes: usize,
    /// What the resident memory of the process, both ends, grew by until the reader woke up;
    /// `None` where the system does not tell.
    pub resident_growth_bytes: Option<u64>,
    /// From heartbeat to heartbeat, in milliseconds.
    pub heartbeat_ms: f64,
    /// Heartbeats that arrived.
    pub heartbeats: u64,
    /// The longest time without one, in milliseconds.
    pub heartbeat_gap_max_ms: f64,
}

impl SlowReaderReport {
    /// Whether the sender was stopped, its queue stayed within the limit, no two heartbeats in a
    /// row were missed, and every bit arrived.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.stopped_s > self.slow_s / 2.0
            && self.queued_max_bytes <= self.in_flight_bytes as u64
            && self.heartbeat_gap_max_ms < 2.0 * self.heartbeat_ms
            && self.intact == self.tensors
    }
}

/// Measures the plan; takes little longer than the reader is slow.
pub fn measure(plan: SlowReaderPlan) -> Result<SlowReaderReport, BenchError> {
    let (pushed, taken) = run_both(
        move |announce| receive(plan, announce),
        |address| push(plan, address),
    )?;
    Ok(SlowReaderReport {
        tensor_bytes: plan.values * size_of::<f32>(),
        tensors: plan.tensors,
        intact: taken.intact,
        slow_s: plan.slow.as_secs_f64(),
        stopped_s: pushed.stopped.as_secs_f64(),
        in_flight_bytes: plan.in_flight,
        queued_max_bytes: pushed.queued_max,
        held_max_bytes: pushed.held_max,
        resident_growth_bytes: taken.resident_growth,
        heartbeat_ms: plan.heartbeat.as_secs_f64() * 1e3,
        heartbeats: taken.heard.beats,
        heartbeat_gap_max_ms: taken.heard.longest.as_secs_f64() * 1e3,
    })
}

/// From the sender, on the control connection.
#[derive(Serialize, Deserialize)]
struct Beat;

/// From the receiver, on the data link.
#[derive(Serialize, Deserialize)]
struct AllTaken;

/// What the sending end saw.
struct Pushed {
    stopped: Duration,
    queued_max: u64,
    held_max: usize,
}

async fn push(plan: SlowReaderPlan, address: Address) -> Result<Pushed, BenchError> {
    let options = LinkOptions::control();
    let control = dial(&address, hello(Role::Worker), options, DEADLINE).await?;
    let role = Role::WorkerData { slice: SliceId(0) };
    let mut data = dial(&address, hello(role), options_of(plan), DEADLINE).await?;
    let beating = tokio::spawn(beat(control.sender().clone(), plan.heartbeat));
    let held = Arc::new(Held::default());
    let pool = BufferPool::new(plan.in_flight);
    let mut stopped = Duration::ZERO;
    for number in 0..plan.tensors {
        let tensor = OutTensor {
            header: header(Step(number)),
            values: SharedValues::new(Arc::new(HeldTensor::new(&pool, plan.values, number, &held)))
                .into(),
            before: None,
        };
        let start = Instant::now();
        data.sender().send(&tensor).await?;
        stopped = stopped.max(start.elapsed());
    }
    match data.next().await {
        Received::Control(message) => decode_message::<AllTaken>(message.bytes())?,
        Received::Tensor { .. } => return Err(BenchError::Side("receiving")),
        Received::Closed(cause) => return Err(cause.into()),
    };
    beating.abort();
    Ok(Pushed {
        stopped,
        queued_max: data.sender().counters().queued_bytes_max,
        held_max: held.most(),
    })
}

/// Sends a heartbeat every period until the link ends, which the receiver notices.
async fn beat(control: LinkSender, period: Duration) {
    let mut ticks = tokio::time::interval(period);
    // A late heartbeat must not be made up for by two in a row.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if control.send_control(&Beat).is_err() {
            return;
        }
    }
}

/// What the receiving end saw.
struct Taken {
    intact: u64,
    resident_growth: Option<u64>,
    heard: Heard,
}

async fn receive(
    plan: SlowReaderPlan,
    announce: mpsc::Sender<Address>,
) -> Result<Taken, BenchError> {
    let address = Address::from("127.0.0.1:0");
    let mut listener = Listener::bind(&address, ListenOptions::default()).await?;
    if announce.send(listener.address().clone()).is_err() {
        return Err(BenchError::Side("sending"));
    }
    let control = listener
        .next()
        .await
        .welcome(LinkOptions::control())
        .await?;
    let knock = listener.next().await;
    let before = resident_bytes();
    let mut data = knock.welcome(options_of(plan)).await?;
    let (finish, finished) = oneshot::channel();
    let hearing = tokio::spawn(hear(control, finished));
    // The slowness that is measured, not a wait for something.
    tokio::time::sleep(plan.slow).await;
    let resident_growth = before
        .zip(resident_bytes())
        .map(|(before, now)| now.saturating_sub(before));
    let intact = take_all(&mut data, plan).await?;
    // If it has ended already, its result says why.
    let _ = finish.send(());
    let heard = hearing
        .await
        .map_err(|_panic| BenchError::Side("receiving"))??;
    data.sender().send_control(&AllTaken)?;
    data.sender().flush().await?;
    Ok(Taken {
        intact,
        resident_growth,
        heard,
    })
}

/// Takes all tensors; how many came in their turn and bit for bit.
async fn take_all(data: &mut Link, plan: SlowReaderPlan) -> Result<u64, BenchError> {
    let mut intact = 0;
    for number in 0..plan.tensors {
        match data.next().await {
            Received::Tensor { header, values } => {
                let bits: &[u32] = bytemuck::cast_slice(&values);
                let same = bits.len() == plan.values
                    && (bits.iter().enumerate()).all(|(at, bits)| *bits == pattern(number, at));
                intact += u64::from(same && header.step == Step(number));
            }
            Received::Control(_) => return Err(BenchError::Side("sending")),
            Received::Closed(cause) => return Err(cause.into()),
        }
    }
    Ok(intact)
}

/// Heartbeats by the time of their arrival.
struct Heard {
    beats: u64,
    longest: Duration,
    last: Instant,
}

impl Heard {
    fn until(&mut self, now: Instant) {
        self.longest = self.longest.max(now - self.last);
        self.last = now;
    }
}

/// Counts heartbeats until `finished`; the time from the last one to the end is a gap as well.
async fn hear(mut control: Link, mut finished: oneshot::Receiver<()>) -> Result<Heard, BenchError> {
    let mut heard = Heard {
        beats: 0,
        longest: Duration::ZERO,
        last: Instant::now(),
    };
    loop {
        tokio::select! {
            received = control.next() => match received {
                Received::Control(message) => {
                    decode_message::<Beat>(message.bytes())?;
                    heard.beats += 1;
                    heard.until(Instant::now());
                }
                Received::Tensor { .. } => return Err(BenchError::Side("sending")),
                Received::Closed(cause) => return Err(cause.into()),
            },
            _ = &mut finished => {
                heard.until(Instant::now());
                return Ok(heard);
            }
        }
    }
}

fn options_of(plan: SlowReaderPlan) -> LinkOptions {
    LinkOptions {
        window: plan.window,
        in_flight: plan.in_flight,
        ..LinkOptions::data(plan.values as u64, BufferPool::new(plan.window as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times are measured by the command; here only what a busy machine cannot change: the bytes,
    /// the bits, and that heartbeats arrive while the reader takes nothing.
    #[test]
    fn a_slow_reader_stops_the_sender_and_no_heartbeat() {
        const KIB: usize = 1 << 10;
        let plan = SlowReaderPlan {
            values: 512 * KIB / size_of::<f32>(),
            tensors: 14,
            slow: Duration::from_secs(2),
            heartbeat: Duration::from_millis(200),
            window: 4 << 20,
            in_flight: 1024 * KIB,
        };
        let report = measure(plan).expect("loopback works");
        assert_eq!(report.intact, 14, "{report:?}");
        assert_eq!(report.queued_max_bytes, 1024 << 10, "{report:?}");
        // Beside what the link holds, the sender has the tensor that waits for room.
        assert_eq!(report.held_max_bytes, 1536 * KIB, "{report:?}");
        assert!(
            report.heartbeat_gap_max_ms < 2000.0,
            "a heartbeat waited for the reader: {report:?}"
        );
    }

    #[test]
    fn a_gap_is_counted_up_to_the_end() {
        let start = Instant::now();
        let mut heard = Heard {
            beats: 0,
            longest: Duration::ZERO,
            last: start,
        };
        for ms in [10, 30, 35] {
            heard.until(start + Duration::from_millis(ms));
        }
        assert_eq!(heard.longest, Duration::from_millis(20));
        assert_eq!(heard.last, start + Duration::from_millis(35));
    }
}
