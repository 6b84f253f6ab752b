//! Damage to what was stored, on real files and a real sled.

use std::fs;
use std::path::Path;

use resilin_checkpoint::testing::Fault;
use resilin_checkpoint::{Depth, Health, Patience, RealFiles, Start, StateDir, inspect};
use resilin_core::sorted::SortedMap;
use resilin_core::{SliceId, Step};

use crate::fixture::{
    NOW, RUN, disk, identity, layout, newest, open_disk, open_run, root, save, tensors,
};

fn open(dir: &Path) -> StateDir {
    StateDir::open(dir, Patience::default()).unwrap()
}

#[test]
fn a_checkpoint_restores_on_any_number_of_slices() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    for (step, slices) in [(1, 1), (2, 3), (3, 11)] {
        save(&run, timeline, step, slices).unwrap();
        let restored = run.newest().unwrap().restored.unwrap();
        let blocks = layout().blocks();
        for range in [0..blocks, 0..1, 3..8, blocks - 1..blocks] {
            let values = layout().values(range.clone());
            let expected: Vec<_> = tensors(step)
                .into_iter()
                .map(|(name, flat)| (name, flat[values.clone()].to_vec()))
                .collect();
            assert_eq!(restored.load(range).unwrap(), expected);
        }
    }
}

#[test]
fn any_tool_can_open_a_slice_file() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path());
    state.next_reign(NOW).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    let committed = save(&run, timeline, 12, 2).unwrap();
    let bytes = fs::read(committed.path.join("slice-00001.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let values = layout().values(6..11);
    let momentum: Vec<u8> = tensors(12)[1].1[values]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    assert_eq!(file.tensor("momentum").unwrap().data(), momentum);
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let texts = header.metadata().clone().unwrap();
    assert_eq!(
        (texts["run"].as_str(), texts["blocks"].as_str()),
        ("digits", "6..11")
    );
    let hash = blake3::hash(&momentum).to_hex().to_string();
    assert_eq!(texts["blake3.momentum"], hash);
}

#[test]
fn a_damaged_newest_checkpoint_is_skipped_by_name() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    save(&run, timeline, 10, 2).unwrap();
    let committed = save(&run, timeline, 20, 2).unwrap();
    let files = [
        "manifest.json",
        "slice-00000.safetensors",
        "slice-00001.safetensors",
    ];
    for file in files {
        let path = committed.path.join(file);
        for byte in [0, 9, 200, 700] {
            disk.flip(&path, byte, 3).unwrap();
            let found = run.newest().unwrap();
            assert_eq!(newest(&run), Some(10), "{file} byte {byte}");
            assert_eq!(found.skipped.len(), 1, "{file} byte {byte}");
            assert!(found.skipped[0].why.contains(file), "{:?}", found.skipped);
            let listed = inspect(disk.files().as_ref(), &root(), Depth::Digests).unwrap();
            let states: Vec<_> = listed.iter().map(|l| (l.step, l.state.clone())).collect();
            assert_eq!(states[0], (Step(10), Health::Good));
            assert_eq!(
                states[1],
                (Step(20), Health::Damaged(found.skipped[0].why.clone()))
            );
            disk.flip(&path, byte, 3).unwrap();
        }
    }
    assert_eq!(newest(&run), Some(20));
}

/// A state of three saved steps; the lock is free again on return.
fn prepared(dir: &Path) {
    let state = open(dir);
    state.next_reign(NOW).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    for step in [10, 20, 30] {
        save(&run, timeline, step, 2).unwrap();
    }
    let views = SortedMap::from([(SliceId(1), "a view")]);
    run.set_views(&views).unwrap();
}

#[test]
fn records_survive_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    prepared(dir.path());
    let state = open(dir.path());
    assert_eq!(*state.report(), resilin_checkpoint::OpenReport::default());
    assert_eq!(state.next_reign(5).unwrap(), NOW + 1);
    let opened = state.open_run(identity(), Start::Resume, 0).unwrap();
    assert!(opened.known);
    let views = opened.run.views::<String>().unwrap();
    assert_eq!(
        views.into_iter().collect::<Vec<_>>(),
        vec![(SliceId(1), "a view".into())]
    );
    assert_eq!(newest(&opened.run), Some(30));
    assert_eq!(
        opened.run.next_timeline().unwrap().to_string(),
        format!("{}.1", NOW + 1)
    );
    assert_eq!(opened.run.next_timeline().unwrap().number, 2);
}

