//! Slices in hosts: the first placement, promotion, new backups, rollback.

use super::*;
use crate::View;
use crate::machine::fleet::HostNews;
use crate::machine::job::leases::Held;
use crate::message::{Backup, Holding, HostSays, HostTold, Peer};

pub(super) const LEASE: u64 = 1000;

/// A job whose slices live in hosts, and whatever writes down what it wants kept.
pub(super) struct Hosted {
    pub(super) bench: Bench,
    /// Views written down, by slice.
    pub(super) durable: SortedMap<SliceId, SliceView>,
}

pub(super) fn host(number: u32) -> Incarnation {
    Incarnation {
        reign: 7,
        number: 100 + number,
    }
}

fn address(host: Incarnation) -> String {
    format!("h{}:1", host.number - 100)
}

pub(super) fn peer(number: u32) -> Peer {
    let incarnation = host(number);
    let address = address(incarnation);
    Peer {
        incarnation,
        address,
    }
}

/// A view as `(number, primary, backup, in sync)`.
pub(super) type Short = (u32, u32, Option<u32>, bool);

pub(super) fn view(slice: u16, (number, primary, backup, in_sync): Short) -> SliceView {
    SliceView {
        slice: SliceId(slice),
        view: View { reign: 7, number },
        address: address(host(primary)),
        primary: Some(host(primary)),
        backup: backup.map(|number| Backup {
            peer: peer(number),
            in_sync,
        }),
    }
}

pub(super) fn hosted(processes: u16, replicas: u8) -> Settings {
    Settings {
        views: Vec::new(),
        hosts: Some(HostSettings {
            processes,
            replicas,
        }),
        ..settings()
    }
}

pub(super) fn is_kept(effect: &Effect) -> bool {
    matches!(effect, Effect::KeepViews(_) | Effect::KeepBranch(_))
}

