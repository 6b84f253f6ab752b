//! What a slice's actor does for the slice's other replica: words, roots and copies out; at the
//! backup the same in.

use std::sync::Arc;

use actix::{AsyncContext, Context, Handler, Message};
use resilin_core::frame::{DataHeader, Kind};
use resilin_core::machine::shard::Event;
use resilin_core::message::{Branch, ReplicaSays};
use resilin_core::sorted::SortedMap;
use resilin_core::vote::Vote;
use resilin_core::{LinkId, Step, View};
use tokio::sync::{mpsc, oneshot};

use super::actor::ShardActor;
use super::kernel::{Cut, Work};
use super::mirror::{self, Carries, Dial};
use super::state::{Arriving, Belongs};
use crate::link::{Knock, LinkSender, OutTensor, SharedValues};
use crate::spawn;

/// What there is of the other replica.
#[derive(Default)]
pub(super) struct Mirror {
    open: Option<Open>,
    /// Dropped, the dialling ends.
    dialling: Option<oneshot::Sender<()>>,
    /// Roots that may be asked for again; `None` while the kernel copies one.
    roots: SortedMap<Step, Option<SharedValues>>,
    /// The weights before those of the copy that is being sent: other slices' workers may still
    /// need them of whoever serves next.
    before: Option<SharedValues>,
    /// Tensors of the copy that was offered last.
    offered: usize,
    /// The copy that is being taken.
    arriving: Option<Arriving>,
}

/// An open link.
struct Open {
    link: LinkId,
    sender: LinkSender,
    tensors: mpsc::Sender<OutTensor>,
}

impl Mirror {
    fn is(&self, link: LinkId) -> bool {
        self.open.as_ref().is_some_and(|open| open.link == link)
    }

    fn queue(&self, tensor: OutTensor) {
        if let Some(open) = &self.open
            && open.tensors.try_send(tensor).is_err()
        {
            tracing::debug!("a tensor for the other replica waits for room");
        }
    }
}

impl ShardActor {
    pub(super) fn say_to_mirror(&self, says: &ReplicaSays) {
        let Some(open) = &self.mirror.open else {
            return;
        };
        if let Err(error) = open.sender.send_control(says) {
            tracing::debug!(%error, "a word to the other replica was not sent");
        }
    }

    pub(super) fn send_root(&mut self, step: Step) {
        match self.mirror.roots.get(&step) {
            Some(Some(root)) => self.queue_root(step, root.clone()),
            Some(None) => {}
            None => {
                self.mirror.roots.insert(step, None);
                self.hands.give(Work::Root(step));
            }
        }
    }

    pub(super) fn root_copied(&mut self, step: Step, root: SharedValues) {
        if let Some(kept) = self.mirror.roots.get_mut(&step) {
            *kept = Some(root.clone());
            self.queue_root(step, root);
        }
    }

    pub(super) fn drop_roots(&mut self, before: Step) {
        self.mirror.roots.retain(|step, _| *step >= before);
    }

    fn queue_root(&self, step: Step, values: SharedValues) {
        let header = self.belongs(step).header(Kind::Root, 0);
        self.mirror.queue(OutTensor {
            header,
            values: values.into(),
            before: None,
        });
    }

    pub(super) fn send_copy(&mut self, view: View, step: Step, votes: Vec<Vote>) {
        let before = step.0.checked_sub(1).filter(|_| !votes.is_empty());
        let before = before.and_then(|before| self.versions.get(&Step(before)));
        self.mirror.before = before.cloned();
        let tensors = self.plan.tensors().len() + usize::from(self.mirror.before.is_some());
        let tensors = u32::try_from(tensors).expect("few moments");
        self.say_to_mirror(&ReplicaSays::Copy {
            view,
            step,
            tensors,
            votes,
        });
        self.hands.give(Work::Copy(step));
    }

    pub(super) fn copied(&mut self, cut: Cut) {
        let belongs = self.belongs(cut.step);
        let before = self.mirror.before.take();
        for tensor in belongs.state(cut.lend().into_iter().chain(before)) {
            self.mirror.queue(tensor);
        }
    }

    pub(super) fn take_copy(&mut self, step: Step) {
        let arriving = Arriving::new(self.belongs(step), &self.plan, self.mirror.offered);
        self.mirror.arriving = Some(arriving);
    }

