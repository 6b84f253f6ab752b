use super::*;
use crate::id::MapNumber;
use crate::message::{Backup, SliceView};

const ME: u32 = 1;
const OTHER: u32 = 2;

fn life(number: u32) -> Incarnation {
    Incarnation { reign: 1, number }
}

fn number(number: u32) -> View {
    View { reign: 1, number }
}

fn branch(timeline: u32) -> Branch {
    Branch {
        timeline: Timeline {
            reign: 1,
            number: timeline,
        },
        map: MapNumber(1),
        shards: 1,
        base: Step(4),
    }
}

fn peer(life_number: u32) -> Peer {
    Peer {
        incarnation: life(life_number),
        address: format!("host-{life_number}:1"),
    }
}

/// The view of slice 0.
fn slice(view: u32, primary: u32, backup: Option<(u32, bool)>) -> SliceView {
    SliceView {
        slice: SliceId(0),
        view: number(view),
        address: peer(primary).address,
        primary: Some(life(primary)),
        backup: backup.map(|(backup, in_sync)| Backup {
            peer: peer(backup),
            in_sync,
        }),
    }
}

fn follower(who: u32, sync: Sync) -> Assigned {
    let incarnation = life(who);
    let backup = Some(Follower { incarnation, sync });
    Assigned::Primary { backup }
}

const ALONE: Assigned = Assigned::Primary { backup: None };

struct Bench {
    host: Host,
    generation: u32,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self {
            host: Host::new(Span::from_millis(1000), "me:1".into()),
            generation: 0,
        };
        let ready = HostSays::Ready {
            address: "me:1".into(),
            holdings: vec![],
        };
        let effects = bench.event(Event::Welcomed(life(ME)));
        assert_eq!(effects, vec![Effect::Say(ready)]);
        bench
    }

    fn event(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.host.step(Time(0), event, &mut effects);
        effects
    }

    /// What comes of new views, but for the routes.
    fn serve(&mut self, timeline: u32, view: SliceView) -> Vec<Effect> {
        self.generation += 1;
        let mut effects = self.event(Event::Told(HostTold::Serve {
            generation: Generation {
                reign: 1,
                number: self.generation,
            },
            branch: branch(timeline),
            views: vec![view],
        }));
        effects.retain(|effect| !matches!(effect, Effect::Routes(_)));
        effects
    }

    /// A primary of slice 0 under view 1, at version 4.
    fn primary() -> Self {
        let mut bench = Self::new();
        let restore = Effect::Restore {
            slice: SliceId(0),
            branch: branch(1),
        };
        assert_eq!(bench.serve(1, slice(1, ME, None)), vec![restore]);
        let restored = Event::Restored {
            slice: SliceId(0),
            branch: branch(1),
        };
        assert_eq!(bench.event(restored), vec![begin(1, 1, ALONE)]);
        bench
    }

    /// A backup of slice 0 under view 1 that has version 6.
    fn backup() -> Self {
        let mut bench = Self::new();
        let effects = bench.serve(1, slice(1, OTHER, Some((ME, false))));
        assert_eq!(effects, vec![begin(1, 1, Assigned::Backup)]);
        assert_eq!(bench.host.holdings(), vec![]);
        bench.has(6);
        bench
    }

    fn has(&mut self, step: u64) {
        let (slice, step) = (SliceId(0), Step(step));
        assert_eq!(self.event(Event::Has { slice, step }), vec![]);
    }
}

fn begin(timeline: u32, view: u32, duty: Assigned) -> Effect {
    Effect::Begin {
        slice: SliceId(0),
        branch: branch(timeline),
        view: number(view),
        duty,
    }
}

fn changed(view: u32, duty: Assigned) -> Effect {
    Effect::View {
        slice: SliceId(0),
        view: number(view),
        duty,
    }
}

fn holding(duty: Duty, view: u32, step: u64) -> Holding {
    Holding {
        slice: SliceId(0),
        duty,
        branch: branch(1),
        view: number(view),
        step: Step(step),
    }
}

