//! The explored cluster: Job, Saver, two Shards, two Workers, and ordered links between them. A
//! state is what all of them are and what is under way; an action delivers one message, lets a
//! time-out pass, or kills a worker.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use resilin_chaos::jobs::Spec;
use resilin_core::machine::Rules;
use resilin_core::machine::job::Outcome;
use resilin_core::sorted::SortedMap;
use resilin_core::{LinkId, SliceId};
use stateright::{Model, Property};

use crate::happening::{Action, Message, Place};
use crate::parts::{Center, Member, Slice};
use crate::symbols::{PARTITIONS, SLICES, STEPS, Weights, digest, serial};

/// Workers of the explored job.
pub(crate) const WORKERS: u8 = 2;

/// One state of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) center: Arc<Center>,
    pub(crate) slices: Vec<Arc<Slice>>,
    pub(crate) workers: Vec<Option<Arc<Member>>>,
    links: SortedMap<(Place, Place), VecDeque<(u64, Message)>>,
    kills: u8,
    timeouts: u8,
    /// What was broken.
    pub(crate) broken: Option<String>,
    /// Of the parts, in their order.
    digests: SortedMap<Place, u64>,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digests.hash(state);
        (self.kills, self.timeouts, &self.broken).hash(state);
        for (link, messages) in &self.links {
            link.hash(state);
            messages.iter().for_each(|(digest, _)| digest.hash(state));
        }
    }
}

/// Parts are told apart by their digests.
impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        let under_way = |world: &Self| {
            let links = world.links.iter();
            let digests = |m: &VecDeque<(u64, Message)>| m.iter().map(|(d, _)| *d).collect();
            links
                .map(|(link, m)| (*link, digests(m)))
                .collect::<Vec<(_, Vec<u64>)>>()
        };
        self.digests == other.digests
            && (self.kills, self.timeouts) == (other.kills, other.timeouts)
            && self.broken == other.broken
            && under_way(self) == under_way(other)
    }
}

/// What is explored.
#[derive(Clone)]
pub(crate) struct Explored {
    pub(crate) rules: Rules,
    pub(crate) serial: Vec<Vec<Weights>>,
    /// Workers that may die.
    pub(crate) kills: u8,
    /// Time-outs that may pass though something is under way.
    pub(crate) timeouts: u8,
}

/// The rules of the explored job with so many slices.
pub(crate) fn rules(slices: u16) -> Rules {
    let spec = Spec {
        partitions: PARTITIONS,
        batch: 2,
        steps: STEPS,
        rows: 40,
        test_rows: 0,
        block: 32,
        cut_every: None,
        ..Spec::tiny()
    };
    let rules = spec.task().rules(slices);
    assert_eq!(rules.slices.slices(), slices, "each slice has a block");
    rules
}

impl Explored {
    pub(crate) fn new(kills: u8, timeouts: u8) -> Self {
        let rules = rules(SLICES);
        Self {
            rules,
            serial: serial(),
            kills,
            timeouts,
        }
    }

    /// A cluster whose workers have dialled.
    fn begin(&self) -> World {
        let mut world = World {
            center: Arc::new(Center::new(&self.rules)),
            slices: Vec::new(),
            workers: Vec::new(),
            links: SortedMap::new(),
            kills: self.kills,
            timeouts: self.timeouts,
            broken: None,
            digests: SortedMap::new(),
        };
        for slice in self.rules.slices.ids() {
            let mut out = Out::default();
            let begun = Slice::new(&self.rules, slice, &mut out);
            world.slices.push(Arc::new(begun));
            world.take(Place::Slice(slice.0), out);
        }
        for worker in 0..WORKERS {
            world
                .workers
                .push(Some(Arc::new(Member::new(&self.rules, worker))));
            world.take(Place::Worker(worker), Out::hello());
        }
        world.digest_of(Place::Center);
        self.settle(&mut world);
        self.until_weights(&mut world);
        world
    }

    /// Everybody is there, linked, and has asked for the first weights, which are under way.
    fn until_weights(&self, world: &mut World) {
        let joins = |messages: &VecDeque<(u64, Message)>| {
            !matches!(messages.front(), Some((_, Message::Sent(..))))
        };
        while let Some((from, to)) = world.links.iter().find(|(_, m)| joins(m)).map(|(l, _)| *l) {
            self.step(world, Action::Deliver(from, to));
        }
    }

    /// What job and slices say to each other within their process arrives at once.
    fn settle(&self, world: &mut World) {
        let inside = |(from, to): &(Place, Place)| {
            matches!(
                (from, to),
                (Place::Center, Place::Slice(_)) | (Place::Slice(_), Place::Center)
            )
        };
        while let Some((from, to)) = world.links.keys().copied().find(inside) {
            self.deliver(world, from, to);
        }
    }

    fn deliver(&self, world: &mut World, from: Place, to: Place) {
        let link = world.links.get_mut(&(from, to)).expect("it was offered");
        let (_, message) = link.pop_front().expect("it was offered");
        if link.is_empty() {
            world.links.remove(&(from, to));
        }
        self.hear(world, from, to, message);
    }

    fn step(&self, world: &mut World, action: Action) {
        match action {
            Action::Deliver(from, to) => self.deliver(world, from, to),
            Action::Kill(worker) | Action::KillAndLose(worker) => {
                world.kills -= 1;
                let place = Place::Worker(worker);
                let dead = world.workers[usize::from(worker)].take().expect("it lives");
                let lose = matches!(action, Action::KillAndLose(_));
                world
                    .links
                    .retain(|(from, to), _| *to != place && !(lose && *from == place));
                world.take(place, dead.gone());
                world.digests.remove(&place);
            }
            Action::Timeout(place) => {
                world.timeouts = world.timeouts.saturating_sub(1);
                self.pass_time(world, place);
            }
        }
        self.settle(world);
    }

