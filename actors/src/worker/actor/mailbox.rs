//! What the worker's actor is told: each message becomes one event.

use actix::{Context, Handler, Message};
use resilin_core::machine::worker::{Computed, Event};
use resilin_core::message::{CoordinatorSays, ShardSays, TaskScore, Verdict};
use resilin_core::tree::Node;
use resilin_core::{Incarnation, LinkId, MapNumber, PartitionId, SliceId, Step, Tensor, Timeline};
use resilin_learn::model::Outcome;
use tokio::sync::mpsc;

use super::WorkerActor;
use crate::clock::Tick;
use crate::exit::Exit;
use crate::link::{self, LinkSender, OutTensor, OutValues, PooledBuffer};
use crate::worker::compute::Sum;
use crate::worker::debut::Milestone;

/// The coordinator said welcome on a control link.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Linked {
    pub(in crate::worker) sender: LinkSender,
    pub(in crate::worker) incarnation: Incarnation,
}

/// The control link is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Orphaned;

/// The coordinator speaks.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Told(pub(in crate::worker) CoordinatorSays);

/// The link to a slice is open.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Opened {
    pub(in crate::worker) link: LinkId,
    pub(in crate::worker) slice: SliceId,
    pub(in crate::worker) sender: LinkSender,
    /// Contributions, sent as there is room.
    pub(in crate::worker) pushes: mpsc::Sender<OutTensor>,
}

/// The link to a slice is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct SliceGone {
    pub(in crate::worker) link: LinkId,
    pub(in crate::worker) slice: SliceId,
}

/// A slice speaks.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Heard {
    pub(in crate::worker) link: LinkId,
    pub(in crate::worker) slice: SliceId,
    pub(in crate::worker) says: ShardSays,
}

/// A slice's weights are here.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Arrived {
    pub(in crate::worker) link: LinkId,
    pub(in crate::worker) slice: SliceId,
    pub(in crate::worker) timeline: Timeline,
    pub(in crate::worker) map: MapNumber,
    pub(in crate::worker) step: Step,
    /// The values, where they are not at their place yet.
    pub(in crate::worker) values: PooledBuffer,
}

/// The values of a node's sum come.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Coming {
    pub(in crate::worker) timeline: Timeline,
    pub(in crate::worker) step: Step,
    pub(in crate::worker) node: Node,
    pub(in crate::worker) tensor: Tensor,
    pub(in crate::worker) values: link::Coming,
    pub(in crate::worker) outcome: Outcome,
}

/// A node is evaluated.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Evaluated {
    pub(in crate::worker) timeline: Timeline,
    pub(in crate::worker) step: Step,
    pub(in crate::worker) sum: Sum,
    pub(in crate::worker) last: bool,
}

/// A leaf is evaluated for comparison.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Audited {
    pub(in crate::worker) timeline: Timeline,
    pub(in crate::worker) step: Step,
    pub(in crate::worker) partition: PartitionId,
    pub(in crate::worker) digest: [u8; 32],
}

/// A range of test rows is scored.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Scored {
    pub(in crate::worker) timeline: Timeline,
    pub(in crate::worker) version: Step,
    pub(in crate::worker) task: u32,
    pub(in crate::worker) score: TaskScore,
}

/// Rows cannot be read, or do not fit the model.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Failed(pub(in crate::worker) String);

/// A signal: leave in peace.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::worker) struct Terminate;

impl Handler<Linked> for WorkerActor {
    type Result = ();

    fn handle(&mut self, linked: Linked, context: &mut Context<Self>) {
        self.control = Some(linked.sender);
        self.incarnation = linked.incarnation;
        self.event(Event::Welcomed(linked.incarnation), context);
    }
}

impl Handler<Orphaned> for WorkerActor {
    type Result = ();

    fn handle(&mut self, _: Orphaned, context: &mut Context<Self>) {
        self.control = None;
        self.event(Event::Orphaned, context);
    }
}

impl Handler<Told> for WorkerActor {
    type Result = ();

    fn handle(&mut self, Told(says): Told, context: &mut Context<Self>) {
        self.event(Event::Told(says), context);
    }
}

impl Handler<Opened> for WorkerActor {
    type Result = ();

    fn handle(&mut self, opened: Opened, context: &mut Context<Self>) {
        let slice = opened.slice;
        let dialled = self.slices.get_mut(&slice);
        if let Some(dialled) = dialled.filter(|dialled| dialled.link == opened.link) {
            dialled.out = Some((opened.sender, opened.pushes));
            self.event(Event::SliceUp(slice), context);
        }
    }
}

