//! Shell of the Worker machine.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, AsyncContext, Context};
use resilin_core::frame::{DataHeader, Encoding, Kind};
use resilin_core::handshake::Hello;
use resilin_core::machine::Rules;
use resilin_core::machine::worker::{Computed, Effect, Event, Exit as End, Worker};
use resilin_core::message::{SliceView, Use, WorkerAsks, WorkerSays};
use resilin_core::sorted::SortedMap;
use resilin_core::{Incarnation, LinkId, MapNumber, SliceId, Step, Timeline};
use resilin_learn::kernel::hex;
use resilin_learn::task::Task;
use tokio::sync::{mpsc, oneshot};

use super::compute::Crew;
use super::data::{self, Dial};
use super::debut::{Debut, Milestone};
use super::stored::Stored;
use super::tensors::{Arrivals, Sums, Whole};
use crate::clock::{Alarm, Clock};
use crate::exit::Exit;
use crate::link::{BufferPool, LinkSender, OutTensor};
use crate::spawn;
use crate::stint::Stint;

mod mailbox;

pub(super) use mailbox::{
    Arrived, Audited, Coming, Evaluated, Failed, Heard, Linked, Opened, Orphaned, Scored,
    SliceGone, Terminate, Told,
};

/// Time for the last words on the control link.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The actor of a worker process.
pub(super) struct WorkerActor {
    task: Arc<Task>,
    rules: Rules,
    machine: Worker,
    clock: Clock,
    alarm: Alarm,
    hello: Hello,
    host: String,
    incarnation: Incarnation,
    control: Option<LinkSender>,
    slices: SortedMap<SliceId, SliceLink>,
    last_link: LinkId,
    crew: Crew,
    pool: BufferPool,
    sums: Sums,
    arrivals: Arrivals,
    /// Weights of steps that are audited.
    retained: SortedMap<Step, Arc<Whole>>,
    stored: Stored,
    debut: Debut,
    end: Option<oneshot::Sender<Exit>>,
}

/// A slice that is dialled; `out` while its link is open.
struct SliceLink {
    link: LinkId,
    /// Dropped, it hangs up.
    _hang_up: oneshot::Sender<()>,
    out: Option<(LinkSender, mpsc::Sender<OutTensor>)>,
}

impl WorkerActor {
    /// An actor for the task; `end` gets the way in which the process shall end.
    pub(super) fn new(
        task: Arc<Task>,
        host: String,
        hello: Hello,
        debut: Debut,
        end: oneshot::Sender<Exit>,
    ) -> Result<Self, Exit> {
        let rules = task.rules(task.job.cluster.shards);
        let whole = task.layout.len() * size_of::<f32>();
        // A sum for each partition, the versions of two steps, and one that is scored.
        let pool = BufferPool::new(whole * (task.job.run.partitions as usize + 6));
        Ok(Self {
            machine: Worker::new(rules.clone(), hex(&task.data_digest())),
            clock: Clock::start(),
            alarm: Alarm::default(),
            hello,
            host,
            incarnation: Incarnation::default(),
            control: None,
            slices: SortedMap::new(),
            last_link: LinkId(0),
            crew: Crew::new(pool.clone()),
            arrivals: Arrivals::new(task.layout.len(), pool.clone()),
            pool,
            sums: Sums::default(),
            retained: SortedMap::new(),
            stored: Stored::default(),
            debut,
            end: Some(end),
            task,
            rules,
        })
    }

    fn event(&mut self, event: Event, context: &mut Context<Self>) {
        let _stint = Stint::begin("worker", &event);
        let now = self.clock.now();
        let mut effects = Vec::new();
        self.machine.step(now, event, &mut effects);
        for effect in effects {
            self.carry_out(effect, context);
        }
        self.alarm.set(context, now, self.machine.deadline());
    }

    fn carry_out(&mut self, effect: Effect, context: &mut Context<Self>) {
        match effect {
            Effect::Say(says) => self.say(&says),
            Effect::Rejoin { cause } => {
                tracing::warn!(
                    "this worker was fenced: {cause}; nothing is lost: its work is given to \
                     others, and it joins again"
                );
                if let Some(control) = self.control.take() {
                    control.close("fenced");
                }
            }
            Effect::Rejoined(incarnation) => {
                tracing::warn!("this worker has joined again, as worker {incarnation}");
            }
            Effect::Layout(slices) => {
                self.rules.slices = slices;
                // Parts of a version that were cut elsewhere do not fit together with new ones.
                self.arrivals.clear();
            }
            Effect::Dial(view) => self.dial(view, context),
            Effect::Hangup(slice) => drop(self.slices.remove(&slice)),
            Effect::Ask(slice, asks) => self.ask(slice, asks),
            Effect::Push {
                view,
                timeline,
                map,
                step,
                computed,
            } => self.push(&view, timeline, map, step, &computed),
            Effect::Compute {
                timeline,
                step,
                nodes,
            } => {
                let weights = self.weights(step);
                self.debut.reach(Milestone::Weights);
                self.crew.evaluate(timeline, step, nodes, weights);
            }
            Effect::Score {
                timeline,
                version,
                tasks,
            } => {
                let weights = self.arrivals.whole(Use::Evaluate, version);
                self.crew.score(timeline, version, tasks, weights);
            }
            Effect::Regroup(regrouped) => self.crew.regroup(regrouped),
            Effect::Retain(step) => {
                let weights = self.weights(step);
                self.retained.insert(step, weights);
            }
            Effect::Release(below) => self.retained.retain(|step, _| *step >= below),
            Effect::Audit {
                timeline,
                step,
                leaves,
            } => {
                let weights = self.weights(step);
                self.crew.audit(timeline, step, leaves, weights);
            }
            Effect::Forget(purpose, step) => self.arrivals.forget(purpose, step),
            Effect::Free(tensor) => self.sums.free(tensor),
            Effect::Exit(End::Done) => self.exit(Exit::Done),
            Effect::Exit(End::Refused(cause)) => self.exit(Exit::Refused(cause)),
        }
    }

