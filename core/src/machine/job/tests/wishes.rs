//! What was asked of one life of the coordinator and is done by the next one.

use super::hosts::{Hosted, hosted};
use super::*;

const STOP: Wishes = Wishes {
    stop: true,
    reshard: None,
    workers: None,
};

const FOUR_FROM_3: Wishes = Wishes {
    stop: false,
    reshard: Some(Wanted {
        shards: 4,
        at: Step(3),
    }),
    workers: None,
};

fn running(settings: Settings) -> Hosted {
    let mut running = Hosted::new(settings);
    running.bench.join(1);
    (1..=2).for_each(|number| drop(running.ready(number)));
    running
}

fn command(command: Command) -> Event {
    Event::Command(command)
}

fn reshard() -> Event {
    let at = Some(Step(3));
    command(Command::Reshard { shards: 4, at })
}

/// The jobs of these tests are started for 2.
fn five(instead_of: u32) -> Wishes {
    let wanted = 5;
    Wishes {
        workers: Some(Workers { wanted, instead_of }),
        ..Wishes::default()
    }
}

/// What was to be written down, in order.
fn kept(effects: &[Effect]) -> Vec<Wishes> {
    let kept = effects.iter().filter_map(|effect| match effect {
        Effect::KeepWishes(wishes) => Some(*wishes),
        _ => None,
    });
    kept.collect()
}

fn closes(effects: &[Effect]) -> Vec<Outcome> {
    let closes = effects.iter().filter_map(|effect| match effect {
        Effect::Close(outcome) => Some(outcome.clone()),
        _ => None,
    });
    closes.collect()
}

/// Both slices rest at a version, which is durable.
fn rest(run: &mut Hosted, step: u64) -> Vec<Effect> {
    (0..2).for_each(|slice| drop(run.at(slice, step, true)));
    run.event(Event::Durable(Step(step)))
}

#[test]
fn a_stop_is_kept_until_the_run_has_stopped() {
    let mut run = running(hosted(2, 0));
    assert_eq!(kept(&run.event(command(Command::Stop))), [STOP]);
    assert_eq!(kept(&run.event(command(Command::Stop))), []);
    run.commit(0);
    let effects = rest(&mut run, 1);
    let last: Vec<&Effect> = effects.iter().rev().take(2).rev().collect();
    let forgotten = Effect::KeepWishes(Wishes::default());
    let close = Effect::Close(Outcome::Stopped(Step(1)));
    assert_eq!(last, [&forgotten, &close], "forgotten before it is told");
}

#[test]
fn a_stop_of_one_coordinator_is_not_kept() {
    let mut run = running(hosted(2, 0));
    assert_eq!(kept(&run.event(command(Command::Leave))), []);
    assert_eq!(kept(&run.event(command(Command::Stop))), [STOP]);
    assert_eq!(kept(&run.event(command(Command::Leave))), []);
}

#[test]
fn another_number_of_slices_is_kept_until_they_are_dealt() {
    let mut run = running(hosted(2, 0));
    run.commit(0);
    assert_eq!(kept(&run.event(reshard())), [FOUR_FROM_3]);
    let both = Wishes {
        stop: true,
        ..FOUR_FROM_3
    };
    let mut stopping = running(hosted(2, 0));
    stopping.event(reshard());
    assert_eq!(kept(&stopping.event(command(Command::Stop))), [both]);
    stopping.commit(0);
    let stopped = rest(&mut stopping, 1);
    assert_eq!(kept(&stopped), [FOUR_FROM_3], "for whoever goes on");
    (1..3).for_each(|step| drop(run.commit(step)));
    let dealt = rest(&mut run, 3);
    assert_eq!(kept(&dealt), [Wishes::default()]);
    assert_eq!(run.bench.job.branch.shards, 4);
}

