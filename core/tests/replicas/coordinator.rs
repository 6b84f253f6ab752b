//! Who serves what, decided as PROTOCOL 3 has it, and who dies when.

use resilin_core::machine::Rules;
use resilin_core::machine::shard::{Assigned, Event, Follower, Sync};
use resilin_core::message::{ShardOrder, ShardReport, StepRecord};
use resilin_core::sorted::{SortedMap, SortedSet};
use resilin_core::{Incarnation, SliceId, Step, View};

use super::plant::Plant;
use super::world::{Checked, Happening, World};

/// The durable view of a slice.
pub(super) struct Slot {
    pub(super) number: View,
    pub(super) primary: u32,
    /// A primary that was replaced and lives on for a while.
    pub(super) earlier: Option<u32>,
    pub(super) backup: Option<(u32, Sync)>,
    /// A backup that was given up, lives, and will be taken back.
    lapsed: Option<u32>,
}

/// What happened, so that a run that tests nothing is noticed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) promoted: u32,
    pub(super) synced: u32,
    pub(super) taken_back: u32,
    pub(super) cuts: u32,
    pub(super) skipped: u32,
}

pub(super) struct Coordinator {
    pub(super) views: SortedMap<SliceId, Slot>,
    ledger: SortedMap<(Step, SliceId), StepRecord>,
    over: SortedSet<(SliceId, Step)>,
    last_view: View,
    last_replica: u32,
    pub(super) counts: Counts,
}

impl Coordinator {
    pub(super) fn new(_: &Rules) -> Self {
        Self {
            views: SortedMap::new(),
            ledger: SortedMap::new(),
            over: SortedSet::new(),
            last_view: View {
                reign: 1,
                number: 0,
            },
            last_replica: 0,
            counts: Counts::default(),
        }
    }

    fn next_view(&mut self) -> View {
        self.last_view = self.last_view.next();
        self.last_view
    }

    fn next_replica(&mut self) -> u32 {
        self.last_replica += 1;
        self.last_replica
    }

    fn slot(&mut self, slice: SliceId) -> &mut Slot {
        self.views.get_mut(&slice).expect("a slice of the map")
    }

    /// Whether every step of every slice is in the ledger.
    pub(super) fn is_complete(&self, rules: &Rules) -> bool {
        self.ledger.len() as u64 == rules.last().0 * u64::from(rules.slices.slices())
    }
}

impl World {
    pub(super) fn start(&mut self) -> Checked {
        for slice in self.rules.slices.ids() {
            let (number, primary) = (
                self.coordinator.next_view(),
                self.coordinator.next_replica(),
            );
            let slot = Slot {
                number,
                primary,
                earlier: None,
                backup: None,
                lapsed: None,
            };
            self.coordinator.views.insert(slice, slot);
            self.begin(primary, slice, number, Assigned::Primary { backup: None })?;
            let wait = u64::from(self.draw(20_000));
            self.after(wait, Happening::NewBackup(slice));
        }
        for worker in 0..self.workers.len() {
            self.after(0, Happening::WorkerTick(worker));
        }
        self.after(5_000, Happening::Chaos);
        Ok(())
    }

    /// Writes a changed view and tells it to the replicas it names, some time later.
    fn change(&mut self, slice: SliceId) {
        let number = self.coordinator.next_view();
        let slot = self.coordinator.slot(slice);
        slot.number = number;
        let (primary, backup) = (slot.primary, slot.backup);
        let follower = backup.map(|(id, sync)| Follower {
            incarnation: incarnation(id),
            sync,
        });
        self.tell_view(primary, number, Assigned::Primary { backup: follower });
        self.meet(primary, backup.map(|(id, _)| id));
        if let Some((id, _)) = backup {
            self.tell_view(id, number, Assigned::Backup);
            self.meet(id, Some(primary));
            let wait = 25_000 + u64::from(self.draw(10_000));
            self.after(wait, Happening::Linked(primary, id));
        }
    }

    fn tell_view(&mut self, id: u32, view: View, duty: Assigned) {
        let wait = 200 + u64::from(self.draw(20_000));
        self.after(wait, Happening::Shard(id, Event::View { view, duty }));
    }

    fn meet(&mut self, id: u32, peer: Option<u32>) {
        if let Some(replica) = self.replicas.get_mut(&id) {
            replica.peer = peer;
        }
    }

    pub(super) fn new_backup(&mut self, slice: SliceId) {
        let slot = self.coordinator.slot(slice);
        if slot.backup.is_some() {
            return;
        }
        let lapsed = slot.lapsed.take();
        let id = match lapsed.filter(|id| self.replicas.contains_key(id)) {
            Some(id) => {
                self.coordinator.counts.taken_back += 1;
                id
            }
            None => {
                let id = self.coordinator.next_replica();
                let number = self.coordinator.slot(slice).number;
                self.begin(id, slice, number, Assigned::Backup)
                    .expect("a backup begins with nothing");
                id
            }
        };
        self.coordinator.slot(slice).backup = Some((id, Sync::Copying));
        self.change(slice);
    }

    pub(super) fn in_sync(&mut self, slice: SliceId, view: View) {
        let slot = self.coordinator.slot(slice);
        let Some((id, Sync::Copying)) = slot.backup else {
            return;
        };
        if slot.number == view {
            slot.backup = Some((id, Sync::InSync));
            self.coordinator.counts.synced += 1;
            self.change(slice);
        }
    }

    pub(super) fn drop_replica(&mut self, id: u32) {
        self.replicas.remove(&id);
        for slot in self.coordinator.views.values_mut() {
            slot.earlier = slot.earlier.filter(|earlier| *earlier != id);
        }
    }

