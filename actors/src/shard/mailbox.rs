//! What a slice's actor is told, and by whom.

use std::sync::Arc;

use actix::{ActorContext, AsyncContext, Context, Handler, Message};
use resilin_core::frame::DataHeader;
use resilin_core::machine::shard::{Assigned, Event, Push, Shard};
use resilin_core::message::{ShardOrder, SliceSays, WorkerAsks};
use resilin_core::tree::Node;
use resilin_core::{LinkId, Step, View};

use super::actor::ShardActor;
use super::kernel::Answer;
use super::link;
use crate::clock::Tick;
use crate::link::{Knock, LinkSender, SharedValues};
use crate::spawn;

/// Opens the first step; comes before every other message.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Begin;

/// A worker knocks for a data link.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Arrived(pub(crate) Knock);

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
pub(crate) struct Slice(pub(crate) SliceSays);

/// The coordinator orders.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Order(pub(crate) ShardOrder);

/// The way to the coordinator is new.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CoordinatorUp;

/// The slice has another view.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Viewed(pub(crate) View, pub(crate) Assigned);

/// The replica is no more.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct End;

/// The arithmetic thread answers.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Kernel(pub(super) Answer);

impl Handler<Begin> for ShardActor {
    type Result = ();

    fn handle(&mut self, _: Begin, context: &mut Context<Self>) {
        let mut effects = Vec::new();
        let rules = self.setting.rules.clone();
        self.machine = Some(Shard::begin(rules, self.origin, self.duty, &mut effects));
        self.carry_out(effects);
        context.notify(Tick);
    }
}

impl Handler<Arrived> for ShardActor {
    type Result = ();

    fn handle(&mut self, Arrived(knock): Arrived, context: &mut Context<Self>) {
        self.last_link = self.last_link.next();
        let expectation = link::Expectation {
            blocks: self.setting.rules.slices.range(self.origin.slice),
            values: self.plan.values().len(),
            pool: self.pool.clone(),
        };
        spawn::beside(link::serve(
            self.last_link,
            knock,
            Arc::clone(&self.setting),
            expectation,
            context.address(),
        ));
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
        let tensor = self.hold(values);
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

impl Handler<CoordinatorUp> for ShardActor {
    type Result = ();

    fn handle(&mut self, _: CoordinatorUp, context: &mut Context<Self>) {
        self.event(Event::CoordinatorUp, context);
    }
}

impl Handler<Viewed> for ShardActor {
    type Result = ();

    fn handle(&mut self, Viewed(view, duty): Viewed, context: &mut Context<Self>) {
        self.view = view;
        self.event(Event::View { view, duty }, context);
    }
}

impl Handler<End> for ShardActor {
    type Result = ();

    fn handle(&mut self, _: End, context: &mut Context<Self>) {
        context.stop();
    }
}

impl Handler<Kernel> for ShardActor {
    type Result = ();

    fn handle(&mut self, Kernel(answer): Kernel, context: &mut Context<Self>) {
        let event = match answer {
            Answer::Root(step, root) => return self.root_copied(step, root),
            Answer::Copied(cut) => return self.copied(cut),
            Answer::Taken {
                step,
                weights,
                before,
            } => {
                let previous = step.0.checked_sub(1).map(Step);
                let before = before.map(|weights| SharedValues::new(weights));
                self.versions = previous.zip(before).into_iter().collect();
                self.versions.insert(step, SharedValues::new(weights));
                Event::Copied { step }
            }
            Answer::Compared(same) => Event::Compared { same },
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
                let weights = SharedValues::new(weights);
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
