//! Two copies of a contribution that differ: told once, whatever the number of slices that saw it.
//! Neither is known to be right, so nobody is fenced for it; `audit_rate` has a third opinion.

use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::{Incarnation, PartitionId, Step};
use crate::sorted::SortedSet;
use crate::tree::Node;

/// What was told, of the newest step with any.
#[derive(Clone, Debug, Default)]
pub(super) struct Differing {
    step: Step,
    nodes: SortedSet<Node>,
}

impl Differing {
    fn note(&mut self, step: Step, node: Node) -> bool {
        if step > self.step {
            (self.step, self.nodes) = (step, SortedSet::new());
        }
        step == self.step && self.nodes.insert(node)
    }
}

impl Job {
    pub(super) fn copies_differ(
        &mut self,
        step: Step,
        node: Node,
        members: [Incarnation; 2],
        effects: &mut Vec<Effect>,
    ) {
        let tree = self.rules.tree;
        if !tree.contains(node) || step >= self.rules.last() || !self.differing.note(step, node) {
            return;
        }
        let last = node.end().min(tree.partitions()) - 1;
        effects.push(Effect::Tell(Fact::CopiesDiffer {
            step,
            partitions: [PartitionId(node.first()), PartitionId(last)],
            members,
        }));
    }
}
