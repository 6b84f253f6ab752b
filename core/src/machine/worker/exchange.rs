//! The way of one step: pull, compute, push, and on to the next version.

use super::{Effect, Exit, PartitionSet, Sum, Worker};
use crate::id::{SliceId, Step, Timeline};
use crate::message::{ShardSays, Use, Verdict, WorkerAsks};
use crate::tree::Node;

impl Worker {
    pub(super) fn slice_up(&mut self, slice: SliceId, effects: &mut Vec<Effect>) {
        if let Some(up) = self.links.get_mut(&slice) {
            *up = true;
            self.pull_missing(slice, effects);
            self.evaluation_pull(slice, effects);
        }
    }

    pub(super) fn slice_down(&mut self, slice: SliceId) {
        if let Some(up) = self.links.get_mut(&slice) {
            *up = false;
        }
        for sent in self.coming.values_mut() {
            sent.remove(&slice);
        }
        // What that slice answered may have been lost with it.
        for sum in self.sums.values_mut() {
            sum.answered.remove(&slice);
        }
    }

    pub(super) fn heard(&mut self, slice: SliceId, says: ShardSays, effects: &mut Vec<Effect>) {
        match says {
            ShardSays::Coverage {
                timeline,
                step,
                covered,
            } => {
                if self.timeline() == Some(timeline) && step == self.step {
                    self.push_uncovered(slice, &covered, effects);
                }
            }
            ShardSays::Answer {
                timeline,
                step,
                node,
                verdict,
            } => {
                if self.timeline() == Some(timeline) && step == self.step {
                    self.answered(slice, node, verdict, effects);
                }
            }
            ShardSays::Gone {
                timeline,
                step,
                at,
                purpose,
            } => {
                if self.timeline() == Some(timeline) {
                    self.gone(step, at, purpose, effects);
                }
            }
        }
    }

    fn answered(
        &mut self,
        slice: SliceId,
        node: Node,
        verdict: Verdict,
        effects: &mut Vec<Effect>,
    ) {
        match verdict {
            Verdict::Stored | Verdict::Covered | Verdict::StaleStep => {
                if let Some(sum) = self.sums.get_mut(&node) {
                    sum.answered.insert(slice);
                }
            }
            // A newer assignment is on its way, or the slice has yet to hear of this one's view.
            Verdict::Superseded => self.refused = true,
            Verdict::Malformed => {
                let cause = format!(
                    "slice {slice} does not know node {node} of step {} with the rows that this \
                     worker counts; run the same version of the program everywhere",
                    self.step
                );
                effects.push(Effect::Exit(Exit::Refused(cause)));
            }
        }
    }

    fn gone(&mut self, step: Step, at: Step, purpose: Use, effects: &mut Vec<Effect>) {
        match purpose {
            Use::Train if step >= self.step && at > self.step => {
                // A slice at `at` had every slice's vote for the step before, so none lacks it.
                self.go_to(at, effects);
                self.rest_if_idle(effects);
            }
            Use::Train => {}
            Use::Evaluate => self.evaluation_gone(step, effects),
        }
    }

    /// Begins work on `step`, whatever was before.
    pub(super) fn go_to(&mut self, step: Step, effects: &mut Vec<Effect>) {
        self.free_sums(effects);
        self.here
            .retain(|version, _| *version >= step && *version <= step.next());
        self.step = step;
        effects.push(Effect::Forget(Use::Train, step));
        let up: Vec<SliceId> = self.up().collect();
        for slice in up {
            self.pull_missing(slice, effects);
        }
    }

    pub(super) fn free_sums(&mut self, effects: &mut Vec<Effect>) {
        for (_, sum) in std::mem::take(&mut self.sums) {
            effects.push(Effect::Free(sum.computed.tensor));
        }
        self.coming.clear();
        self.withheld.clear();
        self.extra = PartitionSet::default();
    }

    /// The slices that are linked.
    pub(super) fn up(&self) -> impl Iterator<Item = SliceId> {
        self.links
            .iter()
            .filter(|(_, up)| **up)
            .map(|(slice, _)| *slice)
    }

    /// The open step's weights, or the next version's once these are here: the shard holds the
    /// request until it exists, so that no round trip lies between two steps.
    fn pull_missing(&self, slice: SliceId, effects: &mut Vec<Effect>) {
        for step in [self.step, self.step.next()] {
            if step <= self.rules.last() && !self.is_here(slice, step) {
                return self.pull(slice, step, Use::Train, effects);
            }
        }
    }

