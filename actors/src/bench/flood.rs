//! What several senders that together push twice what a shard takes do to heartbeats and to memory.
//!
//! A sending and a receiving thread over loopback TCP. Each sender has a data link and a control
//! link, as a worker has; each pushes tensors at its part of twice the capacity for as long as it is
//! let. The receiver takes them in turn, so many bytes a second and no more, as a shard whose
//! arithmetic is the limit. A heartbeat goes over each control link every quarter of a lease; a
//! sender would be declared dead if none came for a lease.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use resilin_core::handshake::Role;
use resilin_core::sorted::SortedMap;
use resilin_core::{SliceId, Step};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use super::held::{Held, HeldTensor};
use super::resident_bytes;
use super::setup::{BenchError, DEADLINE, header, hello, run_both};
use crate::link::{
    Address, BufferPool, DEFAULT_WINDOW, Inbox, Link, LinkOptions, LinkSender, ListenOptions,
    Listener, OutTensor, Received, SharedValues, dial,
};

/// How many times more is offered than is taken.
const EXCESS: f64 = 2.0;

/// Tensors that a sender holds beside what waits in its link: the one that waits for room, and one
/// whose last piece is being written.
const IN_HAND: usize = 2;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct FloodPlan {
    /// Senders.
    pub senders: usize,
    /// Values of one tensor.
    pub values: usize,
    /// Bytes a second that the receiver takes from all of them.
    pub capacity: u64,
    /// How long they push.
    pub duration: Duration,
    /// Silence after which a sender would count as lost.
    pub lease: Duration,
    /// Bytes that a receiving link takes before its consumer does.
    pub window: u32,
    /// Bytes of tensors that may wait in a sending link.
    pub in_flight: usize,
}

impl Default for FloodPlan {
    /// 8 senders of 4 MiB tensors, 256 MiB/s taken and 512 MiB/s offered for 10 s, a lease of 500 ms,
    /// the usual limits.
    fn default() -> Self {
        Self {
            senders: 8,
            values: 1 << 20,
            capacity: 256 << 20,
            duration: Duration::from_secs(10),
            lease: Duration::from_millis(500),
            window: DEFAULT_WINDOW,
            in_flight: DEFAULT_WINDOW as usize,
        }
    }
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FloodReport {
    /// Senders.
    pub senders: usize,
    /// Bytes a second that they offered together, as long as they were let.
    pub offered_bytes_per_s: f64,
    /// Bytes a second that were taken.
    pub taken_bytes_per_s: f64,
    /// The part of the time that a sender stood waiting for room, on average.
    pub held_up: f64,
    /// Senders that would have been declared dead.
    pub declared_dead: usize,
    /// The longest time without a heartbeat of a sender, in milliseconds.
    pub heartbeat_gap_max_ms: f64,
    /// Silence after which a sender would count as lost, in milliseconds.
    pub lease_ms: f64,
    /// Most bytes of tensors alive in all senders.
    pub held_max_bytes: usize,
    /// What they may be: the limit of every link, and what each sender has in hand.
    pub held_limit_bytes: usize,
    /// What the resident memory of the process, both ends, grew by at most; `None` where the system
    /// does not tell.
    pub resident_growth_bytes: Option<u64>,
    /// What it may: the same, and what every receiving link takes in advance.
    pub resident_limit_bytes: u64,
}

impl FloodReport {
    /// Whether nobody was declared dead, memory stayed within its limits, and there was a flood.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.declared_dead == 0
            && self.held_up > 0.2
            && self.held_max_bytes <= self.held_limit_bytes
            && (self.resident_growth_bytes).is_none_or(|grown| grown <= self.resident_limit_bytes)
    }
}

