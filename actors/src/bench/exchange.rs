//! How fast contributions reach a slice over a real link, against a bare copy through a socket.
//!
//! A sending and a receiving thread, each with its own runtime, over loopback TCP. Every round
//! pushes the same number of contributions in three ways: bare, over a link without payload crc,
//! over a link with it; one contribution is in flight, and it counts once it is stored and its
//! answer is back. Rates are medians over rounds, ratios are medians of each round's own ratio, so
//! that a disturbance of the machine hits both sides of a ratio. Sum and apply are timed apart.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use resilin_core::frame::{Checksum, decode_message};
use resilin_core::handshake::Role;
use resilin_core::{SliceId, Step};
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};

use super::bare::{BareReceiver, BareSender};
use super::setup::{BenchError, DEADLINE, header, hello, run_both};
use crate::link::{
    Address, BufferPool, Link, LinkOptions, ListenOptions, Listener, OutTensor, PooledBuffer,
    Received, SharedValues, dial,
};

/// What both links are for.
const ROLE: Role = Role::WorkerData { slice: SliceId(0) };

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct ExchangePlan {
    /// Values of one contribution.
    pub values: usize,
    /// Contributions a round and way; also how many the receiver keeps at a time.
    pub contributions: usize,
    /// Measured rounds, after one that is not counted.
    pub rounds: usize,
}

impl Default for ExchangePlan {
    /// Contributions of 16 MiB, four to a step.
    fn default() -> Self {
        Self {
            values: 4 << 20,
            contributions: 4,
            rounds: 21,
        }
    }
}

/// What a slice does with its contributions once they are stored.
pub trait SliceWork: Send + 'static {
    /// Sums the contributions of a step.
    fn sum(&mut self, contributions: &[PooledBuffer]);
    /// Applies the sum to the weights.
    fn apply(&mut self);
}

/// One way of pushing contributions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Median time of one contribution, until stored and answered, in milliseconds.
    pub contribution_ms: f64,
    /// The same as payload in 10^9 bytes a second.
    pub gigabytes_per_s: f64,
    /// Median over rounds of the rate over the bare copy's of the same round.
    pub of_bare: f64,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExchangeReport {
    /// Bytes of one contribution.
    pub contribution_bytes: usize,
    /// Contributions a round and way.
    pub contributions: usize,
    /// Measured rounds.
    pub rounds: usize,
    /// A bare vectored copy through a socket.
    pub bare: Rate,
    /// A link without payload crc.
    pub link_crc_off: Rate,
    /// A link as it is used.
    pub link_crc_on: Rate,
    /// Median time to sum a round's contributions, in milliseconds.
    pub sum_ms: f64,
    /// Median time to apply the sum, in milliseconds.
    pub apply_ms: f64,
}

/// From the sender: a round of this way is over, do a step's work.
#[derive(Serialize, Deserialize)]
struct RoundOver;

/// From the receiver.
#[derive(Serialize, Deserialize)]
enum Answer {
    Stored { sequence: u64 },
    Worked { sum: Duration, apply: Duration },
}

/// Measures the plan; takes a few seconds and about `2 * contributions` buffers of memory.
pub fn measure(plan: ExchangePlan, work: impl SliceWork) -> Result<ExchangeReport, BenchError> {
    let (rounds, ()) = run_both(
        move |announce| receive(plan, work, announce),
        |places| send(plan, places),
    )?;
    Ok(report(plan, &rounds))
}

/// Where the receiver listens.
struct Places {
    bare: std::net::SocketAddr,
    links: Address,
}

/// What one round took, a contribution each in seconds.
#[derive(Clone, Copy)]
struct Round {
    bare: f64,
    crc_off: f64,
    crc_on: f64,
    sum: f64,
    apply: f64,
}

async fn send(plan: ExchangePlan, places: Places) -> Result<Vec<Round>, BenchError> {
    let mut bare = BareSender::new(TcpStream::connect(places.bare).await?)?;
    let mut off = dial(
        &places.links,
        hello(ROLE),
        options(plan, Checksum::Off),
        DEADLINE,
    )
    .await?;
    let mut on = dial(
        &places.links,
        hello(ROLE),
        options(plan, Checksum::On),
        DEADLINE,
    )
    .await?;
    let values: Vec<f32> = (0..plan.values).map(|at| at as f32 * 1e-6).collect();
    let values = SharedValues::new(Arc::new(values));
    let mut rounds = Vec::new();
    for _ in 0..=plan.rounds {
        let start = Instant::now();
        for _ in 0..plan.contributions {
            bare.push(&values).await?;
        }
        let bare = start.elapsed();
        let (crc_off, _, _) = push_round(&mut off, plan, &values).await?;
        let (crc_on, sum, apply) = push_round(&mut on, plan, &values).await?;
        let each = |span: Duration| span.as_secs_f64() / plan.contributions as f64;
        rounds.push(Round {
            bare: each(bare),
            crc_off: each(crc_off),
            crc_on: each(crc_on),
            sum: sum.as_secs_f64(),
            apply: apply.as_secs_f64(),
        });
    }
    // The first round met fresh memory.
    rounds.remove(0);
    Ok(rounds)
}

