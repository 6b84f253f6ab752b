mod audits;
mod coming;
mod views;

use super::*;
use crate::layout::SliceMap;
use crate::message::{Claim, ShardSays, SliceView, TaskScore, Verdict, WorkerAsks};
use crate::sampling::{Sampling, Shuffle};
use crate::time::Span;
use crate::tree::Tree;
use crate::vote::VoteRules;
use crate::{Generation, MapNumber, RunId, Tensor, View};

const SLICES: [SliceId; 2] = [SliceId(0), SliceId(1)];

fn rules() -> Rules {
    Rules {
        run: RunId(1),
        sampling: Sampling::new(40, 4, 2, Shuffle::Global, 1),
        tree: Tree::new(4),
        slices: SliceMap::new(4, 2),
        bits: crate::job::Bits::On,
        votes: VoteRules {
            clip_norm: None,
            non_finite: crate::job::NonFinite::Halt,
            total_steps: 5,
            cut_every: None,
        },
        evaluate_every: None,
        evaluation_tasks: 4,
        lease: Span::from_millis(1000),
        audit: crate::machine::audit::AuditRules::OFF,
        grace: Span::from_millis(1000),
        cut_interval: None,
    }
}

fn timeline() -> Timeline {
    Timeline::first(1)
}

fn view(slice: SliceId) -> SliceView {
    SliceView {
        slice,
        view: View::first(1),
        address: "here".into(),
        primary: None,
        backup: None,
    }
}

fn lease(partition: u32, from: u64, until: Option<u64>) -> Lease {
    Lease {
        partition: PartitionId(partition),
        from: Step(from),
        until: until.map(Step),
    }
}

fn ask(slice: SliceId, step: u64, purpose: Use) -> Effect {
    let (timeline, map, view) = (timeline(), MapNumber(1), View::first(1));
    Effect::Ask(
        slice,
        WorkerAsks::Pull {
            timeline,
            map,
            view,
            step: Step(step),
            purpose,
            holds: None,
        },
    )
}

/// The same of what the worker trains on next: it has the version before.
fn ask_next(slice: SliceId, step: u64) -> Effect {
    let mut asked = ask(slice, step, Use::Train);
    if let Effect::Ask(_, WorkerAsks::Pull { holds, .. }) = &mut asked {
        *holds = Some(Step(step - 1));
    }
    asked
}

fn computed(level: u8, index: u32, tensor: u64) -> Computed {
    Computed {
        node: Node { level, index },
        tensor: Tensor(tensor),
        samples: 2 << level,
        weight: f64::from(2 << level),
        loss_sum: 1.0,
        non_finite: vec![],
        audited: vec![],
    }
}

fn push(slice: SliceId, step: u64, computed: Computed) -> Effect {
    let (timeline, map) = (timeline(), MapNumber(1));
    Effect::Push {
        view: view(slice),
        timeline,
        map,
        step: Step(step),
        computed,
    }
}

fn compute(step: u64, nodes: &[(u8, u32)]) -> Effect {
    let nodes = nodes
        .iter()
        .map(|(level, index)| Node {
            level: *level,
            index: *index,
        })
        .collect();
    Effect::Compute {
        timeline: timeline(),
        step: Step(step),
        nodes,
    }
}

struct Bench {
    worker: Worker,
    generation: Generation,
    /// Partitions that it audits.
    audits: Vec<u32>,
    /// What the model was told; it comes with every assignment, and tests look at the rest.
    told: Vec<Regrouped>,
}

impl Bench {
    /// A welcomed worker that holds `leases` and is linked to both slices.
    fn new(leases: &[Lease]) -> Self {
        let worker = Worker::new(rules(), "rows".into());
        let mut bench = Self {
            worker,
            generation: Generation::first(1),
            audits: Vec::new(),
            told: Vec::new(),
        };
        let ready = Effect::Say(WorkerSays::Ready {
            data: "rows".into(),
        });
        assert_eq!(
            bench.event(Event::Welcomed(Incarnation::first(1))),
            vec![ready]
        );
        let dialled = bench.assign(leases);
        assert!(dialled.contains(&Effect::Dial(view(SLICES[1]))));
        for slice in SLICES {
            bench.event(Event::SliceUp(slice));
        }
        bench
    }

