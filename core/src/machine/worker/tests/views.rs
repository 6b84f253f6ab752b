//! Others serve a slice, or the parameters are dealt anew.

use super::*;

/// The slice's view with this number, served at an address.
fn served(slice: SliceId, number: u32, address: &str) -> SliceView {
    SliceView {
        view: View { reign: 1, number },
        address: address.into(),
        ..view(slice)
    }
}

impl Bench {
    fn assigned(
        &mut self,
        (timeline, map): (Timeline, u32),
        views: Vec<SliceView>,
        from: u64,
    ) -> Vec<Effect> {
        self.generation = self.generation.next();
        self.event(Event::Told(CoordinatorSays::Assign(Assignment {
            generation: self.generation,
            timeline,
            map: MapNumber(map),
            views,
            leases: vec![lease(0, from, None)],
            audits: vec![],
        })))
    }

    /// One sum of step 0, which both slices took in.
    fn contributing() -> Self {
        let mut bench = Self::new(&[lease(0, 0, None)]);
        (0..2).for_each(|slice| drop(bench.weights(slice, 0)));
        bench.event(Event::Computed {
            timeline: timeline(),
            step: Step(0),
            computed: computed(0, 0, 1),
            last: true,
        });
        for slice in SLICES {
            bench.event(Event::Heard(slice, answer(Verdict::Stored)));
        }
        bench
    }
}

fn answer(verdict: Verdict) -> ShardSays {
    ShardSays::Answer {
        timeline: timeline(),
        step: Step(0),
        node: Node { level: 0, index: 0 },
        verdict,
    }
}

fn pushed(effects: &[Effect]) -> Vec<(SliceId, u32)> {
    let pushes = effects.iter().filter_map(|effect| match effect {
        Effect::Push { view, .. } => Some((view.slice, view.view.number)),
        _ => None,
    });
    pushes.collect()
}

#[test]
fn a_promoted_backup_is_dialled_and_sent_what_its_coverage_lacks() {
    let mut bench = Bench::contributing();
    let promoted = served(SLICES[0], 2, "there");
    let views = vec![promoted.clone(), view(SLICES[1])];
    let effects = bench.assigned((timeline(), 1), views, 0);
    assert_eq!(
        effects,
        vec![Effect::Hangup(SLICES[0]), Effect::Dial(promoted)],
        "weights, sums and the other link stay"
    );
    assert_eq!(pushed(&bench.event(Event::SliceUp(SLICES[0]))), vec![]);
    let coverage = |covered: &[u32]| ShardSays::Coverage {
        timeline: timeline(),
        step: Step(0),
        covered: covered.iter().map(|p| PartitionId(*p)).collect(),
    };
    let covered = bench.event(Event::Heard(SLICES[0], coverage(&[0])));
    assert_eq!(pushed(&covered), vec![]);
    let lacking = bench.event(Event::Heard(SLICES[0], coverage(&[1])));
    assert_eq!(pushed(&lacking), vec![(SLICES[0], 2)]);
}

#[test]
fn a_view_that_only_changes_its_number_is_asked_again_without_a_new_link() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    (0..2).for_each(|slice| drop(bench.weights(slice, 0)));
    bench.event(Event::Computed {
        timeline: timeline(),
        step: Step(0),
        computed: computed(0, 0, 1),
        last: true,
    });
    bench.event(Event::Heard(SLICES[1], answer(Verdict::Stored)));
    let views = SLICES.map(|slice| served(slice, 2, "here")).to_vec();
    let effects = bench.assigned((timeline(), 1), views, 0);
    assert_eq!(pushed(&effects), vec![(SLICES[0], 2)], "only what is open");
    let dialled = |effect: &Effect| matches!(effect, Effect::Dial(_) | Effect::Hangup(_));
    assert!(!effects.iter().any(dialled), "{effects:?}");
}

#[test]
fn what_is_refused_for_its_view_is_sent_again_soon() {
    let mut bench = Bench::contributing();
    bench.event(Event::SliceDown(SLICES[0]));
    bench.event(Event::SliceUp(SLICES[0]));
    bench.event(Event::Heard(SLICES[0], answer(Verdict::Superseded)));
    let due = bench.worker.deadline().expect("a retry");
    assert!(due <= Time(0) + Span::from_millis(63), "{due:?}");
    let tick = Event::Tick { samples_per_s: 0.0 };
    assert_eq!(pushed(&bench.at(63, tick)), vec![(SLICES[0], 1)]);
}

#[test]
fn a_new_layout_drops_everything_and_goes_on_at_the_base_of_its_branch() {
    let mut bench = Bench::contributing();
    let mut branch = timeline();
    for (map, count) in [(2, 4_u16), (3, 1)] {
        branch = branch.next();
        let slices: Vec<SliceId> = (0..count).map(SliceId).collect();
        let views: Vec<SliceView> = slices.iter().map(|s| view(*s)).collect();
        let effects = bench.assigned((branch, map), views.clone(), 3);
        let layout = Effect::Layout(SliceMap::new(4, count));
        let laid = effects.iter().position(|effect| *effect == layout);
        let dialled = effects.iter().position(|e| matches!(e, Effect::Dial(_)));
        assert!(laid.is_some() && laid < dialled, "{effects:?}");
        let dials = views.iter().map(|view| Effect::Dial(view.clone()));
        assert!(dials.clone().all(|dial| effects.contains(&dial)));
        assert_eq!(bench.worker.open_step(), Some(Step(3)));
        for slice in &slices {
            bench.event(Event::SliceUp(*slice));
            let effects = bench.event(Event::Weights {
                slice: *slice,
                timeline: branch,
                step: Step(3),
                purpose: Use::Train,
            });
            let computes = effects.iter().any(|e| matches!(e, Effect::Compute { .. }));
            assert_eq!(computes, Some(slice) == slices.last(), "{effects:?}");
        }
        bench.event(Event::Computed {
            timeline: branch,
            step: Step(3),
            computed: computed(0, 0, u64::from(map)),
            last: true,
        });
    }
}