impl Handler<SliceGone> for WorkerActor {
    type Result = ();

    fn handle(&mut self, gone: SliceGone, context: &mut Context<Self>) {
        let dialled = self.slices.get_mut(&gone.slice);
        if let Some(dialled) = dialled.filter(|dialled| dialled.link == gone.link) {
            dialled.out = None;
            self.event(Event::SliceDown(gone.slice), context);
        }
    }
}

impl Handler<Heard> for WorkerActor {
    type Result = ();

    fn handle(&mut self, heard: Heard, context: &mut Context<Self>) {
        let Heard { link, slice, says } = heard;
        if self.is_current(slice, link) {
            if let ShardSays::Answer {
                verdict: Verdict::Stored,
                step,
                ..
            } = says
            {
                self.stored(slice, step);
            }
            self.event(Event::Heard(slice, says), context);
        }
    }
}

impl Handler<Arrived> for WorkerActor {
    type Result = ();

    fn handle(&mut self, arrived: Arrived, context: &mut Context<Self>) {
        let Arrived {
            link,
            slice,
            timeline,
            map,
            step,
            values,
        } = arrived;
        if !self.is_current(slice, link) {
            return;
        }
        let place = self.task.layout.values(self.rules.slices.range(slice));
        let version = (timeline, map, step);
        for purpose in self.arrivals.arrived(slice, &place, version, &values) {
            let event = Event::Weights {
                slice,
                timeline,
                step,
                purpose,
            };
            self.event(event, context);
        }
    }
}

impl Handler<Coming> for WorkerActor {
    type Result = ();

    fn handle(&mut self, coming: Coming, context: &mut Context<Self>) {
        let Coming {
            timeline,
            step,
            node,
            tensor,
            values,
            outcome,
        } = coming;
        self.sums.insert(tensor, OutValues::Coming(values));
        let event = Event::Coming {
            timeline,
            step,
            computed: computed(node, tensor, outcome),
        };
        self.event(event, context);
    }
}

impl Handler<Evaluated> for WorkerActor {
    type Result = ();

    fn handle(&mut self, evaluated: Evaluated, context: &mut Context<Self>) {
        let Evaluated {
            timeline,
            step,
            sum,
            last,
        } = evaluated;
        self.debut.reach(Milestone::Computed);
        self.sums.insert(sum.tensor, sum.values);
        let computed = Computed {
            non_finite: sum.result.non_finite,
            audited: sum.result.audited,
            ..computed(sum.node, sum.tensor, sum.result.outcome)
        };
        let event = Event::Computed {
            timeline,
            step,
            computed,
            last,
        };
        self.event(event, context);
    }
}

fn computed(node: Node, tensor: Tensor, outcome: Outcome) -> Computed {
    Computed {
        node,
        tensor,
        samples: outcome.samples,
        weight: outcome.weight,
        loss_sum: outcome.loss_sum,
        non_finite: Vec::new(),
        audited: Vec::new(),
    }
}

impl Handler<Audited> for WorkerActor {
    type Result = ();

    fn handle(&mut self, audited: Audited, context: &mut Context<Self>) {
        let Audited {
            timeline,
            step,
            partition,
            digest,
        } = audited;
        let event = Event::Audited {
            timeline,
            step,
            partition,
            digest,
        };
        self.event(event, context);
    }
}

impl Handler<Scored> for WorkerActor {
    type Result = ();

    fn handle(&mut self, scored: Scored, context: &mut Context<Self>) {
        let Scored {
            timeline,
            version,
            task,
            score,
        } = scored;
        let event = Event::Scored {
            timeline,
            version,
            task,
            score,
        };
        self.event(event, context);
    }
}

impl Handler<Failed> for WorkerActor {
    type Result = ();

    fn handle(&mut self, Failed(cause): Failed, _: &mut Context<Self>) {
        self.exit(Exit::Fault(cause));
    }
}

impl Handler<Terminate> for WorkerActor {
    type Result = ();

    fn handle(&mut self, _: Terminate, context: &mut Context<Self>) {
        self.event(Event::Terminate, context);
    }
}

impl Handler<Tick> for WorkerActor {
    type Result = ();

    fn handle(&mut self, _: Tick, context: &mut Context<Self>) {
        self.alarm.rang();
        let threads = self.task.job.cluster.compute_threads;
        let samples_per_s = self.crew.samples_per_s(threads);
        self.event(Event::Tick { samples_per_s }, context);
    }
}