#[test]
fn a_primary_is_told_who_follows_it() {
    let mut bench = Bench::primary();
    let effects = bench.serve(1, slice(2, ME, Some((OTHER, false))));
    assert_eq!(effects, vec![changed(2, follower(OTHER, Sync::Copying))]);
    let effects = bench.serve(1, slice(3, ME, Some((OTHER, true))));
    assert_eq!(effects, vec![changed(3, follower(OTHER, Sync::InSync))]);
    let effects = bench.serve(1, slice(3, ME, Some((OTHER, true))));
    assert_eq!(effects, vec![], "told again");
}

#[test]
fn what_is_restored_begins_under_the_newest_view() {
    let mut bench = Bench::new();
    bench.serve(1, slice(1, ME, None));
    assert_eq!(bench.serve(1, slice(2, ME, Some((OTHER, false)))), vec![]);
    let (slice, branch) = (SliceId(0), branch(1));
    let effects = bench.event(Event::Restored { slice, branch });
    assert_eq!(effects, vec![begin(1, 2, follower(OTHER, Sync::Copying))]);
    assert_eq!(
        bench.event(Event::Restored { slice, branch }),
        vec![],
        "once"
    );
}

#[test]
fn a_restore_that_fails_is_told_and_tried_again_when_told_so() {
    let mut bench = Bench::new();
    bench.serve(1, slice(1, ME, None));
    let (id, cause) = (SliceId(0), "no such file".to_owned());
    let failed = Event::RestoreFailed {
        slice: id,
        branch: branch(1),
        cause: cause.clone(),
    };
    let says = HostSays::Failed {
        slice: id,
        timeline: branch(1).timeline,
        cause,
    };
    assert_eq!(bench.event(failed), vec![Effect::Say(says)]);
    let restore = Effect::Restore {
        slice: id,
        branch: branch(1),
    };
    assert_eq!(bench.serve(1, slice(1, ME, None)), vec![restore]);
}

#[test]
fn what_cannot_be_served_is_said_again_until_something_else_is_asked_for() {
    let mut bench = Bench::new();
    bench.serve(1, slice(1, ME, None));
    let (id, cause) = (SliceId(0), "no such file".to_owned());
    bench.event(Event::RestoreFailed {
        slice: id,
        branch: branch(1),
        cause: cause.clone(),
    });
    let timeline = branch(1).timeline;
    let says = Effect::Say(HostSays::Failed {
        slice: id,
        timeline,
        cause,
    });
    let beats = |bench: &mut Bench, millis| {
        let mut effects = Vec::new();
        let now = Time(0) + Span::from_millis(millis);
        bench.host.step(now, Event::Tick, &mut effects);
        assert!(!effects.is_empty(), "a heartbeat");
        effects
    };
    assert!(beats(&mut bench, 250).contains(&says));
    assert!(bench.event(Event::Welcomed(life(ME))).contains(&says));
    bench.serve(2, slice(2, OTHER, None));
    assert!(!beats(&mut bench, 1000).contains(&says));
}

#[test]
fn a_backup_is_promoted_in_place() {
    let mut bench = Bench::backup();
    assert_eq!(bench.serve(1, slice(2, ME, None)), vec![changed(2, ALONE)]);
    assert_eq!(bench.host.holdings(), vec![holding(Duty::Primary, 2, 6)]);
}

#[test]
fn a_backup_without_a_copy_cannot_be_promoted() {
    let mut bench = Bench::new();
    bench.serve(1, slice(1, OTHER, Some((ME, false))));
    let effects = bench.serve(1, slice(2, ME, None));
    let says = HostSays::Failed {
        slice: SliceId(0),
        timeline: branch(1).timeline,
        cause: "slice 0 of timeline 1.1 was here and is gone; it must be rolled back".into(),
    };
    assert_eq!(effects, vec![Effect::Drop(SliceId(0)), Effect::Say(says)]);
}

