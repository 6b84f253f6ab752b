//! A later coordinator of the same run. Whoever meets one of its members is an older one that came
//! back, and commands nobody any more (PROTOCOL 1).

#[cfg(test)]
#[path = "outranked_test.rs"]
mod tests;

use super::{Effect, Event, Fleet};
use crate::id::{Generation, Incarnation};
use crate::message::{Holding, HostSays, WorkerSays};

impl Fleet {
    /// Whether a member of a later coordinator was met, now or before: nothing is heard or said from
    /// then on.
    pub(super) fn is_outranked(&mut self, event: &Event, effects: &mut Vec<Effect>) -> bool {
        let reign = reign(event).filter(|reign| *reign > self.last.reign);
        if let (Some(reign), false) = (reign, self.outranked) {
            self.outranked = true;
            effects.push(Effect::Outranked(reign));
        }
        self.outranked
    }
}

/// The highest reign that a member shows to have been under.
fn reign(event: &Event) -> Option<u64> {
    match event {
        Event::Joined { before, .. } => before.map(|before: Incarnation| before.reign),
        Event::Said(_, says) => worker(says),
        Event::HostSaid(_, says) => host(says),
        Event::LinkDown(_) | Event::Say(..) | Event::Tell(..) | Event::Fence(..) | Event::Tick => {
            None
        }
    }
}

fn worker(says: &WorkerSays) -> Option<u64> {
    match says {
        WorkerSays::Claim(claim) => Some(claim.generation.reign),
        WorkerSays::Heartbeat { generation, .. } => generation.map(|known| known.reign),
        WorkerSays::Ready { .. }
        | WorkerSays::NonFinite { .. }
        | WorkerSays::Audited(_)
        | WorkerSays::Evaluated { .. }
        | WorkerSays::Drain
        | WorkerSays::Leave => None,
    }
}

/// A host keeps its number from coordinator to coordinator: what it holds tells whom it served last.
fn host(says: &HostSays) -> Option<u64> {
    let held = |holdings: &[Holding]| {
        let reigns = holdings
            .iter()
            .map(|held| held.view.reign.max(held.branch.timeline.reign));
        reigns.max()
    };
    match says {
        HostSays::Ready { holdings, .. } => held(holdings),
        HostSays::Heartbeat {
            generation,
            holdings,
        } => held(holdings).max(generation.map(|known: Generation| known.reign)),
        HostSays::InSync { view, .. } => Some(view.reign),
        HostSays::Failed { timeline, .. } => Some(timeline.reign),
        HostSays::Report(_) | HostSays::Drain | HostSays::Leave => None,
    }
}
