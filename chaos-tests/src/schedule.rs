//! Faults as data: what goes wrong, and when.

use resilin_core::Step;
use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::time::Span;

/// One thing that goes wrong, or that an operator does. Numbers choose among what is there at that
/// moment, modulo its count.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// `kill -9` of a worker; its links are reset soon.
    Kill(u32),
    /// The host of a worker vanishes: nobody is told.
    Vanish(u32),
    /// One more worker process, that many times slower than the fastest.
    Join(u32),
    /// SIGTERM to a worker.
    Terminate(u32),
    /// An operator drains a member.
    Drain(u32),
    /// The coordinator dies and is started again after so long.
    KillCoordinator(Span),
    /// A link breaks; its ends learn of it at different times.
    ResetLink(u32),
    /// The network is bad for so long.
    Weather(Span, Weather),
    /// A worker computes so many times slower than the fastest from now on.
    Slow(u32, u32),
    /// A worker's process stands still.
    Freeze(u32, Span),
    /// The coordinator's process stands still.
    FreezeCoordinator(Span),
    /// The newest checkpoint cannot be read any more.
    DamageNewest,
    /// Writing to the store fails for so long.
    StoreFails(Span),
    /// An operator wants so many workers.
    Scale(u32),
    /// An operator stops the run; the next leg resumes it.
    Stop,
}

/// How bad the network is, in thousandths of the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Lost.
    pub loss: u32,
    /// Delivered twice.
    pub twice: u32,
    /// Overtake or are overtaken.
    pub reorder: u32,
    /// Come up to a lease late.
    pub spike: u32,
}

/// The moment of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So long after the start.
    At(Span),
    /// Once every slice has this version.
    Reached(Step),
}

/// The workers and shards of one sitting; the next one resumes a stopped run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Workers at its start.
    pub workers: u32,
    /// Shards.
    pub shards: u16,
}

/// All that happens in a run beside its job.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Seed of latencies and of all choices.
    pub seed: u64,
    /// Sittings in order, at least one.
    pub legs: Vec<Leg>,
    /// What goes wrong.
    pub faults: Vec<(When, Fault)>,
    /// When faults end: weather clears, what stands still goes on, and a worker is there.
    pub quiet_at: Span,
    /// Whether every message passes the codec of the wire.
    pub codec: bool,
}

impl Schedule {
    /// Nothing goes wrong.
    #[must_use]
    pub fn quiet(seed: u64, leg: Leg) -> Self {
        Self {
            seed,
            legs: vec![leg],
            faults: Vec::new(),
            quiet_at: Span::ZERO,
            codec: seed.is_multiple_of(8),
        }
    }

    /// These faults and no others.
    #[must_use]
    pub fn scripted(seed: u64, leg: Leg, faults: Vec<(When, Fault)>) -> Self {
        Self {
            faults,
            ..Self::quiet(seed, leg)
        }
    }

    /// Anything may go wrong.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut stream = Key::new(seed, Purpose::User).stream();
        let leg = |stream: &mut Stream| Leg {
            workers: 1 + stream.below(5),
            shards: 1 + stream.below(4) as u16,
        };
        let legs = (0..4).map(|_| leg(&mut stream)).collect();
        let quiet_at = Span::from_millis(300 + u64::from(stream.below(900)));
        let mut faults = Vec::new();
        // From a calm run with a fault or two to one every few milliseconds.
        let gap = [300, 120, 50, 20][stream.below(4) as usize];
        let mut at = u64::from(stream.below(gap));
        while Span::from_millis(at) < quiet_at {
            faults.push((When::At(Span::from_millis(at)), random_fault(&mut stream)));
            at += 1 + u64::from(stream.below(gap));
        }
        Self {
            seed,
            legs,
            faults,
            quiet_at,
            codec: seed.is_multiple_of(8),
        }
    }
}

fn random_fault(stream: &mut Stream) -> Fault {
    let mut span = |most: u32| Span::from_millis(1 + u64::from(stream.below(most)));
    let (short, long) = (span(120), span(300));
    let pick = stream.next_u32();
    match stream.below(100) {
        0..14 => Fault::Kill(pick),
        14..18 => Fault::Vanish(pick),
        18..36 => Fault::Join([1, 1, 1, 2, 8][stream.below(5) as usize]),
        36..41 => Fault::Terminate(pick),
        41..46 => Fault::Drain(pick),
        46..54 => Fault::KillCoordinator(short),
        54..66 => Fault::ResetLink(pick),
        66..78 => Fault::Weather(
            long,
            Weather {
                loss: stream.below(150),
                twice: stream.below(150),
                reorder: stream.below(150),
                spike: stream.below(60),
            },
        ),
        78..82 => Fault::Slow(pick, 1 + stream.below(8)),
        82..90 => Fault::Freeze(pick, long),
        90..93 => Fault::FreezeCoordinator(long),
        93..95 => Fault::DamageNewest,
        95..97 => Fault::StoreFails(short),
        97..98 => Fault::Scale(1 + stream.below(6)),
        _ => Fault::Stop,
    }
}
