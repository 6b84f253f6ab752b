//! Plans that come back as they were written, and every mistake in its one line.

use resilin_core::time::Span;

use super::*;
use crate::process::draw::{Wishes, draw};
use crate::process::plan::Kind;

const HEAD: &str = "seed = 1\nduration_ms = 5000\n";

#[test]
fn every_drawn_plan_comes_back() {
    for seed in 0..50 {
        let plan = draw(&Wishes {
            seed,
            duration: Span::from_millis(20_000),
            every: Span::from_millis(250),
            kinds: vec![
                Kind::Kill(Role::Worker),
                Kind::Kill(Role::Shard),
                Kind::Kill(Role::Coordinator),
                Kind::Freeze(Role::Worker),
                Kind::Freeze(Role::Coordinator),
                Kind::Cut,
                Kind::Silence,
                Kind::Throttle,
                Kind::Delay,
            ],
            lease: Span::from_millis(1000),
        });
        assert!(plan.faults.len() > 50);
        assert_eq!(parse(&print(&plan)), Ok(plan), "seed {seed}");
    }
}

#[test]
fn a_plan_looks_like_this() {
    let at = Span::from_millis(1200);
    let planned = |fault| Planned {
        at,
        choice: 3,
        fault,
    };
    let plan = Plan {
        seed: 7,
        duration: Span::from_millis(5000),
        faults: vec![
            planned(Fault::Kill(Role::Coordinator)),
            planned(Fault::Silence(Way::Up, Span::from_millis(300))),
        ],
    };
    let text = "seed = 7\nduration_ms = 5000\n\n[[fault]]\nat_ms = 1200\nkind = \"kill\"\n\
                target = \"coordinator\"\nchoice = 3\n\n[[fault]]\nat_ms = 1200\n\
                kind = \"silence\"\nchoice = 3\nway = \"up\"\nfor_ms = 300\n";
    assert_eq!(print(&plan), text);
    assert_eq!(parse(text), Ok(plan));
}

#[test]
fn every_mistake_is_one_line_with_its_place() {
    let faults = [
        (
            "at_ms = 5000\nkind = \"cut\"",
            "line 3: at_ms: 5000 is not before the end of the plan, duration_ms 5000",
        ),
        (
            "at_ms = 1\nkind = \"explode\"",
            "line 3: kind: expected kill, freeze, cut, silence, throttle or delay, found \"explode\"",
        ),
        (
            "at_ms = 1\nkind = \"kill\"",
            "line 3: target: missing; set worker, shard or coordinator",
        ),
        (
            "at_ms = 1\nkind = \"kill\"\ntarget = \"store\"",
            "line 3: target: expected worker, shard or coordinator, found \"store\"",
        ),
        (
            "at_ms = 1\nkind = \"freeze\"\ntarget = \"worker\"",
            "line 3: for_ms: missing; set it",
        ),
        (
            "at_ms = 1\nkind = \"freeze\"\ntarget = \"worker\"\nfor_ms = 0",
            "line 3: for_ms: expected 1 to 604800000, found 0",
        ),
        (
            "at_ms = 1\nkind = \"silence\"\nway = \"left\"\nfor_ms = 1",
            "line 3: way: expected up, down or both, found \"left\"",
        ),
        (
            "at_ms = 1\nkind = \"throttle\"\nfor_ms = 1",
            "line 3: bytes_per_s: expected 1 or more",
        ),
        (
            "at_ms = 1\nkind = \"delay\"\nfor_ms = 1",
            "line 3: delay_ms: missing; set it",
        ),
        (
            "at_ms = 1\nkind = \"cut\"\nfor_ms = 1",
            "line 3: for_ms: cut has no such key; remove it",
        ),
        (
            "at_ms = 1\nkind = \"cut\"\n[[fault]]\nat_ms = 0\nkind = \"cut\"",
            "line 6: at_ms: 0 comes after a fault at 1; sort the faults by at_ms",
        ),
    ];
    for (text, line) in faults {
        let error = parse(&format!("{HEAD}[[fault]]\n{text}\n")).expect_err(text);
        assert_eq!(error.to_string(), line, "{text}");
    }
    let files = [
        (HEAD, "no [[fault]]: a plan has at least one"),
        (
            "seed = 1\nduration_ms = 0\n",
            "duration_ms: expected 1 to 604800000, found 0",
        ),
        ("seed = 1\n", "line 1: missing field `duration_ms`"),
        (
            "seed = 1\nduration_ms = 5\nfaults = 3\n",
            "line 3: unknown field `faults`, expected one of `seed`, `duration_ms`, `fault`",
        ),
        (
            "seed = \n",
            "line 1: string values must be quoted, expected literal string",
        ),
    ];
    for (text, line) in files {
        assert_eq!(parse(text).expect_err(text).to_string(), line, "{text}");
    }
}
