//! Which piece of history a coordinator goes on with: a branch of its own where slices live in this
//! process, or the one that shard processes may still hold.

use resilin_checkpoint::{History, Restored, Run};
use resilin_core::ledger::Record;
use resilin_core::machine::Rules;
use resilin_core::message::{Branch, SliceView};
use resilin_core::sorted::SortedMap;
use resilin_core::{MapNumber, SliceId, Step};
use resilin_learn::kernel::{Digest, SliceKernel, chain_line};
use resilin_learn::task::Task;

use crate::exit::Exit;

/// The first slice layout of a timeline that a coordinator begins at its start.
const MAP: MapNumber = MapNumber(1);

/// What goes on.
pub(super) struct Lineage {
    pub(super) branch: Branch,
    /// Who serves the slices, as written down; empty where that is still to be decided.
    pub(super) views: Vec<SliceView>,
    /// The slices in this process.
    pub(super) kernels: SortedMap<SliceId, SliceKernel>,
    /// The ledger has every record of the branch before this step.
    pub(super) recorded: Step,
    /// The branch's chain lines after the newest durable version.
    pub(super) chain: SortedMap<Step, Digest>,
    /// Lines of other branches that are to be made again.
    pub(super) superseded: SortedMap<Step, Digest>,
}

/// A new branch at the newest checkpoint, with the slices in this process.
pub(super) fn inside(
    run: &Run,
    task: &Task,
    rules: &Rules,
    restored: Option<&Restored>,
) -> Result<Lineage, Exit> {
    let base = restored.map_or(Step(0), |restored| restored.manifest.step);
    let kernels = kernels(task, rules, restored)?;
    let chain = chain_line(kernels.values().flat_map(SliceKernel::digests));
    if restored.is_some_and(|restored| restored.manifest.chain != chain) {
        let text = format!(
            "the checkpoint of step {base} has another chain line than its weights; remove it"
        );
        return Err(Exit::Damaged(text));
    }
    let branch = new_branch(run, rules, base)?;
    run.append(&beginning(branch, || chain))?;
    run.sync_ledger()?;
    Ok(Lineage {
        branch,
        views: Vec::new(),
        kernels,
        recorded: base,
        chain: SortedMap::new(),
        superseded: run.history()?.lines_after(base),
    })
}

/// The branch that shard processes may hold, else a new one at the newest checkpoint.
pub(super) fn outside(
    run: &Run,
    task: &Task,
    rules: &Rules,
    durable: Option<Step>,
) -> Result<Lineage, Exit> {
    let stored: Option<Branch> = run.branch()?;
    let views: Vec<SliceView> = run.views()?.into_values().collect();
    let held = stored.filter(|branch| {
        let whole = views.len() == usize::from(branch.shards);
        whole && views.iter().all(|view| view.primary.is_some())
    });
    let (branch, views) = match held {
        Some(branch) => (branch, views),
        None => (
            new_branch(run, rules, durable.unwrap_or_default())?,
            Vec::new(),
        ),
    };
    // A coordinator that was killed between the two left the branch out of the ledger.
    if run.history()?.timeline() != branch.timeline {
        run.append(&beginning(branch, || initial_line(task)))?;
    }
    run.sync_ledger()?;
    let history = run.history()?;
    let recorded = recorded(&history, branch);
    let durable = durable.unwrap_or_default();
    let own = history.chain().unwrap_or_default();
    Ok(Lineage {
        branch,
        views,
        kernels: SortedMap::new(),
        recorded,
        chain: own
            .into_iter()
            .filter(|(line, _)| *line > durable)
            .collect(),
        superseded: history.lines_after(recorded),
    })
}

/// The first step of the branch that the ledger lacks.
fn recorded(history: &History, branch: Branch) -> Step {
    let last = history.steps().last().map(|record| record.step.next());
    last.unwrap_or_default().max(branch.base)
}

fn new_branch(run: &Run, rules: &Rules, base: Step) -> Result<Branch, Exit> {
    let branch = Branch {
        timeline: run.next_timeline()?,
        map: MAP,
        shards: rules.slices.slices(),
        base,
    };
    run.set_branch(branch.timeline, &branch)?;
    Ok(branch)
}

/// The lines with which a branch begins in the ledger; `initial` is chain line 0.
pub(super) fn beginning(branch: Branch, initial: impl FnOnce() -> Digest) -> Vec<Record> {
    let Branch { timeline, base, .. } = branch;
    let mut records = vec![Record::Rollback { timeline, base }];
    if base == Step(0) {
        let chain = initial();
        records.push(Record::Initial { timeline, chain });
    }
    records
}

/// Chain line 0.
pub(super) fn initial_line(task: &Task) -> Digest {
    let plan = task.slice_plan(0..task.layout.blocks());
    chain_line(SliceKernel::new(plan, task.initial_weights()).digests())
}

fn kernels(
    task: &Task,
    rules: &Rules,
    restored: Option<&Restored>,
) -> Result<SortedMap<SliceId, SliceKernel>, Exit> {
    let initial = match restored {
        Some(_) => Vec::new(),
        None => task.initial_weights(),
    };
    let mut kernels = SortedMap::new();
    for slice in rules.slices.ids() {
        let plan = task.slice_plan(rules.slices.range(slice));
        let kernel = match restored {
            None => {
                let weights = initial[plan.values()].to_vec();
                SliceKernel::new(plan, weights)
            }
            Some(restored) => {
                let tensors = restored.load(plan.blocks.clone())?;
                let step = restored.manifest.step;
                SliceKernel::restore(plan, step, |name, _range, out| {
                    let found = tensors.iter().find(|(stored, _)| stored == name);
                    let lacks = || Exit::Damaged(format!("the checkpoint has no tensor {name}"));
                    let (_, values) = found.ok_or_else(lacks)?;
                    out.copy_from_slice(values);
                    Ok::<(), Exit>(())
                })?
            }
        };
        kernels.insert(slice, kernel);
    }
    Ok(kernels)
}
