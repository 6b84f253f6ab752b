//! Slices with primaries and backups over a network that loses, repeats and delays; processes are
//! killed and replaced, all by one seed.

use resilin_core::job::Bits;
use resilin_core::machine::Rules;
use resilin_core::machine::shard::{Assigned, Effect, Event, Origin, Push, Shard};
use resilin_core::message::{ReplicaSays, ShardReport, ShardSays, SliceSays, Use, WorkerAsks};
use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::sorted::SortedMap;
use resilin_core::time::Time;
use resilin_core::{MapNumber, SliceId, Step, Timeline, View};

use super::arithmetic::Oracle;
use super::coordinator::Coordinator;
use super::plant::Plant;
use super::replica::{Copy, Replica, Work};
use super::worker::Worker;

#[derive(Clone, Debug)]
pub(super) enum Happening {
    Shard(u32, Event),
    Push(u32, resilin_core::LinkId, Push, u64),
    /// From a replica to another, on the link of that number.
    Peer(u32, u32, u64, Parcel),
    Linked(u32, u32),
    Work(u32, Work),
    Installed(u32, Step, Copy),
    Tick(u32),
    Weights(usize, SliceId, Step, u64),
    Gone(usize, Step, Step),
    WorkerTick(usize),
    Report(ShardReport),
    InSync(SliceId, View),
    CutOver(SliceId, Step),
    NewBackup(SliceId),
    Dropped(u32),
    Chaos,
}

#[derive(Clone, Debug)]
pub(super) enum Parcel {
    Says(ReplicaSays),
    Root(View, Step, u64),
    Copy(ReplicaSays, Copy),
}

pub(super) struct World {
    pub(super) rules: Rules,
    pub(super) plant: Plant,
    /// Microseconds.
    pub(super) now: u64,
    pub(super) faults: bool,
    /// Whether every event and effect is printed.
    pub(super) traced: bool,
    random: Stream,
    queue: SortedMap<(u64, u64), Happening>,
    pub(super) sequence: u64,
    pub(super) replicas: SortedMap<u32, Replica>,
    pub(super) workers: Vec<Worker>,
    pub(super) coordinator: Coordinator,
    pub(super) oracle: Oracle,
    /// Links between replicas, lower number first, by number of the link.
    pub(super) links: SortedMap<(u32, u32), u64>,
}

pub(super) type Checked = Result<(), String>;

impl World {
    pub(super) fn new(rules: Rules, seed: u64, plant: Plant) -> Self {
        Self {
            oracle: Oracle::new(rules.clone()),
            coordinator: Coordinator::new(&rules),
            workers: (0..2).map(Worker::new).collect(),
            rules,
            plant,
            now: 0,
            faults: true,
            traced: false,
            random: Key::new(seed, Purpose::User).stream(),
            queue: SortedMap::new(),
            sequence: 0,
            replicas: SortedMap::new(),
            links: SortedMap::new(),
        }
    }

    pub(super) fn draw(&mut self, bound: u32) -> u32 {
        self.random.below(bound)
    }

    pub(super) fn odds(&mut self, percent: u32) -> bool {
        self.draw(100) < percent
    }

    pub(super) fn after(&mut self, wait: u64, happening: Happening) {
        self.sequence += 1;
        self.queue
            .insert((self.now + wait, self.sequence), happening);
    }

    /// What an evaluation has of its own, where bits are not promised.
    fn noise(&mut self) -> u64 {
        match self.rules.bits {
            Bits::On => 0,
            Bits::Off => u64::from(self.draw(1 << 20)),
        }
    }

    /// Sends through the weather.
    pub(super) fn send(&mut self, happening: Happening) {
        let (loss, twice, late) = if self.faults { (8, 8, 6) } else { (0, 0, 0) };
        if self.odds(loss) {
            return;
        }
        for _ in 0..1 + u32::from(self.odds(twice)) {
            let spread = if self.odds(late) { 80_000 } else { 2_000 };
            let wait = 200 + u64::from(self.draw(spread));
            self.after(wait, happening.clone());
        }
    }

    /// The next thing that happens, if anything is left.
    pub(super) fn next(&mut self) -> Option<Result<(), String>> {
        let ((at, _), happening) = self.queue.pop_first()?;
        self.now = at;
        Some(self.happens(happening))
    }