impl Hosted {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            bench: Bench::new(settings),
            durable: SortedMap::new(),
        }
    }

    /// Two hosts, one worker, both slices with a backup in sync.
    pub(super) fn in_sync() -> Self {
        let mut hosted = Self::new(hosted(2, 1));
        hosted.bench.join(1);
        (1..=2).for_each(|number| drop(hosted.ready(number)));
        for slice in 0..2 {
            hosted.synced(slice);
        }
        assert_eq!(
            hosted.views(),
            [(3, 1, Some(2), true), (4, 2, Some(1), true)]
        );
        hosted
    }

    /// Takes an event, and answers all that is to be written down at once.
    pub(super) fn event(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = self.bench.event(event);
        let mut at = 0;
        while at < effects.len() {
            match effects[at].clone() {
                Effect::KeepViews(views) => {
                    let views = views.into_iter().map(|view| (view.slice, view));
                    self.durable.extend(views);
                    effects.extend(self.bench.event(Event::ViewsKept));
                }
                Effect::KeepBranch(branch) => {
                    self.durable.clear();
                    effects.extend(self.bench.event(Event::BranchKept(branch.timeline)));
                }
                _ => {}
            }
            at += 1;
        }
        effects
    }

    pub(super) fn news(&mut self, news: HostNews) -> Vec<Effect> {
        self.event(Event::Host(news))
    }

    pub(super) fn says(&mut self, number: u32, says: HostSays) -> Vec<Effect> {
        self.news(HostNews::Said(host(number), says))
    }

    pub(super) fn up(&mut self, number: u32) -> Vec<Effect> {
        let name = format!("machine{number}:77");
        let incarnation = host(number);
        self.news(HostNews::Up { incarnation, name })
    }

    pub(super) fn ready(&mut self, number: u32) -> Vec<Effect> {
        self.ready_with(number, &[])
    }

    pub(super) fn ready_with(&mut self, number: u32, holdings: &[Holding]) -> Vec<Effect> {
        self.up(number);
        let (address, holdings) = (address(host(number)), holdings.to_vec());
        self.says(number, HostSays::Ready { address, holdings })
    }

    pub(super) fn unlinked(&mut self, number: u32) -> Vec<Effect> {
        self.news(HostNews::Unlinked(host(number)))
    }

    pub(super) fn expired(&mut self, number: u32) -> Vec<Effect> {
        self.news(HostNews::Down(host(number), Cause::LeaseExpired))
    }

    /// The slice's primary says that its backup is in sync.
    pub(super) fn synced(&mut self, slice: u16) -> Vec<Effect> {
        let slice = SliceId(slice);
        let current = self.durable[&slice].clone();
        let view = current.view;
        let primary = current.primary.expect("a host");
        self.news(HostNews::Said(primary, HostSays::InSync { slice, view }))
    }

    pub(super) fn tick(&mut self, millis: u64) -> Vec<Effect> {
        self.bench.now = self.bench.now + Span::from_millis(millis);
        self.event(Event::Tick)
    }

    /// The slice's primary reports its open step.
    pub(super) fn at(&mut self, slice: u16, step: u64, rests: bool) -> Vec<Effect> {
        self.keeps(slice, step, None, rests)
    }

    /// The same, and which version it keeps to be scored.
    fn keeps(&mut self, slice: u16, step: u64, pinned: Option<u64>, rests: bool) -> Vec<Effect> {
        let primary = self.durable[&SliceId(slice)].primary.expect("a host");
        let report = ShardReport::Progress {
            slice: SliceId(slice),
            timeline: self.bench.job.branch.timeline,
            step: Step(step),
            covered: PartitionSet::default(),
            pinned: pinned.map(Step),
            cutting: None,
            resting: rests,
            voted: false,
            behind: None,
            kept: Step(0),
        };
        self.news(HostNews::Said(primary, HostSays::Report(report)))
    }

    /// The slice's primary reports its open step, and that its backup lacks one.
    fn waits(&mut self, slice: u16, step: u64, voted: bool) -> Vec<Effect> {
        let primary = self.durable[&SliceId(slice)].primary.expect("a host");
        let report = ShardReport::Progress {
            slice: SliceId(slice),
            timeline: self.bench.job.branch.timeline,
            step: Step(step),
            covered: PartitionSet::default(),
            pinned: None,
            cutting: None,
            resting: false,
            voted,
            behind: Some(1),
            kept: Step(0),
        };
        self.news(HostNews::Said(primary, HostSays::Report(report)))
    }

    /// Both slices commit the step.
    pub(super) fn commit(&mut self, step: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        for slice in 0..2 {
            let primary = self.durable[&SliceId(slice)].primary.expect("a host");
            let record = StepRecord {
                timeline: self.bench.job.branch.timeline,
                ..record(slice, step)
            };
            let report = HostSays::Report(ShardReport::Committed(record));
            effects.extend(self.news(HostNews::Said(primary, report)));
            effects.extend(self.at(slice, step + 1, false));
        }
        effects
    }

    pub(super) fn views(&self) -> Vec<Short> {
        short(self.durable.values())
    }
}

pub(super) fn short<'a>(views: impl IntoIterator<Item = &'a SliceView>) -> Vec<Short> {
    let number = |host: Option<Incarnation>| host.expect("a host").number - 100;
    let views = views.into_iter();
    views
        .map(|view| {
            let backup = view.backup.as_ref();
            (
                view.view.number,
                number(view.primary),
                backup.map(|known| number(Some(known.peer.incarnation))),
                backup.is_some_and(|known| known.in_sync),
            )
        })
        .collect()
}

/// Who was told to serve what, in order.
pub(super) fn served(effects: &[Effect]) -> Vec<(u32, Vec<Short>)> {
    let served = effects.iter().filter_map(|effect| match effect {
        Effect::Host(host, HostTold::Serve { views, .. }) => {
            Some((host.number - 100, short(views)))
        }
        _ => None,
    });
    served.collect()
}

/// The views in every assignment, in order.
pub(super) fn assigned(effects: &[Effect]) -> Vec<Vec<Short>> {
    let assigned = effects.iter().filter_map(|effect| match effect {
        Effect::Say(_, CoordinatorSays::Assign(assignment)) => Some(short(&assignment.views)),
        _ => None,
    });
    assigned.collect()
}

