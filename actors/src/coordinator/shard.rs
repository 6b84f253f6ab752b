//! Shell of the Shard machine: an arbiter of its own, the links of workers, and the tensors that the
//! machine holds as handles.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler, Message};
use resilin_core::frame::{DataHeader, Encoding, Kind};
use resilin_core::machine::shard::{Effect, Event, Origin, Push, Shard};
use resilin_core::message::{ShardOrder, ShardReport, ShardSays, SliceSays, Use, WorkerAsks};
use resilin_core::tree::Node;
use resilin_core::{Incarnation, LinkId, Step, Tensor};

use super::common::Common;
use super::kernel::{Answer, Hands, Work};
use super::{job, shard_link};
use crate::clock::{Alarm, Tick};
use crate::link::{BufferPool, Knock, LinkSender, OutTensor, SharedValues, Stream};

/// The actor of one slice.
pub(super) struct ShardActor {
    common: Arc<Common>,
    origin: Origin,
    /// None until `Begin`: making the machine has effects.
    machine: Option<Shard>,
    alarm: Alarm,
    hands: Hands,
    pool: BufferPool,
    links: BTreeMap<LinkId, LinkSender>,
    last_link: LinkId,
    tensors: BTreeMap<Tensor, SharedValues>,
    last_tensor: Tensor,
    /// The newest version and the one before.
    versions: BTreeMap<Step, Arc<Vec<f32>>>,
    pinned: Option<(Step, Arc<Vec<f32>>)>,
}

impl ShardActor {
    /// A slice that has `weights` at its origin.
    pub(super) fn new(
        common: Arc<Common>,
        origin: Origin,
        weights: Arc<Vec<f32>>,
        hands: Hands,
    ) -> Self {
        // A contribution for each partition, and one on its way.
        let contributions = common.rules.tree.partitions() as usize + 1;
        let pool = BufferPool::new(contributions * weights.len() * size_of::<f32>());
        Self {
            common,
            origin,
            machine: None,
            alarm: Alarm::default(),
            hands,
            pool,
            links: BTreeMap::new(),
            last_link: LinkId(0),
            tensors: BTreeMap::new(),
            last_tensor: Tensor(0),
            versions: BTreeMap::from([(origin.step, weights)]),
            pinned: None,
        }
    }

    fn event(&mut self, event: Event, context: &mut Context<Self>) {
        let now = self.common.clock.now();
        let machine = self.machine.as_mut().expect("begun before anything else");
        let mut effects = Vec::new();
        machine.step(now, event, &mut effects);
        let deadline = machine.deadline();
        self.carry_out(effects);
        self.alarm.set(context, now, deadline);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Free(tensor) => drop(self.tensors.remove(&tensor)),
                Effect::Say(link, says) => self.say(link, &says),
                Effect::SendWeights(link, step, purpose) => self.send_weights(link, step, purpose),
                Effect::Combine {
                    step,
                    nodes,
                    weight,
                } => {
                    let nodes = nodes.iter().map(|(node, t)| (*node, self.tensor(*t)));
                    let nodes = nodes.collect();
                    self.hands.give(Work::Combine {
                        step,
                        nodes,
                        weight,
                    });
                }
                Effect::Apply { step, action, .. } => {
                    // The next version takes the place of the previous one.
                    self.versions.retain(|version, _| *version >= step);
                    self.hands.give(Work::Apply { step, action });
                }
                Effect::Pin(step) => self.pinned = Some((step, Arc::clone(&self.versions[&step]))),
                Effect::Unpin(_) => self.pinned = None,
                Effect::Cut(step) => self.hands.give(Work::Cut(step)),
                Effect::Tell(slice, says) => {
                    // At most a vote and a question a step, and no step without all votes.
                    self.common.peers().shards[&slice].do_send(Slice(says));
                }
                Effect::Report(report) => self.report(report),
            }
        }
    }

    fn tensor(&self, tensor: Tensor) -> SharedValues {
        let values = self.tensors.get(&tensor);
        values.expect("held until the machine frees it").clone()
    }

    /// What is repeated until it is acknowledged may be dropped by a full mailbox, except the
    /// ledger's records, of which only so many may be unacknowledged.
    fn report(&self, report: ShardReport) {
        let job = &self.common.peers().job;
        match report {
            ShardReport::Progress { .. } => {
                if job.try_send(job::FromShard(report)).is_err() {
                    tracing::debug!(slice = %self.origin.slice, "a progress report waits");
                }
            }
            ShardReport::Committed(_) | ShardReport::Halted { .. } => {
                job.do_send(job::FromShard(report));
            }
        }
    }

    fn say(&self, link: LinkId, says: &ShardSays) {
        let Some(sender) = self.links.get(&link) else {
            return;
        };
        if let Err(error) = sender.send_control(says) {
            tracing::debug!(link = link.0, %error, "an answer was not sent");
        }
    }

    fn send_weights(&self, link: LinkId, step: Step, purpose: Use) {
        let pinned = self.pinned.as_ref().filter(|(version, _)| *version == step);
        let weights = self
            .versions
            .get(&step)
            .or_else(|| pinned.map(|(_, weights)| weights));
        let (Some(weights), Some(sender)) = (weights, self.links.get(&link)) else {
            return;
        };
        let values = SharedValues::new(Arc::clone(weights) as _);
        let stream = match purpose {
            Use::Train => Stream(0),
            Use::Evaluate => Stream(1),
        };
        let header = self.weights_header(step);
        if let Err(error) = sender.send_newest(stream, OutTensor { header, values }) {
            tracing::debug!(link = link.0, %error, "weights were not sent");
        }
    }

    fn weights_header(&self, step: Step) -> DataHeader {
        let Origin {
            slice,
            timeline,
            map,
            view,
            ..
        } = self.origin;
        DataHeader {
            run: self.common.rules.run,
            kind: Kind::Weights,
            timeline,
            map,
            view,
            incarnation: Incarnation::default(),
            sequence: 0,
            step,
            based_on: None,
            node: None,
            blocks: self.common.rules.slices.range(slice),
            offset: 0,
            total: 0,
            encoding: Encoding::F32,
            samples: 0,
            weight: 0.0,
            loss_sum: 0.0,
        }
    }
}

