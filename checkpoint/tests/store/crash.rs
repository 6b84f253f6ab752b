//! Power cuts and failing operations at every single place of two saves and a deletion.

use resilin_checkpoint::testing::{Disk, Fault};
use resilin_checkpoint::{Files, Result, Start};
use resilin_core::Timeline;

use crate::fixture::{
    NOW, RUN, disk, facts, identity, newest, open_disk, open_run, root, save, seal, step_record,
};

/// Opens, saves steps 10 and 20, keeps one; `announced` is the newest step that was durable.
fn scenario(disk: &Disk, announced: &mut u64) -> Result<()> {
    let state = open_disk(disk)?;
    let run = open_run(&state)?;
    let timeline = run.next_timeline()?;
    for step in [10, 20] {
        run.append(&[step_record(timeline, step - 1)])?;
        let committed = save(&run, timeline, step, 3)?;
        *announced = committed.step.0;
        run.prune(1)?;
    }
    Ok(())
}

#[test]
fn a_power_cut_anywhere_leaves_the_newest_announced_checkpoint_or_the_next() {
    let quiet = disk(0);
    scenario(&quiet, &mut 0).unwrap();
    let operations = quiet.operations();
    assert!(operations > 50, "{operations} operations are too few");
    for at in 1..=operations {
        for seed in 0..4 {
            let disk = disk(seed);
            disk.set_fault(Some(Fault::CrashAt(at)));
            let mut announced = 0;
            let ended = scenario(&disk, &mut announced);
            disk.restart();
            let state = open_disk(&disk)
                .unwrap_or_else(|error| panic!("operation {at}, seed {seed}: {error}"));
            let opened = state.open_run(identity(), Start::Resume, NOW).unwrap();
            // What a checkpoint was written after is in the ledger.
            assert_eq!(opened.ledger_lacks, None, "operation {at}, seed {seed}");
            let run = opened.run;
            let found = newest(&run).unwrap_or(0);
            assert!(
                found == announced || (found == announced + 10 && ended.is_err()),
                "operation {at}, seed {seed}: announced {announced}, found {found}"
            );
            assert_eq!(run.newest().unwrap().skipped, vec![]);
            // What was torn is gone, and the run goes on.
            let timeline = run.next_timeline().unwrap();
            save(&run, timeline, 30, 2).unwrap();
            assert_eq!(newest(&run), Some(30));
        }
    }
}

#[test]
fn a_power_cut_without_records_keeps_every_full_set() {
    let quiet = disk(0);
    scenario(&quiet, &mut 0).unwrap();
    for at in 1..=quiet.operations() {
        let disk = disk(at);
        disk.set_fault(Some(Fault::CrashAt(at)));
        let mut announced = 0;
        drop(scenario(&disk, &mut announced));
        disk.restart();
        disk.lose_records();
        let state = open_disk(&disk).unwrap();
        assert_eq!(state.report().removed, Vec::<String>::new());
        let found = newest(&open_run(&state).unwrap()).unwrap_or(0);
        assert!(found >= announced, "operation {at}: {announced}, {found}");
    }
}

#[test]
fn an_operation_that_fails_loses_nothing_and_can_be_tried_again() {
    let quiet = disk(0);
    scenario(&quiet, &mut 0).unwrap();
    for at in 1..=quiet.operations() {
        let disk = disk(1);
        let mut announced = 0;
        disk.set_fault(Some(Fault::FailAt(at)));
        drop(scenario(&disk, &mut announced));
        // Without a restart, as a process that goes on; its handles are new ones.
        let state = open_disk(&disk).unwrap();
        let run = open_run(&state).unwrap();
        let found = newest(&run).unwrap_or(0);
        assert!(found >= announced, "operation {at}: {announced}, {found}");
        let timeline = run.next_timeline().unwrap();
        save(&run, timeline, 40, 3).unwrap();
        assert_eq!(newest(&run), Some(40), "operation {at}");
    }
}

#[test]
fn a_failed_save_is_tried_again_on_the_same_handle() {
    let quiet = disk(0);
    let count = |disk: &Disk| {
        let state = open_disk(disk).unwrap();
        let run = open_run(&state).unwrap();
        let timeline = run.next_timeline().unwrap();
        run.append(&[step_record(timeline, 9)]).unwrap();
        (state, run, timeline, disk.operations())
    };
    let (_state, run, timeline, before) = count(&quiet);
    save(&run, timeline, 10, 2).unwrap();
    for at in before + 1..=quiet.operations() {
        let disk = disk(0);
        let (_state, run, timeline, _) = count(&disk);
        disk.set_fault(Some(Fault::FailAt(at)));
        save(&run, timeline, 10, 2).unwrap_err();
        let dir = root().join(RUN);
        let left = Files::list(disk.files().as_ref(), &dir).unwrap();
        let mut checkpoints = left.iter().filter(|name| name.starts_with("0000"));
        assert_eq!(checkpoints.next(), None, "operation {at}");
        save(&run, timeline, 10, 2).unwrap();
        assert_eq!(newest(&run), Some(10), "operation {at}");
        assert_eq!(run.history().unwrap().steps().count(), 1);
        save(&run, timeline, 10, 2).unwrap_err();
    }
}

