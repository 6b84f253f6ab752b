//! Members of a later coordinator, met as each of them can be.

use super::super::{Event, Role};
use super::*;
use crate::id::{LinkId, MapNumber, SliceId, Step, Timeline, View};
use crate::message::{Branch, Claim, CoordinatorSays, Duty, HostTold};
use crate::time::{Span, Time};

const OURS: u64 = 9;

fn fleet() -> Fleet {
    let mut fleet = Fleet::new(OURS, Span::from_millis(1000));
    for (link, role) in [(1, Role::Worker), (2, Role::Host)] {
        run(&mut fleet, joined(link, role, None));
    }
    fleet
}

fn run(fleet: &mut Fleet, event: Event) -> Vec<Effect> {
    let mut effects = Vec::new();
    fleet.step(Time(0), event, &mut effects);
    effects
}

fn joined(link: u64, role: Role, reign: Option<u64>) -> Event {
    Event::Joined {
        link: LinkId(link),
        name: format!("a:{link}"),
        role,
        before: reign.map(|reign| Incarnation { reign, number: 3 }),
    }
}

fn holding(branch: u64, view: u64) -> Holding {
    Holding {
        slice: SliceId(0),
        duty: Duty::Primary,
        branch: Branch {
            timeline: Timeline::first(branch),
            map: MapNumber(1),
            shards: 1,
            base: Step(0),
        },
        view: View::first(view),
        step: Step(4),
    }
}

fn ready(branch: u64, view: u64) -> Event {
    let says = HostSays::Ready {
        address: "h:1".into(),
        holdings: vec![holding(branch, view)],
    };
    Event::HostSaid(LinkId(2), says)
}

/// All ways to show what reign a member was under.
fn ways(reign: u64) -> Vec<Event> {
    let generation = Generation::first(reign);
    let worker = |says| Event::Said(LinkId(1), says);
    let host = |says| Event::HostSaid(LinkId(2), says);
    vec![
        joined(3, Role::Worker, Some(reign)),
        joined(3, Role::Host, Some(reign)),
        worker(WorkerSays::Heartbeat {
            generation: Some(generation),
            step: None,
            samples_per_s: 0.0,
            linked: true,
        }),
        worker(WorkerSays::Claim(Claim {
            before: Incarnation { reign, number: 1 },
            generation,
            timeline: Timeline::first(1),
            leases: Vec::new(),
        })),
        // It was begun under an earlier coordinator and served under the later one.
        ready(OURS - 1, reign),
        ready(reign, OURS - 1),
        host(HostSays::Heartbeat {
            generation: Some(generation),
            holdings: Vec::new(),
        }),
        host(HostSays::InSync {
            slice: SliceId(0),
            view: View::first(reign),
        }),
    ]
}

#[test]
fn whoever_meets_a_member_of_a_later_coordinator_says_so_once_and_no_more() {
    for event in ways(OURS + 1) {
        let mut fleet = fleet();
        let effects = run(&mut fleet, event.clone());
        assert_eq!(effects, [Effect::Outranked(OURS + 1)], "{event:?}");
        let worker = Incarnation::first(OURS);
        let commands = [
            event,
            Event::Say(worker, CoordinatorSays::Drain),
            Event::Tell(worker.next(), HostTold::Release),
            Event::Fence(worker, "it is stuck".into()),
            joined(4, Role::Worker, None),
            Event::Tick,
        ];
        for command in commands {
            assert_eq!(run(&mut fleet, command.clone()), [], "{command:?}");
        }
    }
}

#[test]
fn members_of_earlier_coordinators_are_taken_over() {
    for reign in [OURS - 1, OURS] {
        for event in ways(reign) {
            let effects = run(&mut fleet(), event.clone());
            let outranked = |effect: &Effect| matches!(effect, Effect::Outranked(_));
            assert!(!effects.iter().any(outranked), "{event:?}");
        }
    }
}
