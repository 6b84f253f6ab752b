//! Shell of the Host machine.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, Handler, Message, MessageResult};
use resilin_core::machine::host::{Effect, Event, Host, Routes};
use resilin_core::message::{Branch, HostSays, HostTold};
use resilin_core::sorted::SortedMap;
use resilin_core::{Incarnation, SliceId, Step, Timeline};
use resilin_learn::kernel::SliceKernel;
use tokio::sync::oneshot;

use super::facts::Facts;
use super::replicas::{Replica, Restoring};
use crate::clock::{Alarm, Tick, duration};
use crate::exit::Exit;
use crate::link::{Knock, LinkSender};
use crate::shard::{CoordinatorUp, Order, Viewed};
use crate::spawn;
use crate::stint::Stint;

/// Time for the last words on the control link.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The actor of a shard process.
pub(super) struct HostActor {
    pub(super) facts: Arc<Facts>,
    machine: Host,
    alarm: Alarm,
    pub(super) incarnation: Option<Incarnation>,
    pub(super) replicas: SortedMap<SliceId, Replica>,
    pub(super) restoring: SortedMap<SliceId, Restoring>,
    pub(super) routes: Routes,
    /// Primaries elsewhere; dropped, the dialling ends.
    pub(super) dialled: SortedMap<SliceId, oneshot::Sender<()>>,
    end: Option<oneshot::Sender<Exit>>,
}

impl HostActor {
    /// An actor that others reach at `address`; `end` gets the way in which the process shall end.
    pub(super) fn new(facts: Arc<Facts>, address: String, end: oneshot::Sender<Exit>) -> Self {
        Self {
            machine: Host::new(facts.task.job.failure.lease, address),
            facts,
            alarm: Alarm::default(),
            incarnation: None,
            replicas: SortedMap::new(),
            restoring: SortedMap::new(),
            routes: Routes::default(),
            dialled: SortedMap::new(),
            end: Some(end),
        }
    }

    pub(super) fn event(&mut self, event: Event, context: &mut Context<Self>) {
        let _stint = Stint::begin("host", &event);
        let now = self.facts.clock.now();
        let mut effects = Vec::new();
        self.machine.step(now, event, &mut effects);
        for effect in effects {
            self.carry_out(effect, context);
        }
        self.alarm.set(context, now, self.machine.deadline());
    }

    fn carry_out(&mut self, effect: Effect, context: &mut Context<Self>) {
        match effect {
            Effect::Say(says) => self.facts.control.say(&says),
            Effect::Restore { slice, branch } => self.restore(slice, branch, context),
            Effect::Begin {
                slice,
                branch,
                view,
                duty,
            } => {
                tracing::info!(%slice, %view, timeline = %branch.timeline, ?duty, "replica begun");
                self.begin(slice, branch, view, duty, context);
            }
            Effect::View { slice, view, duty } => {
                tracing::info!(%slice, %view, ?duty, "another view");
                if let Some(replica) = self.replicas.get(&slice) {
                    replica.shard.do_send(Viewed(view, duty));
                }
            }
            Effect::Drop(slice) => {
                tracing::info!(%slice, "replica dropped");
                self.drop_replica(slice);
            }
            Effect::Order { slice, order } => {
                if let Some(replica) = self.replicas.get(&slice) {
                    replica.shard.do_send(Order(order));
                }
            }
            Effect::CoordinatorUp(slice) => {
                if let Some(replica) = self.replicas.get(&slice) {
                    replica.shard.do_send(CoordinatorUp);
                }
            }
            Effect::Routes(routes) => self.routes(routes),
            Effect::Rejoin { cause } => {
                tracing::warn!(cause, "fenced; joining anew");
                self.incarnation = None;
                if let Some(control) = self.facts.control.get() {
                    control.close("fenced");
                }
            }
            Effect::Exit => self.exit(Exit::Done),
        }
    }