#[test]
fn syncs_that_do_nothing_are_caught_by_name_after_a_power_cut() {
    for seed in 0..20 {
        let disk = disk(seed);
        let state = open_disk(&disk).unwrap();
        let run = open_run(&state).unwrap();
        let timeline = run.next_timeline().unwrap();
        save(&run, timeline, 10, 3).unwrap();
        disk.set_fault(Some(Fault::LoseSyncs));
        save(&run, timeline, 20, 3).unwrap();
        disk.restart();
        let state = open_disk(&disk).unwrap();
        let run = open_run(&state).unwrap();
        let found = newest(&run);
        let skipped = run.newest().unwrap().skipped;
        match found {
            Some(20) => assert_eq!(skipped, vec![]),
            Some(10) => {
                let name = resilin_checkpoint::directory_name(resilin_core::Step(20), timeline);
                assert_eq!(skipped.len(), 1, "seed {seed}");
                assert_eq!(skipped[0].name, name, "seed {seed}");
            }
            Some(_) | None => panic!("seed {seed}: found {found:?}"),
        }
    }
}

#[test]
fn a_single_lost_sync_anywhere_is_caught_by_name_after_a_power_cut() {
    let quiet = disk(0);
    scenario(&quiet, &mut 0).unwrap();
    let mut caught = 0;
    for at in 1..=quiet.operations() {
        for seed in 0..4 {
            let disk = disk(seed);
            disk.set_fault(Some(Fault::LoseSyncAt(at)));
            scenario(&disk, &mut 0).unwrap();
            disk.restart();
            let what = format!("operation {at}, seed {seed}");
            let state = open_disk(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            let opened = state.open_run(identity(), Start::Resume, NOW).unwrap();
            let skipped = opened.run.newest().unwrap().skipped;
            let found = newest(&opened.run);
            assert!(found == Some(20) || skipped.len() == 1, "{what}: {found:?}");
            caught += usize::from(opened.ledger_lacks.is_some() || !skipped.is_empty());
            let timeline = opened.run.next_timeline().unwrap();
            save(&opened.run, timeline, 30, 2).unwrap();
            assert_eq!(newest(&opened.run), Some(30), "{what}");
        }
    }
    assert!(caught > 10, "{caught} lost syncs mattered");
}

#[test]
fn the_end_of_a_run_is_one_batch_and_survives_the_records() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    let report = serde_json::json!({"accuracy": 0.97});
    let sealed = seal(&run, timeline, 60, 2, facts(60, true).finished).unwrap();
    sealed.finish(NOW + 5, report.clone()).unwrap();
    disk.restart();
    let finished = |disk: &Disk| {
        let state = open_disk(disk).unwrap();
        let opened = state.open_run(identity(), Start::Resume, NOW + 9).unwrap();
        assert!(opened.known);
        assert_eq!(opened.run.record().created, NOW);
        opened.run.record().finished.clone().unwrap()
    };
    let stored = finished(&disk);
    assert_eq!((stored.at, stored.report), (NOW + 5, Some(report)));
    disk.lose_records();
    let rebuilt = finished(&disk);
    assert_eq!((rebuilt.at, rebuilt.report), (0, None));
}

#[test]
fn starting_over_survives_a_power_cut_at_every_operation() {
    let prepared = |seed| {
        let disk = disk(seed);
        let state = open_disk(&disk).unwrap();
        let run = open_run(&state).unwrap();
        let timeline = run.next_timeline().unwrap();
        save(&run, timeline, 10, 2).unwrap();
        (disk, state, timeline)
    };
    let (quiet, state, _) = prepared(0);
    let before = quiet.operations();
    state.open_run(identity(), Start::Fresh, NOW).unwrap();
    for at in before + 1..=quiet.operations() {
        let (disk, state, old) = prepared(at);
        disk.set_fault(Some(Fault::CrashAt(at)));
        drop(state.open_run(identity(), Start::Fresh, NOW));
        disk.restart();
        let state = open_disk(&disk).unwrap();
        let run = state.open_run(identity(), Start::Resume, NOW).unwrap().run;
        assert!(matches!(newest(&run), None | Some(10)), "operation {at}");
        let timeline: Timeline = run.next_timeline().unwrap();
        assert!(timeline > old, "operation {at}: {timeline} after {old}");
        save(&run, timeline, 5, 2).unwrap();
        assert_eq!(newest(&run), Some(5), "operation {at}");
        let names = Files::list(disk.files().as_ref(), &root()).unwrap();
        assert_eq!(names, vec![RUN, "reserve"], "operation {at}");
    }
}
