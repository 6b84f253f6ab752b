//! Who may open a state, and what happens when there is no room.

use std::fs;
use std::time::Duration;

use resilin_checkpoint::testing::{Disk, Fault};
use resilin_checkpoint::{
    Depth, Files, LEDGER, Patience, RESERVE, RESERVE_BYTES, RunIdentity, Start, StateDir,
    StoreError, directory_name, inspect,
};

use resilin_core::{Step, Timeline};

use crate::fixture::{
    NOW, RUN, disk, facts, identity, job, newest, open_disk, open_run, root, save, seal, set,
};

#[test]
fn a_held_state_names_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let held = StateDir::open(dir.path(), Patience::default()).unwrap();
    let patience = Patience {
        lock: Duration::from_millis(120),
        ..Patience::default()
    };
    let error = StateDir::open(dir.path(), patience).unwrap_err();
    let pid = std::process::id().to_string();
    assert!(
        matches!(&error, StoreError::Held { holder, .. } if *holder == pid),
        "{error}"
    );
    let line = format!(
        "in use by process {pid}: `resilin status --state {}`",
        dir.path().display()
    );
    assert!(error.to_string().contains(&line), "{error}");
    drop(held);
    StateDir::open(dir.path(), patience).unwrap();
}

#[test]
fn a_path_that_is_a_file_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "mine").unwrap();
    let error = StateDir::open(&path, Patience::default()).unwrap_err();
    assert!(error.to_string().starts_with("cannot create "), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    // sled's place is taken by a file: not damage, so nothing is moved.
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("sled"), "mine").unwrap();
    let error = StateDir::open(&state, Patience::default()).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(state.join("sled")).unwrap(), "mine");
}

#[test]
fn a_read_only_disk_is_named_and_keeps_its_state() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    save(&run, timeline, 10, 2).unwrap();
    disk.set_fault(Some(Fault::ReadOnly));
    let error = save(&run, timeline, 20, 2).unwrap_err().to_string();
    let told = "read-only filesystem or storage medium; make it writable or choose another --state \
                directory";
    assert!(error.ends_with(told), "{error}");
    assert!(
        open_disk(&disk)
            .unwrap_err()
            .to_string()
            .contains("read-only")
    );
    disk.set_fault(None);
    assert_eq!(newest(&run), Some(10));
    save(&run, timeline, 20, 2).unwrap();
}

#[test]
fn a_full_disk_begins_no_checkpoint_and_still_takes_control_records() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    save(&run, timeline, 10, 2).unwrap();
    assert!(state.has_reserve());

    disk.set_capacity(disk.used() + 600_000);
    let error = run.begin(set(20, timeline, 2)).unwrap_err();
    assert!(error.is_full(), "{error}");
    assert!(
        error
            .to_string()
            .contains("disk full: /state has 600000 bytes free"),
        "{error}"
    );
    assert!(state.has_reserve());
    run.next_timeline().unwrap();
    assert!(!state.has_reserve());

    // Not even the reserve is left: nothing is written.
    disk.set_capacity(disk.used() + 100_000);
    assert!(run.next_timeline().unwrap_err().is_full());
    assert_eq!(newest(&run), Some(10));

    disk.set_capacity(64 << 20);
    save(&run, timeline, 20, 2).unwrap();
    assert!(state.has_reserve());
    assert_eq!(newest(&run), Some(20));
}

/// What lies in the run's directory.
fn entries(disk: &Disk) -> Vec<String> {
    disk.files().list(&root().join(RUN)).unwrap()
}

fn name(step: u64, timeline: Timeline) -> String {
    directory_name(Step(step), timeline)
}

#[test]
fn a_disk_that_fills_within_a_save_leaves_the_state_whole() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    save(&run, timeline, 10, 2).unwrap();
    let mut begun = run.begin(set(20, timeline, 2)).unwrap();
    disk.set_capacity(disk.used() + 100);
    let flat = crate::fixture::tensors(20);
    let values = crate::fixture::layout().values(0..6);
    let parts: Vec<(&str, &[f32])> = flat
        .iter()
        .map(|(name, flat)| (name.as_str(), &flat[values.clone()]))
        .collect();
    let image = resilin_checkpoint::SliceImage {
        slice: resilin_core::SliceId(0),
        blocks: 0..6,
        tensors: &parts,
    };
    assert!(begun.write_slice(&image).unwrap_err().is_full());
    begun.abandon();
    assert_eq!(entries(&disk), vec![name(10, timeline), LEDGER.into()]);
    assert_eq!(newest(&run), Some(10));
    disk.set_capacity(64 << 20);
    save(&run, timeline, 20, 2).unwrap();
}

#[test]
fn a_set_that_lacks_a_slice_is_not_sealed() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    let begun = run.begin(set(10, timeline, 2)).unwrap();
    let error = begun.seal(facts(10, false)).unwrap_err().to_string();
    assert_eq!(error, "checkpoint of step 10 lacks slice 0");
    assert_eq!(newest(&run), None);
}

