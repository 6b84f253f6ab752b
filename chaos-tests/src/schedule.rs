//! Faults as data: what goes wrong, and when.

mod hosts;
mod kinds;
mod random;

use resilin_core::Step;
use resilin_core::time::Span;

pub use hosts::{Apart, HOST_KINDS, HostFault, Hosting};
pub use kinds::{KINDS, Kind};

/// One thing that goes wrong, or that an operator does. A `pick` chooses among what is there at that
/// moment, modulo its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9` of a worker; its links are reset soon.
    Kill(u32),
    /// The host of a worker vanishes: nobody is told.
    Vanish(u32),
    /// `kill -9` of a worker, and another in its place after so long.
    Restart(u32, Span),
    /// One more worker process, that many times slower than the fastest.
    Join(u32),
    /// So many workers at once.
    JoinStorm(u32),
    /// A copy of a worker's host: another process under its name.
    Twin(u32),
    /// SIGTERM to a worker.
    Terminate(u32),
    /// An operator drains a member.
    Drain(u32),
    /// An operator drains every member.
    DrainStorm,
    /// An operator wants so many workers.
    Scale(u32),
    /// An operator stops the run; the next leg resumes it.
    Stop,
    /// `kill -9` of the coordinator, started again after so long.
    KillCoordinator(Span),
    /// The same on another address, which every worker learns in its own time.
    MoveCoordinator(Span),
    /// The coordinator's host loses power for so long: what was not synced is lost in part.
    LosePower(Span),
    /// The power goes within an operation of the store, that many from now: it is torn.
    TornWrite(u32, Span),
    /// A sync that many operations from now does nothing, and the power goes later.
    LostSync(u32, Span),
    /// An operation of the store that many from now fails.
    FailedWrite(u32),
    /// A bit of some file of the state is flipped.
    BitRot(u32),
    /// A bit of the newest checkpoint is flipped.
    DamageNewest(u32),
    /// The record store is damaged beyond reading, and the coordinator killed.
    LoseRecords(Span),
    /// The disk is full for so long.
    DiskFull(Span),
    /// The disk is read-only for so long.
    ReadOnly(Span),
    /// A link breaks; its ends learn of it at different times.
    ResetLink(u32),
    /// A frame of a link is damaged on its way: the checksum shows it and the link is reset.
    CorruptFrame(u32),
    /// Nothing reaches a worker for so long; what was sent comes later.
    CutTo(u32, Span),
    /// Nothing comes from a worker for so long.
    CutFrom(u32, Span),
    /// Both.
    Cut(u32, Span),
    /// Every message of a link takes so long more, for as long as the second says.
    SlowLink(u32, Span, Span),
    /// Messages are lost, doubled, overtaken or late for so long.
    Weather(Span, Weather),
    /// The coordinator takes a worker for gone which goes on under its old incarnation for so long.
    Zombie(u32, Span),
    /// A worker's process stands still.
    Freeze(u32, Span),
    /// The coordinator's process stands still.
    FreezeCoordinator(Span),
    /// A worker computes so many times slower than the fastest from now on.
    Slow(u32, u32),
    /// A worker's evaluations do not end before so long; it goes on speaking.
    Stuck(u32, Span),
    /// A worker's next evaluations, that many, come out as a NaN.
    NotFinite(u32, u32),
    /// A bit of the gradient flips in a worker's next evaluations, that many: the weights are wrong from
    /// then on, so that no random schedule has it.
    FlipBit(u32, u32),
    /// A worker's clock leaps ahead.
    ClockJump(u32, Span),
    /// The coordinator's clock leaps ahead.
    CoordinatorClockJump(Span),
    /// A worker's clock gains so many nanoseconds in a millisecond from now on.
    ClockDrift(u32, i32),
    /// The coordinator's clock does.
    CoordinatorClockDrift(i32),
    /// The calendar goes back by so long; reigns are told apart by it.
    CalendarBack(Span),
    /// One of each kind at once.
    Everything(u32),
    /// Of shard processes.
    Host(HostFault),
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
    /// The shard processes; `None`: slices live in the coordinator.
    pub hosting: Option<Hosting>,
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
            hosting: None,
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
}
