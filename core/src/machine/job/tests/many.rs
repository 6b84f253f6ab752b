//! Hundreds of members: what an event costs does not grow with how many there are. Counted, not timed:
//! every plan is a generation.

use super::*;

const MANY: u32 = 300;

fn many(partitions: u32, min_workers: u32) -> Bench {
    let rules = Rules {
        sampling: Sampling::new(u64::from(4 * partitions), partitions, 2, Shuffle::Global, 1),
        tree: Tree::new(partitions),
        ..rules()
    };
    let settings = Settings {
        workers: MANY,
        max_workers: 2 * MANY,
        min_workers,
        ..settings()
    };
    Bench {
        job: Job::new(rules, settings),
        now: Time(0),
    }
}

impl Bench {
    fn plans(&self) -> u32 {
        self.job.generation.number
    }

    /// The plan that waits, if one does.
    fn settle(&mut self) {
        if let Some(due) = self.job.planning.due() {
            self.now = self.now.max(due);
            self.event(Event::Tick);
        }
        assert_eq!(self.job.planning.due(), None);
    }

    fn holders(&self) -> usize {
        self.job.check_invariants();
        self.job.leases.holders()
    }
}

#[test]
fn workers_that_come_together_are_in_one_plan() {
    let mut bench = many(MANY, 1);
    (1..=MANY).for_each(|number| drop(bench.join(number)));
    let at_once = bench.plans();
    assert!(at_once < 20, "{at_once} plans for {MANY} workers");
    bench.settle();
    assert_eq!(bench.plans(), at_once + 1);
    assert_eq!(bench.holders(), MANY as usize);
}

#[test]
fn below_the_minimum_nothing_is_planned() {
    let mut bench = many(MANY, MANY);
    for number in 1..MANY {
        let effects = bench.join(number);
        let told = effects.iter().filter(|e| matches!(e, Effect::Say(..)));
        assert_eq!(told.count(), 1, "only the joiner hears of it: {effects:?}");
    }
    assert_eq!((bench.plans(), bench.holders()), (0, 0));
    bench.join(MANY);
    assert_eq!((bench.plans(), bench.holders()), (1, MANY as usize));
}

#[test]
fn who_comes_to_partitions_that_all_have_holders_of_their_own_causes_no_plan() {
    let mut bench = many(8, 1);
    (1..=8).for_each(|number| drop(bench.join(number)));
    bench.settle();
    let plans = bench.plans();
    for number in 9..=MANY {
        bench.join(number);
        assert_eq!(bench.leases(number), vec![]);
    }
    assert_eq!(bench.plans(), plans);
    // Nor does it when it goes, or asks to.
    bench.down(MANY);
    let effects = bench.said(MANY - 1, WorkerSays::Drain);
    let released = Effect::Say(worker(MANY - 1), CoordinatorSays::Release);
    assert!(effects.contains(&released), "{effects:?}");
    assert_eq!(bench.plans(), plans);
    // A holder is missed at once.
    bench.down(1);
    assert_eq!(bench.plans(), plans + 1);
    assert_eq!(bench.holders(), 8);
}

#[test]
fn workers_that_are_lost_together_are_replaced_in_few_plans() {
    let mut bench = many(MANY, 1);
    (1..=MANY).for_each(|number| drop(bench.join(number)));
    bench.settle();
    let (plans, half) = (bench.plans(), MANY / 2);
    (1..=half).for_each(|number| drop(bench.down(number)));
    bench.settle();
    assert!(
        bench.plans() - plans < 20,
        "{} plans",
        bench.plans() - plans
    );
    assert_eq!(bench.holders(), half as usize);
}

#[test]
fn a_drain_of_everybody_lets_the_idle_go_and_keeps_the_steps_covered() {
    let mut bench = many(8, 1);
    (1..=MANY).for_each(|number| drop(bench.join(number)));
    bench.settle();
    let effects: Vec<Effect> = (9..=MANY)
        .flat_map(|number| bench.said(number, WorkerSays::Drain))
        .collect();
    let released = |e: &&Effect| matches!(e, Effect::Say(_, CoordinatorSays::Release));
    assert_eq!(effects.iter().filter(released).count(), 292);
    assert_eq!(bench.holders(), 8);
}

#[test]
fn who_comes_when_all_holders_leave_gets_their_work() {
    let mut bench = many(4, 1);
    (1..=4).for_each(|number| drop(bench.join(number)));
    (1..=4).for_each(|number| drop(bench.said(number, WorkerSays::Drain)));
    bench.join(5);
    let standing = bench.leases(5).into_iter().filter(|l| l.until.is_none());
    assert_eq!(standing.count(), 4);
}
