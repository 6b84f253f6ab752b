//! Second copies of a node: none counts (PROTOCOL 6), but one of another member is compared with the
//! first while that is here, until the step is over. Both evaluated the same, so where bits are
//! promised a difference is somebody's fault.

use super::{Effect, Push, Shard};
use crate::id::{Incarnation, Step};
use crate::job::Bits;
use crate::message::ShardReport;
use crate::tree::Node;

/// The comparison that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    step: Step,
    node: Node,
    /// Whose copy was first, and whose is compared with it.
    members: [Incarnation; 2],
    /// Whether they agree in all but the values.
    alike: bool,
}

impl Shard {
    /// Has a copy that is covered compared, before it is freed. One at a time: more are only dropped.
    pub(super) fn compare(&mut self, push: &Push, effects: &mut Vec<Effect>) {
        let Some(first) = self.nodes.get(&push.node) else {
            return;
        };
        let own = first.incarnation == push.incarnation;
        if own || self.rules.bits == Bits::Off || self.comparing.is_some() {
            return;
        }
        let bits = |weight: f64, loss: f64| (weight.to_bits(), loss.to_bits());
        self.comparing = Some(Comparison {
            step: push.step,
            node: push.node,
            members: [first.incarnation, push.incarnation],
            alike: bits(first.weight, first.loss_sum) == bits(push.weight, push.loss_sum),
        });
        effects.push(Effect::Compare([first.tensor, push.tensor]));
    }

    pub(super) fn compared(&mut self, same: bool, effects: &mut Vec<Effect>) {
        let comparison = self.comparing.take();
        let Comparison {
            step,
            node,
            members,
            alike,
        } = comparison.expect("only `Compare` is answered by `Compared`");
        if !same || !alike {
            effects.push(Effect::Report(ShardReport::Differs {
                slice: self.slice(),
                timeline: self.origin.timeline,
                step,
                node,
                members,
            }));
        }
    }
}
