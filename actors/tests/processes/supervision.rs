//! The supervisor with real children: restarts, scaling, and nothing left behind.

use std::collections::BTreeSet;

use crate::support::{Process, job, supervised};
use resilin_actors::Exit;
use resilin_actors::supervisor::{self, Happening, Role, When};

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn lives(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::test_kill_process(pid).is_ok()
}

#[test]
fn killed_children_are_started_again_and_none_is_left() {
    let state = tempfile::tempdir().unwrap();
    let job = job(1000, 2).replace("[cluster]", "[cluster]\nworkers = 2");
    let options = supervised(&job, state.path());
    let (mut started, mut killed) = (BTreeSet::new(), BTreeSet::new());
    let mut coordinators = 0;
    let ended = supervisor::run(options, |happening| match happening {
        Happening::Started { role, pid } => {
            coordinators += u32::from(role == Role::Coordinator);
            started.insert((role, pid));
        }
        Happening::Status(status) => {
            // One worker early, the coordinator later, each once.
            let due = [(Role::Worker, 10), (Role::Coordinator, 60)];
            for (role, step) in due {
                let done = killed.iter().any(|(of, _)| *of == role);
                if !done && status.job.step.0 >= step {
                    let pid = started.iter().find(|(of, _)| *of == role).unwrap().1;
                    kill(pid);
                    killed.insert((role, pid));
                }
            }
        }
        Happening::Ready(_)
        | Happening::Line { .. }
        | Happening::Failed { .. }
        | Happening::Killed { .. }
        | Happening::Stopping => {}
    });
    assert_eq!(
        (ended.exit.clone(), ended.done),
        (Exit::Done, When::Now),
        "{ended:?}"
    );
    let report = ended.report.unwrap();
    assert_eq!(report["outcome"], "finished");
    assert_eq!((killed.len(), coordinators), (2, 2), "{started:?}");
    assert!(
        started.len() >= 5,
        "two of each and a worker more: {started:?}"
    );
    let left: Vec<_> = started.iter().filter(|(_, pid)| lives(*pid)).collect();
    assert!(left.is_empty(), "{left:?}");

    let again = supervisor::run(supervised(&job, state.path()), |_| {});
    assert_eq!((again.exit, again.done), (Exit::Done, When::Before));
    assert_eq!(again.report, Some(report));
}

#[test]
fn children_killed_on_purpose_are_replaced_without_a_budget() {
    let state = tempfile::tempdir().unwrap();
    let job = job(1000, 2).replace("[cluster]", "[cluster]\nworkers = 2");
    let mut options = supervised(&job, state.path());
    options.restarts = 0;
    let children = options.children.clone();
    let (mut killed, mut seen) = (Vec::new(), Vec::new());
    let ended = supervisor::run(options, |happening| match happening {
        Happening::Status(status) => {
            let plan = [Role::Worker, Role::Coordinator, Role::Worker];
            let due = plan.get(killed.len()).copied();
            let step = 10 + 50 * killed.len() as u64;
            if let Some(role) = due.filter(|_| status.job.step.0 >= step) {
                let pid = children.living(role)[0];
                assert!(children.kill(pid), "{role} {pid}");
                assert!(!children.living(role).contains(&pid), "{role} {pid}");
                killed.push((role, pid));
            }
        }
        Happening::Killed { role, pid } => seen.push((role, pid)),
        Happening::Failed { role, pid, how } => panic!("{role} {pid} {how}"),
        Happening::Started { .. }
        | Happening::Ready(_)
        | Happening::Line { .. }
        | Happening::Stopping => {}
    });
    assert_eq!(ended.exit, Exit::Done, "{ended:?}");
    assert_eq!((killed.len(), &killed), (3, &seen));
    assert_eq!(children.living(Role::Worker), [0; 0]);
    assert!(!children.kill(killed[0].1), "its id is not ours any more");
}

#[test]
fn a_child_that_is_refused_ends_everything_with_its_reason() {
    let state = tempfile::tempdir().unwrap();
    let options = supervised("[run]\nseed = \"one\"\n", state.path());
    let ended = supervisor::run(options, |_| {});
    let Exit::Usage(cause) = ended.exit else {
        panic!("{ended:?}");
    };
    assert!(cause.contains("seed"), "{cause}");
}

#[test]
fn a_child_ends_with_its_parent() {
    let state = tempfile::tempdir().unwrap();
    let mut coordinator = Process::coordinator(&job(60, 1), state.path(), "127.0.0.1:0", None);
    let location = coordinator.ready();
    let mut worker = Process::worker(&location.join, None);
    worker.orphan();
    assert_eq!(worker.end().0, -1, "by a signal, as if killed");
    coordinator.orphan();
    assert_eq!(coordinator.end().0, -1, "by a signal, as if killed");
}
