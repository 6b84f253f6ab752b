//! Coordinator and workers as real processes on loopback, against the serial oracle.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::support::{ANY, DEADLINE, Process, job, registry};
use resilin_actors::coordinator::{Announcement, Location, RunStatus};
use resilin_checkpoint::{History, LEDGER, RealFiles};
use resilin_core::Step;
use resilin_core::job::Document;
use resilin_learn::kernel::{hex, weights_sha256};
use resilin_learn::reference::{self, Progress};
use rustix::process::Signal;
use serde_json::json;

/// Every chain line and the final weights of a job, trained in this process.
struct Oracle {
    chain: Vec<(Step, String)>,
    weights: String,
    accuracy: f64,
}

fn oracle(job: &str) -> Oracle {
    let task = registry()
        .task(Document::parse(job).unwrap(), None)
        .unwrap();
    let mut chain = BTreeMap::new();
    let trained = reference::run(&Arc::new(task), |progress| match progress {
        Progress::Start { chain: line } => drop(chain.insert(Step(0), hex(&line))),
        Progress::Step(step) => drop(chain.insert(step.version, hex(&step.chain))),
        Progress::Epoch { .. } => {}
    })
    .unwrap();
    let test = trained.test.unwrap();
    Oracle {
        chain: chain.into_iter().collect(),
        weights: hex(&weights_sha256(&trained.weights)),
        accuracy: test.correct.unwrap() as f64 / test.rows as f64,
    }
}

fn chain(directory: &Path) -> Vec<(Step, String)> {
    let history = History::read(&RealFiles, &directory.join(LEDGER)).unwrap();
    let lines = history.chain().unwrap().into_iter();
    lines.map(|(step, line)| (step, hex(&line))).collect()
}

#[test]
fn two_workers_make_the_bits_of_the_oracle() {
    let (state, job) = (tempfile::tempdir().unwrap(), job(60, 2));
    let expected = oracle(&job);
    let mut coordinator = Process::coordinator(&job, state.path(), ANY, None);
    let location = coordinator.ready();
    let mut workers: Vec<Process> = (0..2)
        .map(|_| Process::worker(&location.join, None))
        .collect();
    let report = coordinator.over();
    assert_eq!(coordinator.end().0, 0);
    for worker in &mut workers {
        let (code, errors) = worker.end();
        assert_eq!(code, 0, "{errors}");
    }
    assert_eq!(chain(&location.directory), expected.chain);
    assert_eq!(report.weights_sha256, Some(expected.weights));
    assert_eq!(report.test_accuracy, Some(expected.accuracy));
    assert_eq!((report.steps, report.outcome.as_str()), (60, "finished"));

    let again = Process::coordinator(&job, state.path(), ANY, None);
    match again.announcement() {
        Announcement::Finished { report: kept, .. } => {
            assert_eq!(kept, serde_json::to_value(&report).unwrap());
        }
        other => panic!("a finished run went on: {other:?}"),
    }
}

/// Waits for the step to be committed, as the HTTP interface tells it.
fn wait_for_step(location: &Location, step: u64) {
    let until = Instant::now() + DEADLINE;
    while status(location).job.step.0 < step {
        assert!(Instant::now() < until, "step {step} did not come");
    }
}

fn status(location: &Location) -> RunStatus {
    let url = format!("http://{}/v1/status", location.api);
    let answer = ureq::get(url).call().unwrap();
    answer.into_body().read_json().unwrap()
}

#[test]
fn a_killed_worker_and_its_replacement_change_no_bit() {
    let (state, job) = (tempfile::tempdir().unwrap(), job(300, 3));
    let expected = oracle(&job);
    let mut coordinator = Process::coordinator(&job, state.path(), ANY, None);
    let location = coordinator.ready();
    let mut killed = Process::worker(&location.join, None);
    let mut survivor = Process::worker(&location.join, None);
    wait_for_step(&location, 20);
    killed.kill();
    let mut replacement = Process::worker(&location.join, None);
    let report = coordinator.over();
    assert_eq!(coordinator.end().0, 0);
    assert_eq!((survivor.end().0, replacement.end().0), (0, 0));
    assert_eq!(chain(&location.directory), expected.chain);
    assert_eq!(report.weights_sha256, Some(expected.weights));
    assert_eq!((report.workers_joined, report.workers_lost), (3, 1));
}

