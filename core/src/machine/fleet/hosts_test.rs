use super::super::{Event, Role};
use super::*;
use crate::time::Span;

const LEASE: Span = Span::from_millis(1000);

fn incarnation(reign: u64, number: u32) -> Incarnation {
    Incarnation { reign, number }
}

fn run(fleet: &mut Fleet, millis: u64, event: Event) -> Vec<Effect> {
    let mut effects = Vec::new();
    let now = Time(0) + Span::from_millis(millis);
    fleet.step(now, event, &mut effects);
    effects
}

fn join(fleet: &mut Fleet, millis: u64, link: u64, before: Option<Incarnation>) -> Vec<Effect> {
    let joined = Event::Joined {
        link: LinkId(link),
        name: "h:1".into(),
        role: Role::Host,
        before,
    };
    run(fleet, millis, joined)
}

fn welcomed(link: u64, incarnation: Incarnation) -> Vec<Effect> {
    let name = "h:1".into();
    vec![
        Effect::WelcomeHost(LinkId(link), incarnation),
        Effect::Host(HostNews::Up { incarnation, name }),
    ]
}

fn down(effects: &[Effect]) -> Vec<(Incarnation, Cause)> {
    let down = effects.iter().filter_map(|effect| match effect {
        Effect::Host(HostNews::Down(host, cause)) => Some((*host, *cause)),
        _ => None,
    });
    down.collect()
}

fn tick_until(fleet: &mut Fleet, from: u64, to: u64) -> Vec<Effect> {
    let ticks = (from..=to).step_by(250);
    ticks
        .flat_map(|millis| run(fleet, millis, Event::Tick))
        .collect()
}

#[test]
fn a_host_that_dials_again_within_its_lease_keeps_its_number() {
    let mut fleet = Fleet::new(9, LEASE);
    let first = incarnation(9, 1);
    assert_eq!(join(&mut fleet, 0, 1, None), welcomed(1, first));
    let unlinked = vec![Effect::Host(HostNews::Unlinked(first))];
    assert_eq!(run(&mut fleet, 100, Event::LinkDown(LinkId(1))), unlinked);
    assert_eq!(join(&mut fleet, 200, 2, Some(first)), welcomed(2, first));
    // It noticed the loss of its link before this end did.
    let mut again = vec![Effect::Close(LinkId(2))];
    again.extend(welcomed(3, first));
    assert_eq!(join(&mut fleet, 300, 3, Some(first)), again);
    assert_eq!(run(&mut fleet, 300, Event::LinkDown(LinkId(2))), vec![]);
}

#[test]
fn a_host_that_is_away_for_a_lease_is_another_when_it_comes_back() {
    let mut fleet = Fleet::new(9, LEASE);
    let first = incarnation(9, 1);
    join(&mut fleet, 0, 1, None);
    run(&mut fleet, 0, Event::LinkDown(LinkId(1)));
    let expired = tick_until(&mut fleet, 250, 1000);
    assert_eq!(down(&expired), vec![(first, Cause::LeaseExpired)]);
    let second = incarnation(9, 2);
    assert_eq!(join(&mut fleet, 1001, 2, Some(first)), welcomed(2, second));
}

#[test]
fn a_silent_host_is_fenced_and_a_number_of_an_earlier_reign_is_taken_up() {
    let mut fleet = Fleet::new(9, LEASE);
    let before = incarnation(8, 4);
    assert_eq!(join(&mut fleet, 0, 1, Some(before)), welcomed(1, before));
    let expired = tick_until(&mut fleet, 0, 1000);
    let cause = "nothing was heard for a lease".into();
    let fenced = Effect::SendHost(LinkId(1), HostTold::Fence { cause });
    assert!(expired.contains(&fenced), "{expired:?}");
    assert_eq!(down(&expired), vec![(before, Cause::LeaseExpired)]);
    let late = run(
        &mut fleet,
        1001,
        Event::HostSaid(LinkId(1), HostSays::Drain),
    );
    assert!(
        matches!(
            late[..],
            [
                Effect::SendHost(LinkId(1), HostTold::Fence { .. }),
                Effect::Close(LinkId(1))
            ]
        ),
        "{late:?}"
    );
}

#[test]
fn a_stall_of_the_coordinator_gives_hosts_another_lease_and_is_told() {
    let mut fleet = Fleet::new(9, LEASE);
    join(&mut fleet, 0, 1, None);
    let until = Time(0) + Span::from_millis(6000);
    assert_eq!(
        run(&mut fleet, 5000, Event::Tick),
        vec![Effect::Host(HostNews::Stalled(until))]
    );
    assert_eq!(down(&tick_until(&mut fleet, 5250, 5750)), vec![]);
    assert_eq!(down(&run(&mut fleet, 6000, Event::Tick)).len(), 1);
}

#[test]
fn what_the_job_says_goes_out_while_the_host_is_linked() {
    let mut fleet = Fleet::new(9, LEASE);
    let host = incarnation(9, 1);
    join(&mut fleet, 0, 1, None);
    let told = Event::Tell(host, HostTold::Release);
    assert_eq!(
        run(&mut fleet, 1, told.clone()),
        vec![Effect::SendHost(LinkId(1), HostTold::Release)]
    );
    let left = run(&mut fleet, 2, Event::HostSaid(LinkId(1), HostSays::Leave));
    assert_eq!(down(&left), vec![(host, Cause::Left)]);
    assert_eq!(run(&mut fleet, 3, told), vec![]);
}

#[test]
fn a_host_that_is_lost_again_and_again_is_held_back_for_longer_each_time() {
    let mut fleet = Fleet::new(9, LEASE);
    let (mut millis, mut waits) = (0, Vec::new());
    for life in 1..=5 {
        let joined = join(&mut fleet, millis, life, None);
        let held_back = joined.iter().find_map(|effect| match effect {
            Effect::Host(HostNews::HeldBack(host, until)) => Some((*host, *until)),
            _ => None,
        });
        let now = Time(0) + Span::from_millis(millis);
        waits.push(held_back.map(|(host, until)| (host.number, until.since(now).as_millis())));
        // Nothing is heard of it.
        let expired = tick_until(&mut fleet, millis + 250, millis + 1000);
        assert_eq!(down(&expired).len(), 1, "life {life}");
        millis += 1000;
    }
    let held_back = [
        None,
        None,
        Some((3, 1000)),
        Some((4, 2000)),
        Some((5, 4000)),
    ];
    assert_eq!(waits, held_back);
    // A stable minute clears the account; a link that breaks is no loss.
    join(&mut fleet, millis, 6, None);
    for second in 0..70 {
        let at = millis + second * 1000;
        let beat = HostSays::Heartbeat {
            generation: None,
            holdings: vec![],
        };
        let quarters = (at..at + 1000).step_by(250);
        quarters.for_each(|at| {
            drop(run(
                &mut fleet,
                at,
                Event::HostSaid(LinkId(6), beat.clone()),
            ))
        });
    }
    millis += 70_000;
    let expired = tick_until(&mut fleet, millis, millis + 1000);
    assert_eq!(down(&expired).len(), 1);
    let after = join(&mut fleet, millis + 1001, 7, None);
    assert_eq!(after, welcomed(7, incarnation(9, 7)));
}
