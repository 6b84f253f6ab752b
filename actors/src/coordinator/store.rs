//! The actor of durable state. It has an arbiter, that is a thread, of its own, since every call
//! blocks; the Saver's patience and the record store's own deadline bound how long it is waited for.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, Context, Handler, Message};
use resilin_checkpoint::{Events, Facts, Result, Run, Save, Set, SliceImage, StoreError};
use resilin_core::fact::Dated;
use resilin_core::ledger::Record;
use resilin_core::machine::job::{Outcome, Status};
use resilin_core::machine::saver::Event;
use resilin_core::{SliceId, Span, Step};
use resilin_learn::kernel::{Digest, chain_line};

use super::common::{Common, manifests};
use super::job;
use crate::shard::Cut;

mod close;

/// Records that may wait for a full disk to have room again. Beyond, the ledger would lose lines,
/// and the run starts again from its newest checkpoint instead.
const BACKLOG: usize = 1 << 20;

/// The actor of one run's state.
pub(super) struct StoreActor {
    common: Arc<Common>,
    run: Run,
    resumed: Option<Step>,
    open: Option<Open>,
    /// Records that could not be written yet, in order.
    backlog: Vec<Record>,
    /// While writing fails: how many records must wait before it is tried again.
    try_at: Option<usize>,
    events: Events,
    /// Whether the event file cannot be written.
    mute: bool,
}

/// A checkpoint being written.
struct Open {
    step: Step,
    save: Save,
    digests: BTreeMap<SliceId, Vec<Digest>>,
}

impl StoreActor {
    /// The actor; `resumed` is the step that this life began from, if not the first.
    pub(super) fn new(common: Arc<Common>, run: Run, resumed: Option<Step>) -> Self {
        let events = run.events();
        Self {
            common,
            run,
            resumed,
            open: None,
            backlog: Vec::new(),
            try_at: None,
            events,
            mute: false,
        }
    }

    fn set(&self, step: Step) -> Set {
        let Common {
            task,
            rules,
            timeline,
            map,
            ..
        } = &*self.common;
        Set {
            step,
            timeline: *timeline,
            map: *map,
            slices: rules.slices,
            layout: (*task.layout).clone(),
            tensors: 1 + task.rule.optimizer.moments().len(),
        }
    }

    fn write(&mut self, part: &Cut) -> Result<()> {
        let Cut {
            slice,
            step,
            pinned,
            digests,
            ..
        } = part;
        if self.open.as_ref().is_some_and(|open| open.step != *step) {
            self.abandon();
        }
        if self.open.is_none() {
            self.open = Some(Open {
                step: *step,
                save: self.run.begin(self.set(*step))?,
                digests: BTreeMap::new(),
            });
        }
        let open = self.open.as_mut().expect("just opened");
        // After a cut that was given up, the part of its first try may still be the one that counts.
        if open.digests.contains_key(slice) {
            return Ok(());
        }
        let tensors: Vec<(&str, &[f32])> = pinned.tensors().collect();
        let image = SliceImage {
            slice: *slice,
            blocks: self.common.rules.slices.range(*slice),
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
        let Open { save, digests, .. } = open.ok_or_else(lacks)?;
        let facts = Facts {
            chain: chain_line(digests.values().flatten()),
            data: manifests(&self.common.task),
            finished: step == self.common.rules.last(),
        };
        save.seal(facts)?.commit().map(drop)
    }

    fn prune(&self) {
        match self.run.prune(self.common.task.job.checkpoint.keep) {
            Ok(pruned) => {
                for warning in pruned.warnings {
                    tracing::warn!(warning, "an old checkpoint was not deleted");
                }
            }
            Err(error) => tracing::warn!(%error, "old checkpoints were not deleted"),
        }
    }

    fn abandon(&mut self) {
        if let Some(open) = self.open.take() {
            open.save.abandon();
        }
    }

    /// Writes what waits for the ledger. A failure is told when it begins and when it is over;
    /// between, tries become rarer as more waits, since each one copies the ledger.
    fn write_ledger(&mut self) -> Result<()> {
        if self.backlog.is_empty() {
            return Ok(());
        }
        let waiting = self.backlog.len();
        match self.run.append(&self.backlog) {
            Ok(()) => {
                self.backlog.clear();
                if self.try_at.take().is_some() {
                    tracing::info!(records = waiting, "the ledger is written again");
                }
                Ok(())
            }
            Err(error) => {
                assert!(
                    waiting <= BACKLOG,
                    "the ledger cannot be written for {BACKLOG} records: {error}"
                );
                if self.try_at.replace(2 * waiting).is_none() {
                    tracing::warn!(%error, "the ledger cannot be written; its records wait");
                }
                Err(error)
            }
        }
    }

    /// The run goes on without its event file; a failure is told once.
    fn write_event(&mut self, dated: Dated) {
        let written = self.events.append([dated]);
        match &written {
            Err(error) if !self.mute => {
                tracing::warn!(%error, "events cannot be written; they wait");
            }
            Ok(()) if self.mute => tracing::info!("events are written again"),
            Ok(()) | Err(_) => {}
        }
        self.mute = written.is_err();
    }

    fn tell(&self, event: Event) {
        self.common.peers().job.do_send(job::FromStore(event));
    }
}

impl Actor for StoreActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(self.common.mailbox());
    }
}

/// One slice's part of a cut.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Part(pub(super) Cut);

/// All parts of a cut are written.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Commit(pub(super) Step);

/// A cut is given up.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Abandon(pub(super) Step);

/// Records for the ledger.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Append(pub(super) Vec<Record>);

/// A fact for the event file.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Tell(pub(super) Dated);

/// The run ends: write down how.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Close {
    pub(super) outcome: Outcome,
    pub(super) status: Box<Status>,
    /// Checkpoints made.
    pub(super) saved: u64,
    /// Length of this coordinator's life.
    pub(super) wall: Span,
}

impl Handler<Part> for StoreActor {
    type Result = ();

    fn handle(&mut self, Part(mut part): Part, _: &mut Context<Self>) {
        let (slice, step) = (part.slice, part.step);
        self.tell(Event::Begun(slice, step));
        let event = match self.write(&part) {
            Ok(()) => Event::Written(slice, step),
            Err(error) => Event::Failed(Some(slice), step, error.to_string()),
        };
        part.pinned.release();
        part.home.reuse(part.pinned);
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

impl Handler<Tell> for StoreActor {
    type Result = ();

    fn handle(&mut self, Tell(dated): Tell, _: &mut Context<Self>) {
        self.write_event(dated);
    }
}

impl Handler<Append> for StoreActor {
    type Result = ();

    fn handle(&mut self, Append(records): Append, _: &mut Context<Self>) {
        self.backlog.extend(records);
        if self.try_at.is_none_or(|at| self.backlog.len() >= at) {
            // Told by `write_ledger`; a commit needs it written and fails with the same words.
            let _ = self.write_ledger();
        }
    }
}
