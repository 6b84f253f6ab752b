//! A small run: 700 values in 11 blocks, weights and one moment.

use std::path::{Path, PathBuf};

use resilin_checkpoint::testing::Disk;
use resilin_checkpoint::{
    Committed, Facts, Result, Run, RunIdentity, Set, SliceImage, Start, StateDir,
};
use resilin_core::job::{Decides, Effective};
use resilin_core::layout::{Entry, Layout, Role, SliceMap};
use resilin_core::ledger::{Record, StepRecord};
use resilin_core::{MapNumber, Step, Timeline};
use resilin_learn::dataset::{Manifest, TargetKind};

pub(crate) const ROOT: &str = "/state";
pub(crate) const NOW: u64 = 1_700_000_000;
pub(crate) const NAMES: [&str; 2] = ["weights", "momentum"];

pub(crate) fn root() -> PathBuf {
    ROOT.into()
}

pub(crate) fn layout() -> Layout {
    let entry = |name: &str, shape: &[usize]| Entry {
        name: name.into(),
        shape: shape.into(),
        role: Role::Trained,
    };
    Layout::new(vec![entry("w", &[69, 10]), entry("b", &[10])], 64)
}

pub(crate) fn set(step: u64, timeline: Timeline, slices: u16) -> Set {
    Set {
        step: Step(step),
        timeline,
        map: MapNumber(0),
        slices: SliceMap::new(layout().blocks(), slices),
        layout: layout(),
        tensors: NAMES.len(),
    }
}

/// The flat tensors of a step, each value different.
pub(crate) fn tensors(step: u64) -> Vec<(String, Vec<f32>)> {
    let flat = |tensor: usize| {
        (0..layout().len())
            .map(|index| step as f32 * 7.0 + index as f32 + tensor as f32 * 0.5)
            .collect()
    };
    NAMES
        .iter()
        .enumerate()
        .map(|(tensor, name)| ((*name).into(), flat(tensor)))
        .collect()
}

pub(crate) fn chain(step: u64) -> [u8; 32] {
    *blake3::hash(&step.to_le_bytes()).as_bytes()
}

pub(crate) fn facts(step: u64, finished: bool) -> Facts {
    Facts {
        chain: chain(step),
        data: vec![Manifest {
            source: "digits".into(),
            files: vec![],
            rows: 100,
            width: 64,
            targets: TargetKind::Classes(10),
            missing: "refuse".into(),
            digest: "00".into(),
        }],
        finished,
    }
}

pub(crate) fn seal(
    run: &Run,
    timeline: Timeline,
    step: u64,
    slices: u16,
    finished: bool,
) -> Result<resilin_checkpoint::Sealed> {
    let set = set(step, timeline, slices);
    let map = set.slices;
    let mut save = run.begin(set)?;
    let flat = tensors(step);
    // Slices may come in any order.
    for slice in map.ids().collect::<Vec<_>>().into_iter().rev() {
        let values = layout().values(map.range(slice));
        let parts: Vec<(&str, &[f32])> = flat
            .iter()
            .map(|(name, flat)| (name.as_str(), &flat[values.clone()]))
            .collect();
        save.write_slice(&SliceImage {
            slice,
            blocks: map.range(slice),
            tensors: &parts,
        })?;
    }
    save.seal(facts(step, finished))
}

pub(crate) fn save(run: &Run, timeline: Timeline, step: u64, slices: u16) -> Result<Committed> {
    seal(run, timeline, step, slices, false)?.commit()
}

/// A job of one key that decides bits.
pub(crate) fn job(steps: &str) -> Effective {
    serde_json::from_value(serde_json::json!({"keys": [{
        "section": "run", "key": "steps", "value": steps, "decides": Decides::Bits,
        "doc": "Steps.", "unit": "", "range": "",
    }]}))
    .unwrap()
}

pub(crate) fn identity() -> RunIdentity {
    RunIdentity {
        name: "digits".into(),
        job: job("60"),
    }
}

/// Name of the run's directory.
pub(crate) const RUN: &str = "digits-7eca81ae";

pub(crate) fn open_disk(disk: &Disk) -> Result<StateDir> {
    let state = StateDir::with(Path::new(ROOT), disk.files(), disk.records())?;
    state.next_reign(NOW)?;
    Ok(state)
}

/// A disk with an empty state directory.
pub(crate) fn disk(seed: u64) -> Disk {
    let disk = Disk::new(64 << 20, seed);
    let files = disk.files();
    resilin_checkpoint::Files::create_dir(files.as_ref(), Path::new(ROOT)).unwrap();
    resilin_checkpoint::Files::sync_dir(files.as_ref(), Path::new("/")).unwrap();
    disk
}

pub(crate) fn open_run(state: &StateDir) -> Result<Run> {
    Ok(state.open_run(identity(), Start::Resume, NOW)?.run)
}

/// The step of the newest good checkpoint, after its tensors were compared whole.
pub(crate) fn newest(run: &Run) -> Option<u64> {
    let restored = run.newest().unwrap().restored?;
    let step = restored.manifest.step.0;
    assert_eq!(restored.manifest.chain, chain(step));
    assert_eq!(restored.load(0..layout().blocks()).unwrap(), tensors(step));
    Some(step)
}

pub(crate) fn step_record(timeline: Timeline, step: u64) -> Record {
    Record::Step(StepRecord {
        timeline,
        step: Step(step),
        chain: chain(step + 1),
        marks: String::new(),
        nodes: vec![],
        samples: 96,
        loss_sum: 0.1 + step as f64,
        weight: 96.0,
        skipped: false,
        discarded: 0,
    })
}