/// Measures the plan; takes little longer than its duration.
pub fn measure(plan: FloodPlan) -> Result<FloodReport, BenchError> {
    let (pushed, taken) = run_both(
        move |announce| receive(plan, announce),
        |address| push_all(plan, address),
    )?;
    let tensor = plan.values * size_of::<f32>();
    let held_limit = plan.senders * (plan.in_flight + IN_HAND * tensor);
    let windows = plan.senders as u64 * (u64::from(plan.window) + 2 * tensor as u64);
    Ok(FloodReport {
        senders: plan.senders,
        offered_bytes_per_s: plan.capacity as f64 * EXCESS,
        taken_bytes_per_s: taken.bytes as f64 / plan.duration.as_secs_f64(),
        held_up: pushed.waited.as_secs_f64() / (plan.duration.as_secs_f64() * plan.senders as f64),
        declared_dead: taken.gaps.iter().filter(|gap| **gap > plan.lease).count(),
        heartbeat_gap_max_ms: (taken.gaps.iter().max()).map_or(0.0, |gap| gap.as_secs_f64() * 1e3),
        lease_ms: plan.lease.as_secs_f64() * 1e3,
        held_max_bytes: pushed.held_max,
        held_limit_bytes: held_limit,
        resident_growth_bytes: taken.resident_growth,
        resident_limit_bytes: held_limit as u64 + windows,
    })
}

/// From a sender, on its control link.
#[derive(Serialize, Deserialize)]
struct Beat;

/// What the sending end saw.
struct Pushed {
    waited: Duration,
    held_max: usize,
}

async fn push_all(plan: FloodPlan, address: Address) -> Result<Pushed, BenchError> {
    let held = Arc::new(Held::default());
    let mut senders = JoinSet::new();
    for _ in 0..plan.senders {
        senders.spawn(push(plan, address.clone(), Arc::clone(&held)));
    }
    let mut waited = Duration::ZERO;
    while let Some(sender) = senders.join_next().await {
        waited += sender.map_err(|_panic| BenchError::Side("sending"))??;
    }
    Ok(Pushed {
        waited,
        held_max: held.most(),
    })
}

/// One sender; how long it stood waiting for room.
async fn push(plan: FloodPlan, address: Address, held: Arc<Held>) -> Result<Duration, BenchError> {
    let control = LinkOptions::control();
    let control = dial(&address, hello(Role::Worker), control, DEADLINE).await?;
    let role = Role::WorkerData { slice: SliceId(0) };
    let data = dial(&address, hello(role), options_of(plan), DEADLINE).await?;
    let beating = tokio::spawn(beat(control.sender().clone(), plan.lease / 4));
    let pool = BufferPool::new(plan.in_flight);
    let begun = Instant::now();
    let bytes = (plan.values * size_of::<f32>()) as f64;
    let pause = bytes * plan.senders as f64 / (plan.capacity as f64 * EXCESS);
    let (mut number, mut waited) = (0, Duration::ZERO);
    while begun.elapsed() < plan.duration {
        let due = begun + Duration::from_secs_f64(pause * number as f64);
        sleep_until(due.min(begun + plan.duration).into()).await;
        let values = HeldTensor::new(&pool, plan.values, number, &held);
        let tensor = OutTensor {
            header: header(Step(number)),
            values: SharedValues::new(Arc::new(values)).into(),
            before: None,
        };
        number += 1;
        let start = Instant::now();
        data.sender().send(&tensor).await?;
        waited += start.elapsed();
    }
    beating.abort();
    Ok(waited)
}

/// Sends a heartbeat every period until the link ends.
async fn beat(control: LinkSender, period: Duration) {
    let mut ticks = interval(period);
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
    bytes: u64,
    /// The longest silence of each sender.
    gaps: Vec<Duration>,
    resident_growth: Option<u64>,
}

