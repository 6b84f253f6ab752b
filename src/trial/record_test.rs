//! Recovery times and stretches from looks and faults at given moments.

use resilin_chaos::process::plan::Role;

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn look(at: u64, reign: u64, step: u64, active: usize) -> Look {
    Look {
        began: ms(at - 1),
        at: ms(at),
        timeline: Timeline::first(reign),
        step: Step(step),
        active,
    }
}

fn kill(target: Option<&str>) -> Struck {
    Struck {
        at_s: 0.0,
        kind: Kind::Kill(Role::Worker),
        fault: "kill worker".into(),
        target: target.map(str::to_owned),
        step: 0,
        recovery_ms: None,
    }
}

fn recoveries(record: &Record) -> Vec<Option<f64>> {
    record
        .struck
        .iter()
        .map(|struck| struck.recovery_ms)
        .collect()
}

#[test]
fn a_fault_lasts_until_a_step_that_no_look_after_it_knew() {
    let mut record = Record::new(2);
    record.saw(look(10, 1, 5, 2));
    record.strike(ms(20), kill(Some("worker 1")));
    // Asked for before the fault, answered after it: it says nothing of later.
    record.saw(Look {
        began: ms(19),
        ..look(22, 1, 6, 2)
    });
    record.saw(look(24, 1, 7, 1));
    record.saw(look(26, 1, 7, 1));
    assert_eq!(recoveries(&record), [None]);
    record.saw(look(45, 1, 8, 1));
    assert_eq!(recoveries(&record), [Some(25.0)]);
    record.saw(look(50, 1, 9, 1));
    assert_eq!(recoveries(&record), [Some(25.0)]);
}

#[test]
fn another_branch_has_to_commit_something_of_its_own() {
    let mut record = Record::new(2);
    record.saw(look(10, 1, 90, 2));
    record.strike(ms(20), kill(Some("coordinator 1")));
    record.saw(look(120, 2, 50, 0));
    record.strike(ms(130), kill(Some("coordinator 2")));
    record.saw(look(220, 3, 50, 0));
    assert_eq!(recoveries(&record), [None, None]);
    record.saw(look(320, 3, 51, 2));
    assert_eq!(recoveries(&record), [Some(300.0), Some(190.0)]);
}

#[test]
fn who_meets_nobody_is_not_waited_for() {
    let mut record = Record::new(1);
    record.strike(ms(20), kill(None));
    record.saw(look(30, 1, 1, 1));
    record.saw(look(40, 1, 2, 1));
    assert_eq!(recoveries(&record), [None]);
    assert_eq!(record.met().count(), 0);
}

#[test]
fn a_stretch_goes_from_all_workers_to_the_calm_or_the_last_step() {
    let mut record = Record::new(2);
    assert_eq!(record.stretch(), None);
    record.saw(look(10, 1, 3, 1));
    record.saw(look(20, 1, 5, 2));
    assert_eq!(record.stretch(), None);
    record.saw(look(60, 1, 9, 1));
    // The end of the run adds no time.
    record.saw(look(90, 1, 9, 0));
    let stretch = |long, to| {
        Some(Stretch {
            long: ms(long),
            from: Step(5),
            to: Step(to),
        })
    };
    assert_eq!(record.stretch(), stretch(40, 9));
    record.calm(ms(100));
    record.saw(look(200, 1, 30, 2));
    assert_eq!(record.stretch(), stretch(80, 9));
}