/// Pushes one round over a link; returns its time, and those of sum and apply after it.
async fn push_round(
    link: &mut Link,
    plan: ExchangePlan,
    values: &SharedValues,
) -> Result<(Duration, Duration, Duration), BenchError> {
    let start = Instant::now();
    for _ in 0..plan.contributions {
        let tensor = OutTensor {
            header: header(Step(0)),
            values: values.clone().into(),
            before: None,
        };
        link.sender().try_send(&tensor)?;
        match answer(link).await? {
            Answer::Stored { .. } => {}
            Answer::Worked { .. } => return Err(BenchError::Side("receiving")),
        }
    }
    let pushed = start.elapsed();
    link.sender().send_control(&RoundOver)?;
    match answer(link).await? {
        Answer::Worked { sum, apply } => Ok((pushed, sum, apply)),
        Answer::Stored { .. } => Err(BenchError::Side("receiving")),
    }
}

async fn answer(link: &mut Link) -> Result<Answer, BenchError> {
    match link.next().await {
        Received::Control(message) => Ok(decode_message(message.bytes())?),
        Received::Tensor { .. } => Err(BenchError::Side("receiving")),
        Received::Closed(cause) => Err(cause.into()),
    }
}

async fn receive(
    plan: ExchangePlan,
    mut work: impl SliceWork,
    announce: mpsc::Sender<Places>,
) -> Result<(), BenchError> {
    let plain = TcpListener::bind("127.0.0.1:0").await?;
    let address = Address::from("127.0.0.1:0");
    let mut listener = Listener::bind(&address, ListenOptions::default()).await?;
    let places = Places {
        bare: plain.local_addr()?,
        links: listener.address().clone(),
    };
    if announce.send(places).is_err() {
        return Err(BenchError::Side("receiving"));
    }
    let mut bare = BareReceiver::new(plain.accept().await?.0)?;
    let mut off = listener
        .next()
        .await
        .welcome(options(plan, Checksum::Off))
        .await?;
    let mut on = listener
        .next()
        .await
        .welcome(options(plan, Checksum::On))
        .await?;
    let mut buffers = vec![vec![0.0; plan.values]; plan.contributions];
    for _ in 0..=plan.rounds {
        for buffer in &mut buffers {
            bare.take(buffer).await?;
        }
        take_round(&mut off, &mut work).await?;
        take_round(&mut on, &mut work).await?;
    }
    Ok(())
}

/// Stores and answers contributions until the round is over, then does the slice's work.
async fn take_round(link: &mut Link, work: &mut impl SliceWork) -> Result<(), BenchError> {
    let mut stored: Vec<PooledBuffer> = Vec::new();
    loop {
        match link.next().await {
            Received::Tensor { header, values } => {
                stored.push(values);
                let sequence = header.sequence;
                link.sender().send_control(&Answer::Stored { sequence })?;
            }
            Received::Control(message) => {
                decode_message::<RoundOver>(message.bytes())?;
                let start = Instant::now();
                work.sum(&stored);
                let sum = start.elapsed();
                work.apply();
                let apply = start.elapsed() - sum;
                link.sender().send_control(&Answer::Worked { sum, apply })?;
                // The last answer must be on its way before the runtime ends.
                return Ok(link.sender().flush().await?);
            }
            Received::Closed(cause) => return Err(cause.into()),
        }
    }
}

fn options(plan: ExchangePlan, checksum: Checksum) -> LinkOptions {
    let bytes = plan.values * size_of::<f32>() * plan.contributions;
    LinkOptions {
        checksum,
        ..LinkOptions::data(plan.values as u64, BufferPool::new(bytes))
    }
}

fn report(plan: ExchangePlan, rounds: &[Round]) -> ExchangeReport {
    let contribution_bytes = plan.values * size_of::<f32>();
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let rate = |figure: fn(&Round) -> f64| {
        let seconds = of(figure);
        Rate {
            contribution_ms: seconds * 1e3,
            gigabytes_per_s: contribution_bytes as f64 / seconds / 1e9,
            of_bare: median(
                rounds
                    .iter()
                    .map(|round| round.bare / figure(round))
                    .collect(),
            ),
        }
    };
    ExchangeReport {
        contribution_bytes,
        contributions: plan.contributions,
        rounds: rounds.len(),
        bare: rate(|round| round.bare),
        link_crc_off: rate(|round| round.crc_off),
        link_crc_on: rate(|round| round.crc_on),
        sum_ms: of(|round| round.sum) * 1e3,
        apply_ms: of(|round| round.apply) * 1e3,
    }
}

/// The middle value, the upper one of two; zero of none.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lengths(Arc<std::sync::Mutex<Vec<usize>>>);

    impl SliceWork for Lengths {
        fn sum(&mut self, contributions: &[PooledBuffer]) {
            let values = contributions.iter().map(|buffer| buffer.len());
            self.0.lock().expect("no panic").extend(values);
        }

        fn apply(&mut self) {}
    }

    #[test]
    fn a_small_plan_runs_to_its_end() {
        let plan = ExchangePlan {
            values: 1000,
            contributions: 3,
            rounds: 2,
        };
        let lengths = Arc::default();
        let report = measure(plan, Lengths(Arc::clone(&lengths))).expect("loopback works");
        assert_eq!((report.contribution_bytes, report.rounds), (4000, 2));
        assert!(report.link_crc_on.of_bare > 0.0 && report.link_crc_off.of_bare > 0.0);
        // Three rounds with the warm-up, two ways, three contributions.
        assert_eq!(*lengths.lock().expect("no panic"), vec![1000; 18]);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![]), 0.0);
    }
}
