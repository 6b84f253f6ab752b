//! Shell of the Shard machine: an arbiter of its own, the links of workers, and the tensors that the
//! machine holds as handles.

use std::sync::Arc;

use actix::{Actor, Arbiter, Context};
use resilin_core::frame::{DataHeader, Encoding, Kind};
use resilin_core::machine::shard::{Assigned, Effect, Event, Origin, Shard};
use resilin_core::message::{ShardSays, Use};
use resilin_core::sorted::SortedMap;
use resilin_core::{Incarnation, LinkId, Step, Tensor, View};
use resilin_learn::kernel::SlicePlan;

use super::Setting;
use super::kernel::{Hands, Work};
use super::replica::Mirror;
use crate::clock::Alarm;
use crate::link::{BufferPool, LinkSender, OutTensor, SharedValues, Stream};
use crate::stint::Stint;

/// The actor of one slice.
pub(crate) struct ShardActor {
    pub(super) setting: Arc<Setting>,
    pub(super) origin: Origin,
    /// The newest view that it was told of.
    pub(super) view: View,
    pub(super) duty: Assigned,
    pub(super) plan: SlicePlan,
    /// None until `Begin`: making the machine has effects.
    pub(super) machine: Option<Shard>,
    pub(super) alarm: Alarm,
    pub(super) hands: Hands,
    pub(super) pool: BufferPool,
    pub(super) links: SortedMap<LinkId, LinkSender>,
    pub(super) last_link: LinkId,
    pub(super) tensors: SortedMap<Tensor, SharedValues>,
    pub(super) last_tensor: Tensor,
    /// The newest version and the one before.
    pub(super) versions: SortedMap<Step, SharedValues>,
    pinned: Option<(Step, SharedValues)>,
    pub(super) mirror: Mirror,
    /// What others know that it has.
    has: Option<Step>,
}

impl ShardActor {
    /// A slice that has `weights` at its origin, or a backup that has none.
    pub(super) fn new(
        setting: Arc<Setting>,
        origin: Origin,
        duty: Assigned,
        plan: SlicePlan,
        weights: Option<Arc<Vec<f32>>>,
        hands: Hands,
    ) -> Self {
        // A contribution for each partition, and one on its way.
        let contributions = setting.rules.tree.partitions() as usize + 1;
        let pool = BufferPool::new(contributions * plan.values().len() * size_of::<f32>());
        Self {
            setting,
            origin,
            view: origin.view,
            duty,
            plan,
            machine: None,
            alarm: Alarm::default(),
            hands,
            pool,
            links: SortedMap::new(),
            last_link: LinkId(0),
            tensors: SortedMap::new(),
            last_tensor: Tensor(0),
            versions: weights
                .map(|weights| (origin.step, SharedValues::new(weights)))
                .into_iter()
                .collect(),
            pinned: None,
            mirror: Mirror::default(),
            has: None,
        }
    }

    pub(super) fn event(&mut self, event: Event, context: &mut Context<Self>) {
        let _stint = Stint::begin("shard", &event);
        let now = self.setting.clock.now();
        let machine = self.machine.as_mut().expect("begun before anything else");
        let mut effects = Vec::new();
        machine.step(now, event, &mut effects);
        let (deadline, holds) = (machine.deadline(), machine.holds());
        self.carry_out(effects);
        self.tell_held(holds);
        self.alarm.set(context, now, deadline);
    }

    fn tell_held(&mut self, holds: Option<Step>) {
        if let Some(step) = holds
            && self.has != holds
        {
            self.has = holds;
            self.setting.outside.has(self.origin.slice, step);
        }
    }

    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Free(tensor) => drop(self.tensors.remove(&tensor)),
                Effect::Say(link, says) => self.say(link, &says),
                Effect::SendWeights {
                    link,
                    step,
                    purpose,
                    based_on,
                } => self.send_weights(link, (step, purpose), based_on),
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
                Effect::Compare(pair) => {
                    let pair = pair.map(|tensor| self.tensor(tensor));
                    self.hands.give(Work::Compare(pair));
                }
                Effect::Apply { step, action, loss } => {
                    // The next version takes the place of the previous one.
                    self.versions.retain(|version, _| *version >= step);
                    self.hands.give(Work::Apply { step, action, loss });
                }
                Effect::Pin(step) => self.pinned = Some((step, self.versions[&step].clone())),
                Effect::Unpin(_) => self.pinned = None,
                Effect::Cut(step) => self.hands.give(Work::Cut(step)),
                Effect::Tell(slice, says) => self.setting.outside.tell(slice, says),
                Effect::Report(report) => self.setting.outside.report(report),
                Effect::Mirror(says) => self.say_to_mirror(&says),
                Effect::SendRoot(step) => self.send_root(step),
                Effect::DropRoots { before } => self.drop_roots(before),
                Effect::SendCopy { view, step, votes } => self.send_copy(view, step, votes),
                Effect::TakeCopy(step) => self.take_copy(step),
                Effect::Load { step, tensor } => {
                    let root = self.tensor(tensor);
                    self.hands.give(Work::Load { step, root });
                }
                Effect::InSync(view) => self.setting.outside.in_sync(self.origin.slice, view),
            }
        }
    }

    /// Names a tensor that arrived.
    pub(super) fn hold(&mut self, values: SharedValues) -> Tensor {
        self.last_tensor = self.last_tensor.next();
        self.tensors.insert(self.last_tensor, values);
        self.last_tensor
    }

    fn tensor(&self, tensor: Tensor) -> SharedValues {
        let values = self.tensors.get(&tensor);
        values.expect("held until the machine frees it").clone()
    }

    fn say(&self, link: LinkId, says: &ShardSays) {
        let Some(sender) = self.links.get(&link) else {
            return;
        };
        if let Err(error) = sender.send_control(says) {
            tracing::debug!(link = link.0, %error, "an answer was not sent");
        }
    }

    fn send_weights(&self, link: LinkId, (step, purpose): (Step, Use), based_on: Option<Step>) {
        let pinned = self.pinned.as_ref().filter(|(version, _)| *version == step);
        let weights = self
            .versions
            .get(&step)
            .or_else(|| pinned.map(|(_, weights)| weights));
        let (Some(weights), Some(sender)) = (weights, self.links.get(&link)) else {
            return;
        };
        let values = weights.clone();
        let stream = match purpose {
            Use::Train => Stream(0),
            Use::Evaluate => Stream(1),
        };
        let before = based_on.and_then(|version| self.versions.get(&version));
        let tensor = OutTensor {
            header: self.weights_header(step, before.and(based_on)),
            values: values.into(),
            before: before.cloned(),
        };
        if let Err(error) = sender.send_newest(stream, tensor) {
            tracing::debug!(link = link.0, %error, "weights were not sent");
        }
    }

    fn weights_header(&self, step: Step, based_on: Option<Step>) -> DataHeader {
        let Origin {
            slice,
            timeline,
            map,
            ..
        } = self.origin;
        DataHeader {
            run: self.setting.rules.run,
            kind: Kind::Weights,
            timeline,
            map,
            view: self.view,
            incarnation: Incarnation::default(),
            sequence: 0,
            step,
            based_on,
            node: None,
            blocks: self.setting.rules.slices.range(slice),
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
        context.set_mailbox_capacity(self.setting.mailbox);
    }

    /// A replica that is no more: its links, its thread and its arbiter end with it.
    fn stopped(&mut self, _: &mut Context<Self>) {
        for sender in self.links.values() {
            sender.close("the slice is served elsewhere");
        }
        self.hands.end();
        Arbiter::current().stop();
    }
}
