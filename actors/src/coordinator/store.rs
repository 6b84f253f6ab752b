//! The actor of durable state. It has an arbiter, that is a thread, of its own, since every call
//! blocks; the Saver's patience and the record store's own deadline bound how long it is waited for.

use std::sync::Arc;

use actix::{Actor, Context, Handler, Message};
use resilin_checkpoint::{Events, Result};
use resilin_core::fact::Dated;
use resilin_core::ledger::Record;
use resilin_core::machine::job::Event::{ScoreTaken, Taken};
use resilin_core::machine::job::{Outcome, Status};
use resilin_core::machine::saver::Event;
use resilin_core::message::Branch;
use resilin_core::{Span, Step};

use super::common::Common;
use super::job;

mod close;
mod keep;
mod link;
mod save;
mod source;

use save::Open;

pub(super) use keep::{AreWishesKept, KeepBranch, KeepViews, KeepWishes};
pub(super) use link::serve;
pub(super) use save::{Abandon, Commit, Copy, Part};
pub(super) use source::Source;

/// Records that may wait for a full disk to have room again. Beyond, the ledger would lose lines,
/// and the run starts again from its newest checkpoint instead.
const BACKLOG: usize = 1 << 20;

/// The actor of one run's state.
pub(super) struct StoreActor {
    common: Arc<Common>,
    /// The newest branch: only its parts become checkpoints.
    branch: Branch,
    resumed: Option<Step>,
    open: Option<Open>,
    /// Records that could not be written yet, in order.
    backlog: Vec<Record>,
    /// While writing fails: how many records must wait before it is tried again.
    try_at: Option<usize>,
    events: Events,
    /// Whether the event file cannot be written.
    mute: bool,
    /// Why the newest wishes could not be written.
    unkept: Option<String>,
}

impl StoreActor {
    /// The actor; `resumed` is the step that this life began from, if not the first.
    pub(super) fn new(common: Arc<Common>, resumed: Option<Step>) -> Self {
        let events = common.run.events();
        Self {
            branch: common.branch,
            common,
            resumed,
            open: None,
            backlog: Vec::new(),
            try_at: None,
            events,
            mute: false,
            unkept: None,
        }
    }

    /// Writes what waits for the ledger. A failure is told when it begins and when it is over;
    /// between, tries become rarer as more waits, since each one copies the ledger.
    fn write_ledger(&mut self) -> Result<()> {
        if self.backlog.is_empty() {
            return Ok(());
        }
        let waiting = self.backlog.len();
        match self.common.run.append(&self.backlog) {
            Ok(()) => {
                self.tell_taken();
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

    /// Whoever keeps records until they are here hears of the newest.
    fn tell_taken(&self) {
        let newest = self.backlog.iter().rev().find_map(|record| match record {
            Record::Step(step) => Some(Taken(step.timeline, step.step.next())),
            Record::Start { .. }
            | Record::Job { .. }
            | Record::Rollback { .. }
            | Record::Initial { .. }
            | Record::Evaluation { .. }
            | Record::Members(_) => None,
        });
        if let Some(taken) = newest {
            self.common.peers().job.do_send(job::Kept(taken));
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

impl Handler<Append> for StoreActor {
    type Result = ();

    fn handle(&mut self, Append(records): Append, _: &mut Context<Self>) {
        let scores: Vec<_> = records.iter().filter_map(score_of).collect();
        self.backlog.extend(records);
        if self.try_at.is_none_or(|at| self.backlog.len() >= at) {
            // Told by `write_ledger`; a commit needs it written and fails with the same words.
            let _ = self.write_ledger();
        }
        // Training does not wait for a disk that is full.
        for taken in scores {
            self.common.peers().job.do_send(job::Kept(taken));
        }
    }
}

fn score_of(record: &Record) -> Option<resilin_core::machine::job::Event> {
    match record {
        Record::Evaluation { timeline, step, .. } => Some(ScoreTaken(*timeline, *step)),
        Record::Start { .. }
        | Record::Job { .. }
        | Record::Rollback { .. }
        | Record::Initial { .. }
        | Record::Step(_)
        | Record::Members(_) => None,
    }
}

impl Handler<Tell> for StoreActor {
    type Result = ();

    fn handle(&mut self, Tell(dated): Tell, _: &mut Context<Self>) {
        self.write_event(dated);
    }
}
