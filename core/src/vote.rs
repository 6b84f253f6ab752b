//! Votes: how all slices come to the same decision about a step without a leader (PROTOCOL 10).

use serde::{Deserialize, Serialize};

use crate::id::{SliceId, Step, Timeline};
use crate::job::NonFinite;
use crate::sorted::SortedMap;

/// What a slice asks of a step beside its gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flags {
    /// A checkpoint of the next version is wanted.
    pub cut: bool,
    /// The run shall rest at the next version, cut.
    pub stop: bool,
    /// This slice still writes an earlier cut.
    pub busy: bool,
    /// A confirmed non-finite leaf: the step is decided without its gradient.
    pub withheld: bool,
}

/// One slice's say about one step, sent when its root is complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vote {
    /// The branch of history.
    pub timeline: Timeline,
    /// The open step.
    pub step: Step,
    /// Who votes.
    pub slice: SliceId,
    /// Per block of the slice: sum of squares of the gradient that would be applied.
    pub squares: Vec<f64>,
    /// Blocks, counted over the whole model, whose sum is not finite.
    pub non_finite: Vec<u32>,
    /// Requests.
    pub flags: Flags,
}

/// What happens to the weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// The optimizer is applied to the gradient times `scale` (1 unless clipped by global norm).
    Apply {
        /// Factor of the gradient.
        scale: f32,
    },
    /// Weights and moments stay; the step counts.
    Skip,
    /// The run halts before the step.
    Halt,
}

/// The outcome of all votes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// What happens to the weights.
    pub action: Action,
    /// The version that the step makes is checkpointed.
    pub cut: bool,
    /// The slices rest at the version that the step makes.
    pub stop: bool,
    /// A wanted cut was left out because a slice was busy.
    pub cut_missed: bool,
}

/// What decisions depend on beside the votes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoteRules {
    /// Largest global norm of the gradient.
    pub clip_norm: Option<f64>,
    /// Policy for non-finite gradients.
    pub non_finite: NonFinite,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// A checkpoint every that many steps.
    pub cut_every: Option<u64>,
}

/// The factor that brings `norm` down to `max_norm`: `max / (norm + 1e-6)` if below 1, as PyTorch's
/// `clip_grad_norm_` has it.
#[must_use]
pub fn clip_scale(norm: f64, max_norm: f64) -> f64 {
    (max_norm / (norm + 1e-6)).min(1.0)
}

/// Decides a step from the votes of *all* slices; every slice evaluates it and gets the same.
#[must_use]
pub fn decide(rules: &VoteRules, votes: &SortedMap<SliceId, Vote>) -> Decision {
    let first = votes.values().next().expect("a run has at least one slice");
    assert!(
        votes
            .values()
            .all(|v| v.step == first.step && v.timeline == first.timeline)
    );
    let any = |flag: fn(&Flags) -> bool| votes.values().any(|vote| flag(&vote.flags));
    let bad = any(|f| f.withheld) || votes.values().any(|vote| !vote.non_finite.is_empty());
    let action = match (bad, rules.non_finite) {
        (true, NonFinite::Halt) => Action::Halt,
        (true, NonFinite::Skip) => Action::Skip,
        (false, _) => Action::Apply {
            scale: scale(rules, votes),
        },
    };
    let made = first.step.0 + 1;
    let due = rules.cut_every.is_some_and(|n| made.is_multiple_of(n)) || made == rules.total_steps;
    let wanted = due || any(|f| f.cut) || any(|f| f.stop);
    let (busy, halt) = (any(|f| f.busy), action == Action::Halt);
    Decision {
        action,
        cut: wanted && !busy && !halt,
        stop: any(|f| f.stop) && !busy && !halt,
        cut_missed: wanted && busy,
    }
}

fn scale(rules: &VoteRules, votes: &SortedMap<SliceId, Vote>) -> f32 {
    let Some(max_norm) = rules.clip_norm else {
        return 1.0;
    };
    // Per-block values in block order: the slice count never shows.
    let mut squares = 0.0;
    for square in votes.values().flat_map(|vote| &vote.squares) {
        squares += square;
    }
    clip_scale(libm::sqrt(squares), max_norm) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> VoteRules {
        VoteRules {
            clip_norm: Some(1.0),
            non_finite: NonFinite::Skip,
            total_steps: 10,
            cut_every: Some(4),
        }
    }

    fn votes(step: u64, squares: &[&[f64]]) -> SortedMap<SliceId, Vote> {
        let vote = |(slice, squares): (usize, &&[f64])| {
            let slice = SliceId(slice as u16);
            let (timeline, flags) = (Timeline::first(1), Flags::default());
            let squares = squares.to_vec();
            (
                slice,
                Vote {
                    timeline,
                    step: Step(step),
                    slice,
                    squares,
                    non_finite: vec![],
                    flags,
                },
            )
        };
        squares.iter().enumerate().map(vote).collect()
    }

    #[test]
    fn the_slice_count_never_shows() {
        let blocks = [0.1, 1e-17, 3.0, 1e9, 0.3];
        let whole = decide(&rules(), &votes(0, &[&blocks]));
        let parts = decide(
            &rules(),
            &votes(0, &[&blocks[..1], &blocks[1..2], &blocks[2..]]),
        );
        assert_eq!(whole, parts);
        assert!(matches!(whole.action, Action::Apply { scale } if scale < 1e-3));
    }

    #[test]
    fn cuts_are_due_by_step_at_the_end_and_on_request_but_never_while_busy() {
        let cut = |step, change: fn(&mut Flags)| {
            let mut votes = votes(step, &[&[0.0], &[0.0]]);
            change(&mut votes.get_mut(&SliceId(1)).expect("two slices").flags);
            let d = decide(&rules(), &votes);
            (d.cut, d.stop, d.cut_missed)
        };
        assert_eq!(cut(2, |_| ()), (false, false, false));
        assert_eq!(cut(3, |_| ()), (true, false, false));
        assert_eq!(cut(9, |_| ()), (true, false, false));
        assert_eq!(cut(3, |f| f.busy = true), (false, false, true));
        assert_eq!(cut(2, |f| f.cut = true), (true, false, false));
        assert_eq!(cut(2, |f| f.stop = true), (true, true, false));
        assert_eq!(
            cut(2, |f| (f.stop, f.busy) = (true, true)),
            (false, false, true)
        );
    }

    #[test]
    fn one_non_finite_block_decides_for_all() {
        let mut votes = votes(3, &[&[1.0], &[1.0]]);
        votes
            .get_mut(&SliceId(0))
            .expect("two slices")
            .non_finite
            .push(0);
        assert_eq!(decide(&rules(), &votes).action, Action::Skip);
        let halting = VoteRules {
            non_finite: NonFinite::Halt,
            ..rules()
        };
        let decision = decide(&halting, &votes);
        assert_eq!((decision.action, decision.cut), (Action::Halt, false));
    }
}
