//! One replica in a process of its own: the machine, its tensors and its arithmetic.

use resilin_core::machine::shard::{Event, Shard};
use resilin_core::sorted::SortedMap;
use resilin_core::tree::Node;
use resilin_core::vote::Action;
use resilin_core::{SliceId, Step, Tensor};

use super::arithmetic::{Values, stats, sum};

/// Something for the arithmetic, done in order.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Combine(Step, Vec<(Node, u64)>),
    Load(Step, u64),
    Compared(bool),
    Apply(Step, Action),
    SendRoot(Step),
    SendCopy(resilin_core::message::ReplicaSays),
}

/// What a backup starts from.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    values: Values,
    versions: SortedMap<Step, u64>,
}

pub(super) struct Replica {
    pub(super) slice: SliceId,
    pub(super) shard: Shard,
    /// Whom its mirror words go to.
    pub(super) peer: Option<u32>,
    pub(super) tensors: SortedMap<Tensor, u64>,
    last_tensor: u64,
    pub(super) values: Values,
    pub(super) step: Step,
    /// Weights of the newest version and the one before.
    pub(super) versions: SortedMap<Step, u64>,
    pub(super) pinned: Option<(Step, u64)>,
    combined: Option<(Step, u64)>,
    /// Sent and not acknowledged.
    pub(super) roots: SortedMap<Step, u64>,
    dropped_before: Step,
    pub(super) taking: Option<Step>,
    /// When the arithmetic is free.
    pub(super) free_at: u64,
}

impl Replica {
    pub(super) fn new(slice: SliceId, shard: Shard) -> Self {
        let values = Values::initial(slice);
        Self {
            slice,
            shard,
            peer: None,
            tensors: SortedMap::new(),
            last_tensor: 0,
            values,
            step: Step(0),
            versions: SortedMap::from([(Step(0), values.weights)]),
            pinned: None,
            combined: None,
            roots: SortedMap::new(),
            dropped_before: Step(0),
            taking: None,
            free_at: 0,
        }
    }

    pub(super) fn hold(&mut self, value: u64) -> Tensor {
        self.last_tensor += 1;
        let tensor = Tensor(self.last_tensor);
        self.tensors.insert(tensor, value);
        tensor
    }

    pub(super) fn weights(&self, step: Step) -> u64 {
        let pinned = self.pinned.filter(|(version, _)| *version == step);
        let weights = self.versions.get(&step).copied();
        let weights = weights.or_else(|| pinned.map(|(_, weights)| weights));
        weights.unwrap_or_else(|| panic!("slice {} sends version {step}", self.slice))
    }

    pub(super) fn copy(&self) -> Copy {
        Copy {
            values: self.values,
            versions: self.versions.clone(),
        }
    }

    pub(super) fn install(&mut self, step: Step, copy: Copy) {
        assert_eq!(copy.versions.keys().next_back(), Some(&step));
        (self.step, self.values, self.combined) = (step, copy.values, None);
        self.versions = copy.versions;
    }

    pub(super) fn combine(&mut self, step: Step, nodes: &[(Node, u64)], root: Node) -> Event {
        assert_eq!(step, self.step, "only the open step is combined");
        let value = |node| nodes.iter().find(|(n, _)| *n == node).map(|(_, v)| *v);
        let root = sum(root, &value).expect("a step has samples");
        self.combined = Some((step, root));
        let (squares, non_finite) = stats(root, self.slice);
        Event::Combined {
            step,
            squares,
            non_finite,
        }
    }

    pub(super) fn load(&mut self, step: Step, root: u64) {
        assert_eq!(step, self.step, "only the open step is loaded");
        self.combined = Some((step, root));
    }

    /// Applies the open step; the root that it did so with.
    pub(super) fn apply(&mut self, step: Step, action: Action) -> Option<u64> {
        assert_eq!(step, self.step, "only the open step is applied");
        let combined = self.combined.take().filter(|(of, _)| *of == step);
        let root = combined.map(|(_, root)| root);
        self.values = self.values.next(root, step, action);
        self.step = step.next();
        self.versions.insert(self.step, self.values.weights);
        self.versions.retain(|version, _| *version >= step);
        root
    }

    /// The root of a step, unless it was dropped while the wish to send it was queued.
    pub(super) fn root(&mut self, step: Step) -> Option<u64> {
        if step < self.dropped_before {
            return None;
        }
        let (combined, slice) = (self.combined, self.slice);
        let root = *self.roots.entry(step).or_insert_with(|| {
            let (of, root) = combined.unwrap_or_else(|| panic!("slice {slice} has no root {step}"));
            assert_eq!(
                of, step,
                "the root that is asked for first is the open step's"
            );
            root
        });
        Some(root)
    }

    pub(super) fn drop_roots(&mut self, before: Step) {
        self.dropped_before = before;
        self.roots.retain(|step, _| *step >= before);
    }
}
