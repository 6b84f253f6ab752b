//! The ledger: branches, torn tails, damage.

use std::fs;
use std::path::Path;

use resilin_checkpoint::{LEDGER, Patience, Pruned, RealFiles, Run, Start, StateDir, Superseded};
use resilin_core::ledger::Record;
use resilin_core::machine::job::Metrics;
use resilin_core::{Step, Timeline};

use crate::fixture::{NOW, chain, disk, identity, newest, open_disk, open_run, save, step_record};

fn first() -> Timeline {
    Timeline::first(NOW)
}

fn begin(run: &Run) {
    let timeline = first();
    run.append(&[
        Record::Start { reign: NOW },
        Record::Rollback {
            timeline,
            base: Step(0),
        },
        Record::Initial {
            timeline,
            chain: chain(0),
        },
    ])
    .unwrap();
    for step in 0..5 {
        run.append(&[step_record(timeline, step)]).unwrap();
    }
}

fn lines(from: u64, to: u64) -> Vec<(Step, [u8; 32])> {
    (from..=to).map(|step| (Step(step), chain(step))).collect()
}

#[test]
fn a_rollback_supersedes_and_the_replay_is_compared() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    begin(&run);
    assert_eq!(run.history().unwrap().chain().unwrap(), lines(0, 5));
    let timeline = first().next();
    run.append(&[
        Record::Rollback {
            timeline,
            base: Step(2),
        },
        step_record(timeline, 2),
        // A straggler of the branch that was left.
        step_record(first(), 5),
    ])
    .unwrap();
    let history = run.history().unwrap();
    assert_eq!(history.chain().unwrap(), lines(0, 3));
    assert_eq!(history.timeline(), timeline);
    let steps: Vec<_> = history.steps().map(|s| (s.step.0, s.timeline)).collect();
    assert_eq!(steps, vec![(0, first()), (1, first()), (2, timeline)]);
    let old = |line: u64| Superseded {
        timeline: first(),
        line: Step(line),
        chain: chain(line),
    };
    assert_eq!(history.superseded(), [old(3), old(4), old(5), old(6)]);
    assert_eq!(history.differing().count(), 0);
    let replayed: Vec<_> = history.lines_after(Step(3)).into_iter().collect();
    assert_eq!(replayed, lines(4, 6));
    let Record::Step(mut other) = step_record(timeline, 3) else {
        unreachable!("a step record")
    };
    other.chain = chain(99);
    run.append(&[Record::Step(other)]).unwrap();
    let history = run.history().unwrap();
    assert_eq!(history.differing().collect::<Vec<_>>(), vec![&old(4)]);
}

#[test]
fn evaluations_of_the_newest_timeline_are_read_back() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    begin(&run);
    let evaluation = |timeline, step: u64, loss_sum| Record::Evaluation {
        timeline,
        epoch: step / 2,
        step: Step(step),
        rows: 360,
        correct: Some(300 + step),
        loss_sum,
        parts: [0.0, loss_sum, 0.0, 0.0],
    };
    let timeline = first().next();
    run.append(&[
        evaluation(first(), 2, 0.1 + 0.2),
        evaluation(first(), 4, f64::NAN),
        Record::Rollback {
            timeline,
            base: Step(2),
        },
        evaluation(timeline, 6, 1e-300),
    ])
    .unwrap();
    let read = |step: u64, loss_sum| Metrics {
        version: Step(step),
        epoch: step / 2 + 1,
        rows: 360,
        correct: Some(300 + step),
        loss_sum,
        parts: [0.0, loss_sum, 0.0, 0.0],
    };
    let history = run.history().unwrap();
    let evaluations: Vec<_> = history.evaluations().copied().collect();
    assert_eq!(evaluations, vec![read(2, 0.1 + 0.2), read(6, 1e-300)]);
}

fn real(dir: &Path) -> (StateDir, resilin_checkpoint::Opened) {
    let state = StateDir::open(dir, Patience::default()).unwrap();
    state.next_reign(NOW).unwrap();
    let opened = state.open_run(identity(), Start::Resume, NOW).unwrap();
    (state, opened)
}

