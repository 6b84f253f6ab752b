//! What a backup keeps of what its primary sends.
//!
//! It sums nothing, votes for nothing and serves nobody. What it acknowledged it has until the step
//! is applied, under whatever view: a vote may have been sent because of it.

use super::Follower;
use super::record::Pledge;
use crate::id::{SliceId, Step, Tensor};
use crate::sorted::SortedMap;
use crate::vote::Vote;

/// Steps that are kept before they are applied: all that a primary sends without an answer, and
/// what was acknowledged and waits for the kernel.
const KEPT: u64 = super::mirror::BEHIND as u64 + 1 + UNAPPLIED;

/// Steps that may be acknowledged before they are applied: a backup that applies more slowly slows
/// its primary down in the end, and is near it when it is promoted.
pub(super) const UNAPPLIED: u64 = 2;

/// What is here of one step.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) pledge: Option<Pledge>,
    pub(super) root: Option<Tensor>,
    pub(super) votes: Option<SortedMap<SliceId, Vote>>,
}

impl Kept {
    /// Whether something of the step was lost; its votes may only not be there yet.
    pub(super) fn lacks_a_part(&self) -> bool {
        match &self.pledge {
            Some(pledge) => pledge.has_root() && self.root.is_none(),
            None => true,
        }
    }
}

/// What a backup has beside its version.
#[derive(Clone, Debug, Default)]
pub(super) struct Backup {
    pub(super) copied: bool,
    /// The copy on its way, with the votes of the step before.
    pub(super) copying: Option<(Step, Vec<Vote>)>,
    pub(super) kept: SortedMap<Step, Kept>,
    /// What was acknowledged last, to notice when more can be.
    pub(super) told: Option<Step>,
    /// What was there at the last look.
    pub(super) seen: Option<Step>,
    /// Made the primary while a version is being made; who follows it then.
    pub(super) promoted: Option<Option<Follower>>,
}

impl Backup {
    pub(super) fn is_copied(&self) -> bool {
        self.copied
    }

    /// The first step that is kept: that of the version, or of the copy that comes.
    fn first(&self, version: Step) -> Option<Step> {
        let coming = self.copying.as_ref().map(|(step, _)| *step);
        coming.or_else(|| self.copied.then_some(version))
    }

    pub(super) fn takes(&self, version: Step, step: Step) -> bool {
        let first = self.first(version);
        first.is_some_and(|first| (first.0..first.0 + KEPT).contains(&step.0))
    }

    pub(super) fn check_invariants(&self) {
        // Older ones of a copy that was superseded before it came are dropped when the next comes.
        assert!(
            self.kept.len() as u64 <= 2 * KEPT,
            "what a backup keeps is bounded"
        );
    }
}