    fn event(&mut self, event: Event) -> Vec<Effect> {
        self.at(0, event)
    }

    fn at(&mut self, millis: u64, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.worker
            .step(Time(0) + Span::from_millis(millis), event, &mut effects);
        let mut others = Vec::new();
        for effect in effects {
            if let Effect::Regroup(regrouped) = effect {
                self.told.push(regrouped);
            } else {
                others.push(effect);
            }
        }
        others
    }

    fn assign(&mut self, leases: &[Lease]) -> Vec<Effect> {
        self.generation = self.generation.next();
        self.event(Event::Told(CoordinatorSays::Assign(Assignment {
            generation: self.generation,
            timeline: timeline(),
            map: MapNumber(1),
            views: SLICES.map(view).to_vec(),
            leases: leases.to_vec(),
            audits: self.audits.iter().copied().map(PartitionId).collect(),
        })))
    }

    fn weights(&mut self, slice: u16, step: u64) -> Vec<Effect> {
        let (slice, timeline, step) = (SliceId(slice), timeline(), Step(step));
        self.event(Event::Weights {
            slice,
            timeline,
            step,
            purpose: Use::Train,
        })
    }

    fn computed(&mut self, step: u64, computed: Computed, last: bool) -> Vec<Effect> {
        let (timeline, step) = (timeline(), Step(step));
        self.event(Event::Computed {
            timeline,
            step,
            computed,
            last,
        })
    }

    fn heard(&mut self, slice: u16, says: ShardSays) -> Vec<Effect> {
        self.event(Event::Heard(SliceId(slice), says))
    }
}

#[test]
fn a_step_is_pull_compute_push_and_the_next_pull_is_sent_before_it_is_needed() {
    let mut bench = Bench::new(&[lease(0, 0, None), lease(1, 0, None), lease(3, 0, None)]);
    assert_eq!(bench.weights(0, 0), vec![ask_next(SLICES[0], 1)]);
    assert_eq!(
        bench.weights(1, 0),
        vec![ask_next(SLICES[1], 1), compute(0, &[(1, 0), (0, 3)])]
    );
    let (left, right) = (computed(1, 0, 7), computed(0, 3, 8));
    let pushes = |sum: &Computed| SLICES.map(|slice| push(slice, 0, sum.clone())).to_vec();
    assert_eq!(bench.computed(0, left.clone(), false), pushes(&left));
    assert_eq!(bench.computed(0, right.clone(), true), pushes(&right));
    assert_eq!(bench.weights(0, 1), vec![]);
    assert_eq!(
        bench.weights(1, 1),
        vec![
            Effect::Free(Tensor(8)),
            Effect::Free(Tensor(7)),
            Effect::Forget(Use::Train, Step(1)),
            ask_next(SLICES[0], 2),
            ask_next(SLICES[1], 2),
            compute(1, &[(1, 0), (0, 3)])
        ]
    );
}

#[test]
fn a_partition_taken_over_within_a_step_is_evaluated_beside_what_is_done() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    bench.weights(0, 0);
    assert!(bench.weights(1, 0).contains(&compute(0, &[(0, 0)])));
    assert_eq!(
        bench.assign(&[lease(0, 0, None), lease(1, 0, None), lease(2, 1, None)]),
        vec![]
    );
    let done = bench.computed(0, computed(0, 0, 1), true);
    assert_eq!(
        done.last(),
        Some(&compute(0, &[(0, 1)])),
        "not partition 2, not 0 again"
    );
}