#[test]
fn slices_are_placed_once_all_hosts_are_there_and_told_once_they_are_durable() {
    let mut hosted = Hosted::new(hosted(2, 1));
    let joined = hosted.bench.join(1);
    assert_eq!(assigned(&joined), Vec::<Vec<Short>>::new());
    assert_eq!(served(&hosted.ready(1)), vec![]);
    let waiting = hosted.bench.job.status(Time(0)).waiting;
    assert_eq!(
        waiting.as_deref(),
        Some("shard processes: 1 of 2 are ready; start some with `resilin shard --join`")
    );
    hosted.up(2);
    let ready = Event::Host(HostNews::Said(
        host(2),
        HostSays::Ready {
            address: address(host(2)),
            holdings: vec![],
        },
    ));
    let kept = hosted.bench.event(ready);
    let views = vec![
        view(0, (1, 1, Some(2), false)),
        view(1, (2, 2, Some(1), false)),
    ];
    assert!(kept.contains(&Effect::KeepViews(views)), "{kept:?}");
    assert_eq!(served(&kept), vec![], "told before it is durable");
    let told = hosted.bench.event(Event::ViewsKept);
    let plan = vec![(1, 1, Some(2), false), (2, 2, Some(1), false)];
    assert_eq!(served(&told), vec![(1, plan.clone()), (2, plan.clone())]);
    assert_eq!(assigned(&told), vec![plan]);
}

#[test]
fn a_backup_is_in_sync_when_its_primary_says_so_under_the_current_view() {
    let mut hosted = Hosted::new(hosted(2, 1));
    (1..=2).for_each(|number| drop(hosted.ready(number)));
    let says = |view: u32, slice| HostSays::InSync {
        slice: SliceId(slice),
        view: View {
            reign: 7,
            number: view,
        },
    };
    hosted.says(1, says(9, 0));
    hosted.says(2, says(1, 0));
    assert_eq!(
        hosted.views(),
        [(1, 1, Some(2), false), (2, 2, Some(1), false)]
    );
    let told = hosted.says(1, says(1, 0));
    let plan = vec![(3, 1, Some(2), true), (2, 2, Some(1), false)];
    assert_eq!(served(&told), vec![(1, plan.clone()), (2, plan)]);
    hosted.says(1, says(1, 0));
    assert_eq!(hosted.views()[0], (3, 1, Some(2), true), "said again");
}

#[test]
fn a_reset_link_promotes_the_backup_in_sync_at_once() {
    let mut hosted = Hosted::in_sync();
    hosted.commit(0);
    let told = hosted.unlinked(1);
    // Host 2 serves slice 0 alone, and slice 1 without the backup that is away.
    let plan = vec![(5, 2, None, false), (6, 2, None, false)];
    assert_eq!(served(&told), vec![(2, plan.clone())]);
    assert_eq!(assigned(&told), vec![plan]);
    let promoted = saver::Event::Promoted(SliceId(0), Step(1));
    assert!(told.contains(&Effect::Saver(promoted)), "{told:?}");
    let branch = hosted.bench.job.branch;
    assert_eq!(branch.timeline, timeline(), "nothing is rolled back");
    // The old primary comes back and is told that it serves nothing; it begins as a backup.
    let back = hosted.ready(1);
    let plan = vec![(7, 2, Some(1), false), (8, 2, Some(1), false)];
    assert_eq!(
        served(&back),
        vec![
            (1, vec![(5, 2, None, false), (6, 2, None, false)]),
            (1, plan.clone()),
            (2, plan)
        ]
    );
}

#[test]
fn what_only_a_lost_primary_had_of_the_open_step_is_asked_for_again() {
    let mut hosted = Hosted::in_sync();
    hosted.bench.join(2);
    hosted.commit(0);
    let low = hosted.bench.job.low().0;
    let all: Vec<u32> = (0..hosted.bench.job.rules.tree.partitions()).collect();
    (0..2).for_each(|slice| drop(hosted.bench.progress(slice, low, &all)));
    hosted.bench.down(2);
    let unheld = |hosted: &Hosted| {
        let held = hosted.bench.job.leases.values();
        let covers = |held: &&Vec<_>| !held.iter().any(|lease: &Held| lease.covers(Step(low)));
        held.filter(covers).count()
    };
    assert!(unheld(&hosted) > 0, "every slice had what worker 2 sent");
    hosted.unlinked(1);
    assert_eq!(unheld(&hosted), 0, "the promoted backup has nothing of it");
}

