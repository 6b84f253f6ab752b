//! What a job hears, what it asks of its shell, and what it tells people.

use super::wish::Wishes;
use crate::fact::Fact;
use crate::id::{Incarnation, SliceId, Step, Timeline};
use crate::ledger::Record;
use crate::machine::fleet::{HostNews, Member};
use crate::machine::saver;
use crate::message::{Branch, CoordinatorSays, HostTold, ShardOrder, ShardReport, SliceView};

/// What an operator may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// So many workers are wanted; `train` starts them, surplus ones are drained.
    Scale(u32),
    /// This worker shall leave. If no more than wanted are here, one fewer is wanted: nobody takes
    /// its place until more are asked for.
    Drain(Incarnation),
    /// Checkpoint at the next step and end; a coordinator that comes after this one does it, if
    /// this one is lost before.
    Stop,
    /// The same of this coordinator only: whoever starts another one wants the run to go on.
    Leave,
    /// Deal the parameters to so many slices, at the first version from `at` on that all slices can
    /// rest at; `None`: as soon as possible.
    Reshard {
        /// Slices wanted; a model with fewer blocks has fewer.
        shards: u16,
        /// The version.
        at: Option<Step>,
    },
}

/// What happens to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The fleet tells of a member.
    Member(Member),
    /// The fleet tells of a host.
    Host(HostNews),
    /// A slice in the coordinator's process reports.
    Shard(ShardReport),
    /// The saver has all of a version, and wants it committed.
    Commit(Step),
    /// What `Effect::Commit` asked for could not be written.
    NotCommitted(Step),
    /// A version is durable.
    Durable(Step),
    /// A cut failed.
    Degraded(String),
    /// An operator commands.
    Command(Command),
    /// The saver orders something of every slice.
    Order(ShardOrder),
    /// The same of one slice.
    OrderSlice(SliceId, ShardOrder),
    /// The store has taken every record of the timeline before this step. Slices in this
    /// process do not wait for it.
    Taken(Timeline, Step),
    /// The store has taken the score of the version, or keeps it in memory while it cannot write.
    ScoreTaken(Timeline, Step),
    /// What `KeepBranch` asked for is durable.
    BranchKept(Timeline),
    /// What `KeepViews` asked for is durable.
    ViewsKept,
    /// What `KeepBranch` or `KeepViews` asked for could not be written: it counts for nothing.
    KeepFailed(String),
    /// What `KeepWishes` asked for could not be written.
    WishesFailed,
    /// The checkpoint at which a branch of `KeepBranch` was to begin is damaged, so nothing was
    /// written; the newest that is whole is of this version, if there is one.
    BaseDamaged(Option<Step>),
    /// What `Close` asked for is durable.
    Closed,
    /// A member was under this reign, of a later coordinator.
    Outranked(u64),
    /// The deadline passed.
    Tick,
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are done and durable.
    Finished,
    /// Stopped early; this version is durable.
    Stopped(Step),
    /// A step could not be applied; weights are those before it.
    Halted {
        /// The step.
        step: Step,
        /// What was wrong, where, and what to do.
        cause: String,
    },
    /// The last version could not be saved in time; this one is durable.
    SaveFailed {
        /// The newest durable version.
        durable: Option<Step>,
        /// What the store said.
        reason: String,
    },
    /// There were too few workers for too long.
    WaitedTooLong,
    /// Another coordinator leads the run.
    Outranked {
        /// Which one, and what to do.
        cause: String,
    },
}

/// What the shell does for a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell a member.
    Say(Incarnation, CoordinatorSays),
    /// Tell a host.
    Host(Incarnation, HostTold),
    /// Have the fleet fence a member, for this cause.
    Fence(Incarnation, String),
    /// Tell every slice in the coordinator's process.
    Order(ShardOrder),
    /// Write the branch down for good, without any view; then its beginning in the ledger. Whoever
    /// starts with a branch that the ledger does not end with writes that line first. Nobody is told
    /// before `BranchKept` answers. The base is looked at first: a checkpoint may rot.
    KeepBranch(Branch),
    /// Write these views of the branch down for good, in place of the same slices' earlier ones; all
    /// or none. Nobody is told before `ViewsKept` answers.
    KeepViews(Vec<SliceView>),
    /// Write this down for good in place of what was written before; the next start gets it as
    /// `Settings::wishes`. An operator is told yes only after it.
    KeepWishes(Wishes),
    /// Append to the ledger; synced no later than the next commit.
    Append(Record),
    /// Sync the ledger with all that was appended, write the manifest, then the commit record. The
    /// saver is told how it went. A version of a branch that was left meanwhile is refused.
    Commit(Step),
    /// Tell the saver, after what was appended.
    Saver(saver::Event),
    /// Write down for good how the run ended; answered by `Closed`.
    Close(Outcome),
    /// End the coordinator, after everybody was told.
    Over(Outcome),
    /// Tell people: log, status and event file.
    Tell(Fact),
}