#[test]
fn what_is_not_this_hosts_any_more_is_dropped() {
    let dropped = Effect::Drop(SliceId(0));
    let mut bench = Bench::primary();
    assert_eq!(bench.serve(1, slice(2, OTHER, None)), vec![dropped.clone()]);
    // Replaced and named a backup, or given another primary, it begins anew.
    let again = vec![dropped.clone(), begin(1, 2, Assigned::Backup)];
    let mut bench = Bench::primary();
    let effects = bench.serve(1, slice(2, OTHER, Some((ME, false))));
    assert_eq!(effects, again);
    let mut bench = Bench::backup();
    let effects = bench.serve(1, slice(2, 3, Some((ME, false))));
    assert_eq!(effects, again);
    // Another branch.
    let mut bench = Bench::primary();
    let restore = Effect::Restore {
        slice: SliceId(0),
        branch: branch(2),
    };
    assert_eq!(bench.serve(2, slice(2, ME, None)), vec![dropped, restore]);
}

#[test]
fn an_earlier_generation_changes_nothing() {
    let mut bench = Bench::primary();
    bench.generation = 0;
    assert_eq!(bench.serve(1, slice(9, OTHER, None)), vec![]);
}

#[test]
fn it_knows_whom_its_replicas_speak_to() {
    let routes = |view: SliceView| {
        let mut bench = Bench::new();
        bench
            .event(Event::Told(HostTold::Serve {
                generation: Generation::first(1),
                branch: branch(1),
                views: vec![view],
            }))
            .into_iter()
            .find_map(|effect| match effect {
                Effect::Routes(routes) => Some(routes),
                _ => None,
            })
            .expect("views have routes")
    };
    let there = Place::At {
        incarnation: Some(life(OTHER)),
        address: peer(OTHER).address,
    };
    let expected = |place: Place, mirrors: &[u32]| Routes {
        primaries: SortedMap::from([(SliceId(0), place)]),
        mirrors: mirrors.iter().map(|who| (SliceId(0), peer(*who))).collect(),
    };
    let followed = slice(1, ME, Some((OTHER, true)));
    assert_eq!(routes(followed), expected(Place::Here, &[OTHER]));
    let follows = slice(1, OTHER, Some((ME, true)));
    assert_eq!(routes(follows), expected(there.clone(), &[OTHER]));
    let neither = slice(1, OTHER, Some((3, true)));
    assert_eq!(routes(neither), expected(there, &[]));
}

#[test]
fn what_it_has_outlives_the_coordinator() {
    let mut bench = Bench::backup();
    bench.event(Event::Orphaned);
    assert_eq!(bench.host.deadline(), None);
    bench.has(7);
    let ready = HostSays::Ready {
        address: "me:1".into(),
        holdings: vec![holding(Duty::Backup, 1, 7)],
    };
    let welcomed = Event::Welcomed(life(ME));
    let told = vec![Effect::Say(ready), Effect::CoordinatorUp(SliceId(0))];
    assert_eq!(bench.event(welcomed), told);
    let at = bench.host.deadline().expect("it is linked");
    let mut effects = Vec::new();
    bench.host.step(at, Event::Tick, &mut effects);
    let beat = HostSays::Heartbeat {
        generation: Some(Generation::first(1)),
        holdings: vec![holding(Duty::Backup, 1, 7)],
    };
    assert_eq!(effects, vec![Effect::Say(beat)]);
}

#[test]
fn orders_reach_the_replica_of_the_timeline_that_is_meant() {
    let mut bench = Bench::primary();
    let (slice, order) = (SliceId(0), ShardOrder::RequestCut);
    let told = |timeline| {
        Event::Told(HostTold::Order {
            slice,
            timeline: branch(timeline).timeline,
            order,
        })
    };
    assert_eq!(bench.event(told(1)), vec![Effect::Order { slice, order }]);
    assert_eq!(bench.event(told(2)), vec![]);
}

#[test]
fn a_fenced_host_drops_all_and_joins_as_another() {
    let mut bench = Bench::primary();
    let cause = "no word for a lease".to_owned();
    let fence = HostTold::Fence {
        cause: cause.clone(),
    };
    let effects = bench.event(Event::Told(fence));
    let expected = [
        Effect::Drop(SliceId(0)),
        Effect::Routes(Routes::default()),
        Effect::Rejoin { cause },
    ];
    assert_eq!(effects, expected);
    assert_eq!(bench.host.holdings(), vec![]);
    assert_eq!(
        bench.event(Event::Told(HostTold::Finished)),
        vec![Effect::Exit]
    );
}