#[test]
fn a_relinked_slice_gets_what_it_lacks() {
    let mut bench = Bench::new(&[lease(0, 0, None), lease(3, 0, None)]);
    bench.weights(0, 0);
    bench.weights(1, 0);
    bench.computed(0, computed(0, 0, 1), false);
    bench.computed(0, computed(0, 3, 2), true);
    bench.event(Event::SliceDown(SLICES[1]));
    assert_eq!(
        bench.event(Event::SliceUp(SLICES[1])),
        vec![ask_next(SLICES[1], 1)]
    );
    let covered = [PartitionId(0)].into_iter().collect();
    let coverage = ShardSays::Coverage {
        timeline: timeline(),
        step: Step(0),
        covered,
    };
    assert_eq!(
        bench.heard(1, coverage),
        vec![push(SLICES[1], 0, computed(0, 3, 2))]
    );
    let (timeline, step, verdict) = (timeline(), Step(0), Verdict::Stored);
    for (slice, index) in [(0, 0), (0, 3)] {
        let node = Node { level: 0, index };
        bench.heard(
            slice,
            ShardSays::Answer {
                timeline,
                step,
                node,
                verdict,
            },
        );
    }
    let again = bench.at(600, Event::Tick { samples_per_s: 0.0 });
    assert!(
        again.contains(&push(SLICES[1], 0, computed(0, 3, 2))),
        "unanswered: {again:?}"
    );
    assert!(
        !again.contains(&push(SLICES[0], 0, computed(0, 0, 1))),
        "answered"
    );
    assert!(
        !again.contains(&push(SLICES[1], 0, computed(0, 0, 1))),
        "covered"
    );
}

#[test]
fn who_is_left_behind_goes_to_where_the_slices_are() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    bench.weights(0, 0);
    let (timeline, step, at) = (timeline(), Step(0), Step(3));
    let gone = ShardSays::Gone {
        timeline,
        step,
        at,
        purpose: Use::Train,
    };
    assert_eq!(
        bench.heard(1, gone),
        vec![
            Effect::Forget(Use::Train, Step(3)),
            ask(SLICES[0], 3, Use::Train),
            ask(SLICES[1], 3, Use::Train)
        ],
        "a slice at 3 proves that every slice has what step 2 needs"
    );
}

#[test]
fn a_lost_members_partition_is_taken_up_at_the_step_it_is_open_at() {
    let mut bench = Bench::new(&[lease(0, 3, None)]);
    assert_eq!(bench.worker.open_step(), Some(Step(3)));
    let earlier = bench.assign(&[lease(0, 2, None)]);
    assert_eq!(
        earlier,
        vec![
            Effect::Forget(Use::Train, Step(2)),
            ask(SLICES[0], 2, Use::Train),
            ask(SLICES[1], 2, Use::Train)
        ]
    );
    bench.weights(0, 2);
    bench.weights(1, 2);
    bench.weights(0, 3);
    bench.weights(1, 3);
    bench.assign(&[lease(0, 2, None), lease(1, 2, None)]);
    assert_eq!(
        bench.worker.open_step(),
        Some(Step(3)),
        "all slices have version 3: step 2 is over"
    );
}

#[test]
fn ready_is_said_until_there_is_an_assignment() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    let ready = Effect::Say(WorkerSays::Ready {
        data: "rows".into(),
    });
    let tick = Event::Tick { samples_per_s: 0.0 };
    assert!(!bench.at(300, tick.clone()).contains(&ready));
    bench.event(Event::Orphaned);
    let welcomed = bench.at(400, Event::Welcomed(Incarnation::first(2)));
    let claim = Effect::Say(WorkerSays::Claim(Claim {
        before: Incarnation::first(1),
        generation: bench.generation,
        timeline: timeline(),
        leases: vec![lease(0, 0, None)],
    }));
    assert_eq!(welcomed, vec![claim, ready.clone()], "what it goes on with");
    assert!(bench.at(700, tick.clone()).contains(&ready), "it was lost");
    bench.assign(&[]);
    assert!(!bench.at(1000, tick).contains(&ready));
}

#[test]
fn nothing_is_evaluated_or_pushed_again_when_a_coordinator_comes_back() {
    let mut bench = Bench::new(&[lease(0, 0, None), lease(1, 0, None)]);
    bench.weights(0, 0);
    bench.weights(1, 0);
    let pushed = bench.computed(0, computed(1, 0, 1), true);
    assert_eq!(pushed.len(), 2, "{pushed:?}");
    assert_eq!(
        bench.event(Event::Orphaned),
        vec![],
        "links, weights and sums stay"
    );
    bench.event(Event::Welcomed(Incarnation::first(2)));
    bench.generation = Generation::first(2);
    assert_eq!(
        bench.assign(&[lease(0, 0, None), lease(1, 0, None)]),
        vec![]
    );
    // It gets what its lost neighbour held beside it, and evaluates that only.
    let more = [lease(0, 0, None), lease(1, 0, None), lease(2, 0, None)];
    assert_eq!(bench.assign(&more), vec![compute(0, &[(0, 2)])]);
}