#[test]
fn a_backup_that_does_not_follow_for_a_lease_is_given_up() {
    let lease = 1_000;
    let before = (3, 1, Some(2), true);
    let mut hosted = Hosted::in_sync();
    hosted.waits(0, 0, false);
    hosted.bench.now = hosted.bench.now + Span::from_millis(lease - 1);
    hosted.waits(0, 0, false);
    assert_eq!(hosted.views()[0], before, "not a lease yet");
    hosted.bench.now = hosted.bench.now + Span::from_millis(1);
    hosted.waits(0, 0, false);
    // The next view may take it back: it is copied then, and nobody waits for it.
    assert_eq!(hosted.views()[0], (6, 1, Some(2), false));
    // One that voted may wait for another slice's vote, until all have voted.
    let mut hosted = Hosted::in_sync();
    hosted.waits(0, 0, true);
    hosted.bench.now = hosted.bench.now + Span::from_millis(2 * lease);
    hosted.waits(0, 0, true);
    assert_eq!(hosted.views()[0], before);
    hosted.at(1, 1, false);
    assert_eq!(hosted.views()[0], (6, 1, Some(2), false));
}

#[test]
fn what_an_old_primary_reports_does_not_count() {
    let mut hosted = Hosted::in_sync();
    hosted.unlinked(1);
    hosted.ready(1);
    let record = record(0, 0);
    let late = hosted.says(1, HostSays::Report(ShardReport::Committed(record)));
    assert_eq!(late, vec![]);
    let progress = ShardReport::Progress {
        slice: SliceId(0),
        timeline: timeline(),
        step: Step(1),
        covered: PartitionSet::default(),
        pinned: None,
        cutting: None,
        resting: true,
        voted: false,
        behind: None,
        kept: Step(0),
    };
    hosted.says(1, HostSays::Report(progress));
    assert_eq!(hosted.bench.job.low(), Step(0));
}

#[test]
fn a_lost_backup_is_dropped_and_another_begins_where_there_is_a_spare_host() {
    let mut hosted = Hosted::new(hosted(2, 1));
    (1..=2).for_each(|number| drop(hosted.ready(number)));
    (0..2).for_each(|slice| drop(hosted.synced(slice)));
    hosted.ready(3);
    assert_eq!(
        hosted.views(),
        [(3, 1, Some(2), true), (4, 2, Some(1), true)]
    );
    hosted.unlinked(2);
    // Slice 0 lost its backup, slice 1 its primary.
    assert_eq!(
        hosted.views(),
        [(7, 1, Some(3), false), (8, 1, Some(3), false)]
    );
    // An unsynced backup that flaps leaves no trace but views.
    for _ in 0..3 {
        hosted.unlinked(3);
        hosted.ready(3);
    }
    let plan = [(19, 1, Some(3), false), (20, 1, Some(3), false)];
    assert_eq!(hosted.views(), plan);
    assert_eq!(hosted.bench.job.branch, branch());
}

#[test]
fn a_primary_without_backup_may_come_back_within_its_lease() {
    let mut hosted = Hosted::new(hosted(2, 0));
    (1..=2).for_each(|number| drop(hosted.ready(number)));
    assert_eq!(hosted.views(), [(1, 1, None, false), (2, 2, None, false)]);
    for _ in 0..3 {
        assert_eq!(hosted.unlinked(1), vec![]);
        let waiting = hosted.bench.job.status(Time(0)).waiting;
        assert_eq!(
            waiting.as_deref(),
            Some("shard process 7.101 (machine1:77), which serves slice 0: lost")
        );
        let back = hosted.ready(1);
        let plan = vec![(1, 1, None, false), (2, 2, None, false)];
        assert_eq!(served(&back), vec![(1, plan)]);
    }
}