/// After any damage to sled's files, each of the three checkpoints is there and nothing is removed.
/// Returns whether sled noticed.
fn survives(dir: &Path, name: &str) -> bool {
    let state = open(dir);
    let report = state.report();
    assert_eq!(report.removed, Vec::<String>::new(), "{name}");
    assert_eq!(report.refused, Vec::<String>::new(), "{name}");
    if let Some(aside) = &report.set_aside {
        assert_eq!(aside.name, "sled-damaged-1", "{name}");
        assert!(dir.join(&aside.name).join("db").exists(), "{name}");
        assert_eq!(report.adopted.len(), 3, "{name}: {report:?}");
    }
    // A reign above all that the directories name, though the records may have forgotten it.
    assert_eq!(state.next_reign(5).unwrap(), NOW + 1, "{name}");
    let opened = state.open_run(identity(), Start::Resume, 0).unwrap();
    assert!(opened.known, "{name}");
    assert_eq!(opened.run.record().job, identity().job.bare());
    assert_eq!(newest(&opened.run), Some(30), "{name}");
    let steps: Vec<_> = inspect(&RealFiles, dir, Depth::Digests)
        .unwrap()
        .into_iter()
        .map(|listing| (listing.step.0, listing.state))
        .collect();
    let good = |step| (step, Health::Good);
    assert_eq!(steps, vec![good(10), good(20), good(30)], "{name}");
    report.set_aside.is_some()
}

#[test]
fn a_new_branch_takes_the_views_of_the_one_before_with_it() {
    let dir = tempfile::tempdir().unwrap();
    prepared(dir.path());
    let state = open(dir.path());
    let reign = state.next_reign(NOW).unwrap();
    let run = open_run(&state).unwrap();
    assert_eq!(run.branch::<String>().unwrap(), None);
    let timeline = resilin_core::Timeline::first(reign);
    run.set_branch(timeline, &"a branch").unwrap();
    assert_eq!(run.branch().unwrap(), Some("a branch".to_owned()));
    assert_eq!(run.views::<String>().unwrap(), SortedMap::new());
    assert_eq!(run.next_timeline().unwrap(), timeline.next(), "issued once");
    let step = |step| run.at(Step(step)).unwrap().map(|found| found.manifest.step);
    assert_eq!((step(20), step(25)), (Some(Step(20)), None));
}

#[test]
fn damaged_records_are_rebuilt_whether_sled_notices_or_not() {
    let whole = tempfile::tempdir().unwrap();
    {
        prepared(whole.path());
        // More than one of sled's segments of 512 KiB.
        let state = open(whole.path());
        let run = open_run(&state).unwrap();
        for index in 0..40 {
            let view = format!("{index}").repeat(20_000);
            run.set_views(&SortedMap::from([(SliceId(2), view)]))
                .unwrap();
        }
    }
    let db = fs::read(whole.path().join("sled/db")).unwrap();
    let (mut noticed, mut silent) = (0, 0);
    for (name, from, to) in [
        ("a byte at the start", 30, 31),
        ("a stretch at the start", 100, 2000),
        ("a byte in the middle", db.len() / 2, db.len() / 2 + 1),
        ("a stretch in the middle", db.len() / 2, db.len() / 2 + 5000),
        ("the end", db.len() - 300_000, db.len()),
        ("everything", 0, db.len()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        copy(whole.path(), dir.path());
        let mut damaged = db.clone();
        for byte in &mut damaged[from..to] {
            *byte ^= 0x5a;
        }
        fs::write(dir.path().join("sled/db"), damaged).unwrap();
        match survives(dir.path(), name) {
            true => noticed += 1,
            false => silent += 1,
        }
    }
    assert!(noticed > 0 && silent > 0, "{noticed} noticed, {silent} not");
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let target = to.join(entry.file_name());
        if entry.metadata().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn an_interrupted_rebuild_cleans_nothing_and_goes_on() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    save(&run, timeline, 10, 2).unwrap();
    drop((run, state));
    disk.lose_records();
    disk.set_fault(Some(Fault::FailAt(disk.operations() + 2)));
    open_disk(&disk).unwrap_err();
    let state = open_disk(&disk).unwrap();
    assert_eq!(state.report().removed, Vec::<String>::new());
    assert_eq!(newest(&open_run(&state).unwrap()), Some(10));
    // Only a start after that cleans.
    let files = disk.files();
    let temporary = root().join(RUN).join("000000000020-1.1-1.tmp");
    resilin_checkpoint::Files::create_dir(files.as_ref(), &temporary).unwrap();
    let state = open_disk(&disk).unwrap();
    let removed = format!("{RUN}/000000000020-1.1-1.tmp");
    assert_eq!(state.report().removed, vec![removed]);
}

#[test]
fn the_inspection_works_beside_a_coordinator() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path());
    state.next_reign(NOW).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    let committed = save(&run, timeline, 7, 3).unwrap();
    let listed = inspect(&RealFiles, dir.path(), Depth::Lengths).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (
            listed[0].run.as_str(),
            listed[0].step,
            listed[0].bytes,
            &listed[0].state
        ),
        (RUN, Step(7), committed.bytes, &Health::Good)
    );
}