impl Actor for ShardActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(self.common.mailbox());
    }
}

/// Opens the first step; comes before every other message.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Begin;

/// A worker knocks for a data link.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Arrived(pub(super) Knock);

/// A worker's link is open.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Opened(pub(super) LinkId, pub(super) LinkSender);

/// A worker asks.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Asked(pub(super) LinkId, pub(super) WorkerAsks);

/// A worker contributes a node.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Pushed {
    pub(super) link: LinkId,
    pub(super) node: Node,
    pub(super) header: Box<DataHeader>,
    pub(super) values: SharedValues,
}

/// A worker's link is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Gone(pub(super) LinkId);

/// Another slice speaks.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Slice(pub(super) SliceSays);

/// The coordinator orders.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Order(pub(super) ShardOrder);

/// The arithmetic thread answers.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Kernel(pub(super) Answer);

impl Handler<Begin> for ShardActor {
    type Result = ();

    fn handle(&mut self, _: Begin, context: &mut Context<Self>) {
        let mut effects = Vec::new();
        let rules = self.common.rules.clone();
        self.machine = Some(Shard::new(rules, self.origin, &mut effects));
        self.carry_out(effects);
        context.notify(Tick);
    }
}

impl Handler<Arrived> for ShardActor {
    type Result = ();

    fn handle(&mut self, Arrived(knock): Arrived, context: &mut Context<Self>) {
        self.last_link = self.last_link.next();
        let expectation = shard_link::Expectation {
            blocks: self.common.rules.slices.range(self.origin.slice),
            values: self.versions[&self.newest()].len(),
            pool: self.pool.clone(),
        };
        actix::spawn(shard_link::serve(
            self.last_link,
            knock,
            Arc::clone(&self.common),
            expectation,
            context.address(),
        ));
    }
}

impl ShardActor {
    fn newest(&self) -> Step {
        let newest = self.versions.keys().next_back();
        *newest.expect("one version lives always")
    }
}

impl Handler<Opened> for ShardActor {
    type Result = ();

    fn handle(&mut self, Opened(link, sender): Opened, context: &mut Context<Self>) {
        self.links.insert(link, sender);
        self.event(Event::LinkUp(link), context);
    }
}

impl Handler<Asked> for ShardActor {
    type Result = ();

    fn handle(&mut self, Asked(link, asks): Asked, context: &mut Context<Self>) {
        self.event(Event::Asked(link, asks), context);
    }
}

impl Handler<Pushed> for ShardActor {
    type Result = ();

    fn handle(&mut self, pushed: Pushed, context: &mut Context<Self>) {
        let Pushed {
            link,
            node,
            header,
            values,
        } = pushed;
        self.last_tensor = self.last_tensor.next();
        let tensor = self.last_tensor;
        self.tensors.insert(tensor, values);
        let push = Push {
            timeline: header.timeline,
            map: header.map,
            view: header.view,
            step: header.step,
            node,
            incarnation: header.incarnation,
            tensor,
            samples: header.samples,
            weight: header.weight,
            loss_sum: header.loss_sum,
        };
        self.event(Event::Pushed(link, push), context);
    }
}

impl Handler<Gone> for ShardActor {
    type Result = ();

    fn handle(&mut self, Gone(link): Gone, context: &mut Context<Self>) {
        self.links.remove(&link);
        self.event(Event::LinkDown(link), context);
    }
}

impl Handler<Slice> for ShardActor {
    type Result = ();

    fn handle(&mut self, Slice(says): Slice, context: &mut Context<Self>) {
        self.event(Event::Slice(says), context);
    }
}

impl Handler<Order> for ShardActor {
    type Result = ();

    fn handle(&mut self, Order(order): Order, context: &mut Context<Self>) {
        self.event(Event::Order(order), context);
    }
}

impl Handler<Kernel> for ShardActor {
    type Result = ();

    fn handle(&mut self, Kernel(answer): Kernel, context: &mut Context<Self>) {
        let event = match answer {
            Answer::Combined(step, stats) => Event::Combined {
                step,
                squares: stats.squares,
                non_finite: stats.non_finite,
            },
            Answer::Applied {
                step,
                applied,
                weights,
            } => {
                self.versions.insert(applied.version, weights);
                Event::Applied {
                    step,
                    digests: applied.digests,
                    finite: applied.finite,
                }
            }
        };
        self.event(event, context);
    }
}

impl Handler<Tick> for ShardActor {
    type Result = ();

    fn handle(&mut self, _: Tick, context: &mut Context<Self>) {
        self.alarm.rang();
        self.event(Event::Tick, context);
    }
}
