//! Where the words and copies of a replica in a shard process go.

use std::sync::Arc;

use actix::Addr;
use resilin_core::message::{Branch, HostSays, ShardReport, SliceSays};
use resilin_core::{SliceId, Step, View};

use super::actor::{Has, HostActor};
use super::facts::Facts;
use super::store;
use crate::shard::{Cut, Outside};

/// Everybody around the replicas of one branch.
pub(super) struct Around {
    pub(super) facts: Arc<Facts>,
    pub(super) branch: Branch,
    pub(super) host: Addr<HostActor>,
}

impl Outside for Around {
    fn tell(&self, to: SliceId, says: SliceSays) {
        self.facts.peers.tell(to, says);
    }

    fn report(&self, report: ShardReport) {
        self.facts.control.say(&HostSays::Report(report));
    }

    fn in_sync(&self, slice: SliceId, view: View) {
        self.facts.control.say(&HostSays::InSync { slice, view });
    }

    fn has(&self, slice: SliceId, step: Step) {
        let timeline = self.branch.timeline;
        // One a step, and steps wait for votes.
        self.host.do_send(Has {
            slice,
            timeline,
            step,
        });
    }

    fn keep(&self, cut: Cut) {
        let upload = store::upload(Arc::clone(&self.facts), self.branch, cut);
        self.facts.data.spawn(upload);
    }
}