    pub(super) fn exit(&mut self, exit: Exit) {
        let Some(end) = self.end.take() else {
            return;
        };
        let control = self.facts.control.get();
        spawn::beside(async move {
            if let Some(control) = control {
                let _ = tokio::time::timeout(LAST_WORDS, control.flush()).await;
            }
            let _ = end.send(exit);
        });
    }
}

impl Actor for HostActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(self.facts.task.job.cluster.mailbox);
    }
}

/// The coordinator said welcome on a control link.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Linked {
    pub(super) sender: LinkSender,
    pub(super) incarnation: Incarnation,
}

/// The control link is gone; answered by the life to be kept.
#[derive(Message)]
#[rtype(result = "Option<Incarnation>")]
pub(super) struct Orphaned;

/// The coordinator speaks.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Told(pub(super) HostTold);

/// Somebody knocks at the listener.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Knocked(pub(super) Knock);

/// A slice came from the store, or the store's reason why not.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Restored {
    pub(super) slice: SliceId,
    pub(super) branch: Branch,
    pub(super) result: Result<Box<SliceKernel>, String>,
}

/// A replica has a newer version.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Has {
    pub(super) slice: SliceId,
    pub(super) timeline: Timeline,
    pub(super) step: Step,
}

/// SIGTERM: leave in peace.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Terminate;

/// The grace of a drain is over.
#[derive(Message)]
#[rtype(result = "()")]
struct GraceOver;

impl Handler<Linked> for HostActor {
    type Result = ();

    fn handle(&mut self, linked: Linked, context: &mut Context<Self>) {
        let Linked {
            sender,
            incarnation,
        } = linked;
        self.facts.control.set(Some(sender));
        self.incarnation = Some(incarnation);
        self.event(Event::Welcomed(incarnation), context);
    }
}

impl Handler<Orphaned> for HostActor {
    type Result = MessageResult<Orphaned>;

    fn handle(&mut self, _: Orphaned, context: &mut Context<Self>) -> Self::Result {
        self.facts.control.set(None);
        self.event(Event::Orphaned, context);
        MessageResult(self.incarnation)
    }
}

impl Handler<Told> for HostActor {
    type Result = ();

    fn handle(&mut self, Told(told): Told, context: &mut Context<Self>) {
        self.event(Event::Told(told), context);
    }
}

impl Handler<Knocked> for HostActor {
    type Result = ();

    fn handle(&mut self, Knocked(knock): Knocked, _: &mut Context<Self>) {
        self.knocked(knock);
    }
}

impl Handler<Restored> for HostActor {
    type Result = ();

    fn handle(&mut self, restored: Restored, context: &mut Context<Self>) {
        self.restored(restored, context);
    }
}

impl Handler<Has> for HostActor {
    type Result = ();

    fn handle(&mut self, has: Has, context: &mut Context<Self>) {
        let Has {
            slice,
            timeline,
            step,
        } = has;
        // The replica that says so may have been dropped meanwhile.
        let replica = self.replicas.get(&slice);
        if replica.is_some_and(|replica| replica.branch.timeline == timeline) {
            self.event(Event::Has { slice, step }, context);
        }
    }
}

impl Handler<Terminate> for HostActor {
    type Result = ();

    fn handle(&mut self, _: Terminate, context: &mut Context<Self>) {
        let grace = self.facts.task.job.failure.drain_grace;
        context.notify_later(GraceOver, duration(grace));
        self.event(Event::Drain, context);
    }
}

impl Handler<GraceOver> for HostActor {
    type Result = ();

    fn handle(&mut self, _: GraceOver, _: &mut Context<Self>) {
        self.facts.control.say(&HostSays::Leave);
        self.exit(Exit::Done);
    }
}

impl Handler<Tick> for HostActor {
    type Result = ();

    fn handle(&mut self, _: Tick, context: &mut Context<Self>) {
        self.alarm.rang();
        self.event(Event::Tick, context);
    }
}