#[test]
fn a_primary_lost_for_a_lease_without_a_backup_rolls_all_back_to_the_newest_checkpoint() {
    let mut hosted = Hosted::new(hosted(2, 0));
    hosted.bench.join(1);
    (1..=2).for_each(|number| drop(hosted.ready(number)));
    (0..2).for_each(|step| drop(hosted.commit(step)));
    hosted.event(Event::Durable(Step(1)));
    hosted.commit(2);
    hosted.unlinked(1);
    hosted.ready(3);
    let effects = hosted.expired(1);
    let next = Branch {
        timeline: timeline().next(),
        base: Step(1),
        ..branch()
    };
    let order: Vec<&Effect> = effects.iter().filter(|e| is_kept(e)).collect();
    let views = vec![view(0, (3, 2, None, false)), view(1, (4, 3, None, false))];
    assert_eq!(
        order,
        vec![&Effect::KeepBranch(next), &Effect::KeepViews(views)]
    );
    let begun = Effect::Saver(saver::Event::Branch(2, Step(1)));
    assert!(effects.contains(&begun), "{effects:?}");
    let plan = vec![(3, 2, None, false), (4, 3, None, false)];
    assert_eq!(assigned(&effects), vec![plan]);
    let lease = effects.iter().rev().find_map(|effect| match effect {
        Effect::Say(_, CoordinatorSays::Assign(a)) => Some((a.timeline, a.map, a.leases[0])),
        _ => None,
    });
    let whole = Lease {
        partition: PartitionId(0),
        from: Step(1),
        until: None,
    };
    assert_eq!(lease, Some((next.timeline, MapNumber(1), whole)));
    assert_eq!(hosted.bench.job.low(), Step(1));
    // What is made again must be what was.
    let same = hosted.commit(1);
    assert!(
        same.iter().all(|e| !matches!(e, Effect::Close(_))),
        "{same:?}"
    );
    let mut other = record(0, 2);
    (other.timeline, other.digests) = (next.timeline, vec![[9; 32]]);
    hosted.says(2, HostSays::Report(ShardReport::Committed(other)));
    let mut second = record(1, 2);
    second.timeline = next.timeline;
    let halted = hosted.says(3, HostSays::Report(ShardReport::Committed(second)));
    let differs = |effect: &Effect| matches!(effect, Effect::Close(Outcome::Halted { .. }));
    assert!(halted.iter().any(differs), "{halted:?}");
}

#[test]
fn a_version_before_the_base_of_a_rollback_is_told_not_to_be_scored() {
    let mut hosted = Hosted::new(hosted(2, 0));
    hosted.bench.join(1);
    (1..=2).for_each(|number| drop(hosted.ready(number)));
    (0..2).for_each(|step| drop(hosted.commit(step)));
    for slice in 0..2 {
        hosted.keeps(slice, 3, Some(2), false);
    }
    hosted.event(Event::Durable(Step(3)));
    hosted.unlinked(1);
    hosted.ready(3);
    let effects = hosted.expired(1);
    let told = Effect::Tell(Fact::NotEvaluated { version: Step(2) });
    assert!(effects.contains(&told), "{effects:?}");
    assert_eq!(hosted.bench.job.low(), Step(3));
}

#[test]
fn a_backup_that_is_not_in_sync_is_never_promoted() {
    let mut hosted = Hosted::new(hosted(2, 1));
    (1..=2).for_each(|number| drop(hosted.ready(number)));
    hosted.unlinked(1);
    assert_eq!(
        hosted.views(),
        [(1, 1, Some(2), false), (3, 2, None, false)]
    );
    let effects = hosted.expired(1);
    assert_eq!(hosted.bench.job.branch.timeline, timeline().next());
    assert_eq!(
        served(&effects),
        vec![],
        "another host may come within a lease"
    );
    let effects = hosted.tick(LEASE);
    let plan = vec![(4, 2, None, false), (5, 2, None, false)];
    assert_eq!(served(&effects), vec![(2, plan)]);
}

#[test]
fn a_view_or_branch_that_cannot_be_written_is_not_used() {
    let mut hosted = Hosted::in_sync();
    let unlinked = Event::Host(HostNews::Unlinked(host(1)));
    let kept = hosted.bench.event(unlinked);
    let views = vec![view(0, (5, 2, None, false)), view(1, (6, 2, None, false))];
    assert_eq!(kept, vec![Effect::KeepViews(views)]);
    let failed = hosted
        .bench
        .event(Event::KeepFailed("the disk is full".into()));
    assert_eq!(failed, vec![]);
    let waiting = hosted.bench.job.status(Time(0)).waiting;
    assert_eq!(
        waiting.as_deref(),
        Some("the store: who serves a slice cannot be written down: the disk is full")
    );
    let again = hosted.tick(LEASE / 2);
    let plan = vec![(7, 2, None, false), (8, 2, None, false)];
    assert_eq!(
        served(&again),
        vec![(2, plan)],
        "numbers are not used again"
    );
}

