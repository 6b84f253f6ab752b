//! Cuts become checkpoints: each slice's part as it comes, then ledger, manifest and commit record.

use actix::{Context, Handler, Message};
use resilin_checkpoint::{Facts, Result, Save, Set, SliceImage, StoreError};
use resilin_core::layout::SliceMap;
use resilin_core::machine::saver::Event;
use resilin_core::message::Branch;
use resilin_core::sorted::SortedMap;
use resilin_core::{SliceId, Step};
use resilin_learn::kernel::{Digest, chain_line};
use tokio::sync::oneshot;

use super::StoreActor;
use crate::coordinator::common::manifests;
use crate::link::SharedValues;
use crate::shard::Cut;

/// A checkpoint being written.
pub(super) struct Open {
    pub(super) step: Step,
    pub(super) save: Save,
    pub(super) digests: SortedMap<SliceId, Vec<Digest>>,
    /// Dropped with this, the senders of parts hear that the cut is over.
    waiting: Vec<oneshot::Sender<()>>,
}

/// One slice's part of a cut.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct Part {
    pub(in crate::coordinator) branch: Branch,
    pub(in crate::coordinator) slice: SliceId,
    pub(in crate::coordinator) step: Step,
    /// Of the blocks of the version.
    pub(in crate::coordinator) digests: Vec<Digest>,
    pub(in crate::coordinator) copy: Copy,
    /// Dropped once the cut is durable or given up.
    pub(in crate::coordinator) over: Option<oneshot::Sender<()>>,
}

/// Where the values of a part are.
pub(in crate::coordinator) enum Copy {
    /// In buffers of a slice in this process.
    Inside(Box<Cut>),
    /// They came over a link, the weights first.
    Arrived(Vec<SharedValues>),
}

impl Copy {
    fn tensors(&self, names: &[&'static str]) -> Vec<(&str, &[f32])> {
        match self {
            Self::Inside(cut) => cut.pinned.tensors().collect(),
            Self::Arrived(tensors) => {
                let values = tensors.iter().map(|values| &**values);
                names.iter().copied().zip(values).collect()
            }
        }
    }

    /// Gives the buffers back.
    fn done(self) {
        match self {
            Self::Inside(mut cut) => {
                cut.pinned.release();
                cut.home.reuse(cut.pinned);
            }
            Self::Arrived(tensors) => drop(tensors),
        }
    }
}

/// All parts of a cut are written.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct Commit(pub(in crate::coordinator) Step);

/// A cut is given up.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct Abandon(pub(in crate::coordinator) Step);

impl StoreActor {
    fn set(&self, step: Step) -> Set {
        let task = &self.common.task;
        Set {
            step,
            timeline: self.branch.timeline,
            map: self.branch.map,
            slices: self.slices(),
            layout: (*task.layout).clone(),
            tensors: task.rule.tensors().len(),
        }
    }

    fn slices(&self) -> SliceMap {
        self.common.task.slices(self.branch.shards)
    }

    fn write(&mut self, part: &mut Part) -> Result<()> {
        let Part {
            slice,
            step,
            digests,
            copy,
            branch: _,
            over,
        } = part;
        let blocks = self.slices().range(*slice);
        if self.open.as_ref().is_some_and(|open| open.step != *step) {
            self.abandon();
        }
        if self.open.is_none() {
            self.open = Some(Open {
                step: *step,
                save: self.common.run.begin(self.set(*step))?,
                digests: SortedMap::new(),
                waiting: Vec::new(),
            });
        }
        let open = self.open.as_mut().expect("just opened");
        open.waiting.extend(over.take());
        // After a cut that was given up, the part of its first try may still be the one that counts.
        if open.digests.contains_key(slice) {
            return Ok(());
        }
        let tensors = copy.tensors(&self.common.task.rule.tensors());
        let image = SliceImage {
            slice: *slice,
            blocks,
            tensors: &tensors,
        };
        open.save.write_slice(&image)?;
        open.digests.insert(*slice, digests.clone());
        Ok(())
    }

    /// Ledger, manifest, commit record, in this order (PROTOCOL 26).
    fn commit(&mut self, step: Step) -> Result<()> {
        self.write_ledger()?;
        let open = self.open.take().filter(|open| open.step == step);
        let lacks = || StoreError::Refused(format!("the checkpoint of step {step} was given up"));
        let Open {
            save,
            digests,
            waiting,
            ..
        } = open.ok_or_else(lacks)?;
        let facts = Facts {
            chain: chain_line(digests.values().flatten()),
            data: manifests(&self.common.task),
            finished: step == self.common.rules.last(),
        };
        save.seal(facts)?.commit()?;
        drop(waiting);
        Ok(())
    }

    fn prune(&self) {
        match self.common.run.prune(self.common.task.job.checkpoint.keep) {
            Ok(pruned) => {
                for warning in pruned.warnings {
                    tracing::warn!(warning, "an old checkpoint was not deleted");
                }
            }
            Err(error) => tracing::warn!(%error, "old checkpoints were not deleted"),
        }
    }

    pub(super) fn abandon(&mut self) {
        if let Some(open) = self.open.take() {
            open.save.abandon();
        }
    }
}

impl Handler<Part> for StoreActor {
    type Result = ();

    fn handle(&mut self, mut part: Part, _: &mut Context<Self>) {
        let (slice, step) = (part.slice, part.step);
        // A branch that was left has no checkpoints any more.
        if part.branch != self.branch {
            return part.copy.done();
        }
        self.tell(Event::Begun(slice, step));
        let event = match self.write(&mut part) {
            Ok(()) => Event::Written(slice, step),
            Err(error) => Event::Failed(Some(slice), step, error.to_string()),
        };
        part.copy.done();
        self.tell(event);
    }
}

impl Handler<Commit> for StoreActor {
    type Result = ();

    fn handle(&mut self, Commit(step): Commit, _: &mut Context<Self>) {
        match self.commit(step) {
            Ok(()) => {
                self.tell(Event::Committed(step));
                self.prune();
            }
            Err(error) => self.tell(Event::Failed(None, step, error.to_string())),
        }
    }
}

impl Handler<Abandon> for StoreActor {
    type Result = ();

    fn handle(&mut self, Abandon(step): Abandon, _: &mut Context<Self>) {
        if self.open.as_ref().is_some_and(|open| open.step == step) {
            self.abandon();
        }
    }
}
