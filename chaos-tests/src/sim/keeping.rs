//! What the coordinator's shell does for slices in shard processes: branches and views are written
//! down, slices go out of the store, and their cuts come in.

use std::sync::Arc;

use resilin_core::machine::{fleet, job, saver};
use resilin_core::message::{Branch, StoreAsks, StoreSays};
use resilin_core::time::Time;
use resilin_core::{LinkId, SliceId, Step};
use resilin_learn::kernel::Digest;

use super::events::{End, Local, Packet, Request, Role};
use super::processes::{Parcel, State};
use super::store::Part;
use super::{Checked, Sim};
use crate::invariants::Fact;

/// A cut whose tensors are on their way.
pub(super) struct Coming {
    branch: Branch,
    step: Step,
    digests: Vec<Digest>,
}

impl Sim<'_> {
    /// A shard process speaks, on its control link or to the store.
    pub(super) fn parcel(&mut self, role: Role, link: LinkId, parcel: Parcel) -> Checked {
        match (parcel, role) {
            (Parcel::Said(says), Role::Control) => self.fleet(fleet::Event::HostSaid(link, says)),
            (Parcel::Asks(StoreAsks::Restore { branch }), Role::Store(slice)) => {
                let takes = self.micros(1_000, 8_000);
                self.ask_store(Request::Read(link, slice, branch), takes);
                Ok(())
            }
            (
                Parcel::Asks(StoreAsks::Cut {
                    branch,
                    step,
                    digests,
                    ..
                }),
                Role::Store(_),
            ) => {
                let coming = Coming {
                    branch,
                    step,
                    digests,
                };
                let coordinator = self.coordinator.as_mut().expect("it hears");
                coordinator.coming.insert(link, coming);
                Ok(())
            }
            (Parcel::Part(state), Role::Store(slice)) => {
                self.part_came(link, slice, &state);
                Ok(())
            }
            (parcel, role) => unreachable!("{parcel:?} on {role:?}"),
        }
    }

    fn part_came(&mut self, link: LinkId, slice: SliceId, state: &State) {
        let coordinator = self.coordinator.as_mut().expect("it hears");
        let Some(Coming {
            branch,
            step,
            digests,
        }) = coordinator.coming.remove(&link)
        else {
            return;
        };
        let names = self.oracle.task.rule.tensors().into_iter();
        let tensors = names.zip(state.iter().cloned()).collect();
        let part = Part::of((slice, step), tensors, digests);
        let takes = self.micros(3_000, 20_000);
        self.ask_store(Request::Take(link, branch, Box::new(part)), takes);
    }

    /// The link of a cut that did not come whole.
    pub(super) fn part_lost(&mut self, link: LinkId, slice: SliceId) -> Checked {
        let coordinator = self.coordinator.as_mut();
        let lost = coordinator.and_then(|coordinator| coordinator.coming.remove(&link));
        match lost {
            None => Ok(()),
            Some(Coming { step, .. }) => {
                let reason = format!("slice {slice} did not send its part");
                self.saver(saver::Event::Failed(Some(slice), step, reason))
            }
        }
    }

    /// Reads a slice for whoever asked.
    pub(super) fn read_slice(&mut self, link: LinkId, slice: SliceId, branch: Branch, ends: Time) {
        let coordinator = self.coordinator.as_ref().expect("the store is part of it");
        let blocks = self.layout_of(branch).range(slice);
        let read = coordinator.store.read(branch, blocks, &self.oracle.task);
        self.answer(ends, Local::Answer(link, branch, read.map(Arc::new)));
    }

    pub(super) fn say_over(&mut self, link: LinkId) {
        let over = Parcel::Answer(StoreSays::Over, State::default());
        self.send(link, End::Dialler, Packet::Parcel(over));
    }

    pub(super) fn answer_read(
        &mut self,
        link: LinkId,
        branch: Branch,
        read: Result<State, String>,
    ) {
        let (says, state) = match read {
            Ok(state) => {
                let tensors = u32::try_from(state.len()).expect("few moments");
                (StoreSays::Restored { branch, tensors }, state)
            }
            Err(cause) => (StoreSays::Refused { cause }, State::default()),
        };
        let parcel = Parcel::Answer(says, state);
        self.send(link, End::Dialler, Packet::Parcel(parcel));
    }

    pub(super) fn keep(&mut self, effect: Request) {
        let takes = self.micros(200, 3_000);
        self.ask_store(effect, takes);
    }

    /// A part of a branch that was left is no part of a checkpoint.
    pub(super) fn take_part(&mut self, link: LinkId, branch: Branch, part: &Part, ends: Time) {
        let coordinator = self.coordinator.as_mut().expect("the store is part of it");
        let (_, step) = part.place();
        coordinator.waiting.insert(link, step);
        if coordinator.store.branch() == branch {
            self.write(part, ends);
        }
    }

    /// Whoever sent a part hears when the cut is durable or given up.
    pub(super) fn tell_over(&mut self, ends: Time) {
        let Some(coordinator) = self.coordinator.as_mut() else {
            return;
        };
        let writing = coordinator.store.writing();
        let waiting = &mut coordinator.waiting;
        let over = waiting.extract_if(|_, step| writing != Some(*step));
        for (link, _) in over.collect::<Vec<_>>() {
            self.answer(ends, Local::Over(link));
        }
    }

    pub(super) fn keep_branch(&mut self, branch: Branch, ends: Time) {
        let task = &self.oracle.task;
        let coordinator = self.coordinator.as_mut().expect("the store is part of it");
        let kept = coordinator.store.branch_kept(branch, task);
        let event = kept.unwrap_or_else(|error| job::Event::KeepFailed(error.to_string()));
        self.answer(ends, Local::Kept(event));
    }

    pub(super) fn keep_views(&mut self, views: Vec<resilin_core::message::SliceView>, ends: Time) {
        let coordinator = self.coordinator.as_mut().expect("the store is part of it");
        let event = match coordinator.store.keep_views(views) {
            Ok(()) => job::Event::ViewsKept,
            Err(error) => job::Event::KeepFailed(error.to_string()),
        };
        self.answer(ends, Local::Kept(event));
    }

    pub(super) fn keep_wishes(&mut self, wishes: job::Wishes, ends: Time) {
        let coordinator = self.coordinator.as_mut().expect("the store is part of it");
        if coordinator.store.keep_wishes(wishes).is_err() {
            self.answer(ends, Local::Kept(job::Event::WishesFailed));
        }
    }

    /// What was to be written down is durable, or is not.
    pub(super) fn kept(&mut self, event: job::Event) -> Checked {
        if let job::Event::BaseDamaged(_) = event {
            self.checker.see(&Fact::BaseDamaged)?;
        }
        if let job::Event::BranchKept(timeline) = event {
            let coordinator = self.coordinator.as_mut().expect("it hears");
            let branch = coordinator.store.branch();
            assert_eq!(branch.timeline, timeline, "one branch is written at a time");
            coordinator.timeline = timeline;
            self.stats.branches += 1;
            self.checker.see(&Fact::Branched(branch))?;
        }
        self.job(event)
    }
}