#[test]
fn a_branch_whose_checkpoint_rotted_begins_at_an_older_one() {
    let mut hosted = Hosted::new(hosted(2, 0));
    (1..=2).for_each(|number| drop(hosted.ready(number)));
    hosted.bench.event(Event::Durable(Step(1)));
    hosted.bench.event(Event::Durable(Step(2)));
    let failed = HostSays::Failed {
        slice: SliceId(0),
        timeline: timeline(),
        cause: "no good checkpoint of step 2 is left".into(),
    };
    let asked = |effects: &[Effect]| {
        let bases = effects.iter().filter_map(|effect| match effect {
            Effect::KeepBranch(branch) => Some(branch.base),
            _ => None,
        });
        bases.collect::<Vec<_>>()
    };
    let said = Event::Host(HostNews::Said(host(1), failed));
    assert_eq!(asked(&hosted.bench.event(said)), [Step(2)]);
    let older = hosted.bench.event(Event::BaseDamaged(Some(Step(1))));
    assert_eq!(asked(&older), [Step(1)]);
    let cause = "the checkpoint of step 2 is damaged".into();
    assert!(older.contains(&Effect::Tell(Fact::Degraded { cause })));
    assert_eq!(hosted.bench.job.durable, Some(Step(1)));
    // The host that could not begin there may serve again.
    assert_eq!(hosted.bench.job.candidates(hosted.bench.now).len(), 2);
    // Without any checkpoint left, all begin at the initial weights.
    let first = hosted.bench.event(Event::BaseDamaged(None));
    assert_eq!(asked(&first), [Step(0)]);
}

#[test]
fn a_stall_of_the_coordinator_itself_promotes_nobody_for_a_lease() {
    let mut hosted = Hosted::in_sync();
    let until = hosted.bench.now + Span::from_millis(LEASE);
    hosted.news(HostNews::Stalled(until));
    assert_eq!(hosted.unlinked(1), vec![]);
    hosted.tick(LEASE - 1);
    assert_eq!(hosted.views()[0], (3, 1, Some(2), true));
    hosted.tick(1);
    assert_eq!(hosted.views(), [(5, 2, None, false), (6, 2, None, false)]);
}

#[test]
fn a_host_that_leaves_hands_over_its_slices_first() {
    let mut hosted = Hosted::new(hosted(2, 0));
    (1..=2).for_each(|number| drop(hosted.ready(number)));
    hosted.says(1, HostSays::Drain);
    assert_eq!(
        hosted.views(),
        [(3, 1, Some(2), false), (2, 2, None, false)]
    );
    let effects = hosted.synced(0);
    assert_eq!(hosted.views(), [(5, 2, None, false), (2, 2, None, false)]);
    assert!(effects.contains(&Effect::Host(host(1), HostTold::Release)));
    let gone = hosted.news(HostNews::Down(host(1), Cause::LinkReset));
    assert_eq!(gone, vec![]);
}

#[test]
fn a_host_that_cannot_restore_a_slice_is_given_none_for_a_while() {
    let mut hosted = Hosted::new(hosted(2, 0));
    (1..=2).for_each(|number| drop(hosted.ready(number)));
    hosted.says(
        1,
        HostSays::Failed {
            slice: SliceId(0),
            timeline: timeline(),
            cause: "no room".into(),
        },
    );
    let effects = hosted.tick(LEASE);
    let plan = vec![(3, 2, None, false), (4, 2, None, false)];
    assert_eq!(served(&effects), vec![(1, plan.clone()), (2, plan)]);
}

#[test]
fn orders_go_to_every_replica() {
    let mut hosted = Hosted::in_sync();
    let order = ShardOrder::RequestCut;
    let told = hosted.event(Event::Order(order));
    let to = |number, slice| {
        let (slice, timeline) = (SliceId(slice), timeline());
        let told = HostTold::Order {
            slice,
            timeline,
            order,
        };
        Effect::Host(host(number), told)
    };
    assert_eq!(told, vec![to(1, 0), to(2, 0), to(2, 1), to(1, 1)]);
}
