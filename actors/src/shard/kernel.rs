//! The arithmetic thread of one shard: it owns the slice's tensors and works off the arbiter, so
//! that votes and pulls never wait behind a sum.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use actix::Addr;
use resilin_core::tree::Node;
use resilin_core::vote::Action;
use resilin_core::{SliceId, Step};
use resilin_learn::kernel::{AppliedStep, BlockStats, Digest, PinnedSlice, SliceKernel};

use super::Setting;
use super::actor::ShardActor;
use super::mailbox::Kernel;
use crate::link::SharedValues;

/// The machine has one sum or update under way, beside at most one cut and one buffer that comes
/// back.
const QUEUE: usize = 8;

/// Something for the thread to do.
pub(super) enum Work {
    /// Sum the step's contributions.
    Combine {
        step: Step,
        nodes: Vec<(Node, SharedValues)>,
        weight: f64,
    },
    /// Make the next version.
    Apply { step: Step, action: Action },
    /// Copy the newest version for the store.
    Cut(Step),
    /// The store is done with a copy: its buffers are used again.
    Reuse(Box<PinnedSlice>),
}

/// What the thread answers.
pub(super) enum Answer {
    Combined(Step, BlockStats),
    Applied {
        step: Step,
        applied: AppliedStep,
        weights: Arc<Vec<f32>>,
    },
}

/// A copy of a version with all optimizer state, to be written elsewhere while training goes on.
pub(crate) struct Cut {
    pub(crate) slice: SliceId,
    pub(crate) step: Step,
    pub(crate) pinned: Box<PinnedSlice>,
    /// Of the blocks of the version.
    pub(crate) digests: Vec<Digest>,
    /// Where the copy's buffers go back to.
    pub(crate) home: Hands,
}

/// The sending end of a shard's arithmetic thread.
#[derive(Clone)]
pub(crate) struct Hands(SyncSender<Work>);

impl Hands {
    /// Gives the thread something to do.
    pub(super) fn give(&self, work: Work) {
        self.0
            .try_send(work)
            .unwrap_or_else(|error| panic!("the arithmetic thread: {error}"));
    }

    /// Gives a copy's buffers back; they are only memory.
    pub(crate) fn reuse(&self, pinned: Box<PinnedSlice>) {
        let _ = self.0.try_send(Work::Reuse(pinned));
    }
}

/// The thread before it is started, so that the actor can hold its sending end.
pub(crate) struct Arithmetic {
    slice: SliceId,
    kernel: SliceKernel,
    setting: Arc<Setting>,
    work: Receiver<Work>,
    hands: Hands,
    spare: Option<Box<PinnedSlice>>,
}

impl Arithmetic {
    pub(crate) fn new(slice: SliceId, kernel: SliceKernel, setting: Arc<Setting>) -> (Self, Hands) {
        let (sender, work) = sync_channel(QUEUE);
        let hands = Hands(sender);
        let arithmetic = Self {
            slice,
            kernel,
            setting,
            work,
            hands: hands.clone(),
            spare: None,
        };
        (arithmetic, hands)
    }

    /// Starts the thread; it lives as long as the process.
    pub(crate) fn start(self, shard: Addr<ShardActor>) -> std::io::Result<()> {
        let name = format!("slice-{}", self.slice);
        let run = move || self.run(&shard);
        thread::Builder::new().name(name).spawn(run).map(drop)
    }

    fn run(mut self, shard: &Addr<ShardActor>) {
        while let Ok(work) = self.work.recv() {
            match work {
                Work::Combine {
                    step,
                    nodes,
                    weight,
                } => {
                    let stats = self.combine(step, &nodes, weight);
                    drop(nodes);
                    shard.do_send(Kernel(Answer::Combined(step, stats)));
                }
                Work::Apply { step, action } => {
                    let answer = self.apply(step, action);
                    shard.do_send(Kernel(answer));
                }
                Work::Cut(step) => {
                    let cut = self.cut(step);
                    self.setting.outside.keep(cut);
                }
                Work::Reuse(pinned) => self.spare = Some(pinned),
            }
        }
    }

    fn combine(&mut self, step: Step, nodes: &[(Node, SharedValues)], weight: f64) -> BlockStats {
        let nodes: Vec<(Node, &[f32])> = nodes.iter().map(|(node, v)| (*node, &**v)).collect();
        let with_samples = self.setting.rules.sampling.with_samples(step);
        self.kernel.combine(step, &nodes, &with_samples, weight)
    }

    fn apply(&mut self, step: Step, action: Action) -> Answer {
        let applied = match action {
            Action::Apply { scale } => self.kernel.apply(step, scale),
            Action::Skip => self.kernel.skip(step),
            Action::Halt => unreachable!("a halted step is not applied"),
        };
        let weights = self.kernel.weights(applied.version);
        let weights = Arc::clone(weights.expect("the newest version is live"));
        Answer::Applied {
            step,
            applied,
            weights,
        }
    }

    fn cut(&mut self, step: Step) -> Cut {
        assert_eq!(step, self.kernel.version(), "the newest version is cut");
        let mut pinned = self.spare.take().unwrap_or_default();
        self.kernel.pin(&mut pinned);
        Cut {
            slice: self.slice,
            step,
            pinned,
            digests: self.kernel.digests().to_vec(),
            home: self.hands.clone(),
        }
    }
}