#[test]
fn forty_saves_keep_three_and_the_space_of_three() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path(), Patience::default()).unwrap();
    state.next_reign(NOW).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    let mut bytes = 0;
    for step in 1..=40 {
        bytes = save(&run, timeline, step, 3).unwrap().bytes;
        assert_eq!(run.prune(3).unwrap().warnings, Vec::<String>::new());
    }
    let listed = inspect(&resilin_checkpoint::RealFiles, dir.path(), Depth::Digests).unwrap();
    assert_eq!(
        listed.iter().map(|l| l.step.0).collect::<Vec<_>>(),
        vec![38, 39, 40]
    );
    let used = size(dir.path());
    // The reserve, three checkpoints with manifests, and at most 3 MB of sled (measured: 2.6).
    let bound = RESERVE_BYTES + 3 * (bytes + 8192) + 3_000_000;
    assert!(used < bound, "{used} bytes, bound {bound}");
}

fn size(path: &std::path::Path) -> u64 {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.metadata().unwrap() {
            file if file.is_file() => file.len(),
            _ => size(&entry.path()),
        })
        .sum()
}

#[test]
fn retention_counts_no_damaged_one_and_keeps_the_last_good_one() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    for step in [10, 20, 30, 40] {
        save(&run, timeline, step, 2).unwrap();
    }
    // As after a restart: nothing is known to be good.
    let run = open_run(&state).unwrap();
    let path = |step| {
        let dir = root().join(RUN).join(name(step, timeline));
        dir.join("slice-00000.safetensors")
    };
    disk.flip(&path(40), 900, 0).unwrap();
    disk.flip(&path(30), 900, 0).unwrap();
    let pruned = run.prune(0).unwrap();
    assert_eq!(pruned.warnings.len(), 2, "{:?}", pruned.warnings);
    assert_eq!(pruned.deleted.len(), 1, "{:?}", pruned.deleted);
    assert!(pruned.deleted[0].starts_with("000000000010-"));
    assert_eq!(newest(&run), Some(20));
    // The last good one is damaged too: nothing more goes.
    disk.flip(&path(20), 900, 0).unwrap();
    let run = open_run(&state).unwrap();
    assert_eq!(run.prune(1).unwrap().deleted, Vec::<String>::new());
}

#[test]
fn a_directory_that_cannot_be_deleted_is_a_warning() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    save(&run, timeline, 10, 2).unwrap();
    save(&run, timeline, 20, 2).unwrap();
    disk.set_fault(Some(Fault::FailAt(disk.operations() + 2)));
    let pruned = run.prune(1).unwrap();
    assert_eq!(pruned.deleted, Vec::<String>::new());
    let warning = format!("cannot rename /state/{RUN}/000000000010");
    assert!(pruned.warnings[0].starts_with(&warning), "{pruned:?}");
    assert_eq!(newest(&run), Some(20));
    let state = open_disk(&disk).unwrap();
    assert_eq!(state.report().adopted.len(), 1);
    let run = open_run(&state).unwrap();
    assert_eq!(run.prune(1).unwrap().deleted.len(), 1);
    assert_eq!(newest(&run), Some(20));
}

#[test]
fn another_digest_is_another_run_whose_job_can_be_compared() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let opened = state.open_run(identity(), Start::Resume, NOW).unwrap();
    assert!(!opened.known && opened.other.is_none());
    let changed = RunIdentity {
        job: job("61"),
        ..identity()
    };
    let opened = state
        .open_run(changed.clone(), Start::Resume, NOW + 1)
        .unwrap();
    assert_eq!(
        opened.other.unwrap().job.differences(&changed.job),
        vec!["run.steps is 60 here, 61 there"]
    );
    let opened = state.open_run(changed, Start::Resume, NOW + 2).unwrap();
    assert!(opened.known && opened.other.is_none());
    for name in ["", "..", "a/b", ".a"] {
        let named = RunIdentity {
            name: name.into(),
            ..identity()
        };
        let error = state.open_run(named, Start::Resume, NOW).unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error}");
    }
}

#[test]
fn a_report_that_is_too_long_does_not_keep_a_run_from_ending() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    let report = serde_json::Value::String("x".repeat(70_000));
    let sealed = seal(&run, timeline, 60, 2, true).unwrap();
    sealed.finish(NOW, report).unwrap();
    let run = open_run(&open_disk(&disk).unwrap()).unwrap();
    let finished = run.record().finished.clone().unwrap();
    assert_eq!((finished.at, finished.report), (NOW, None));
}

#[test]
fn an_oversized_job_is_refused() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let long = RunIdentity {
        job: job(&"6".repeat(70_000)),
        ..identity()
    };
    let error = state.open_run(long, Start::Resume, NOW).unwrap_err();
    assert!(error.to_string().contains("above the 65536"), "{error}");
    assert!(
        disk.files()
            .length(&root().join(RESERVE))
            .unwrap()
            .is_some()
    );
}