    fn happens(&mut self, happening: Happening) -> Checked {
        match happening {
            Happening::Shard(id, event) => self.event(id, event),
            Happening::Push(id, link, mut push, value) => {
                let Some(replica) = self.replicas.get_mut(&id) else {
                    return Ok(());
                };
                push.tensor = replica.hold(value);
                self.event(id, Event::Pushed(link, push))
            }
            Happening::Peer(from, to, link, parcel) => self.parcel(from, to, link, parcel),
            Happening::Linked(one, other) => self.linked(one, other),
            Happening::Work(id, work) => self.work(id, work),
            Happening::Installed(id, step, copy) => {
                let wanted = self
                    .replicas
                    .get_mut(&id)
                    .filter(|r| r.taking == Some(step));
                let Some(replica) = wanted else {
                    return Ok(());
                };
                replica.taking = None;
                replica.install(step, copy);
                self.event(id, Event::Copied { step })
            }
            Happening::Tick(id) => self.event(id, Event::Tick),
            Happening::Weights(worker, slice, step, weights) => {
                let right = self.oracle.values(slice, step).weights;
                if weights != right {
                    return Err(format!("bits of slice {slice} at version {step}"));
                }
                self.workers[worker].weights(&self.rules, slice, step, weights);
                Ok(())
            }
            Happening::Gone(worker, step, at) => {
                self.workers[worker].gone(step, at);
                Ok(())
            }
            Happening::WorkerTick(worker) => {
                self.worker_tick(worker);
                Ok(())
            }
            Happening::Report(report) => self.reported(report),
            Happening::InSync(slice, view) => {
                self.in_sync(slice, view);
                Ok(())
            }
            Happening::CutOver(slice, step) => {
                self.cut_over(slice, step);
                Ok(())
            }
            Happening::NewBackup(slice) => {
                self.new_backup(slice);
                Ok(())
            }
            Happening::Dropped(id) => {
                self.drop_replica(id);
                Ok(())
            }
            Happening::Chaos => {
                self.chaos();
                Ok(())
            }
        }
    }

    /// A replica of its own process, as a view has it.
    pub(super) fn begin(&mut self, id: u32, slice: SliceId, view: View, duty: Assigned) -> Checked {
        let origin = Origin {
            slice,
            timeline: Timeline::first(1),
            map: MapNumber(1),
            view,
            step: Step(0),
        };
        let mut effects = Vec::new();
        let shard = Shard::begin(self.rules.clone(), origin, duty, &mut effects);
        self.replicas.insert(id, Replica::new(slice, shard));
        self.carry_out(id, effects)?;
        self.event(id, Event::Tick)
    }

    pub(super) fn event(&mut self, id: u32, event: Event) -> Checked {
        let Some(replica) = self.replicas.get_mut(&id) else {
            return Ok(());
        };
        if self.traced {
            println!("{} {id} (slice {}) <- {event:?}", self.now, replica.slice);
        }
        let before = replica.shard.deadline();
        let mut effects = Vec::new();
        replica
            .shard
            .step(Time(self.now * 1_000), event, &mut effects);
        let deadline = replica.shard.deadline().filter(|at| Some(*at) != before);
        if let Some(at) = deadline {
            let wait = (at.0 / 1_000).saturating_sub(self.now);
            self.after(wait, Happening::Tick(id));
        }
        self.carry_out(id, effects)
    }

    fn carry_out(&mut self, id: u32, effects: Vec<Effect>) -> Checked {
        for effect in effects {
            if self.traced {
                println!("{} {id}    -> {effect:?}", self.now);
            }
            self.effect(id, effect)?;
        }
        Ok(())
    }

    fn effect(&mut self, id: u32, effect: Effect) -> Checked {
        let replica = self.replicas.get_mut(&id).expect("it acts");
        let slice = replica.slice;
        match effect {
            Effect::Free(tensor) => {
                assert!(
                    replica.tensors.remove(&tensor).is_some(),
                    "{tensor} is freed once"
                );
            }
            Effect::Say(link, says) => {
                if let ShardSays::Gone { step, at, .. } = says {
                    self.send(Happening::Gone(link.0 as usize - 1, step, at));
                }
            }
            Effect::SendWeights { link, step, .. } => {
                let weights = replica.weights(step);
                self.send(Happening::Weights(
                    link.0 as usize - 1,
                    slice,
                    step,
                    weights,
                ));
            }
            Effect::Combine { step, nodes, .. } => {
                let nodes = nodes.iter().map(|(node, t)| (*node, replica.tensors[t]));
                let work = Work::Combine(step, nodes.collect());
                self.queue_work(id, work);
            }
            Effect::Compare(pair) => {
                let [first, second] = pair.map(|tensor| replica.tensors[&tensor]);
                let same = first == second;
                self.queue_work(id, Work::Compared(same));
            }
            Effect::Load { step, tensor } => {
                let work = Work::Load(step, replica.tensors[&tensor]);
                self.queue_work(id, work);
            }
            Effect::Apply { step, action, .. } => self.queue_work(id, Work::Apply(step, action)),
            Effect::Pin(step) => replica.pinned = Some((step, replica.weights(step))),
            Effect::Unpin(step) => {
                let pinned = replica.pinned.take().map(|(step, _)| step);
                assert_eq!(pinned, Some(step));
            }
            Effect::Cut(step) => {
                assert_eq!(step, replica.step, "the newest version is cut");
                let wait = 1_000 + u64::from(self.draw(40_000));
                self.after(wait, Happening::CutOver(slice, step));
            }
            Effect::Tell(to, says) => {
                if let SliceSays::Vote(vote) = &says {
                    self.oracle.votes(vote)?;
                }
                self.tell(to, says);
            }
            Effect::Report(report) => self.send(Happening::Report(report)),
            Effect::Mirror(says) => self.mirror(id, says),
            Effect::SendRoot(step) => self.queue_work(id, Work::SendRoot(step)),
            Effect::DropRoots { before } => replica.drop_roots(before),
            Effect::SendCopy { view, step, votes } => {
                assert_eq!(votes.is_empty(), step == Step(0));
                let says = ReplicaSays::Copy {
                    view,
                    step,
                    tensors: 2,
                    votes,
                };
                self.queue_work(id, Work::SendCopy(says));
            }
            Effect::TakeCopy(step) => replica.taking = Some(step),
            Effect::InSync(view) => self.send(Happening::InSync(slice, view)),
        }
        Ok(())
    }

