//! What a shard process wants of the store, each over a link of its own: a slice as it was at the
//! base of a branch, or to have a copy written.

use std::sync::Arc;

use resilin_core::machine::host::Event;
use resilin_core::message::{Branch, StoreAsks, StoreSays};
use resilin_core::time::Time;
use resilin_core::{LinkId, SliceId, Step};
use resilin_learn::kernel::{Digest, PinnedSlice};

use super::{Deed, Parcel, State};
use crate::sim::events::{End, Packet, Party, Role};
use crate::sim::{Checked, Sim};

/// Leases for which a cut is offered.
const OFFERED: u64 = 30;

/// One errand.
pub(super) struct Errand {
    slice: SliceId,
    branch: Branch,
    what: What,
    link: Option<LinkId>,
    began: Time,
}

enum What {
    Restore,
    Cut {
        step: Step,
        digests: Vec<Digest>,
        state: State,
    },
}

/// All tensors of a pinned slice.
pub(super) fn state_of(pinned: &PinnedSlice) -> Vec<Vec<f32>> {
    let tensors = pinned.tensors();
    tensors.map(|(_, values)| values.to_vec()).collect()
}

impl Sim<'_> {
    pub(super) fn restore(&mut self, id: u32, slice: SliceId, branch: Branch) {
        self.give_up_restore(id, slice);
        self.begin_errand(id, slice, branch, What::Restore);
    }

    pub(super) fn give_up_restore(&mut self, id: u32, slice: SliceId) {
        let process = self.processes.get_mut(&id).expect("it acts");
        process.restored.remove(&slice);
        let mut links = Vec::new();
        process.errands.retain(|_, errand| {
            let given_up = errand.slice == slice && matches!(errand.what, What::Restore);
            links.extend(errand.link.filter(|_| given_up));
            !given_up
        });
        for link in links {
            self.close(link, End::Dialler);
        }
    }

    pub(super) fn upload(
        &mut self,
        id: u32,
        (slice, branch): (SliceId, Branch),
        pinned: &PinnedSlice,
        digests: &[Digest],
    ) {
        let what = What::Cut {
            step: pinned.version(),
            digests: digests.to_vec(),
            state: Arc::new(state_of(pinned)),
        };
        self.begin_errand(id, slice, branch, what);
    }

    fn begin_errand(&mut self, id: u32, slice: SliceId, branch: Branch, what: What) {
        let process = self.processes.get_mut(&id).expect("it acts");
        process.next_errand += 1;
        let number = process.next_errand;
        let errand = Errand {
            slice,
            branch,
            what,
            link: None,
            began: self.now,
        };
        process.errands.insert(number, errand);
        self.run_errand(id, number);
    }

    /// Dials the store, now or later.
    pub(super) fn run_errand(&mut self, id: u32, number: u32) {
        let process = &self.processes[&id];
        let Some(errand) = process.errands.get(&number).filter(|e| e.link.is_none()) else {
            return;
        };
        let role = Role::Store(errand.slice);
        let link = match process.lost > self.now {
            true => None,
            false => self.connect(Party::Shard(id), Party::Coordinator, role, None),
        };
        let errands = self.processes.get_mut(&id).map(|p| &mut p.errands);
        if let Some(errand) = errands.and_then(|errands| errands.get_mut(&number)) {
            errand.link = link;
        }
        if link.is_none() {
            self.later(id, Deed::Errand(number));
        }
    }

    fn errand(&mut self, id: u32, link: LinkId) -> Option<(u32, &mut Errand)> {
        let errands = self.processes.get_mut(&id)?.errands.iter_mut();
        let mut found = errands.filter(|(_, errand)| errand.link == Some(link));
        found.next().map(|(number, errand)| (*number, errand))
    }

    pub(super) fn store_linked(&mut self, id: u32, link: LinkId) {
        let Some((_, errand)) = self.errand(id, link) else {
            return;
        };
        let branch = errand.branch;
        let (asks, part) = match &errand.what {
            What::Restore => (StoreAsks::Restore { branch }, None),
            What::Cut {
                step,
                digests,
                state,
            } => {
                let asks = StoreAsks::Cut {
                    branch,
                    step: *step,
                    digests: digests.clone(),
                    tensors: u32::try_from(state.len()).expect("few moments"),
                };
                (asks, Some(Arc::clone(state)))
            }
        };
        self.send(link, End::Listener, Packet::Parcel(Parcel::Asks(asks)));
        if let Some(state) = part {
            self.send(link, End::Listener, Packet::Parcel(Parcel::Part(state)));
        }
    }

    pub(super) fn store_answered(
        &mut self,
        id: u32,
        link: LinkId,
        says: StoreSays,
        state: State,
    ) -> Checked {
        let Some((number, errand)) = self.errand(id, link) else {
            return Ok(());
        };
        let (slice, branch) = (errand.slice, errand.branch);
        let process = self.processes.get_mut(&id).expect("just seen");
        process.errands.remove(&number);
        self.close(link, End::Dialler);
        let process = self.processes.get_mut(&id).expect("just seen");
        let event = match says {
            StoreSays::Restored { .. } => {
                process.restored.insert(slice, (branch, state));
                Event::Restored { slice, branch }
            }
            StoreSays::Refused { cause } => Event::RestoreFailed {
                slice,
                branch,
                cause,
            },
            StoreSays::Over => return Ok(()),
        };
        self.process(id, event)
    }

    /// A slice is asked for as long as it is waited for; a cut is sent again, also to a restarted
    /// coordinator, until it is over or nobody can want it any more.
    pub(super) fn store_lost(&mut self, id: u32, link: LinkId) {
        let late = self.rules.lease.times(OFFERED);
        let now = self.now;
        let Some((number, errand)) = self.errand(id, link) else {
            return;
        };
        errand.link = None;
        let given_up = match errand.what {
            What::Restore => false,
            What::Cut { .. } => now.since(errand.began) >= late,
        };
        if given_up {
            let process = self.processes.get_mut(&id).expect("just seen");
            process.errands.remove(&number);
        } else {
            self.later(id, Deed::Errand(number));
        }
    }
}