    fn hear(&self, world: &mut World, from: Place, to: Place, message: Message) {
        let mut out = Out::default();
        match to {
            Place::Center => {
                let center = Arc::make_mut(&mut world.center);
                center.hear(from, message, self, &mut out);
            }
            Place::Slice(slice) => {
                let slice = Arc::make_mut(&mut world.slices[usize::from(slice)]);
                slice.hear(from, message, self, &mut out);
            }
            Place::Worker(worker) => {
                // What is sent to the dead is gone.
                if let Some(member) = &mut world.workers[usize::from(worker)] {
                    Arc::make_mut(member).hear(from, message, &mut out);
                }
            }
        }
        world.take(to, out);
    }

    fn pass_time(&self, world: &mut World, place: Place) {
        let mut out = Out::default();
        match place {
            Place::Center => Arc::make_mut(&mut world.center).tick(self, &mut out),
            Place::Slice(slice) => {
                Arc::make_mut(&mut world.slices[usize::from(slice)]).tick(self, &mut out);
            }
            Place::Worker(worker) => {
                if let Some(member) = &mut world.workers[usize::from(worker)] {
                    Arc::make_mut(member).tick(&mut out);
                }
            }
        }
        world.take(place, out);
    }

    /// Whether time-outs alone lead on to the end, as nothing else is left to happen.
    fn ends(&self, world: &World) -> bool {
        let mut world = world.clone();
        for _ in 0..40 {
            for place in world.places() {
                self.pass_time(&mut world, place);
                self.settle(&mut world);
                while let Some((from, to)) = world.links.keys().next().copied() {
                    self.step(&mut world, Action::Deliver(from, to));
                }
            }
            if world.is_over() {
                return world.broken.is_none();
            }
        }
        false
    }
}

/// What a process sends, and what it found broken.
#[derive(Debug, Default)]
pub(crate) struct Out {
    messages: Vec<(Place, Message)>,
    broken: Option<String>,
}

impl Out {
    fn hello() -> Self {
        let mut out = Self::default();
        out.send(Place::Center, Message::Hello);
        out
    }

    pub(crate) fn send(&mut self, to: Place, message: Message) {
        self.messages.push((to, message));
    }

    pub(crate) fn ensure(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.get_or_insert_with(what);
        }
    }
}

impl World {
    fn take(&mut self, from: Place, out: Out) {
        for (to, message) in out.messages {
            let alive = match to {
                Place::Center | Place::Slice(_) => true,
                Place::Worker(worker) => self
                    .workers
                    .get(usize::from(worker))
                    .is_some_and(Option::is_some),
            };
            if alive {
                let entry = (digest(&message), message);
                self.links.entry((from, to)).or_default().push_back(entry);
            }
        }
        self.broken = self.broken.take().or(out.broken);
        self.digest_of(from);
        if let Place::Worker(worker) = from
            && self.workers[usize::from(worker)]
                .as_ref()
                .is_some_and(|w| w.has_left())
        {
            self.workers[usize::from(worker)] = None;
            self.links.retain(|(_, to), _| *to != from);
            self.digests.remove(&from);
        }
    }

    fn digest_of(&mut self, place: Place) {
        let digest = match place {
            Place::Center => Some(digest(&self.center)),
            Place::Slice(slice) => self.slices.get(usize::from(slice)).map(digest),
            Place::Worker(worker) => {
                let member = self.workers.get(usize::from(worker));
                member.and_then(Option::as_ref).map(digest)
            }
        };
        self.digests.extend(digest.map(|digest| (place, digest)));
    }

    fn places(&self) -> Vec<Place> {
        let slices = (0..SLICES).map(Place::Slice);
        let workers = (0..WORKERS).filter(|w| self.workers[usize::from(*w)].is_some());
        let workers = workers.map(Place::Worker);
        std::iter::once(Place::Center)
            .chain(slices)
            .chain(workers)
            .collect()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.center.over == Some(Outcome::Finished)
    }
}

impl Model for Explored {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.begin()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.is_over() || world.broken.is_some() {
            return;
        }
        actions.extend(
            world
                .links
                .keys()
                .map(|(from, to)| Action::Deliver(*from, *to)),
        );
        if world.links.is_empty() {
            return;
        }
        if world.kills > 0 {
            let alive = (0..WORKERS).filter(|w| world.workers[usize::from(*w)].is_some());
            actions.extend(alive.flat_map(|w| [Action::Kill(w), Action::KillAndLose(w)]));
        }
        if world.timeouts > 0 {
            actions.extend(world.places().into_iter().map(Action::Timeout));
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        self.step(&mut world, action);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "every version has the bits of the serial run",
                |_, world: &World| world.broken.is_none(),
            ),
            Property::always(
                "slices differ by at most one version",
                |_, world: &World| {
                    let versions: Vec<u64> = world.slices.iter().map(|s| s.version()).collect();
                    versions.iter().max().unwrap() - versions.iter().min().unwrap() <= 1
                },
            ),
            Property::always(
                "where nothing happens any more, time leads to the end",
                |model: &Self, world: &World| {
                    !world.links.is_empty() || world.is_over() || model.ends(world)
                },
            ),
            Property::sometimes(
                "a run ends after a kill, where there is one",
                |model: &Self, world: &World| {
                    world.is_over() && (world.kills < model.kills || model.kills == 0)
                },
            ),
            Property::sometimes("a run ends in peace", |_, world: &World| world.is_over()),
        ]
    }
}

/// Which link between a worker and a slice this is.
pub(crate) fn link(worker: u8, slice: SliceId, number: u64) -> LinkId {
    LinkId(number * 100 + u64::from(worker) * 10 + u64::from(slice.0))
}
