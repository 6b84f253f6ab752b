//! Who is not accepted hears why, in one line, and ends with the code that says so.

use std::path::Path;

use resilin_actors::coordinator::Announcement;
use resilin_actors::link::{Address, DEFAULT_WINDOW, DialError, LinkOptions, dial};
use resilin_core::frame::Checksum;
use resilin_core::handshake::{Fingerprint, Hello, PROTOCOL, RefusalCode, Role};
use resilin_core::{RunId, SliceId};
use resilin_learn::numerics;

use crate::support::{ANY, DEADLINE, Process, job};

#[test]
fn who_does_not_belong_is_refused_with_a_reason() {
    let (state, job) = (tempfile::tempdir().unwrap(), job(60, 1));
    let coordinator = Process::coordinator(&job, state.path(), ANY, Some("open sesame"));
    let location = coordinator.ready();
    let (code, errors) = Process::worker(&location.join, Some("open barley")).end();
    assert_eq!(code, 3, "{errors}");
    assert!(errors.contains("wrong token"), "{errors}");
    let (code, errors) = Process::worker(&location.join, None).end();
    assert_eq!(code, 3, "{errors}");
    assert!(errors.contains("a token is needed"), "{errors}");
    let url = format!("http://{}/v1/status", location.api);
    let refused = ureq::get(&url).call().unwrap_err();
    assert!(matches!(refused, ureq::Error::StatusCode(401)), "{refused}");

    let (code, errors) = Process::coordinator(&job, state.path(), ANY, None).end();
    assert_eq!(code, 3, "{errors}");
    assert!(errors.contains("in use by process"), "{errors}");
    let other = tempfile::tempdir().unwrap();
    let (code, errors) = Process::coordinator(&job, other.path(), &location.join, None).end();
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("in use by another process"), "{errors}");
}

#[test]
fn every_difference_is_refused_for_its_own_cause() {
    let (state, job) = (tempfile::tempdir().unwrap(), job(60, 1));
    let coordinator = Process::coordinator(&job, state.path(), ANY, None);
    let address = Address::from(coordinator.ready().join.as_str());
    let fitting = Hello {
        protocol: PROTOCOL,
        run: None,
        role: Role::Worker,
        name: "stranger".into(),
        token: None,
        numerics: Fingerprint(numerics::fingerprint()),
        data: None,
        incarnation: None,
        checksum: Checksum::On,
        window: DEFAULT_WINDOW,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let code = |change: fn(&mut Hello)| {
        let mut hello = fitting.clone();
        change(&mut hello);
        let dialled = dial(&address, hello, LinkOptions::control(), DEADLINE);
        match runtime.block_on(dialled) {
            Ok(_) => None,
            Err(DialError::Refused { refusal, .. }) => Some(refusal.code),
            Err(error) => panic!("no answer: {error}"),
        }
    };
    assert_eq!(code(|_| {}), None);
    type Change = fn(&mut Hello);
    let changes: [(Change, RefusalCode); 6] = [
        (|hello| hello.protocol += 1, RefusalCode::Protocol),
        (|hello| hello.run = Some(RunId(1)), RefusalCode::Run),
        (|hello| hello.numerics.0[0] ^= 1, RefusalCode::Numerics),
        (
            |hello| hello.data = Some(Fingerprint([1; 32])),
            RefusalCode::Data,
        ),
        (|hello| hello.role = Role::Supervisor, RefusalCode::Role),
        (|hello| hello.role = data_of(9), RefusalCode::Role),
    ];
    for (change, expected) in changes {
        assert_eq!(code(change), Some(expected));
    }
}

fn data_of(slice: u16) -> Role {
    Role::WorkerData {
        slice: SliceId(slice),
    }
}

/// Reads `rows.csv` of the data directory.
const ROWS_JOB: &str = "[run]\nsteps = 9\nbatch = 8\n[data]\nname = \"csv\"\n\
                        path = \"rows.csv\"\n[model]\nname = \"softmax\"\n";

/// A data directory whose rows are moved by `change`.
fn rows(change: f64) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let row = |n: u32| format!("{},{},{}\n", n % 7, f64::from(n % 5) + change, n % 2);
    let rows: String = (0..64).map(row).collect();
    std::fs::write(directory.path().join("rows.csv"), format!("a,b,c\n{rows}")).unwrap();
    directory
}

#[test]
fn a_finished_run_does_not_answer_for_other_rows() {
    let (here, there) = (rows(0.0), rows(0.5));
    let state = tempfile::tempdir().unwrap();
    let mut coordinator = Process::coordinator_with_rows(ROWS_JOB, state.path(), here.path());
    let mut worker = Process::worker_with_rows(&coordinator.ready().join, here.path());
    assert_eq!(coordinator.over().outcome, "finished");
    assert_eq!((coordinator.end().0, worker.end().0), (0, 0));
    let mut other = Process::coordinator_with_rows(ROWS_JOB, state.path(), there.path());
    let (code, errors) = other.end();
    assert_eq!(code, 3, "{errors}");
    assert!(errors.contains("was trained on other rows"), "{errors}");
    let mut same = Process::coordinator_with_rows(ROWS_JOB, state.path(), here.path());
    assert!(matches!(same.announcement(), Announcement::Finished { .. }));
    assert_eq!(same.end().0, 0);
}

#[test]
fn other_rows_are_refused() {
    let (here, there) = (rows(0.0), rows(0.5));
    let state = tempfile::tempdir().unwrap();
    let coordinator = Process::coordinator_with_rows(ROWS_JOB, state.path(), here.path());
    let location = coordinator.ready();
    let (code, errors) = Process::worker_with_rows(&location.join, there.path()).end();
    assert_eq!(code, 3, "{errors}");
    assert!(errors.contains("rows differ"), "{errors}");
    let missing = Path::new("/nowhere");
    let (code, errors) = Process::worker_with_rows(&location.join, missing).end();
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("rows.csv"), "{errors}");
}

#[test]
fn a_panic_ends_the_process_with_one_line_that_names_it() {
    let (code, errors) = Process::panicking().end();
    assert_eq!(code, -1, "by a signal: {errors}");
    let causes: Vec<&str> = errors.lines().filter(|l| l.contains("cause=")).collect();
    assert_eq!(causes.len(), 1, "{errors}");
    assert!(
        causes[0].starts_with("cause=\"panic: on purpose\""),
        "{errors}"
    );
}
