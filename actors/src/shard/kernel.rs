//! The arithmetic thread of one slice: it owns the slice's tensors and works off the arbiter, so
//! that votes and pulls never wait behind a sum.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use actix::Addr;
use resilin_core::tree::Node;
use resilin_core::vote::Action;
use resilin_core::{SliceId, Step};
use resilin_learn::kernel::{
    AppliedStep, BlockStats, Digest, PinnedSlice, SliceKernel, SlicePlan, same,
};

use super::Setting;
use super::actor::ShardActor;
use super::mailbox::Kernel;
use super::state::kernel_of;
use crate::link::{BufferPool, SharedValues};

/// The machine has one sum or update under way, beside at most one comparison, one cut, a copy and a
/// root of each for the backup, and buffers that come back.
const QUEUE: usize = 32;

/// Roots that wait for the backup's word; more are allocated and freed.
const ROOTS: usize = 4;

/// Something for the thread to do.
pub(super) enum Work {
    /// Sum the step's contributions.
    Combine {
        step: Step,
        nodes: Vec<(Node, SharedValues)>,
        weight: f64,
    },
    /// Compare two contributions.
    Compare([SharedValues; 2]),
    /// Take the sum that another replica made.
    Load { step: Step, root: SharedValues },
    /// Copy the combined root for another replica.
    Root(Step),
    /// Make the next version.
    Apply {
        step: Step,
        action: Action,
        loss: f64,
    },
    /// Copy the newest version for the store.
    Cut(Step),
    /// Copy the newest version for another replica.
    Copy(Step),
    /// Become what another replica was at this step.
    Take {
        step: Step,
        tensors: Vec<SharedValues>,
    },
    /// A copy is done with: its buffers are used again.
    Reuse(Box<PinnedSlice>),
    /// The replica is no more.
    End,
}

/// What the thread answers.
pub(super) enum Answer {
    Combined(Step, BlockStats),
    /// Whether they have the same bits.
    Compared(bool),
    Root(Step, SharedValues),
    Applied {
        step: Step,
        applied: AppliedStep,
        weights: Arc<Vec<f32>>,
    },
    Copied(Cut),
    /// The weights of a copy's version, and of the one before if they came with it.
    Taken {
        step: Step,
        weights: Arc<Vec<f32>>,
        before: Option<Arc<Vec<f32>>>,
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

/// The sending end of a slice's arithmetic thread.
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

    /// Ends the thread after what it was given before.
    pub(super) fn end(&self) {
        // A thread that is gone has ended.
        let _ = self.0.send(Work::End);
    }
}

/// The thread before it is started, so that the actor can hold its sending end.
pub(super) struct Arithmetic {
    slice: SliceId,
    plan: SlicePlan,
    /// `None` at a backup that was not copied yet.
    kernel: Option<SliceKernel>,
    setting: Arc<Setting>,
    work: Receiver<Work>,
    hands: Hands,
    spare: Option<Box<PinnedSlice>>,
    roots: BufferPool,
}

impl Arithmetic {
    pub(super) fn new(
        slice: SliceId,
        plan: SlicePlan,
        kernel: Option<SliceKernel>,
        setting: Arc<Setting>,
    ) -> (Self, Hands) {
        let (sender, work) = sync_channel(QUEUE);
        let hands = Hands(sender);
        let roots = BufferPool::new(ROOTS * plan.values().len() * size_of::<f32>());
        let arithmetic = Self {
            slice,
            plan,
            kernel,
            setting,
            work,
            hands: hands.clone(),
            spare: None,
            roots,
        };
        (arithmetic, hands)
    }

    /// Starts the thread; it lives until it is ended.
    pub(super) fn start(self, shard: Addr<ShardActor>) -> std::io::Result<()> {
        let name = format!("slice-{}", self.slice);
        let run = move || self.run(&shard);
        thread::Builder::new().name(name).spawn(run).map(drop)
    }

    fn run(mut self, shard: &Addr<ShardActor>) {
        while let Ok(work) = self.work.recv() {
            let answer = match work {
                Work::Combine {
                    step,
                    nodes,
                    weight,
                } => Answer::Combined(step, self.combine(step, &nodes, weight)),
                Work::Compare([one, other]) => Answer::Compared(same(&one, &other)),
                Work::Load { step, root } => {
                    self.kernel().load(step, &root);
                    continue;
                }
                Work::Root(step) => Answer::Root(step, self.root(step)),
                Work::Apply { step, action, loss } => self.apply(step, action, loss),
                Work::Cut(step) => {
                    let cut = self.cut(step);
                    self.setting.outside.keep(cut);
                    continue;
                }
                Work::Copy(step) => Answer::Copied(self.cut(step)),
                Work::Take { step, tensors } => self.take(step, &tensors),
                Work::Reuse(pinned) => {
                    self.spare = Some(pinned);
                    continue;
                }
                Work::End => return,
            };
            shard.do_send(Kernel(answer));
        }
    }

    fn kernel(&mut self) -> &mut SliceKernel {
        let kernel = self.kernel.as_mut();
        kernel.expect("a backup takes a copy before it is given anything else")
    }

    fn combine(&mut self, step: Step, nodes: &[(Node, SharedValues)], weight: f64) -> BlockStats {
        let nodes: Vec<(Node, &[f32])> = nodes.iter().map(|(node, v)| (*node, &**v)).collect();
        let with_samples = self.setting.rules.sampling.with_samples(step);
        self.kernel().combine(step, &nodes, &with_samples, weight)
    }

    fn root(&mut self, step: Step) -> SharedValues {
        let mut copy = self.roots.take(self.plan.values().len());
        copy.copy_from_slice(self.kernel().root(step));
        copy.share()
    }

    fn apply(&mut self, step: Step, action: Action, loss: f64) -> Answer {
        let kernel = self.kernel();
        let applied = match action {
            Action::Apply { scale } => kernel.apply(step, scale, loss),
            Action::Skip => kernel.skip(step),
            Action::Halt => unreachable!("a halted step is not applied"),
        };
        let weights = kernel.weights(applied.version);
        let weights = Arc::clone(weights.expect("the newest version is live"));
        Answer::Applied {
            step,
            applied,
            weights,
        }
    }

    fn cut(&mut self, step: Step) -> Cut {
        let mut pinned = self.spare.take().unwrap_or_default();
        let kernel = self.kernel();
        assert_eq!(step, kernel.version(), "the newest version is copied");
        kernel.pin(&mut pinned);
        let digests = kernel.digests().to_vec();
        Cut {
            slice: self.slice,
            step,
            pinned,
            digests,
            home: self.hands.clone(),
        }
    }

    fn take(&mut self, step: Step, tensors: &[SharedValues]) -> Answer {
        let kernel = kernel_of(self.plan.clone(), step, tensors);
        let weights = kernel.weights(step);
        let weights = Arc::clone(weights.expect("the newest version is live"));
        self.kernel = Some(kernel);
        let before = tensors.get(self.plan.tensors().len());
        let before = before.map(|weights| Arc::new(weights.to_vec()));
        Answer::Taken {
            step,
            weights,
            before,
        }
    }
}
