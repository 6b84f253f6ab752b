//! Rules that are broken on purpose, to see whether it is found.

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Plant {
    None,
    /// A version is published before the backup has what it is made of.
    PublishEarly,
    /// A vote is sent before the backup stands by it.
    VoteUnpledged,
    /// A vote is sent when the backup has it, but not its root.
    PledgeWithoutRoot,
    /// A backup is promoted that is not in sync.
    PromoteUnsynced,
}