    pub(super) fn pull(&self, slice: SliceId, step: Step, purpose: Use, effects: &mut Vec<Effect>) {
        let Some(assignment) = &self.assignment else {
            return;
        };
        if let Some(view) = assignment.views.iter().find(|view| view.slice == slice) {
            let (timeline, map, view) = (assignment.timeline, assignment.map, view.view);
            let pull = WorkerAsks::Pull {
                timeline,
                map,
                view,
                step,
                purpose,
                holds: self.holds_before(slice, step, purpose),
            };
            effects.push(Effect::Ask(slice, pull));
        }
    }

    /// The version before `step`, if the slice's part of it is here. Training goes from one to the
    /// next, so it is here until `step` is.
    fn holds_before(&self, slice: SliceId, step: Step, purpose: Use) -> Option<Step> {
        let before = step.0.checked_sub(1).map(Step)?;
        match purpose {
            Use::Train => self.is_here(slice, before).then_some(before),
            Use::Evaluate => None,
        }
    }

    fn is_here(&self, slice: SliceId, version: Step) -> bool {
        let here = self.here.get(&version);
        here.is_some_and(|slices| slices.contains(&slice))
    }

    pub(super) fn weights(
        &mut self,
        slice: SliceId,
        timeline: Timeline,
        step: Step,
        purpose: Use,
        effects: &mut Vec<Effect>,
    ) {
        if self.timeline() != Some(timeline) {
            return;
        }
        match purpose {
            Use::Train => {
                if step == self.step || step == self.step.next() {
                    self.here.entry(step).or_default().insert(slice);
                    self.pull_missing(slice, effects);
                }
            }
            Use::Evaluate => self.evaluation_weights(slice, step, effects),
        }
    }

    /// Moves on as far as what is here allows.
    pub(super) fn advance(&mut self, effects: &mut Vec<Effect>) {
        if self.complete(self.step.next()) {
            self.go_to(self.step.next(), effects);
            self.rest_if_idle(effects);
        }
        let ready = self.complete(self.step) && self.step < self.rules.last();
        if self.computing.is_none() && ready {
            self.compute(effects);
        }
        if ready {
            self.audit(effects);
        }
        self.score(effects);
    }

    /// Whether every slice's weights of the version are here.
    pub(super) fn complete(&self, version: Step) -> bool {
        let slices = usize::from(self.rules.slices.slices());
        self.here
            .get(&version)
            .is_some_and(|here| here.len() == slices)
    }

    fn compute(&mut self, effects: &mut Vec<Effect>) {
        let Some(timeline) = self.timeline() else {
            return;
        };
        let with_samples = self.rules.sampling.with_samples(self.step);
        let mut done = PartitionSet::default();
        for node in self.sums.keys() {
            done.insert_node(*node, &with_samples);
        }
        let leased = self.leases().filter(|lease| lease.covers(self.step));
        let todo: PartitionSet = leased
            .map(|lease| lease.partition)
            .chain(self.extra.iter())
            .filter(|p| with_samples.contains(*p))
            .filter(|p| !self.is_withheld(*p) && !done.contains(*p))
            .collect();
        if todo.is_empty() {
            return;
        }
        let nodes = self.rules.tree.maximal_nodes(&todo, &with_samples);
        self.computing = Some(self.step);
        effects.push(Effect::Compute {
            timeline,
            step: self.step,
            nodes,
        });
    }

    /// The messages that were waited for may have been lost.
    pub(super) fn ask_again(&self, effects: &mut Vec<Effect>) {
        if let Some(timeline) = self.timeline() {
            for (partition, leaf) in &self.withheld {
                self.report(timeline, self.step, (*partition, *leaf), effects);
            }
        }
        for slice in self.up() {
            self.ask_slice_again(slice, effects);
        }
        self.evaluation_again(effects);
    }

    pub(super) fn ask_slice_again(&self, slice: SliceId, effects: &mut Vec<Effect>) {
        self.pull_missing(slice, effects);
        let unanswered = |sum: &&Sum| !sum.answered.contains(&slice);
        for sum in self.sums.values().filter(unanswered) {
            self.send(slice, &sum.computed, effects);
        }
    }
}