#[test]
fn a_late_result_of_another_step_is_dropped() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    bench.weights(0, 0);
    bench.weights(1, 0);
    bench.weights(0, 1);
    bench.weights(1, 1);
    let late = bench.computed(0, computed(0, 0, 1), true);
    assert_eq!(late, vec![Effect::Free(Tensor(1)), compute(1, &[(0, 0)])]);
}

fn backup(step: u64, partitions: &[u32]) -> Event {
    Event::Told(CoordinatorSays::Backup {
        timeline: timeline(),
        step: Step(step),
        partitions: partitions.iter().map(|p| PartitionId(*p)).collect(),
    })
}

#[test]
fn a_copy_of_another_members_partitions_is_evaluated_beside_its_own() {
    let mut bench = Bench::new(&[lease(0, 0, None), lease(1, 0, None)]);
    for slice in SLICES {
        bench.weights(slice.0, 0);
    }
    bench.event(Event::Computed {
        timeline: timeline(),
        step: Step(0),
        computed: computed(1, 0, 1),
        last: true,
    });
    assert_eq!(bench.event(backup(0, &[2, 3])), vec![compute(0, &[(1, 1)])]);
    assert_eq!(bench.event(backup(0, &[2, 3])), vec![], "asked for twice");
    assert_eq!(
        bench.event(backup(3, &[2])),
        vec![],
        "it has a step of its own"
    );
}

#[test]
fn a_member_without_leases_dials_for_a_copy_and_hangs_up_after_it() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    let hung_up = bench.assign(&[]);
    assert!(hung_up.contains(&Effect::Hangup(SLICES[0])), "{hung_up:?}");
    let dialled = bench.event(backup(3, &[1]));
    assert!(
        dialled.contains(&Effect::Dial(view(SLICES[0]))),
        "{dialled:?}"
    );
    for slice in SLICES {
        let pulled = bench.event(Event::SliceUp(slice));
        assert_eq!(pulled, vec![ask(slice, 3, Use::Train)]);
    }
    bench.weights(0, 3);
    let asked = bench.weights(1, 3);
    assert!(asked.contains(&compute(3, &[(0, 1)])), "{asked:?}");
    bench.weights(0, 4);
    let over = bench.weights(1, 4);
    assert!(over.contains(&Effect::Hangup(SLICES[1])), "{over:?}");
}

#[test]
fn a_non_finite_leaf_is_reported_and_the_rest_of_its_node_pushed() {
    let mut bench = Bench::new(&[lease(0, 0, None), lease(1, 0, None)]);
    bench.weights(0, 0);
    bench.weights(1, 0);
    let bad = Computed {
        non_finite: vec![(PartitionId(1), [9; 32])],
        ..computed(1, 0, 1)
    };
    let (timeline, step, partition, digest) = (timeline(), Step(0), PartitionId(1), [9; 32]);
    let report = |evaluations| WorkerSays::NonFinite {
        timeline,
        step,
        partition,
        digest,
        evaluations,
    };
    assert_eq!(
        bench.computed(0, bad, true),
        vec![
            Effect::Free(Tensor(1)),
            Effect::Say(report(1)),
            compute(0, &[(0, 0)])
        ]
    );
    bench.computed(0, computed(0, 0, 2), true);
    let tick = Event::Tick { samples_per_s: 0.0 };
    let repeated = bench.at(600, tick.clone());
    assert!(
        repeated.contains(&Effect::Say(report(1))),
        "the report may be lost: {repeated:?}"
    );
    let again = CoordinatorSays::Reevaluate {
        timeline,
        step,
        partition,
    };
    assert_eq!(bench.event(Event::Told(again)), vec![compute(0, &[(0, 1)])]);
    let bad = Computed {
        non_finite: vec![(PartitionId(1), [9; 32])],
        ..computed(0, 1, 3)
    };
    assert_eq!(
        bench.computed(0, bad, true),
        vec![Effect::Free(Tensor(3)), Effect::Say(report(2))]
    );
}

