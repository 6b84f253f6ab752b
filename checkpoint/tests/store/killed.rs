//! SIGKILL of a process with real files and a real sled, at every single operation of two saves and a
//! deletion, and at any time. `RESILIN_EVERY_STOP=1` takes all places instead of some.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use resilin_checkpoint::{Patience, Result, Run, Start, StateDir, testing};

use crate::fixture::{NOW, identity, newest, open_run, save, step_record};
use crate::stopping::{MOMENTS, Moment, STOPPED, StoppingFiles, StoppingRecords, Stops};

const DIR: &str = "RESILIN_TEST_STATE";
const STOP: &str = "RESILIN_TEST_STOP";
const STOP_EVERY: &str = "RESILIN_EVERY_STOP";
const ANNOUNCED: &str = "announced ";

fn round(run: &Run, step: u64) -> Result<()> {
    let timeline = run.next_timeline()?;
    run.append(&[step_record(timeline, step - 1)])?;
    let committed = save(run, timeline, step, 3)?;
    println!("{ANNOUNCED}{}", committed.step);
    run.prune(1).map(drop)
}

/// Saves steps 10 and 20 and keeps one.
fn scenario(root: &Path, stops: &Stops) -> Result<()> {
    let files = Arc::new(StoppingFiles(stops.clone()));
    let sled = testing::sled_records(&root.join("sled"), Patience::default().call)?;
    let records = Box::new(StoppingRecords(stops.clone(), sled));
    let state = StateDir::with(root, files, records)?;
    state.next_reign(NOW)?;
    let run = open_run(&state)?;
    [10, 20].iter().try_for_each(|step| round(&run, *step))
}

/// The child's part; without its environment there is nothing to play.
#[test]
fn a_child_saves_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let stop = std::env::var(STOP).unwrap();
    if stop == "none" {
        let state = StateDir::open(Path::new(&dir), Patience::default()).unwrap();
        state.next_reign(NOW).unwrap();
        let run = open_run(&state).unwrap();
        let from = newest(&run).unwrap_or(0) / 10;
        (from + 1..).try_for_each(|n| round(&run, 10 * n)).unwrap();
    }
    let (at, moment) = stop.split_once(' ').unwrap();
    let moment = MOMENTS[moment.parse::<usize>().unwrap()];
    scenario(Path::new(&dir), &Stops::new(at.parse().unwrap(), moment)).unwrap();
}

fn child(dir: &Path, stop: &str) -> Child {
    let name = "killed::a_child_saves_until_it_is_killed";
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(DIR, dir)
        .env(STOP, stop)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads what the child says until `enough`, kills it, and returns the newest announced step and
/// whether it was alive until then.
fn watch(mut child: Child, mut enough: impl FnMut(&str) -> bool) -> (u64, bool) {
    let mut announced = 0;
    let mut alive = false;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.map_while(std::io::Result::ok) {
        if let Some((_, step)) = line.split_once(ANNOUNCED) {
            announced = step.parse().unwrap();
        }
        if enough(&line) {
            alive = true;
            break;
        }
    }
    child.kill().unwrap();
    let ended = child.wait().unwrap();
    assert!(alive || ended.success(), "the child failed: {ended}");
    (announced, alive)
}

/// Opens what a killed process left, with all that a start does.
fn reopened(dir: &Path, what: &str) -> (StateDir, Run, Option<u64>) {
    let state =
        StateDir::open(dir, Patience::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
    state.next_reign(NOW).unwrap();
    let opened = state.open_run(identity(), Start::Resume, NOW).unwrap();
    assert_eq!(opened.ledger_lacks, None, "{what}");
    let found = newest(&opened.run);
    assert_eq!(opened.run.newest().unwrap().skipped, vec![], "{what}");
    (state, opened.run, found)
}

fn killed_at(at: u64, moment: Moment) {
    let dir = tempfile::tempdir().unwrap();
    let index = MOMENTS.iter().position(|other| *other == moment).unwrap();
    let child = child(dir.path(), &format!("{at} {index}"));
    let (announced, stopped) = watch(child, |line| line.ends_with(STOPPED));
    let what = format!("killed {moment:?} operation {at}, announced {announced}");
    assert!(stopped, "{what}: it ended");
    let (_state, run, found) = reopened(dir.path(), &what);
    let found = found.unwrap_or(0);
    assert!(
        found == announced || found == announced + 10,
        "{what}: found {found}"
    );
    round(&run, 30).unwrap();
    assert_eq!(newest(&run), Some(30), "{what}");
}

#[test]
fn a_kill_at_an_operation_leaves_the_newest_announced_checkpoint_or_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let quiet = Stops::new(0, Moment::Before);
    scenario(dir.path(), &quiet).unwrap();
    let operations = quiet.operations();
    assert!(operations > 50, "{operations} operations are too few");
    let every = std::env::var_os(STOP_EVERY).is_some();
    // A step without a divisor in common with the three moments meets all of them.
    let step = if every { 1 } else { 13 };
    for place in (0..3 * operations).step_by(step) {
        killed_at(place / 3 + 1, MOMENTS[(place % 3) as usize]);
    }
}

#[test]
fn kills_at_any_time_lose_no_announced_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = 0;
    for kill in 1..=6 {
        let mut said = 0;
        // Killed while the next save is under way, wherever that is by then.
        let (announced, alive) = watch(child(dir.path(), "none"), |line| {
            said += u64::from(line.contains(ANNOUNCED));
            said == kill
        });
        assert!(alive, "kill {kill}");
        assert!(announced >= expected + 10 * kill, "kill {kill}: it went on");
        let (_state, _, found) = reopened(dir.path(), &format!("kill {kill}"));
        let found = found.unwrap();
        assert!(found >= announced, "kill {kill}: {announced}, {found}");
        expected = found;
    }
}