    fn belongs(&self, step: Step) -> Belongs {
        let origin = self.origin;
        let slices = self.setting.rules.slices;
        Belongs {
            run: self.setting.rules.run,
            branch: Branch {
                timeline: origin.timeline,
                map: origin.map,
                shards: slices.slices(),
                base: origin.step,
            },
            view: self.view,
            step,
            blocks: slices.range(origin.slice),
        }
    }

    fn carries(&self) -> Carries {
        Carries {
            values: self.plan.longest() as u64,
            in_flight: self.setting.in_flight,
            pool: self.pool.clone(),
        }
    }

    fn mirror_down(&mut self, context: &mut Context<Self>) {
        if self.mirror.open.take().is_some() {
            self.event(Event::PeerDown, context);
        }
    }
}

/// Whom the primary dials from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Mirrored(pub(crate) Option<Dial>);

/// The slice's primary knocks at its backup.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Followed(pub(crate) Knock);

/// The link to the other replica is open.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct MirrorOpened {
    pub(super) link: LinkId,
    pub(super) sender: LinkSender,
    pub(super) tensors: mpsc::Sender<OutTensor>,
}

/// The other replica speaks.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct MirrorSaid(pub(super) LinkId, pub(super) ReplicaSays);

/// A root, or a part of a copy.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct MirrorTensor {
    pub(super) link: LinkId,
    pub(super) header: Box<DataHeader>,
    pub(super) values: SharedValues,
}

/// The link is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct MirrorGone(pub(super) LinkId);

impl Handler<Mirrored> for ShardActor {
    type Result = ();

    fn handle(&mut self, Mirrored(to): Mirrored, context: &mut Context<Self>) {
        self.mirror.dialling = None;
        self.mirror_down(context);
        if let Some(dial) = to {
            let (hang_up, hung_up) = oneshot::channel();
            self.mirror.dialling = Some(hang_up);
            let keep = mirror::keep(dial, self.carries(), context.address(), hung_up);
            spawn::beside(keep);
        }
    }
}

impl Handler<Followed> for ShardActor {
    type Result = ();

    fn handle(&mut self, Followed(knock): Followed, context: &mut Context<Self>) {
        let setting = Arc::clone(&self.setting);
        let serve = mirror::serve(knock, setting, self.carries(), context.address());
        spawn::beside(serve);
    }
}

impl Handler<MirrorOpened> for ShardActor {
    type Result = ();

    fn handle(&mut self, opened: MirrorOpened, context: &mut Context<Self>) {
        self.mirror_down(context);
        let MirrorOpened {
            link,
            sender,
            tensors,
        } = opened;
        self.mirror.open = Some(Open {
            link,
            sender,
            tensors,
        });
        self.event(Event::PeerUp, context);
    }
}

impl Handler<MirrorSaid> for ShardActor {
    type Result = ();

    fn handle(&mut self, MirrorSaid(link, says): MirrorSaid, context: &mut Context<Self>) {
        if self.mirror.is(link) {
            if let ReplicaSays::Copy { tensors, .. } = &says {
                let (state, offered) = (self.plan.tensors().len(), *tensors as usize);
                self.mirror.offered = offered.clamp(state, state + 1);
            }
            self.event(Event::Replica(says), context);
        }
    }
}

impl Handler<MirrorTensor> for ShardActor {
    type Result = ();

    fn handle(&mut self, tensor: MirrorTensor, context: &mut Context<Self>) {
        let MirrorTensor {
            link,
            header,
            values,
        } = tensor;
        if !self.mirror.is(link) {
            return;
        }
        if header.kind == Kind::State {
            let arriving = self.mirror.arriving.as_mut();
            let whole = arriving.and_then(|arriving| arriving.take(&header, values));
            if let Some(tensors) = whole {
                self.mirror.arriving = None;
                let step = header.step;
                self.hands.give(Work::Take { step, tensors });
            }
            return;
        }
        let belongs = self.belongs(header.step);
        let fits = header.kind == Kind::Root
            && header.timeline == belongs.branch.timeline
            && header.blocks == belongs.blocks
            && values.len() == self.plan.values().len();
        if fits {
            let tensor = self.hold(values);
            let (view, step) = (header.view, header.step);
            self.event(Event::Root { view, step, tensor }, context);
        }
    }
}

impl Handler<MirrorGone> for ShardActor {
    type Result = ();

    fn handle(&mut self, MirrorGone(link): MirrorGone, context: &mut Context<Self>) {
        if self.mirror.is(link) {
            self.mirror_down(context);
        }
    }
}