#[test]
fn a_torn_tail_is_cut_and_damage_is_kept_aside() {
    let dir = tempfile::tempdir().unwrap();
    let (state, opened) = real(dir.path());
    assert_eq!(opened.cut, None);
    begin(&opened.run);
    let mark = opened.run.sync_ledger().unwrap();
    let path = opened.run.path().join(LEDGER);
    drop((state, opened));
    let whole = fs::read(&path).unwrap();
    assert_eq!((whole.len() as u64, mark.records), (mark.bytes, 8));
    {
        let (_state, opened) = real(dir.path());
        save(&opened.run, first(), 5, 2).unwrap();
    }

    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    let (state, opened) = real(dir.path());
    let cut = opened.cut.clone().unwrap();
    assert_eq!((cut.records, cut.kept), (7, None));
    let name = resilin_checkpoint::directory_name(Step(5), first());
    assert_eq!(opened.ledger_lacks, Some(name));
    assert_eq!(opened.run.history().unwrap().chain().unwrap(), lines(0, 4));
    opened.run.append(&[step_record(first(), 4)]).unwrap();
    opened.run.sync_ledger().unwrap();
    drop((state, opened));
    assert_eq!(fs::read(&path).unwrap(), whole);

    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let (_state, opened) = real(dir.path());
    let cut = opened.cut.unwrap();
    assert!(cut.records < 7);
    let kept = cut.kept.unwrap();
    assert_eq!(kept.file_name().unwrap(), "ledger-damaged-1.log");
    assert_eq!(fs::read(kept).unwrap(), damaged);
    let left = fs::read(&path).unwrap();
    assert_eq!(left, whole[..left.len()]);
    assert_eq!(left.len() as u64 + cut.bytes, whole.len() as u64);
}

#[test]
fn the_chain_names_a_missing_line() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    begin(&run);
    run.append(&[step_record(first(), 6)]).unwrap();
    let error = run.history().unwrap().chain().unwrap_err().to_string();
    assert!(
        error.contains("the chain line of step 6 is missing"),
        "{error}"
    );
}

#[test]
fn a_line_is_json_that_says_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (_state, opened) = real(dir.path());
    opened.run.append(&[step_record(first(), 0)]).unwrap();
    let text = fs::read_to_string(opened.run.path().join(LEDGER)).unwrap();
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    let body = serde_json::to_vec(&step_record(first(), 0)).unwrap();
    let hash = blake3::hash(&[&[0; 32], body.as_slice()].concat()).to_hex();
    assert_eq!(line["hash"], hash.as_str());
    let chain = blake3::Hash::from_bytes(chain(1)).to_hex();
    assert_eq!(line["record"]["step"]["chain"], chain.as_str());
    assert!(resilin_checkpoint::Files::length(&RealFiles, dir.path()).is_ok());
}

#[test]
fn a_checkpoint_that_a_branch_with_steps_left_behind_is_not_gone_on_from() {
    let disk = disk(0);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    begin(&run);
    for step in [2, 3, 5] {
        save(&run, first(), step, 2).unwrap();
    }
    let (timeline, base) = (first().next(), Step(2));
    run.append(&[Record::Rollback { timeline, base }]).unwrap();
    // A branch without steps leaves nothing behind: the next one may begin later.
    assert_eq!(newest(&run), Some(5));
    run.append(&[step_record(timeline, 2)]).unwrap();
    let seen = |run: &Run| {
        let skipped = run.newest().unwrap().skipped;
        let names = [5, 3].map(|step| resilin_checkpoint::directory_name(Step(step), first()));
        assert_eq!(
            skipped.iter().map(|s| &s.name).collect::<Vec<_>>(),
            [&names[0], &names[1]]
        );
        assert!(
            skipped[0].why.contains("the run went on from step 2"),
            "{}",
            skipped[0].why
        );
        assert_eq!(newest(run), Some(2));
        assert!(run.at(Step(5)).unwrap().is_none());
    };
    seen(&run);
    run.sync_ledger().unwrap();
    drop((run, state));
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    seen(&run);
    // They do not count as kept, either.
    save(&run, timeline, 3, 2).unwrap();
    assert_eq!(run.prune(2).unwrap(), Pruned::default());
    let pruned = run.prune(1).unwrap();
    assert_eq!((pruned.deleted.len(), newest(&run)), (3, Some(3)));
}