#[test]
fn a_stopped_run_goes_on_with_other_workers_and_shards() {
    let state = tempfile::tempdir().unwrap();
    let expected = oracle(&job(300, 1));
    let mut coordinator = Process::coordinator(&job(300, 3), state.path(), ANY, None);
    let location = coordinator.ready();
    let mut workers: Vec<Process> = (0..3)
        .map(|_| Process::worker(&location.join, None))
        .collect();
    wait_for_step(&location, 30);
    coordinator.signal(Signal::TERM);
    let stopped = coordinator.over();
    assert_eq!(coordinator.end().0, 6);
    for worker in &mut workers {
        assert_eq!(worker.end().0, 0);
    }
    assert_eq!(stopped.outcome, "stopped");
    assert!((30..300).contains(&stopped.steps), "{stopped:?}");

    let mut coordinator = Process::coordinator(&job(300, 2), state.path(), ANY, None);
    let location = coordinator.ready();
    let mut worker = Process::worker(&location.join, None);
    let report = coordinator.over();
    assert_eq!((coordinator.end().0, worker.end().0), (0, 0));
    assert_eq!(report.resumed_from_step, Some(stopped.steps));
    assert_eq!(chain(&location.directory), expected.chain);
    assert_eq!(report.weights_sha256, Some(expected.weights));
    let rows = 1438 * 300 / 15;
    assert_eq!(report.samples, rows, "every row once an epoch");
}

#[test]
fn a_run_without_its_ledger_ends_with_a_report() {
    let (state, job) = (tempfile::tempdir().unwrap(), job(300, 1));
    let expected = oracle(&job);
    let mut coordinator = Process::coordinator(&job, state.path(), ANY, None);
    let location = coordinator.ready();
    let mut worker = Process::worker(&location.join, None);
    wait_for_step(&location, 30);
    coordinator.signal(Signal::TERM);
    assert_eq!(coordinator.over().outcome, "stopped");
    assert_eq!((coordinator.end().0, worker.end().0), (6, 0));
    let ledger = location.directory.join(LEDGER);
    std::fs::remove_file(&ledger).unwrap();

    let mut coordinator = Process::coordinator(&job, state.path(), ANY, None);
    let location = coordinator.ready();
    let mut worker = Process::worker(&location.join, None);
    wait_for_step(&location, 60);
    // Once more, under the feet of the running process.
    std::fs::remove_file(&ledger).unwrap();
    let report = coordinator.over();
    let (code, errors) = coordinator.end();
    assert_eq!((code, worker.end().0), (0, 0), "{errors}");
    assert_eq!((report.steps, report.outcome.as_str()), (300, "finished"));
    assert_eq!(report.weights_sha256, Some(expected.weights));
    let last = expected.chain.last().map(|(_, line)| line.clone());
    assert_eq!(report.chain, last);
    for warning in ["the ledger lacks lines", "lines that were written are gone"] {
        assert!(errors.contains(warning), "no {warning}: {errors}");
    }
}

#[test]
fn a_killed_coordinator_comes_back_where_it_was_and_replays() {
    let (state, job) = (tempfile::tempdir().unwrap(), job(300, 2));
    let expected = oracle(&job);
    let mut coordinator = Process::coordinator(&job, state.path(), ANY, None);
    let location = coordinator.ready();
    let mut worker = Process::worker(&location.join, None);
    wait_for_step(&location, 40);
    let announced = status(&location).job.durable_step;
    coordinator.kill();
    let mut coordinator = Process::coordinator(&job, state.path(), &location.join, None);
    assert_eq!(coordinator.ready().join, location.join);
    let report = coordinator.over();
    assert_eq!((coordinator.end().0, worker.end().0), (0, 0));
    assert_eq!(chain(&location.directory), expected.chain);
    assert_eq!(report.weights_sha256, Some(expected.weights));
    let resumed = report.resumed_from_step.map(Step);
    assert!(resumed >= announced, "{resumed:?} is before {announced:?}");
}

