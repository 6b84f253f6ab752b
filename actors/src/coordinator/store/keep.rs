//! Branches, views and wishes, written down for good before anyone is told of them (PROTOCOL 2, 3).

use actix::{Context, Handler, Message};
use resilin_checkpoint::Result;
use resilin_core::machine::job::{Event, Wishes};
use resilin_core::message::{Branch, SliceView};
use resilin_core::sorted::SortedMap;
use resilin_core::{SliceId, Step};

use super::StoreActor;
use crate::coordinator::{job, lineage};

/// A branch begins.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct KeepBranch(pub(in crate::coordinator) Branch);

/// Others serve these slices.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct KeepViews(pub(in crate::coordinator) Vec<SliceView>);

/// This is still to be done.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct KeepWishes(pub(in crate::coordinator) Wishes);

/// Are the newest wishes written? Answered by why not.
#[derive(Message)]
#[rtype(result = "std::result::Result<(), String>")]
pub(in crate::coordinator) struct AreWishesKept;

impl StoreActor {
    /// Writes the branch down, unless the checkpoint that it begins at is damaged by now.
    fn branch_kept(&mut self, branch: Branch) -> Result<Event> {
        let run = &self.common.run;
        if branch.base > Step(0) && run.at(branch.base)?.is_none() {
            let newest = run.newest()?.restored;
            return Ok(Event::BaseDamaged(newest.map(|found| found.manifest.step)));
        }
        self.keep_branch(branch)?;
        Ok(Event::BranchKept(branch.timeline))
    }

    /// The records that follow in the ledger are the branch's.
    fn keep_branch(&mut self, branch: Branch) -> Result<()> {
        self.common.run.set_branch(branch.timeline, &branch)?;
        self.abandon();
        self.branch = branch;
        let task = &self.common.task;
        let beginning = lineage::beginning(branch, || lineage::initial_line(task));
        self.backlog.extend(beginning);
        // A ledger that cannot be written now has these lines first once it can.
        let _ = self.write_ledger();
        Ok(())
    }

    fn keep_views(&self, views: Vec<SliceView>) -> Result<()> {
        let views: SortedMap<SliceId, SliceView> =
            views.into_iter().map(|view| (view.slice, view)).collect();
        self.common.run.set_views(&views)
    }

    fn kept(&self, result: Result<Event>) {
        let event = result.unwrap_or_else(|error| Event::KeepFailed(error.to_string()));
        self.common.peers().job.do_send(job::Kept(event));
    }
}

impl Handler<KeepBranch> for StoreActor {
    type Result = ();

    fn handle(&mut self, KeepBranch(branch): KeepBranch, _: &mut Context<Self>) {
        let result = self.branch_kept(branch);
        self.kept(result);
    }
}

impl Handler<KeepViews> for StoreActor {
    type Result = ();

    fn handle(&mut self, KeepViews(views): KeepViews, _: &mut Context<Self>) {
        let result = self.keep_views(views);
        self.kept(result.map(|()| Event::ViewsKept));
    }
}

impl Handler<KeepWishes> for StoreActor {
    type Result = ();

    fn handle(&mut self, KeepWishes(wishes): KeepWishes, _: &mut Context<Self>) {
        let written = self.common.run.set_wishes(&wishes);
        self.unkept = written.err().map(|error| error.to_string());
        if let Some(cause) = &self.unkept {
            tracing::warn!(
                cause,
                "what was asked for cannot be written down; it is tried again"
            );
            let failed = job::Kept(Event::WishesFailed);
            self.common.peers().job.do_send(failed);
        }
    }
}

impl Handler<AreWishesKept> for StoreActor {
    type Result = std::result::Result<(), String>;

    fn handle(&mut self, _: AreWishesKept, _: &mut Context<Self>) -> Self::Result {
        self.unkept.clone().map_or(Ok(()), Err)
    }
}