async fn receive(plan: FloodPlan, announce: mpsc::Sender<Address>) -> Result<Taken, BenchError> {
    let address = Address::from("127.0.0.1:0");
    let mut listener = Listener::bind(&address, ListenOptions::default()).await?;
    if announce.send(listener.address().clone()).is_err() {
        return Err(BenchError::Side("sending"));
    }
    let before = resident_bytes();
    let (mut hearing, mut links) = (JoinSet::new(), SortedMap::new());
    for number in 0..2 * plan.senders {
        let knock = listener.next().await;
        if let Role::WorkerData { .. } = knock.hello.role {
            links.insert(number, knock.welcome(options_of(plan)).await?);
        } else {
            let control = knock.welcome(LinkOptions::control()).await?;
            hearing.spawn(hear(control, plan.duration));
        }
    }
    let begun = Instant::now();
    let (bytes, most) = take_all(links.into_values().collect(), plan, begun).await;
    let gaps = hearing.join_all().await;
    Ok(Taken {
        bytes,
        gaps,
        resident_growth: before
            .zip(most)
            .map(|(before, most)| most.saturating_sub(before)),
    })
}

/// Takes from the links in turn, at the capacity, for the plan's duration; bytes taken, and the most
/// that the process held. Its slowness is what is measured.
async fn take_all(links: Vec<Link>, plan: FloodPlan, begun: Instant) -> (u64, Option<u64>) {
    // A link lives as long as either half.
    let (_senders, mut inboxes): (Vec<LinkSender>, Vec<Inbox>) =
        links.into_iter().map(Link::split).unzip();
    let (mut bytes, mut most) = (0, resident_bytes());
    'taking: loop {
        for inbox in &mut inboxes {
            let due = Duration::from_secs_f64(bytes as f64 / plan.capacity as f64);
            sleep_until((begun + due).into()).await;
            if begun.elapsed() >= plan.duration {
                break 'taking;
            }
            let left = plan.duration.saturating_sub(begun.elapsed());
            match tokio::time::timeout(left, inbox.next()).await {
                Ok(Received::Tensor { values, .. }) => bytes += (values.len() * 4) as u64,
                Ok(Received::Control(_) | Received::Closed(_)) | Err(_) => break 'taking,
            }
        }
        most = most.max(resident_bytes());
    }
    // The senders end by themselves; what they still push has to go somewhere until then.
    let mut ending = JoinSet::new();
    for mut inbox in inboxes {
        ending.spawn(async move { while let Received::Tensor { .. } = inbox.next().await {} });
    }
    ending.join_all().await;
    (bytes, most)
}

/// The longest silence on a control link within the time.
async fn hear(mut control: Link, long: Duration) -> Duration {
    let begun = Instant::now();
    let (mut last, mut longest) = (begun, Duration::ZERO);
    loop {
        let left = long.saturating_sub(begun.elapsed());
        match tokio::time::timeout(left, control.next()).await {
            Ok(Received::Control(_)) => {
                let now = Instant::now();
                longest = longest.max(now - last);
                last = now;
            }
            Ok(Received::Tensor { .. } | Received::Closed(_)) | Err(_) => {
                let end = begun + long.min(begun.elapsed());
                return longest.max(end.saturating_duration_since(last));
            }
        }
    }
}

fn options_of(plan: FloodPlan) -> LinkOptions {
    LinkOptions {
        window: plan.window,
        in_flight: plan.in_flight,
        ..LinkOptions::data(plan.values as u64, BufferPool::new(plan.window as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times are measured by the command; here only what a busy machine cannot change.
    #[test]
    fn a_flood_is_held_back_within_the_limits_of_its_links() {
        let plan = FloodPlan {
            senders: 3,
            values: 32 << 10,
            capacity: 16 << 20,
            duration: Duration::from_secs(3),
            lease: Duration::from_secs(60),
            window: 4 << 20,
            in_flight: 256 << 10,
        };
        let report = measure(plan).expect("loopback works");
        assert_eq!((report.senders, report.declared_dead), (3, 0), "{report:?}");
        // More was offered than windows and queues hold.
        assert!(report.held_up > 0.0, "{report:?}");
        assert!(
            report.held_max_bytes <= report.held_limit_bytes,
            "{report:?}"
        );
        assert!(
            report.taken_bytes_per_s < 20.0 * f64::from(1 << 20),
            "{report:?}"
        );
    }
}
