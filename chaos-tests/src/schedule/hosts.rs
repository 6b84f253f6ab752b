//! Shard processes, and what goes wrong with them.

use resilin_core::SliceId;
use resilin_core::time::Span;

use super::kinds::{Kind, long, pick, short, span};
use super::{Fault, Leg, Schedule};

/// The shard processes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosting {
    /// So many at the start, and at the end of all faults.
    pub processes: u16,
    /// Replicas of each slice beside its primary: 0 or 1.
    pub replicas: u8,
}

/// Who a shard process is cut off from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// The coordinator.
    Coordinator,
    /// A worker, picked.
    Worker(u32),
    /// Another shard process, picked.
    Host(u32),
    /// All.
    All,
}

/// One thing that goes wrong with shard processes, or that an operator does to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFault {
    /// `kill -9` of one.
    Kill(u32),
    /// The same of the one that is the slice's primary, by the durable views.
    KillPrimary(SliceId),
    /// The same of the slice's backup.
    KillBackup(SliceId),
    /// Its machine vanishes: nobody is told.
    Vanish(u32),
    /// `kill -9`, and another in its place after so long.
    Restart(u32, Span),
    /// One more.
    Join,
    /// SIGTERM.
    Terminate(u32),
    /// An operator drains it.
    Drain(u32),
    /// It stands still.
    Freeze(u32, Span),
    /// The slice's primary stands still.
    FreezePrimary(SliceId, Span),
    /// It and another do not reach each other for so long; what was sent comes later.
    Cut(u32, Apart, Span),
    /// The slice's primary is cut off.
    CutPrimary(SliceId, Apart, Span),
    /// The coordinator takes it for unlinked, and it notices only after so long.
    Zombie(u32, Span),
    /// Its clock leaps ahead.
    ClockJump(u32, Span),
    /// Its clock gains so many nanoseconds in a millisecond from now on.
    ClockDrift(u32, i32),
    /// An operator wants so many slices, so many steps from now.
    Reshard(u16, u64),
}

use HostFault as F;

const fn kind(
    name: &'static str,
    weight: u32,
    make: fn(&mut resilin_core::random::Stream) -> Fault,
) -> Kind {
    Kind { name, weight, make }
}

/// Every kind of fault of shard processes.
pub const HOST_KINDS: &[Kind] = &[
    kind("shard process killed", 120, |s| {
        Fault::Host(F::Kill(pick(s)))
    }),
    kind("shard process vanished", 30, |s| {
        Fault::Host(F::Vanish(pick(s)))
    }),
    kind("shard process restarted", 120, |s| {
        Fault::Host(F::Restart(pick(s), short(s)))
    }),
    kind("shard process joins", 120, |_s| Fault::Host(F::Join)),
    kind("shard process terminated", 40, |s| {
        Fault::Host(F::Terminate(pick(s)))
    }),
    kind("shard process drained", 30, |s| {
        Fault::Host(F::Drain(pick(s)))
    }),
    kind("shard process frozen", 60, |s| {
        Fault::Host(F::Freeze(pick(s), long(s)))
    }),
    kind("cut from the coordinator", 40, |s| {
        Fault::Host(F::Cut(pick(s), Apart::Coordinator, long(s)))
    }),
    kind("cut from a worker", 20, |s| {
        Fault::Host(F::Cut(pick(s), Apart::Worker(pick(s)), long(s)))
    }),
    kind("cut from another shard process", 40, |s| {
        Fault::Host(F::Cut(pick(s), Apart::Host(pick(s)), long(s)))
    }),
    kind("cut from all", 30, |s| {
        Fault::Host(F::Cut(pick(s), Apart::All, long(s)))
    }),
    kind("shard process as a zombie", 20, |s| {
        Fault::Host(F::Zombie(pick(s), long(s)))
    }),
    kind("shard process's clock jumps", 15, |s| {
        Fault::Host(F::ClockJump(pick(s), span(s, 2_000)))
    }),
    kind("shard process's clock drifts", 15, |s| {
        Fault::Host(F::ClockDrift(pick(s), s.below(100_000) as i32 - 50_000))
    }),
    kind("another number of slices", 60, |s| {
        Fault::Host(F::Reshard(1 + s.below(5) as u16, u64::from(s.below(4))))
    }),
];

impl Schedule {
    /// These faults and no others, with slices in shard processes.
    #[must_use]
    pub fn hosted(
        seed: u64,
        leg: Leg,
        hosting: Hosting,
        faults: Vec<(super::When, Fault)>,
    ) -> Self {
        Self {
            hosting: Some(hosting),
            ..Self::scripted(seed, leg, faults)
        }
    }
}