#[test]
fn a_frozen_worker_is_fenced_and_comes_back_as_another() {
    let (state, job) = (tempfile::tempdir().unwrap(), job(1500, 2));
    let job = job.replace("lease = 3.0", "lease = 0.25");
    let expected = oracle(&job);
    let mut coordinator = Process::coordinator(&job, state.path(), ANY, None);
    let location = coordinator.ready();
    let mut workers: Vec<Process> = (0..2)
        .map(|_| Process::worker(&location.join, None))
        .collect();
    wait_for_members(&location, 2);
    workers[1].signal(Signal::STOP);
    let until = Instant::now() + DEADLINE;
    while status(&location).job.lost < 1 {
        assert!(Instant::now() < until, "the frozen worker is not missed");
    }
    workers[1].signal(Signal::CONT);
    wait_for_members(&location, 2);
    let report = coordinator.over();
    assert_eq!(coordinator.end().0, 0);
    for worker in &mut workers {
        assert_eq!(worker.end().0, 0);
    }
    assert_eq!(chain(&location.directory), expected.chain);
    // On a busy machine others may be missed for a lease as well.
    let counts = (report.workers_joined, report.workers_lost);
    assert!(counts >= (3, 1), "{counts:?}");
}

fn post(location: &Location, path: &str, body: serde_json::Value) -> u16 {
    let url = format!("http://{}/v1/{path}", location.api);
    match ureq::post(url).send_json(body) {
        Ok(answer) => answer.status().as_u16(),
        Err(ureq::Error::StatusCode(code)) => code,
        Err(error) => panic!("{path}: {error}"),
    }
}

#[test]
fn joins_and_drains_by_operators_change_no_bit() {
    let (state, job) = (tempfile::tempdir().unwrap(), job(600, 2));
    let expected = oracle(&job);
    let mut coordinator = Process::coordinator(&job, state.path(), ANY, None);
    let location = coordinator.ready();
    let mut first = Process::worker(&location.join, None);
    wait_for_step(&location, 10);
    let mut later: Vec<Process> = (0..2)
        .map(|_| Process::worker(&location.join, None))
        .collect();
    wait_for_members(&location, 3);
    assert_eq!(post(&location, "drain", json!({ "worker": 99 })), 404);
    assert_eq!(post(&location, "drain", json!({ "workers": 1 })), 400);
    assert_eq!(post(&location, "drain", json!({ "worker": 1 })), 202);
    assert_eq!(first.end().0, 0, "a drained worker leaves in peace");
    assert_eq!(post(&location, "scale", json!({ "workers": 1 })), 202);
    assert_eq!(later[1].end().0, 0, "the youngest one is surplus");
    let report = coordinator.over();
    assert_eq!((coordinator.end().0, later[0].end().0), (0, 0));
    assert_eq!(chain(&location.directory), expected.chain);
    let counts = (
        report.workers_joined,
        report.workers_drained,
        report.workers_lost,
    );
    assert_eq!(counts, (3, 2, 0));
}

fn wait_for_members(location: &Location, count: usize) {
    let until = Instant::now() + DEADLINE;
    let active = || {
        let members = status(location).job.workers;
        members.iter().filter(|m| m.state == "active").count()
    };
    while active() < count {
        assert!(Instant::now() < until, "{count} members did not come");
    }
}

#[test]
fn too_few_workers_for_too_long_end_the_run() {
    let state = tempfile::tempdir().unwrap();
    let job = job(60, 1).replace("[failure]", "[failure]\nwait_below_min = 0.2");
    let mut coordinator = Process::coordinator(&job, state.path(), ANY, None);
    let (code, errors) = coordinator.end();
    assert_eq!(code, 5, "{errors}");
    assert!(errors.contains("resilin worker --join"), "{errors}");
}

#[test]
fn a_run_without_workers_stops_after_its_grace() {
    let state = tempfile::tempdir().unwrap();
    let job = job(60, 2).replace("drain_grace = 5", "drain_grace = 0.2");
    let mut coordinator = Process::coordinator(&job, state.path(), ANY, None);
    let location = coordinator.ready();
    assert_eq!(post(&location, "stop", json!({})), 202);
    let report = coordinator.over();
    assert_eq!((report.steps, report.outcome.as_str()), (0, "stopped"));
    assert!(report.checkpoint.is_some(), "{report:?}");
    assert_eq!(coordinator.end().0, 6);
}
