//! Arithmetic on numbers that stand for tensors: every order of additions gives another result, and
//! a serial oracle knows the right one.

use resilin_core::job::Bits;
use resilin_core::machine::Rules;
use resilin_core::sorted::{SortedMap, SortedSet};
use resilin_core::tree::Node;
use resilin_core::vote::{Action, Flags, Vote, decide};
use resilin_core::{PartitionId, SliceId, Step, Timeline};

pub(super) const SLICES: u16 = 3;

/// A number that depends on all of these and their order.
pub(super) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| {
        let mixed = (state ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed ^ (mixed >> 29)).wrapping_add(*part)
    })
}

/// A partition's contribution to a slice.
pub(super) fn contribution(weights: &[u64], step: Step, partition: u32, slice: SliceId) -> u64 {
    mix(&[mix(weights), step.0, partition.into(), slice.0.into()])
}

/// The sum below a node of what `value` knows.
pub(super) fn sum(node: Node, value: &impl Fn(Node) -> Option<u64>) -> Option<u64> {
    if let Some(value) = value(node) {
        return Some(value);
    }
    let (left, right) = node.children()?;
    match (sum(left, value), sum(right, value)) {
        (Some(left), Some(right)) => Some(mix(&[left, right])),
        (left, right) => left.or(right),
    }
}

/// What a slice tells of its root in a vote.
pub(super) fn stats(root: u64, slice: SliceId) -> (Vec<f64>, Vec<u32>) {
    let broken = root.is_multiple_of(13);
    let non_finite = if broken { vec![slice.0.into()] } else { vec![] };
    (vec![(root % 1000) as f64], non_finite)
}

/// Weights, and the moments that are updated in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Values {
    pub(super) weights: u64,
    pub(super) moments: u64,
}

impl Values {
    pub(super) fn initial(slice: SliceId) -> Self {
        let slice = u64::from(slice.0);
        Self {
            weights: mix(&[1, slice]),
            moments: mix(&[2, slice]),
        }
    }

    pub(super) fn next(self, root: Option<u64>, step: Step, action: Action) -> Self {
        match (action, root) {
            (Action::Apply { scale }, Some(root)) => {
                let moments = mix(&[self.moments, root]);
                let scale = u64::from(scale.to_bits());
                let weights = mix(&[self.weights, moments, scale, step.0]);
                Self { weights, moments }
            }
            (Action::Skip, _) => self,
            (Action::Apply { .. } | Action::Halt, _) => panic!("{action:?} without a root"),
        }
    }
}

/// The serial run; without the promise of bits whatever the first replica made. Which steps were
/// withheld is the world's doing, so it is told.
pub(super) struct Oracle {
    rules: Rules,
    versions: Vec<Vec<Values>>,
    actions: SortedMap<Step, Action>,
    /// What the first replica that applied a step made of it, where bits are not promised.
    made: SortedMap<(SliceId, Step), Values>,
    /// What was told of each root, to whoever counted on it.
    told: SortedMap<(SliceId, Step), Vec<f64>>,
    /// Steps that a slice was ordered to withhold.
    pub(super) withheld: SortedSet<Step>,
}

impl Oracle {
    pub(super) fn new(rules: Rules) -> Self {
        let initial = rules.slices.ids().map(Values::initial).collect();
        Self {
            rules,
            versions: vec![initial],
            actions: SortedMap::new(),
            made: SortedMap::new(),
            told: SortedMap::new(),
            withheld: SortedSet::new(),
        }
    }

    pub(super) fn values(&self, slice: SliceId, step: Step) -> Values {
        match self.rules.bits {
            Bits::On => self.versions[step.0 as usize][usize::from(slice.0)],
            Bits::Off if step == Step(0) => Values::initial(slice),
            Bits::Off => self.made[&(slice, step)],
        }
    }

    /// A vote leaves a slice: whoever hears it twice hears the same.
    pub(super) fn votes(&mut self, vote: &Vote) -> Result<(), String> {
        let (slice, step) = (vote.slice, vote.step);
        let told = self.told.entry((slice, step));
        let told = told.or_insert_with(|| vote.squares.clone());
        if *told != vote.squares {
            return Err(format!(
                "slice {slice} votes twice for step {step}, and not the same"
            ));
        }
        Ok(())
    }

    /// What was applied is what the others were told of.
    fn is_told(&self, slice: SliceId, step: Step, root: Option<u64>) -> Result<(), String> {
        let (Some(told), Some(root)) = (self.told.get(&(slice, step)), root) else {
            return Ok(());
        };
        if !told.is_empty() && stats(root, slice).0 != *told {
            return Err(format!(
                "slice {slice} applies another root at step {step} than it voted for"
            ));
        }
        Ok(())
    }

    /// What is right after the step, which some slice applied in this way and made this of.
    pub(super) fn applied(
        &mut self,
        slice: SliceId,
        (step, action): (Step, Action),
        (root, made): (Option<u64>, Values),
    ) -> Result<Values, String> {
        self.is_told(slice, step, root)?;
        let known = *self.actions.entry(step).or_insert(action);
        if known != action {
            return Err(format!("step {step} is {known:?} and {action:?}"));
        }
        if self.rules.bits == Bits::Off {
            let first = self.made.entry((slice, step.next()));
            return Ok(*first.or_insert(made));
        }
        if self.versions.len() == step.0 as usize + 1 {
            self.advance(step, action)?;
        }
        Ok(self.values(slice, step.next()))
    }

    fn advance(&mut self, step: Step, action: Action) -> Result<(), String> {
        let before = self.versions[step.0 as usize].clone();
        let weights: Vec<u64> = before.iter().map(|values| values.weights).collect();
        let with_samples = self.rules.sampling.with_samples(step);
        let root = |slice| {
            let value = |node: Node| {
                let partition = PartitionId(node.index);
                let leaf = node.level == 0 && with_samples.contains(partition);
                leaf.then(|| contribution(&weights, step, node.index, slice))
            };
            sum(self.rules.tree.root(), &value).expect("a step has samples")
        };
        let roots: Vec<u64> = self.rules.slices.ids().map(root).collect();
        let votes = self.rules.slices.ids().zip(&roots).map(|(slice, root)| {
            let (squares, non_finite) = stats(*root, slice);
            let (timeline, flags) = (Timeline::first(1), Flags::default());
            let vote = Vote {
                timeline,
                step,
                slice,
                squares,
                non_finite,
                flags,
            };
            (slice, vote)
        });
        let right = decide(&self.rules.votes, &votes.collect()).action;
        let withheld = action == Action::Skip && self.withheld.contains(&step);
        if right != action && !withheld {
            return Err(format!("step {step} is {action:?} and not {right:?}"));
        }
        let next = before.iter().zip(&roots);
        let next = next.map(|(values, root)| values.next(Some(*root), step, action));
        self.versions.push(next.collect());
        Ok(())
    }
}
