//! Bugs planted in the simulator's own work, each the opposite of a rule of the protocol: if the
//! invariants do not find them, they find nothing.

/// A planted bug; the number is that of the rule in PROTOCOL that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// 1: a later life of the coordinator takes the reign of the first.
    ReignReused,
    /// 2: a start goes on in the timeline of the first.
    TimelineReused,
    /// 3: a primary that has lost its backup goes on alone under a view with one in sync.
    AloneInSync,
    /// 6: a contribution to a closed step counts for the open one.
    StaleAccepted,
    /// 6: a second copy of a contribution is added.
    DuplicateTwice,
    /// 6: a parent that arrives is added to its stored children.
    ParentBeside,
    /// 9: contributions are added in the order of their arrival.
    ArrivalOrder,
    /// 9: which rows a partition has depends on the worker.
    RowsByWorker,
    /// 10: every slice decides by its own vote alone.
    VotesIgnored,
    /// 11: a vote for a closed step is not kept for those who lack it.
    VotesForgotten,
    /// 12: a version is published before the backup has what it is made of.
    PublishedEarly,
    /// 13: a pull for a version to come that another slice has is answered with the newest one.
    PullNotHeld,
    /// 14: a lost member keeps what it holds.
    LossNotTold,
    /// 15: a slice says on a new link that it has everything.
    CoverageClaimed,
    /// 16: the first report of a leaf that is not finite is believed.
    NonFiniteBelieved,
    /// 16: a skipped step moves weights by their moments.
    SkipMoves,
    /// 23: a backup is in sync as soon as its copy sets out.
    InSyncEarly,
    /// 24: one slice cuts the version before.
    CutMixed,
    /// 25: a version is announced before its manifest is durable.
    AnnouncedEarly,
    /// 26: a line of the ledger is not written before the manifest.
    LedgerLost,
    /// 27: a start does not look for the newest checkpoint.
    CheckpointIgnored,
    /// 27: a checkpoint is restored without the optimizer's moments.
    MomentsLost,
    /// 30: an evaluation task leaves out its last row.
    RowMissed,
}
