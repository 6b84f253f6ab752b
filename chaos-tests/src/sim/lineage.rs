//! Which piece of history a coordinator goes on with, as the program decides it: a branch of its own
//! where slices live in its process, or the one that shard processes may still hold.

use resilin_checkpoint::{Result, Run};
use resilin_core::ledger::Record;
use resilin_core::message::{Branch, SliceView};
use resilin_core::sorted::SortedMap;
use resilin_core::{MapNumber, Step};
use resilin_learn::kernel::{Digest, SliceKernel, chain_line};
use resilin_learn::task::Task;

/// Where slices live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// In the coordinator, in the layout of this number.
    Coordinator(MapNumber),
    /// In shard processes.
    Processes,
}

/// What goes on.
pub(super) struct Lineage {
    pub(super) branch: Branch,
    /// Who serves the slices; empty where that is still to be decided.
    pub(super) views: Vec<SliceView>,
    /// The ledger has every record of the branch before this step.
    pub(super) recorded: Step,
    /// The branch's chain lines after the newest durable version.
    pub(super) chain: SortedMap<Step, Digest>,
    /// Lines of other branches that are to be made again.
    pub(super) superseded: SortedMap<Step, Digest>,
}

/// What goes on in this life; `durable` is the newest version that can be read.
pub(super) fn take_up(
    run: &Run,
    home: Home,
    shards: u16,
    durable: Option<Step>,
    task: &Task,
) -> Result<Lineage> {
    match home {
        Home::Coordinator(map) => inside(run, map, shards, durable.unwrap_or_default(), task),
        Home::Processes => outside(run, shards, durable.unwrap_or_default(), task),
    }
}

fn inside(run: &Run, map: MapNumber, shards: u16, base: Step, task: &Task) -> Result<Lineage> {
    let branch = Branch {
        timeline: run.next_timeline()?,
        map,
        shards,
        base,
    };
    run.append(&beginning(branch, task))?;
    run.sync_ledger()?;
    Ok(Lineage {
        branch,
        views: Vec::new(),
        recorded: base,
        chain: SortedMap::new(),
        superseded: run.history()?.lines_after(base),
    })
}

fn outside(run: &Run, shards: u16, durable: Step, task: &Task) -> Result<Lineage> {
    let stored: Option<Branch> = run.branch()?;
    let views: Vec<SliceView> = run.views()?.into_values().collect();
    let held = stored.filter(|branch| views.len() == usize::from(branch.shards));
    let (branch, views) = match held {
        Some(branch) => (branch, views),
        None => (new_branch(run, shards, durable)?, Vec::new()),
    };
    // A coordinator that was killed between the two left the branch out of the ledger.
    if run.history()?.timeline() != branch.timeline {
        run.append(&beginning(branch, task))?;
    }
    run.sync_ledger()?;
    let history = run.history()?;
    let last = history.steps().last().map(|record| record.step.next());
    let recorded = last.unwrap_or_default().max(branch.base);
    let own = history.chain().unwrap_or_default().into_iter();
    Ok(Lineage {
        branch,
        views,
        recorded,
        chain: own.filter(|(line, _)| *line > durable).collect(),
        superseded: history.lines_after(recorded),
    })
}

fn new_branch(run: &Run, shards: u16, base: Step) -> Result<Branch> {
    let branch = Branch {
        timeline: run.next_timeline()?,
        map: MapNumber(1),
        shards,
        base,
    };
    run.set_branch(branch.timeline, &branch)?;
    Ok(branch)
}

/// The lines with which a branch begins in the ledger.
pub(super) fn beginning(branch: Branch, task: &Task) -> Vec<Record> {
    let Branch { timeline, base, .. } = branch;
    let mut records = vec![Record::Rollback { timeline, base }];
    if base == Step(0) {
        let plan = task.slice_plan(0..task.layout.blocks());
        let initial = SliceKernel::new(plan, task.initial_weights());
        let chain = chain_line(initial.digests());
        records.push(Record::Initial { timeline, chain });
    }
    records
}