#[test]
fn test_rows_are_scored_once_every_slice_is_here_and_idle_links_are_closed() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    bench.assign(&[]);
    let (timeline, version) = (timeline(), Step(2));
    let evaluate = CoordinatorSays::Evaluate {
        timeline,
        version,
        tasks: vec![1, 3],
    };
    assert!(
        bench
            .event(Event::Told(evaluate))
            .contains(&Effect::Dial(view(SLICES[0])))
    );
    for slice in SLICES {
        assert!(
            bench
                .event(Event::SliceUp(slice))
                .contains(&ask(slice, 2, Use::Evaluate))
        );
    }
    let weights = |slice| Event::Weights {
        slice,
        timeline,
        step: version,
        purpose: Use::Evaluate,
    };
    assert_eq!(bench.event(weights(SLICES[0])), vec![]);
    let score = Effect::Score {
        timeline,
        version,
        tasks: vec![1, 3],
    };
    assert_eq!(bench.event(weights(SLICES[1])), vec![score]);
    let score = TaskScore {
        rows: 5,
        correct: Some(4),
        loss_sum: 0.5,
        ..TaskScore::default()
    };
    let scored = |task| Event::Scored {
        timeline,
        version,
        task,
        score,
    };
    let says = |task| {
        Effect::Say(WorkerSays::Evaluated {
            timeline,
            version,
            task,
            score,
        })
    };
    assert_eq!(bench.event(scored(1)), vec![says(1)]);
    let last = bench.event(scored(3));
    assert_eq!(last[0], says(3));
    assert!(
        last.contains(&Effect::Hangup(SLICES[0])),
        "nothing else is wanted of it"
    );
}

#[test]
fn a_drain_is_repeated_and_ends_by_itself_after_the_grace() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    assert_eq!(
        bench.event(Event::Terminate),
        vec![Effect::Say(WorkerSays::Drain)]
    );
    let beat = bench.at(
        250,
        Event::Tick {
            samples_per_s: 10.0,
        },
    );
    assert!(beat.contains(&Effect::Say(WorkerSays::Drain)));
    let forced = bench.at(
        1000,
        Event::Tick {
            samples_per_s: 10.0,
        },
    );
    assert!(forced.contains(&Effect::Say(WorkerSays::Leave)));
    assert!(forced.contains(&Effect::Exit(Exit::Done)));
}

#[test]
fn a_new_timeline_begins_where_its_leases_do() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    for step in 0..2 {
        bench.weights(0, step);
        bench.weights(1, step);
    }
    assert_eq!(bench.worker.open_step(), Some(Step(1)));
    let assignment = Assignment {
        generation: Generation::first(2),
        timeline: Timeline::first(2),
        map: MapNumber(1),
        views: SLICES.map(view).to_vec(),
        leases: vec![lease(0, 0, None)],
        audits: vec![],
    };
    let effects = bench.event(Event::Told(CoordinatorSays::Assign(assignment)));
    assert!(effects.contains(&Effect::Hangup(SLICES[0])));
    assert!(effects.contains(&Effect::Dial(view(SLICES[0]))));
    assert_eq!(bench.worker.open_step(), Some(Step(0)));
}

#[test]
fn the_model_is_told_of_every_generation_and_once_of_a_branch() {
    let mut bench = Bench::new(&[lease(1, 7, None), lease(2, 6, None)]);
    bench.assign(&[]);
    bench.assign(&[lease(1, 9, None)]);
    let first = Generation::first(1).next();
    let told = |generation, begins, partitions: &[u32]| Regrouped {
        generation,
        begins,
        partitions: partitions.iter().copied().map(PartitionId).collect(),
    };
    let expected = [
        told(first, Some(Step(6)), &[1, 2]),
        told(first.next(), None, &[]),
        told(first.next().next(), None, &[1]),
    ];
    assert_eq!(bench.told, expected);
}

