//! What must hold in every run, one file each, and the facts that they are judged by.

mod a1;
mod c1;
mod c2;
mod c3;
mod e1;
mod e2;
mod l1;
mod m1;
mod m2;
mod n1;
mod r1;
mod r2;
mod r3;
mod v1;

use std::fmt;

use resilin_core::ledger;
use resilin_core::machine::Rules;
use resilin_core::machine::job::Metrics;
use resilin_core::message::{Assignment, Branch, StepRecord};
use resilin_core::{Incarnation, PartitionId, SliceId, Step, Time, Timeline, View};
use resilin_learn::kernel::Digest;

use crate::oracle::Oracle;

/// Something that happened and that an invariant may forbid.
#[derive(Clone, Debug)]
pub enum Fact<'a> {
    /// A coordinator took up the run.
    Began {
        /// Its life.
        reign: u64,
        /// The branch it begins.
        timeline: Timeline,
        /// Whether shard processes may still hold the branch: nothing of it begins anew.
        resumed: bool,
        /// The version it begins with.
        base: Step,
        /// Whether newer checkpoints were damaged by the disk, and are skipped for it.
        damaged: bool,
        /// Versions before this one have their chain lines in the ledger.
        lines: Step,
        /// Whether the disk damaged the ledger since the last start.
        ledger_damaged: bool,
        /// Digests of the blocks that it begins with.
        blocks: &'a [Digest],
        /// Its rules.
        rules: &'a Rules,
    },
    /// The fleet numbered a life.
    Welcomed(Incarnation),
    /// A bit of a leaf flipped at a member, before it was summed: from then on the weights are not
    /// those of the serial run.
    Flipped(Incarnation, Step, PartitionId),
    /// The job named a member for wrong bits of a leaf.
    Named(Incarnation, Step, PartitionId),
    /// The fleet gave a life up.
    Down(Incarnation),
    /// The job told a member what it holds.
    Assigned(Incarnation, &'a Assignment),
    /// The coordinator has dealt with an event and all that follows from it.
    Settled,
    /// A slice made version `step + 1`.
    Applied {
        /// The slice.
        slice: SliceId,
        /// The branch.
        timeline: Timeline,
        /// The replica: no other of the run has this number, but those in the coordinator.
        replica: u64,
        /// The step.
        step: Step,
        /// Its first block.
        first: usize,
        /// Digests of its blocks.
        digests: &'a [Digest],
    },
    /// The checkpoint at which a branch was to begin is damaged.
    BaseDamaged,
    /// The coordinator, still alive, began another branch, which is durable.
    Branched(Branch),
    /// The primary of a slice says that it serves a version.
    Served {
        /// The slice.
        slice: SliceId,
        /// The branch.
        timeline: Timeline,
        /// Under this view.
        view: View,
        /// The process.
        process: u32,
        /// Its newest version.
        version: Step,
    },
    /// A slice says what it summed.
    Committed(&'a StepRecord),
    /// The job wrote a step down.
    Recorded(&'a ledger::StepRecord),
    /// The job announced a version as durable.
    Announced {
        /// The version.
        step: Step,
        /// Whether the store has it whole.
        stored: bool,
        /// Versions before this one have their chain lines in the ledger.
        lines: Step,
    },
    /// A checkpoint became durable: digests of all its blocks.
    Stored(Step, &'a [Digest]),
    /// Test rows were scored.
    Scored(Metrics),
    /// The version after an epoch never will be.
    NotScored {
        /// From 1.
        epoch: u64,
    },
    /// The run has made all its steps and ended.
    Finished,
    /// Faults are over and a worker is there.
    Quiet(Time),
    /// Time passes.
    Now(Time),
}

/// What a run is judged against.
pub struct World<'a> {
    /// The serial run.
    pub oracle: &'a Oracle,
}

/// A named statement about all runs.
pub trait Invariant {
    /// Its short name.
    fn id(&self) -> &'static str;

    /// Looks at a fact.
    ///
    /// # Errors
    /// What contradicts the statement.
    fn see(&mut self, fact: &Fact<'_>, world: &World<'_>) -> Result<(), String>;

    /// Whether it holds only as long as no gradient was wrong.
    fn wants_right_gradients(&self) -> bool {
        false
    }
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub id: &'static str,
    /// How.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.what)
    }
}

/// All invariants of one run.
pub struct Checker<'a> {
    world: World<'a>,
    all: Vec<Box<dyn Invariant>>,
    /// A gradient was wrong.
    spoilt: bool,
}

impl<'a> Checker<'a> {
    /// All of them, before the run begins.
    #[must_use]
    pub fn new(oracle: &'a Oracle) -> Self {
        Self {
            world: World { oracle },
            all: vec![
                Box::new(m1::Holders::default()),
                Box::new(m2::Numbers::default()),
                Box::new(a1::Standing::default()),
                Box::new(r1::Once::default()),
                Box::new(r2::Together::default()),
                Box::new(r3::Bits),
                Box::new(c1::Whole),
                Box::new(c2::Kept::default()),
                Box::new(c3::Lines::default()),
                Box::new(e1::Scores),
                Box::new(e2::Missed::default()),
                Box::new(v1::Primaries::default()),
                Box::new(n1::Named::default()),
                Box::new(l1::Ends::default()),
            ],
            spoilt: false,
        }
    }

    /// Shows a fact to every invariant.
    ///
    /// # Errors
    /// The first one that it breaks.
    pub fn see(&mut self, fact: &Fact<'_>) -> Result<(), Violation> {
        self.spoilt |= matches!(fact, Fact::Flipped(..));
        let spoilt = self.spoilt;
        let judges = |one: &&mut Box<dyn Invariant>| !(spoilt && one.wants_right_gradients());
        for invariant in self.all.iter_mut().filter(judges) {
            let id = invariant.id();
            invariant
                .see(fact, &self.world)
                .map_err(|what| Violation { id, what })?;
        }
        Ok(())
    }
}

/// Fails with a text unless a condition holds.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
