//! Bugs planted in the simulator's own work, each the opposite of a rule of the protocol: if the
//! invariants do not find them, they find nothing.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Contributions are added in the order of their arrival.
    ArrivalOrder,
    /// Every slice decides by its own vote alone.
    VotesIgnored,
    /// A contribution to a closed step counts for the open one.
    StaleAccepted,
    /// A second copy of a contribution is added.
    DuplicateTwice,
    /// A vote for a closed step is not kept for those who lack it.
    VotesForgotten,
    /// A version is announced before its manifest is durable.
    AnnouncedEarly,
    /// A checkpoint is restored without the optimizer's moments.
    MomentsLost,
}
