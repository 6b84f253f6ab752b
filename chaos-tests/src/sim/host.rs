//! A worker's process: its machine, its tensors, its links, and what is wrong with it.

use std::sync::Arc;

use resilin_core::layout::SliceMap;
use resilin_core::machine::Rules;
use resilin_core::machine::shard::Push;
use resilin_core::machine::worker::Worker;
use resilin_core::message::{Use, WorkerAsks};
use resilin_core::sorted::SortedMap;
use resilin_core::time::Time;
use resilin_core::{Incarnation, LinkId, SliceId, Step, Tensor, Timeline};
use resilin_learn::kernel::{Evaluator, hex};
use resilin_learn::task::Task;

use super::clock::Clock;
use super::events::{Party, Role};

/// Weights by slice.
type Parts = SortedMap<SliceId, Arc<Vec<f32>>>;

/// A contribution, the link that it is for, and the values that it will have.
type Unsent = (LinkId, Push, Arc<Vec<f32>>);

/// One worker process.
pub(super) struct Host {
    pub(super) machine: Worker,
    pub(super) incarnation: Incarnation,
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) frozen: Time,
    /// Until when nothing reaches it.
    pub(super) deaf: Time,
    /// Until when nothing comes from it.
    pub(super) mute: Time,
    /// Until when it does not know where the coordinator is.
    pub(super) lost: Time,
    /// Before which no evaluation ends.
    pub(super) stuck: Time,
    /// Evaluations to come that end with a NaN.
    pub(super) spoilt: u32,
    /// Evaluations to come in which a bit flips.
    pub(super) flips: u32,
    pub(super) slowness: u32,
    /// Whether it was asked to leave; the last to be left is not asked.
    pub(super) leaving: bool,
    pub(super) control: Option<LinkId>,
    pub(super) data: SortedMap<SliceId, Option<LinkId>>,
    /// Who serves each slice.
    pub(super) servers: SortedMap<SliceId, Party>,
    pub(super) slices: SliceMap,
    pub(super) evaluator: Evaluator,
    pub(super) weights: SortedMap<(Use, Step), Parts>,
    /// Of which branch each slice was asked for the next version, last of all to be trained on, and
    /// that version, while the one before is held for it.
    pub(super) asked: SortedMap<SliceId, (Timeline, Step)>,
    /// Weights of steps that are audited.
    pub(super) retained: SortedMap<Step, Arc<Vec<f32>>>,
    pub(super) tensors: SortedMap<Tensor, Arc<Vec<f32>>>,
    /// What waits for the values of a sum that still come.
    pub(super) unsent: SortedMap<Tensor, Vec<Unsent>>,
    pub(super) next_tensor: u64,
    pub(super) armed: Option<Time>,
}

impl Host {
    pub(super) fn new(task: &Arc<Task>, rules: Rules, name: String, slowness: u32) -> Self {
        Self {
            incarnation: Incarnation::default(),
            name,
            clock: Clock::default(),
            frozen: Time(0),
            deaf: Time(0),
            mute: Time(0),
            lost: Time(0),
            stuck: Time(0),
            spoilt: 0,
            flips: 0,
            slowness,
            leaving: false,
            control: None,
            data: SortedMap::new(),
            servers: SortedMap::new(),
            slices: rules.slices,
            machine: Worker::new(rules, hex(&task.data_digest())),
            evaluator: Evaluator::new(Arc::clone(task)),
            weights: SortedMap::new(),
            asked: SortedMap::new(),
            retained: SortedMap::new(),
            tensors: SortedMap::new(),
            unsent: SortedMap::new(),
            next_tensor: 0,
            armed: None,
        }
    }

    pub(super) fn dialled(&mut self, role: Role, link: LinkId) {
        match role {
            Role::Control => self.control = Some(link),
            Role::Data(slice) => {
                self.data.insert(slice, Some(link));
            }
            Role::Votes(_) | Role::Mirror(_) | Role::Store(_) => {
                unreachable!("only shard processes dial these")
            }
        }
    }

    /// Whom it dials for a role.
    pub(super) fn server(&self, role: Role) -> Party {
        match role {
            Role::Data(slice) => self.servers.get(&slice).copied(),
            Role::Control | Role::Votes(_) | Role::Mirror(_) | Role::Store(_) => None,
        }
        .unwrap_or(Party::Coordinator)
    }

    /// Whether the link is the one in use for its role.
    pub(super) fn uses(&self, role: Role, link: LinkId) -> bool {
        match role {
            Role::Control => self.control == Some(link),
            Role::Data(slice) => self.data.get(&slice) == Some(&Some(link)),
            Role::Votes(_) | Role::Mirror(_) | Role::Store(_) => false,
        }
    }

    pub(super) fn links(&self) -> Vec<LinkId> {
        let data = self.data.values().copied().flatten();
        self.control.into_iter().chain(data).collect()
    }

    /// A slice is asked for weights.
    pub(super) fn asks(&mut self, slice: SliceId, asks: WorkerAsks) {
        let WorkerAsks::Pull {
            timeline,
            step,
            purpose,
            holds,
            ..
        } = asks;
        match (purpose, holds) {
            (Use::Train, Some(_)) => drop(self.asked.insert(slice, (timeline, step))),
            (Use::Train, None) => drop(self.asked.remove(&slice)),
            (Use::Evaluate, _) => {}
        }
    }

    /// Versions below this one are not needed any more.
    pub(super) fn forget(&mut self, purpose: Use, below: Step) {
        let weights = &mut self.weights;
        weights.retain(|(of, step), _| *of != purpose || *step >= below);
        match purpose {
            Use::Train => self.asked.retain(|_, (_, step)| *step >= below),
            Use::Evaluate => {}
        }
    }

    /// Whether changes since `before`, the version before a slice's `version`, are of use.
    ///
    /// # Panics
    /// If they are, and the version before is not here as it was.
    pub(super) fn can_change(
        &self,
        slice: SliceId,
        version: (Timeline, Step),
        before: &[f32],
    ) -> bool {
        let (_, Step(step)) = version;
        let here = self.weights.get(&(Use::Train, Step(step)));
        let again = here.is_some_and(|parts| parts.contains_key(&slice));
        if again || self.asked.get(&slice) != Some(&version) {
            return false;
        }
        let held = self.weights.get(&(Use::Train, Step(step - 1)));
        let held = held.and_then(|parts| parts.get(&slice));
        let held = held.unwrap_or_else(|| {
            panic!("changes to step {step} of {slice} come to who has none of the step before")
        });
        assert!(
            held.iter()
                .map(|v| v.to_bits())
                .eq(before.iter().map(|v| v.to_bits())),
            "changes to step {step} of {slice} are of another version than is held"
        );
        true
    }

    pub(super) fn received(
        &mut self,
        purpose: Use,
        step: Step,
        slice: SliceId,
        values: Arc<Vec<f32>>,
    ) {
        let slices = self.weights.entry((purpose, step)).or_default();
        slices.insert(slice, values);
    }

    /// The whole flat vector; the machine asks only once every slice's part is here.
    pub(super) fn whole(&self, purpose: Use, step: Step) -> Arc<Vec<f32>> {
        let parts = &self.weights[&(purpose, step)];
        Arc::new(
            parts
                .values()
                .flat_map(|part| part.iter().copied())
                .collect(),
        )
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "{} step {:?} control {:?} data {:?}",
            self.incarnation,
            self.machine.open_step(),
            self.control,
            self.data
        )
    }
}