    /// Done in order, but not at once.
    pub(super) fn queue_work(&mut self, id: u32, work: Work) {
        let took = 50 + u64::from(self.draw(1_500));
        let replica = self.replicas.get_mut(&id).expect("it acts");
        replica.free_at = replica.free_at.max(self.now) + took;
        let wait = replica.free_at - self.now;
        self.after(wait, Happening::Work(id, work));
    }

    fn work(&mut self, id: u32, work: Work) -> Checked {
        let root = self.rules.tree.root();
        let Some(replica) = self.replicas.get_mut(&id) else {
            return Ok(());
        };
        let slice = replica.slice;
        match work {
            Work::Combine(step, nodes) => {
                let event = replica.combine(step, &nodes, root);
                self.event(id, event)
            }
            Work::Load(step, value) => {
                replica.load(step, value);
                Ok(())
            }
            Work::Compared(same) => self.event(id, Event::Compared { same }),
            Work::Apply(step, action) => {
                let root = replica.apply(step, action);
                let values = replica.values;
                let right = self.oracle.applied(slice, (step, action), (root, values))?;
                if right != values {
                    return Err(format!("bits of slice {slice} after step {step}"));
                }
                let mut digest = [0; 32];
                digest[..8].copy_from_slice(&values.weights.to_le_bytes());
                let digests = vec![digest];
                let event = Event::Applied {
                    step,
                    digests,
                    finite: true,
                };
                self.event(id, event)
            }
            Work::SendRoot(step) => {
                let view = replica.shard.view();
                if let Some(root) = replica.root(step) {
                    self.post(id, Parcel::Root(view, step, root));
                }
                Ok(())
            }
            Work::SendCopy(says) => {
                let parcel = Parcel::Copy(says, replica.copy());
                self.post(id, parcel);
                Ok(())
            }
        }
    }

    fn worker_tick(&mut self, number: usize) {
        let wait = 2_000 + u64::from(self.draw(6_000));
        self.after(wait, Happening::WorkerTick(number));
        let slices: Vec<SliceId> = self.rules.slices.ids().collect();
        for slice in slices {
            let stale = self.odds(5);
            let view = &self.coordinator.views[&slice];
            let (number_of_view, earlier) = (view.number, view.earlier.filter(|_| stale));
            let to = earlier.unwrap_or(view.primary);
            let apart = self.odds(50);
            let noise = self.noise();
            let worker = &mut self.workers[number];
            let link = worker.link;
            let new = worker.linked.insert(to);
            let lacks = worker
                .lacks(slice)
                .filter(|step| *step <= self.rules.last());
            let pushes = worker.contributions(&self.rules, slice, apart, noise);
            if new {
                self.after(0, Happening::Shard(to, Event::LinkUp(link)));
            }
            if let Some(step) = lacks {
                let pull = WorkerAsks::Pull {
                    timeline: Timeline::first(1),
                    map: MapNumber(1),
                    view: number_of_view,
                    step,
                    purpose: Use::Train,
                    holds: None,
                };
                self.send(Happening::Shard(to, Event::Asked(link, pull)));
            }
            for (push, value) in pushes {
                let push = Push {
                    view: number_of_view,
                    ..push
                };
                self.send(Happening::Push(to, link, push, value));
            }
        }
    }
}