    /// The weights of a step: as they were retained, or as they arrived.
    fn weights(&self, step: Step) -> Arc<Whole> {
        match self.retained.get(&step) {
            Some(weights) => Arc::clone(weights),
            None => self.arrivals.whole(Use::Train, step),
        }
    }

    /// A slice has stored its part of a sum.
    fn stored(&mut self, slice: SliceId, step: Step) {
        if self.stored.note(slice, step, self.rules.slices) {
            self.debut.reach(Milestone::Stored);
            self.crew.stored(step);
        }
    }

    fn say(&self, says: &WorkerSays) {
        let Some(control) = &self.control else {
            return;
        };
        if let Err(error) = control.send_control(says) {
            tracing::debug!(%error, "a control message was not sent");
        }
    }

    fn dial(&mut self, view: SliceView, context: &Context<Self>) {
        // Whoever never gets a lease never dials, and needs no memory.
        if self.last_link == LinkId(0) {
            self.crew.prepare();
        }
        self.last_link = self.last_link.next();
        let (hang_up, hung_up) = oneshot::channel();
        let slice = view.slice;
        let blocks = self.rules.slices.range(slice);
        let dial = Dial {
            link: self.last_link,
            view,
            hello: Hello {
                incarnation: Some(self.incarnation),
                ..self.hello.clone()
            },
            host: self.host.clone(),
            values: self.task.layout.values(blocks),
            arrivals: self.arrivals.clone(),
            in_flight: self.task.job.cluster.in_flight,
            pool: self.pool.clone(),
        };
        spawn::beside(data::keep(dial, context.address(), hung_up));
        let (link, _hang_up, out) = (self.last_link, hang_up, None);
        let dialled = SliceLink {
            link,
            _hang_up,
            out,
        };
        self.slices.insert(slice, dialled);
    }

    fn ask(&mut self, slice: SliceId, asks: WorkerAsks) {
        let WorkerAsks::Pull { step, purpose, .. } = asks;
        self.arrivals.ask(slice, step, purpose);
        let out = self
            .slices
            .get(&slice)
            .and_then(|dialled| dialled.out.as_ref());
        // What is not sent is asked for again by the machine.
        if let Some((sender, _)) = out
            && let Err(error) = sender.send_control(&asks)
        {
            tracing::debug!(%slice, %error, "a pull was not sent");
        }
    }

    fn push(
        &self,
        view: &SliceView,
        timeline: Timeline,
        map: MapNumber,
        step: Step,
        computed: &Computed,
    ) {
        let blocks = self.rules.slices.range(view.slice);
        let values = self.task.layout.values(blocks.clone());
        let tensor = OutTensor {
            header: DataHeader {
                run: self.rules.run,
                kind: Kind::Gradient,
                timeline,
                map,
                view: view.view,
                incarnation: self.incarnation,
                sequence: 0,
                step,
                based_on: None,
                node: Some(computed.node),
                blocks,
                offset: 0,
                total: 0,
                encoding: Encoding::F32,
                samples: computed.samples,
                weight: computed.weight,
                loss_sum: computed.loss_sum,
            },
            values: self.sums.get(computed.tensor).part(values),
            before: None,
        };
        let dialled = self.slices.get(&view.slice);
        if let Some((_, pushes)) = dialled.and_then(|dialled| dialled.out.as_ref())
            && pushes.try_send(tensor).is_err()
        {
            tracing::debug!(slice = %view.slice, "a contribution waits for room");
        }
    }

    fn exit(&mut self, exit: Exit) {
        let Some(end) = self.end.take() else {
            return;
        };
        let control = self.control.clone();
        spawn::beside(async move {
            if let Some(control) = control {
                let _ = tokio::time::timeout(LAST_WORDS, control.flush()).await;
            }
            let _ = end.send(exit);
        });
    }

    /// Whether a message is of the link that the slice has now.
    fn is_current(&self, slice: SliceId, link: LinkId) -> bool {
        self.slices
            .get(&slice)
            .is_some_and(|dialled| dialled.link == link)
    }
}

impl Actor for WorkerActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(self.task.job.cluster.mailbox);
        let started = self.crew.start(&self.task, &context.address());
        if let Err(error) = started {
            self.exit(Exit::Fault(format!("cannot start a thread: {error}")));
        }
    }
}