#[test]
fn a_rejoined_worker_evaluates_a_withheld_leaf_again_before_it_reports_it() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    bench.weights(0, 0);
    bench.weights(1, 0);
    let bad = |tensor| Computed {
        non_finite: vec![(PartitionId(0), [9; 32])],
        ..computed(0, 0, tensor)
    };
    bench.computed(0, bad(1), true);
    bench.event(Event::Orphaned);
    let is_report = |e: &Effect| matches!(e, Effect::Say(WorkerSays::NonFinite { .. }));
    let tick = Event::Tick { samples_per_s: 0.0 };
    // The next link may be there before the next life has its number.
    let between = bench.at(600, tick.clone());
    assert!(!between.iter().any(is_report), "{between:?}");
    let welcomed = bench.event(Event::Welcomed(Incarnation::first(2)));
    assert_eq!(welcomed.last(), Some(&compute(0, &[(0, 0)])));
    let before = bench.at(1200, tick);
    assert!(!before.iter().any(is_report), "{before:?}");
    assert!(bench.computed(0, bad(2), true).iter().any(is_report));
}

#[test]
fn who_is_no_member_leaves_at_once() {
    let mut effects = Vec::new();
    let mut worker = Worker::new(rules(), "rows".into());
    worker.step(Time(0), Event::Terminate, &mut effects);
    assert_eq!(effects, vec![Effect::Exit(Exit::Done)]);

    let mut bench = Bench::new(&[lease(0, 0, None)]);
    bench.event(Event::Terminate);
    bench.event(Event::Orphaned);
    assert_eq!(
        bench.event(Event::Welcomed(Incarnation::first(2))),
        vec![Effect::Say(WorkerSays::Leave), Effect::Exit(Exit::Done)]
    );
}

#[test]
fn a_score_of_an_older_timeline_is_not_told() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    let scored = Event::Scored {
        timeline: Timeline::first(0),
        version: Step(2),
        task: 0,
        score: TaskScore::default(),
    };
    assert_eq!(bench.event(scored), vec![]);
}

#[test]
fn a_contribution_that_no_slice_can_take_ends_the_worker_with_the_cause() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    let answer = ShardSays::Answer {
        timeline: timeline(),
        step: Step(0),
        node: Node { level: 0, index: 0 },
        verdict: Verdict::Malformed,
    };
    let ended = bench.heard(1, answer);
    assert!(
        matches!(&ended[..], [Effect::Exit(Exit::Refused(cause))]
            if cause.contains("slice 1") && cause.contains("node 0/0")),
        "{ended:?}"
    );
}

#[test]
fn a_worker_says_whether_it_is_linked_and_keeps_dialling_without_leases() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    let beat = |bench: &mut Bench, millis| {
        let tick = Event::Tick { samples_per_s: 0.0 };
        let effects = bench.at(millis, tick);
        effects.into_iter().find_map(|effect| match effect {
            Effect::Say(WorkerSays::Heartbeat { linked, .. }) => Some(linked),
            _ => None,
        })
    };
    assert_eq!(beat(&mut bench, 250), Some(true));
    bench.event(Event::SliceDown(SLICES[1]));
    assert_eq!(beat(&mut bench, 500), Some(false));
    let kept = bench.assign(&[]);
    assert!(!kept.contains(&Effect::Hangup(SLICES[1])), "{kept:?}");
    bench.event(Event::SliceUp(SLICES[1]));
    assert_eq!(beat(&mut bench, 750), Some(true));
    assert!(bench.assign(&[]).contains(&Effect::Hangup(SLICES[1])));
}

#[test]
fn a_fenced_worker_says_why_and_once_that_it_has_work_again() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    let cause = "it is stuck".to_owned();
    let fence = Event::Told(CoordinatorSays::Fence {
        cause: cause.clone(),
    });
    let effects = bench.event(fence);
    assert_eq!(effects.last(), Some(&Effect::Rejoin { cause }));
    let again = Incarnation::first(1).next();
    bench.event(Event::Orphaned);
    bench.event(Event::Welcomed(again));
    let rejoined = |effects: &[Effect]| {
        let is = |effect: &&Effect| matches!(effect, Effect::Rejoined(_));
        effects.iter().filter(is).cloned().collect::<Vec<_>>()
    };
    let assigned = bench.assign(&[lease(0, 0, None)]);
    assert_eq!(rejoined(&assigned), [Effect::Rejoined(again)]);
    assert_eq!(rejoined(&bench.assign(&[lease(1, 0, None)])), []);
}
