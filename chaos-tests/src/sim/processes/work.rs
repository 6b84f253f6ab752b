//! What a replica's machine asks for: words to others, and the arithmetic, which answers in order but
//! not at once.

use std::sync::Arc;

use resilin_core::machine::shard::{Effect, Event};
use resilin_core::message::{HostSays, ShardReport};
use resilin_core::vote::Action;
use resilin_core::{SliceId, Step};
use resilin_learn::kernel::{self, PinnedSlice};

use super::{Deed, Parcel};
use crate::invariants::Fact;
use crate::sim::events::{End, Happening, Packet};
use crate::sim::shards::COMPARISON;
use crate::sim::{Checked, Sim};

impl Sim<'_> {
    pub(super) fn replica_effect(&mut self, id: u32, slice: SliceId, effect: Effect) -> Checked {
        let replica = self.replica_at(id, slice);
        match effect {
            Effect::Free(tensor) => {
                let freed = replica.tensors.remove(&tensor);
                assert!(freed.is_some(), "{tensor} is freed once");
            }
            Effect::Say(link, says) => self.send(link, End::Dialler, Packet::Heard(says)),
            Effect::SendWeights {
                link,
                step,
                purpose,
                based_on,
            } => {
                let packet = Packet::Weights {
                    timeline: replica.branch.timeline,
                    step,
                    purpose,
                    values: replica.weights(step),
                    based_on: based_on.map(|version| replica.weights(version)),
                };
                self.send(link, End::Dialler, packet);
            }
            Effect::Combine {
                step,
                nodes,
                weight,
            } => {
                let rules = self.rules.clone();
                let stats = self
                    .replica_at(id, slice)
                    .combine(step, &nodes, weight, &rules);
                let event = Event::Combined {
                    step,
                    squares: stats.squares,
                    non_finite: stats.non_finite,
                };
                self.work(id, slice, event);
            }
            Effect::Compare([first, second]) => {
                let same = kernel::same(&replica.tensors[&first], &replica.tensors[&second]);
                let deed = Deed::Answer(slice, replica.serial, Event::Compared { same });
                let at = self.now + COMPARISON;
                self.queue.push(at, Happening::Deed(id, deed));
            }
            Effect::Load { step, tensor } => {
                let root = Arc::clone(&replica.tensors[&tensor]);
                replica.kernel().load(step, &root);
            }
            Effect::Apply { step, action, loss } => {
                return self.apply_at(id, slice, step, (action, loss));
            }
            Effect::Pin(step) => replica.pinned = Some((step, replica.weights(step))),
            Effect::Unpin(step) => {
                let unpinned = replica.pinned.take().map(|(step, _)| step);
                assert_eq!(unpinned, Some(step), "one version is pinned at a time");
            }
            Effect::Cut(step) => {
                let mut pinned = PinnedSlice::default();
                replica.kernel().pin(&mut pinned);
                assert_eq!(pinned.version(), step, "the newest version is cut");
                let digests = replica.kernel().digests().to_vec();
                let branch = replica.branch;
                self.upload(id, (slice, branch), &pinned, &digests);
            }
            Effect::Tell(to, says) => self.tell_primary(id, to, says),
            Effect::Report(report) => return self.report(id, slice, report),
            Effect::Mirror(says) => self.say_to_mirror(id, slice, Parcel::Replica(says)),
            Effect::SendRoot(step) => self.send_root(id, slice, step),
            Effect::DropRoots { before } => replica.roots.retain(|step, _| *step >= before),
            Effect::SendCopy { view, step, votes } => {
                self.offer_copy(id, slice, (view, step), votes);
            }
            Effect::TakeCopy(step) => replica.taking = Some(step),
            Effect::InSync(view) => self.say(id, HostSays::InSync { slice, view }),
        }
        Ok(())
    }

    fn report(&mut self, id: u32, slice: SliceId, report: ShardReport) -> Checked {
        let replica = self.replica_at(id, slice);
        let (timeline, view) = (replica.branch.timeline, replica.machine.view());
        match &report {
            ShardReport::Committed(record) => self.checker.see(&Fact::Committed(record))?,
            ShardReport::Progress { step, .. } => self.checker.see(&Fact::Served {
                slice,
                timeline,
                view,
                process: id,
                version: *step,
            })?,
            ShardReport::Halted { .. } | ShardReport::Differs { .. } => {}
        }
        self.say(id, HostSays::Report(report));
        Ok(())
    }

    fn send_root(&mut self, id: u32, slice: SliceId, step: Step) {
        let replica = self.replica_at(id, slice);
        let values = match replica.roots.get(&step) {
            Some(root) => Arc::clone(root),
            None => {
                let root = Arc::new(replica.kernel().root(step).to_vec());
                replica.roots.insert(step, Arc::clone(&root));
                root
            }
        };
        let root = Parcel::Root {
            view: replica.machine.view(),
            timeline: replica.branch.timeline,
            step,
            values,
        };
        self.work_out(id, slice, root);
    }

    fn apply_at(
        &mut self,
        id: u32,
        slice: SliceId,
        step: Step,
        (action, loss): (Action, f64),
    ) -> Checked {
        let replica = self.replica_at(id, slice);
        let (serial, branch) = (replica.serial, replica.branch);
        let kernel = replica.kernel();
        let applied = match action {
            Action::Apply { scale } => kernel.apply(step, scale, loss),
            Action::Skip => kernel.skip(step),
            Action::Halt => unreachable!("a halt is not applied"),
        };
        let made = kernel.weights(applied.version);
        let made = Arc::clone(made.expect("the newest version is live"));
        replica.versions.retain(|version, _| *version >= step);
        replica.versions.insert(applied.version, made);
        if applied.finite {
            self.checker.see(&Fact::Applied {
                slice,
                timeline: branch.timeline,
                replica: serial,
                step,
                first: self.oracle.task.slices(branch.shards).range(slice).start,
                digests: &applied.digests,
            })?;
        }
        let event = Event::Applied {
            step,
            digests: applied.digests,
            finite: applied.finite,
        };
        self.work(id, slice, event);
        Ok(())
    }

    /// The kernel answers once it has done what it was given before.
    pub(super) fn work(&mut self, id: u32, slice: SliceId, event: Event) {
        let serial = self.replica_at(id, slice).serial;
        self.when_done(id, slice, Deed::Answer(slice, serial, event));
    }

    /// The kernel has a tensor for the other replica.
    pub(super) fn work_out(&mut self, id: u32, slice: SliceId, parcel: Parcel) {
        let serial = self.replica_at(id, slice).serial;
        self.when_done(id, slice, Deed::Post(slice, serial, parcel));
    }

    fn when_done(&mut self, id: u32, slice: SliceId, deed: Deed) {
        let (now, takes) = (self.now, self.micros(100, 1_000));
        let replica = self.replica_at(id, slice);
        replica.free_at = replica.free_at.max(now) + takes;
        let at = replica.free_at;
        self.queue.push(at, Happening::Deed(id, deed));
    }
}