#[test]
fn what_could_not_be_written_is_written_again_when_it_is_time() {
    let mut run = running(hosted(2, 0));
    run.event(command(Command::Stop));
    assert_eq!(kept(&run.event(Event::WishesFailed)), []);
    assert_eq!(kept(&run.event(Event::Tick)), []);
    assert_eq!(kept(&run.tick(500)), [STOP]);
    assert_eq!(kept(&run.tick(500)), []);
}

#[test]
fn the_next_coordinator_does_what_the_last_one_was_asked_for() {
    let mut run = running(Settings {
        wishes: FOUR_FROM_3,
        ..hosted(2, 0)
    });
    (0..3).for_each(|step| drop(run.commit(step)));
    let dealt = rest(&mut run, 3);
    assert_eq!(kept(&dealt), [Wishes::default()]);
    assert_eq!(run.bench.job.branch.shards, 4);

    let mut run = Bench::new(Settings {
        wishes: STOP,
        ..settings()
    });
    let told = run.event(Event::Tick);
    let wishes = STOP;
    assert!(told.contains(&Effect::Tell(Fact::StillWanted { wishes })));
    assert!(told.contains(&Effect::Order(ShardOrder::RequestStop)));
    assert_eq!(kept(&told), []);
}

#[test]
fn what_is_so_already_or_cannot_be_is_forgotten() {
    let wanted = |shards, at| Wishes {
        reshard: Some(Wanted {
            shards,
            at: Step(at),
        }),
        ..Wishes::default()
    };
    let inside = settings();
    for (wishes, settings) in [
        (wanted(2, 3), hosted(2, 0)),
        (wanted(4, 6), hosted(2, 0)),
        (wanted(4, 3), inside),
    ] {
        let mut run = Bench::new(Settings { wishes, ..settings });
        let effects = run.event(Event::Tick);
        assert_eq!(kept(&effects), [Wishes::default()], "{wishes:?}");
    }
}

#[test]
fn a_run_that_no_host_serves_stops_where_its_branch_begins() {
    let mut run = Hosted::new(hosted(2, 0));
    run.bench.join(1);
    run.up(1);
    let asked = run.event(command(Command::Leave));
    assert_eq!(closes(&asked), [Outcome::Stopped(Step(0))]);

    let mut run = running(hosted(2, 0));
    let served = run.event(command(Command::Leave));
    assert_eq!(closes(&served), [], "the slices can be cut");
}

#[test]
fn another_number_of_workers_is_kept_until_the_first_one_is_wanted_again_or_the_run_rests() {
    let mut run = running(hosted(2, 0));
    assert_eq!(kept(&run.event(command(Command::Scale(5)))), [five(2)]);
    assert_eq!(kept(&run.event(command(Command::Scale(5)))), []);
    let back = run.event(command(Command::Scale(2)));
    assert_eq!(kept(&back), [Wishes::default()]);
    run.event(command(Command::Scale(5)));
    let both = Wishes {
        stop: true,
        ..five(2)
    };
    assert_eq!(kept(&run.event(command(Command::Stop))), [both]);
    run.commit(0);
    assert_eq!(kept(&rest(&mut run, 1)), [Wishes::default()]);
}

#[test]
fn a_coordinator_wants_as_many_workers_as_the_last_one_unless_it_is_started_for_others() {
    for (instead_of, most, wanted) in [(2, 100, 5), (3, 100, 2), (2, 4, 4)] {
        let mut run = Bench::new(Settings {
            wishes: five(instead_of),
            max_workers: most,
            ..settings()
        });
        let effects = run.event(Event::Tick);
        let status = run.job.status(run.now);
        assert_eq!(status.wanted, wanted, "kept in place of {instead_of}");
        let left = match wanted {
            5 => vec![],
            2 => vec![Wishes::default()],
            _ => vec![Wishes {
                workers: Some(Workers { wanted, instead_of }),
                ..Wishes::default()
            }],
        };
        assert_eq!(kept(&effects), left, "{wanted}");
    }
}
