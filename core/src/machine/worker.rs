//! **Worker**: evaluates what it holds on the newest weights and sees to it that every slice has it.
//!
//! Done means that all slices are past the step, never that this worker thinks so (PROTOCOL 15):
//! sums of a step are kept until the next version is there from every slice.

mod audit;
mod backup;
mod evaluate;
mod event;
mod exchange;
mod fence;
mod push;
mod regroup;
#[cfg(test)]
mod tests;
mod views;

use crate::id::{Incarnation, PartitionId, SliceId, Step, Tensor, Timeline};
use crate::machine::Rules;
use crate::message::{Assignment, Claim, CoordinatorSays, Lease, Use, WorkerSays};
use crate::sorted::{SortedMap, SortedSet};
use crate::time::Time;
use crate::tree::{Node, PartitionSet};

pub use event::{Computed, Effect, Event, Exit, Regrouped};

/// A leaf that is reported instead of pushed.
#[derive(Clone, Copy, Debug)]
struct Withheld {
    /// Of the newest evaluation; `None` while it is evaluated again.
    digest: Option<[u8; 32]>,
    evaluations: u32,
}

#[derive(Clone, Debug)]
struct Sum {
    computed: Computed,
    /// Slices that answered for it.
    answered: SortedSet<SliceId>,
}

/// The machine of one worker process.
#[derive(Clone, Debug)]
pub struct Worker {
    rules: Rules,
    data: String,
    incarnation: Option<Incarnation>,
    /// The life in which it got its assignment.
    before: Option<Incarnation>,
    /// Fenced, and not joined again yet.
    fenced: bool,
    /// The coordinator took `Ready` in; until then it is repeated.
    accepted: bool,
    assignment: Option<Assignment>,
    links: SortedMap<SliceId, bool>,
    step: Step,
    /// Slices whose weights of a version are here.
    here: SortedMap<Step, SortedSet<SliceId>>,
    /// The step whose evaluation is under way; its answer may come after the step is over.
    computing: Option<Step>,
    sums: SortedMap<Node, Sum>,
    /// Sums of the open step whose values still come, and who is sent them meanwhile.
    coming: SortedMap<Tensor, SortedSet<SliceId>>,
    /// Leaves of the open step that are not finite.
    withheld: SortedMap<PartitionId, Withheld>,
    extra: PartitionSet,
    evaluation: Option<evaluate::Evaluation>,
    audits: audit::Audits,
    /// The branch of history that the model knows of.
    begun: Option<Timeline>,
    draining_since: Option<Time>,
    /// Something was refused since a slice knows another view: it is sent again soon.
    refused: bool,
    retry_at: Option<Time>,
    beat_at: Option<Time>,
}

