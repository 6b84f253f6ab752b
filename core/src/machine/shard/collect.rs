//! Contributions, pulls and votes: what comes in while a step is open.

use super::{Effect, Node, Phase, Push, Shard, Stored};
use crate::id::{LinkId, SliceId, Step, Timeline};
use crate::message::{Contributor, ShardSays, SliceSays, Use, Verdict};
use crate::vote::Vote;

impl Shard {
    /// A backup's links wait for the view that makes it the primary.
    pub(super) fn link_up(&mut self, link: LinkId, effects: &mut Vec<Effect>) {
        self.links.insert(link);
        if self.is_primary() {
            effects.push(Effect::Say(link, self.coverage()));
        }
    }

    pub(super) fn say_coverage(&self, effects: &mut Vec<Effect>) {
        let links = self.links.iter();
        effects.extend(links.map(|link| Effect::Say(*link, self.coverage())));
    }

    pub(super) fn coverage(&self) -> ShardSays {
        let (timeline, step) = (self.origin.timeline, self.step);
        ShardSays::Coverage {
            timeline,
            step,
            covered: self.covered.clone(),
        }
    }

    /// Serves a version, holds the request until the version exists, or says that it is gone
    /// (PROTOCOL 13). A link has one held request for each use.
    pub(super) fn pull(
        &mut self,
        link: LinkId,
        (step, purpose): (Step, Use),
        holds: Option<Step>,
        effects: &mut Vec<Effect>,
    ) {
        self.pulls
            .retain(|(_, l, p), _| (*l, *p) != (link, purpose));
        if !self.is_primary() {
            // Whoever asks may know of a view that this replica was not told yet.
            self.pulls.insert((step, link, purpose), holds);
        } else if self.retained(step, purpose) {
            let based_on =
                holds.filter(|before| before.next() == step && self.retained(*before, Use::Train));
            effects.push(Effect::SendWeights {
                link,
                step,
                purpose,
                based_on,
            });
        } else if step > self.step {
            self.pulls.insert((step, link, purpose), holds);
        } else {
            let (timeline, at) = (self.origin.timeline, self.step);
            effects.push(Effect::Say(
                link,
                ShardSays::Gone {
                    timeline,
                    step,
                    at,
                    purpose,
                },
            ));
        }
    }

    pub(super) fn push(&mut self, link: LinkId, push: Push, effects: &mut Vec<Effect>) {
        let verdict = self.judge(&push);
        if verdict == Verdict::Stored {
            self.store(&push, effects);
        } else {
            if verdict == Verdict::Covered {
                self.compare(&push, effects);
            }
            self.discarded = self.discarded.saturating_add(push.samples);
            effects.push(Effect::Free(push.tensor));
        }
        let Push {
            timeline,
            step,
            node,
            ..
        } = push;
        effects.push(Effect::Say(
            link,
            ShardSays::Answer {
                timeline,
                step,
                node,
                verdict,
            },
        ));
        if verdict == Verdict::Stored {
            self.progress(effects);
        }
    }

    /// PROTOCOL 6: named by what it is, never by who sent it or by generation.
    fn judge(&self, push: &Push) -> Verdict {
        if !self.is_current(push.timeline, push.map, push.view) || !self.is_primary() {
            return Verdict::Superseded;
        }
        if push.step != self.step {
            return Verdict::StaleStep;
        }
        if !self.is_well_formed(push) {
            return Verdict::Malformed;
        }
        if self.covered.includes_node(push.node, &self.with_samples) {
            return Verdict::Covered;
        }
        match self.phase {
            Phase::Collecting => Verdict::Stored,
            Phase::Combining
            | Phase::Pledging(_)
            | Phase::Voted
            | Phase::Applying(_)
            | Phase::Made { .. }
            | Phase::Resting => Verdict::StaleStep,
            Phase::Following => Verdict::Superseded,
        }
    }

    /// Whether the node is one of this run, with as many rows as it has, and a weight that rows can
    /// have; rows that weigh nothing are the model's business.
    fn is_well_formed(&self, push: &Push) -> bool {
        if !self.rules.tree.contains(push.node) || !push.weight.is_finite() || push.weight < 0.0 {
            return false;
        }
        let samples = self.rules.samples(push.step, push.node);
        samples > 0 && samples == push.samples
    }

    /// A parent takes the place of the children that were there: the same bits, fewer sums.
    fn store(&mut self, push: &Push, effects: &mut Vec<Effect>) {
        let below: Vec<Node> = self
            .nodes
            .keys()
            .copied()
            .filter(|node| push.node.covers(*node))
            .collect();
        for node in below {
            let replaced = self.nodes.remove(&node).expect("just listed");
            self.discarded += replaced.samples;
            effects.push(Effect::Free(replaced.tensor));
        }
        let Push {
            tensor,
            incarnation,
            samples,
            weight,
            loss_sum,
            ..
        } = *push;
        self.nodes.insert(
            push.node,
            Stored {
                tensor,
                incarnation,
                samples,
                weight,
                loss_sum,
            },
        );
        self.covered.insert_node(push.node, &self.with_samples);
    }

    pub(super) fn combined(
        &mut self,
        step: Step,
        squares: Vec<f64>,
        non_finite: Vec<u32>,
        effects: &mut Vec<Effect>,
    ) {
        // A seal may have come between: what has not voted by then never does (PROTOCOL 24).
        if self.phase == Phase::Combining && step == self.step {
            self.cast(squares, non_finite, effects);
        }
    }

    pub(super) fn vote_arrived(&mut self, vote: Vote, effects: &mut Vec<Effect>) {
        let other = vote.slice != self.slice() && self.is_slice(vote.slice);
        if !self.is_primary() {
            return;
        }
        if vote.timeline != self.origin.timeline || !other {
            return;
        }
        // A later step than the next one cannot have been voted for without this slice.
        if vote.step != self.step && vote.step != self.step.next() {
            return;
        }
        self.votes
            .entry(vote.step)
            .or_default()
            .entry(vote.slice)
            .or_insert(vote);
        self.advance(effects);
    }

    pub(super) fn vote_asked(
        &self,
        from: SliceId,
        timeline: Timeline,
        step: Step,
        effects: &mut Vec<Effect>,
    ) {
        let own = self
            .votes
            .get(&step)
            .and_then(|votes| votes.get(&self.slice()));
        let current = timeline == self.origin.timeline && self.is_primary();
        let answered = current && self.is_slice(from);
        if let Some(vote) = own.filter(|_| answered) {
            effects.push(Effect::Tell(from, SliceSays::Vote(vote.clone())));
        }
    }

    fn is_slice(&self, slice: SliceId) -> bool {
        slice.0 < self.rules.slices.slices()
    }

    pub(super) fn in_tree_order(&self) -> impl Iterator<Item = (Node, &Stored)> {
        let mut nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|(node, stored)| (*node, stored))
            .collect();
        nodes.sort_by_key(|(node, _)| node.first());
        nodes.into_iter()
    }

    pub(super) fn contributors(&self) -> Vec<Contributor> {
        self.in_tree_order()
            .map(|(node, stored)| Contributor {
                node,
                incarnation: stored.incarnation,
                samples: stored.samples,
            })
            .collect()
    }

    /// A sum over the stored nodes in tree order; 0 if there are none.
    pub(super) fn total(&self, value: impl Fn(&Stored) -> f64) -> f64 {
        self.rules
            .tree
            .sum(&|node| self.nodes.get(&node).map(&value))
            .unwrap_or(0.0)
    }
}
