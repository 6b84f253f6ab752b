//! Slices in the coordinator's own process: how they are started, and where their words go.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, Addr, Arbiter};
use resilin_core::SliceId;
use resilin_core::machine::shard::Origin;
use resilin_core::message::{ShardReport, SliceSays, SliceView};
use resilin_learn::kernel::SliceKernel;

use super::common::Common;
use super::{job, store};
use crate::shard::{Arithmetic, Cut, Outside, Setting, ShardActor, Slice};

/// The other actors of this process.
struct Inside(Arc<Common>);

impl Outside for Inside {
    fn tell(&self, to: SliceId, says: SliceSays) {
        // At most a vote and a question a step, and no step without all votes.
        self.0.peers().shards[&to].do_send(Slice(says));
    }

    /// What is repeated until it is acknowledged may be dropped by a full mailbox, except the
    /// ledger's records, of which only so many may be unacknowledged.
    fn report(&self, report: ShardReport) {
        let job = &self.0.peers().job;
        match report {
            ShardReport::Progress { slice, .. } => {
                if job.try_send(job::FromShard(report)).is_err() {
                    tracing::debug!(%slice, "a progress report waits");
                }
            }
            ShardReport::Committed(_) | ShardReport::Halted { .. } => {
                job.do_send(job::FromShard(report));
            }
        }
    }

    fn keep(&self, cut: Cut) {
        self.0.peers().store.do_send(store::Part(cut));
    }
}

type Shards = (
    BTreeMap<SliceId, Addr<ShardActor>>,
    BTreeMap<SliceId, Arithmetic>,
);

/// Starts an actor for each slice; their threads are started once all actors know each other.
pub(super) fn start(
    common: &Arc<Common>,
    kernels: BTreeMap<SliceId, SliceKernel>,
    views: &BTreeMap<SliceId, SliceView>,
) -> Shards {
    let cluster = &common.task.job.cluster;
    let setting = Arc::new(Setting {
        rules: common.rules.clone(),
        expected: common.expected.clone(),
        in_flight: cluster.in_flight,
        mailbox: cluster.mailbox,
        clock: common.clock,
        outside: Box::new(Inside(Arc::clone(common))),
    });
    let (mut shards, mut arithmetics) = (BTreeMap::new(), BTreeMap::new());
    for (slice, kernel) in kernels {
        let origin = Origin {
            slice,
            timeline: common.timeline,
            map: common.map,
            view: views[&slice].view,
            step: kernel.version(),
        };
        let weights = kernel.weights(kernel.version());
        let weights = Arc::clone(weights.expect("the newest version is live"));
        let (arithmetic, hands) = Arithmetic::new(slice, kernel, Arc::clone(&setting));
        let for_shard = Arc::clone(&setting);
        let shard = ShardActor::start_in_arbiter(&Arbiter::new().handle(), move |_| {
            ShardActor::new(for_shard, origin, weights, hands)
        });
        shards.insert(slice, shard);
        arithmetics.insert(slice, arithmetic);
    }
    (shards, arithmetics)
}