impl Worker {
    /// A worker of the run whose rows have the digest `data`.
    #[must_use]
    pub fn new(rules: Rules, data: String) -> Self {
        Self {
            rules,
            data,
            incarnation: None,
            before: None,
            fenced: false,
            accepted: false,
            assignment: None,
            links: SortedMap::new(),
            step: Step(0),
            here: SortedMap::new(),
            computing: None,
            sums: SortedMap::new(),
            coming: SortedMap::new(),
            withheld: SortedMap::new(),
            extra: PartitionSet::default(),
            evaluation: None,
            audits: audit::Audits::default(),
            begun: None,
            draining_since: None,
            refused: false,
            retry_at: None,
            beat_at: None,
        }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Welcomed(incarnation) => self.welcomed(now, incarnation, effects),
            Event::Orphaned => (self.incarnation, self.beat_at) = (None, None),
            Event::Told(says) => self.told(now, says, effects),
            Event::SliceUp(slice) => self.slice_up(slice, effects),
            Event::SliceDown(slice) => self.slice_down(slice),
            Event::Heard(slice, says) => self.heard(slice, says, effects),
            Event::Weights {
                slice,
                timeline,
                step,
                purpose,
            } => {
                self.weights(slice, timeline, step, purpose, effects);
            }
            Event::Coming {
                timeline,
                step,
                computed,
            } => self.coming(timeline, step, &computed, effects),
            Event::Computed {
                timeline,
                step,
                computed,
                last,
            } => {
                self.computed(timeline, step, computed, last, effects);
            }
            Event::Scored {
                timeline,
                version,
                task,
                score,
            } => {
                self.scored(timeline, version, task, score, effects);
            }
            Event::Audited {
                timeline,
                step,
                partition,
                digest,
            } => self.audited(timeline, step, partition, digest),
            Event::Terminate => self.terminate(now, effects),
            Event::Tick { samples_per_s } => self.tick(now, samples_per_s, effects),
        }
        self.advance(effects);
        self.tell_audits(effects);
        if std::mem::take(&mut self.refused) {
            let soon = now + self.rules.retry().part(8);
            self.retry_at = self.retry_at.map(|at| at.min(soon));
        }
        if self.retry_at.is_none() {
            self.retry_at = Some(now + self.rules.retry());
        }
        self.check_invariants();
    }

    /// When `Tick` is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let grace_over = self.draining_since.map(|since| since + self.rules.grace);
        [self.retry_at, self.beat_at, grace_over]
            .into_iter()
            .flatten()
            .min()
    }

    /// The step being worked on, once there is an assignment.
    #[must_use]
    pub fn open_step(&self) -> Option<Step> {
        self.assignment.as_ref().map(|_| self.step)
    }

    fn welcomed(&mut self, now: Time, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        (self.incarnation, self.accepted) = (Some(incarnation), false);
        if self.draining_since.is_some() {
            // What it held as another member is others' already.
            return leave(effects);
        }
        // This life has evaluated nothing yet: an earlier report must not confirm itself.
        self.withheld.clear();
        self.audits.begin_again();
        self.say_ready(effects);
        self.beat_at = Some(now + self.rules.heartbeat());
    }

    /// Who is no member has nothing to hand over.
    fn terminate(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.incarnation.is_none() {
            return effects.push(Effect::Exit(Exit::Done));
        }
        self.drain(now, effects);
    }

    fn told(&mut self, now: Time, says: CoordinatorSays, effects: &mut Vec<Effect>) {
        match says {
            CoordinatorSays::Assign(assignment) => self.assigned(assignment, effects),
            CoordinatorSays::Evaluate {
                timeline,
                version,
                tasks,
            } => {
                self.evaluate(timeline, version, tasks, effects);
            }
            CoordinatorSays::Reevaluate {
                timeline,
                step,
                partition,
            } => {
                if self.timeline() == Some(timeline) && step == self.step {
                    if let Some(leaf) = self.withheld.get_mut(&partition) {
                        leaf.digest = None;
                    }
                    self.extra.insert(partition);
                }
            }
            CoordinatorSays::Backup {
                timeline,
                step,
                partitions,
            } => self.back_up(timeline, step, &partitions, effects),
            CoordinatorSays::Audit(questions) => self.asked_to_audit(questions, effects),
            CoordinatorSays::Drain => self.drain(now, effects),
            CoordinatorSays::Release | CoordinatorSays::Finished => {
                effects.push(Effect::Exit(Exit::Done));
            }
            CoordinatorSays::Fence { cause } => self.fence(cause, effects),
            CoordinatorSays::Refuse { cause } => effects.push(Effect::Exit(Exit::Refused(cause))),
        }
    }

    /// What it holds it goes on with, whoever coordinates (PROTOCOL 5).
    fn say_ready(&self, effects: &mut Vec<Effect>) {
        if let (Some(before), Some(assignment)) = (self.before, &self.assignment) {
            effects.push(Effect::Say(WorkerSays::Claim(Claim {
                before,
                generation: assignment.generation,
                timeline: assignment.timeline,
                leases: assignment.leases.clone(),
            })));
        }
        let data = self.data.clone();
        effects.push(Effect::Say(WorkerSays::Ready { data }));
    }

    fn drain(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.draining_since.is_none() {
            self.draining_since = Some(now);
        }
        effects.push(Effect::Say(WorkerSays::Drain));
    }

    fn timeline(&self) -> Option<Timeline> {
        self.assignment.as_ref().map(|a| a.timeline)
    }

    fn assigned(&mut self, assignment: Assignment, effects: &mut Vec<Effect>) {
        self.accepted = true;
        self.before = self.incarnation;
        self.taken_in(effects);
        let known = self.assignment.as_ref();
        if known.is_some_and(|known| known.generation >= assignment.generation) {
            return;
        }
        let branch = (assignment.timeline, assignment.map);
        let renewed = known.is_none_or(|known| (known.timeline, known.map) != branch);
        let mut renumbered = SortedSet::new();
        if renewed {
            self.drop_assignment(effects);
            self.lay_out(&assignment, effects);
        } else {
            renumbered = self.change_views(&assignment, effects);
        }
        let idle = assignment.leases.is_empty() && self.evaluation.is_none();
        // Leases that were taken away for a missing link come back once it is there.
        let wanted = !idle || !self.is_linked();
        if wanted && self.links.is_empty() {
            self.dial(&assignment, effects);
        }
        if !wanted {
            self.hang_up(effects);
        }
        let first = assignment
            .leases
            .iter()
            .map(|lease| lease.from)
            .min()
            .unwrap_or_default();
        let earlier = self.earlier(&assignment);
        self.regroup(&assignment, first, effects);
        self.assignment = Some(assignment);
        if renewed || (first > self.step && !self.holds(self.step)) {
            self.go_to(first, effects);
        } else if let Some(from) = earlier.filter(|_| !self.complete(self.step)) {
            self.go_to(from, effects);
        } else {
            self.ask_renumbered(&renumbered, effects);
        }
    }

    fn dial(&mut self, assignment: &Assignment, effects: &mut Vec<Effect>) {
        for view in &assignment.views {
            self.links.insert(view.slice, false);
            effects.push(Effect::Dial(view.clone()));
        }
    }

    fn hang_up(&mut self, effects: &mut Vec<Effect>) {
        for slice in std::mem::take(&mut self.links).into_keys() {
            effects.push(Effect::Hangup(slice));
        }
        self.here.clear();
        self.free_sums(effects);
        effects.push(Effect::Forget(Use::Train, Step(u64::MAX)));
    }

    /// Nothing of another timeline or view is worth keeping.
    fn drop_assignment(&mut self, effects: &mut Vec<Effect>) {
        self.hang_up(effects);
        self.audits.forget();
        self.release_audits(Step(u64::MAX), effects);
        self.assignment = None;
        if self.evaluation.take().is_some() {
            effects.push(Effect::Forget(Use::Evaluate, Step(u64::MAX)));
        }
    }

    /// Whether no link is missing that is wanted.
    fn is_linked(&self) -> bool {
        self.links.values().all(|up| *up)
    }

    fn holds(&self, step: Step) -> bool {
        self.leases().any(|lease| lease.covers(step))
    }

    fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.assignment
            .iter()
            .flat_map(|assignment| &assignment.leases)
    }

    fn tick(&mut self, now: Time, samples_per_s: f64, effects: &mut Vec<Effect>) {
        if self.beat_at.is_some_and(|at| at <= now) {
            self.beat_at = Some(now + self.rules.heartbeat());
            if !self.accepted {
                self.say_ready(effects);
            }
            let generation = self.assignment.as_ref().map(|a| a.generation);
            let (step, linked) = (self.open_step(), self.is_linked());
            effects.push(Effect::Say(WorkerSays::Heartbeat {
                generation,
                step,
                samples_per_s,
                linked,
            }));
            if self.draining_since.is_some() {
                effects.push(Effect::Say(WorkerSays::Drain));
            }
        }
        if self
            .draining_since
            .is_some_and(|since| since + self.rules.grace <= now)
        {
            leave(effects);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = Some(now + self.rules.retry());
            self.ask_again(effects);
        }
    }

    /// What must hold after every event.
    pub fn check_invariants(&self) {
        assert!(
            self.here.len() <= 2,
            "weights of the open step and the next, no others"
        );
        assert!(self.sums.len() <= self.rules.tree.partitions() as usize);
        assert!(
            self.assignment.is_some() || self.links.is_empty(),
            "links without assignment"
        );
    }
}

fn leave(effects: &mut Vec<Effect>) {
    effects.push(Effect::Say(WorkerSays::Leave));
    effects.push(Effect::Exit(Exit::Done));
}