    pub(super) fn chaos(&mut self) {
        if !self.faults {
            return;
        }
        let wait = 1_000 + u64::from(self.draw(20_000));
        self.after(wait, Happening::Chaos);
        let slice = SliceId(self.draw(3) as u16);
        match self.draw(100) {
            0..25 => self.lose_primary(slice),
            25..35 => self.lose_backup(slice),
            35..45 => self.lapse(slice),
            45..60 => {
                let slot = self.coordinator.slot(slice);
                if let Some((backup, _)) = slot.backup {
                    let primary = slot.primary;
                    self.bounce(primary, backup);
                }
            }
            60..85 => self.order(slice, ShardOrder::RequestCut),
            85..93 => {
                let primary = self.coordinator.slot(slice).primary;
                let step = self.replicas[&primary].shard.version();
                self.oracle.withheld.insert(step);
                self.order(slice, ShardOrder::Withhold { step });
            }
            _ => {}
        }
    }

    /// Killed, or cut off and replaced while it goes on.
    fn lose_primary(&mut self, slice: SliceId) {
        let plant = self.plant;
        let slot = self.coordinator.slot(slice);
        let any = plant == Plant::PromoteUnsynced;
        let Some((backup, _)) = slot.backup.filter(|(_, sync)| any || *sync == Sync::InSync) else {
            return;
        };
        if any && self.replicas[&backup].shard.holds().is_none() {
            return;
        }
        let lost = std::mem::replace(&mut slot.primary, backup);
        slot.backup = None;
        slot.earlier = Some(lost);
        self.coordinator.counts.promoted += 1;
        let lives_on = if self.odds(60) {
            0
        } else {
            u64::from(self.draw(60_000))
        };
        if lives_on == 0 {
            self.drop_replica(lost);
        } else {
            self.after(lives_on, Happening::Dropped(lost));
        }
        self.change(slice);
        self.back_up_later(slice);
    }

    fn lose_backup(&mut self, slice: SliceId) {
        if let Some((backup, _)) = self.coordinator.slot(slice).backup.take() {
            self.drop_replica(backup);
            self.change(slice);
            self.back_up_later(slice);
        }
    }

    /// Gives a backup up that lives on, is not told, and comes back.
    fn lapse(&mut self, slice: SliceId) {
        let slot = self.coordinator.slot(slice);
        if let Some((backup, _)) = slot.backup.take() {
            slot.lapsed = Some(backup);
            self.change(slice);
            self.back_up_later(slice);
        }
    }

    fn back_up_later(&mut self, slice: SliceId) {
        let wait = u64::from(self.draw(40_000));
        self.after(wait, Happening::NewBackup(slice));
    }

    /// To whatever replicas the slice has; each may miss it.
    fn order(&mut self, slice: SliceId, order: ShardOrder) {
        let slot = self.coordinator.slot(slice);
        let ids = [Some(slot.primary), slot.backup.map(|(id, _)| id)];
        for id in ids.into_iter().flatten() {
            self.send(Happening::Shard(id, Event::Order(order)));
        }
    }

    pub(super) fn cut_over(&mut self, slice: SliceId, step: Step) {
        self.coordinator.over.insert((slice, step));
        self.order(slice, ShardOrder::CutOver { step });
    }

    pub(super) fn reported(&mut self, report: ShardReport) -> Checked {
        match report {
            ShardReport::Committed(record) => self.committed(record),
            ShardReport::Halted { slice, step, .. } => {
                Err(format!("slice {slice} halts at step {step}"))
            }
            ShardReport::Differs { step, node, .. } => {
                Err(format!("two copies of {node} at step {step} differ"))
            }
            ShardReport::Progress {
                slice,
                pinned,
                cutting,
                ..
            } => {
                if let Some(version) = pinned.filter(|_| self.odds(20)) {
                    self.order(slice, ShardOrder::Evaluated { version });
                }
                let cut = cutting.filter(|step| self.coordinator.over.contains(&(slice, *step)));
                if let Some(step) = cut {
                    self.order(slice, ShardOrder::CutOver { step });
                }
                Ok(())
            }
        }
    }

    fn committed(&mut self, record: StepRecord) -> Checked {
        let (step, slice) = (record.step, record.slice);
        let right = self.oracle.values(slice, step.next()).weights.to_le_bytes();
        if record.digests[0][..8] != right {
            return Err(format!(
                "the record of slice {slice}, step {step} has other bits"
            ));
        }
        // Who summed what is advice, and so is what was dropped.
        let said = |r: &StepRecord| (r.skipped, r.cut, r.cut_missed);
        let known = self.coordinator.ledger.range((step, SliceId(0))..);
        for ((_, other), known) in known.take_while(|((at, _), _)| *at == step) {
            if said(known) != said(&record) {
                return Err(format!(
                    "slices {other} and {slice} decide step {step} otherwise"
                ));
            }
        }
        let counts = &mut self.coordinator.counts;
        if slice == SliceId(0) && !self.coordinator.ledger.contains_key(&(step, slice)) {
            counts.cuts += u32::from(record.cut);
            counts.skipped += u32::from(record.skipped);
        }
        self.coordinator.ledger.insert((step, slice), record);
        let mut before = Step(0);
        while self.coordinator.ledger.contains_key(&(before, slice)) {
            before = before.next();
        }
        self.order(slice, ShardOrder::Recorded { before });
        Ok(())
    }
}

pub(super) fn incarnation(id: u32) -> Incarnation {
    Incarnation {
        reign: 1,
        number: id,
    }
}
