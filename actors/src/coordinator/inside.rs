//! Slices in the coordinator's own process: how they are started, and where their words go.

use std::io;
use std::sync::Arc;

use actix::Addr;
use resilin_core::machine::shard::{Assigned, Origin};
use resilin_core::message::{ShardReport, SliceSays, SliceView};
use resilin_core::sorted::SortedMap;
use resilin_core::{SliceId, Step, View};
use resilin_learn::kernel::SliceKernel;

use super::common::Common;
use super::{job, store};
use crate::shard::{self, Cut, Outside, Seat, Setting, ShardActor, Slice};

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
            ShardReport::Committed(_)
            | ShardReport::Halted { .. }
            | ShardReport::Differs { .. } => {
                job.do_send(job::FromShard(report));
            }
        }
    }

    fn in_sync(&self, _: SliceId, _: View) {
        unreachable!("slices in the coordinator have no replica");
    }

    /// Progress reports say it.
    fn has(&self, _: SliceId, _: Step) {}

    fn keep(&self, cut: Cut) {
        self.0.peers().store.do_send(store::Part {
            branch: self.0.branch,
            slice: cut.slice,
            step: cut.step,
            digests: cut.digests.clone(),
            copy: store::Copy::Inside(Box::new(cut)),
            over: None,
        });
    }
}

/// Starts an actor with its thread for each slice; they do nothing before `Begin`.
pub(super) fn start(
    common: &Arc<Common>,
    kernels: SortedMap<SliceId, SliceKernel>,
    views: &[SliceView],
) -> io::Result<SortedMap<SliceId, Addr<ShardActor>>> {
    let cluster = &common.task.job.cluster;
    let setting = Arc::new(Setting {
        rules: common.rules.clone(),
        expected: common.expected.clone(),
        in_flight: cluster.in_flight,
        mailbox: cluster.mailbox,
        clock: common.clock,
        outside: Box::new(Inside(Arc::clone(common))),
    });
    let mut shards = SortedMap::new();
    for ((slice, kernel), view) in kernels.into_iter().zip(views) {
        let origin = Origin {
            slice,
            timeline: common.branch.timeline,
            map: common.branch.map,
            view: view.view,
            step: kernel.version(),
        };
        let seat = Seat {
            origin,
            duty: Assigned::Primary { backup: None },
            plan: kernel.plan().clone(),
            kernel: Some(kernel),
        };
        shards.insert(slice, shard::start(&setting, seat)?);
    }
    Ok(shards)
}
