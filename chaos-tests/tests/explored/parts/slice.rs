//! A slice: its Shard, and arithmetic in symbols.

use std::collections::VecDeque;

use resilin_core::machine::Rules;
use resilin_core::machine::shard::{Effect, Event, Origin, Shard};
use resilin_core::sorted::SortedMap;
use resilin_core::time::Time;
use resilin_core::tree::Node;
use resilin_core::vote::Action;
use resilin_core::{LinkId, MapNumber, SliceId, Step, Tensor, View};

use super::{REIGN, timeline};
use crate::happening::{Message, Place};
use crate::symbols::{Gradient, Weights, blocks, initial, next};
use crate::world::{Explored, Out};

/// A slice.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    machine: Shard,
    slice: SliceId,
    blocks: usize,
    versions: SortedMap<Step, Weights>,
    tensors: SortedMap<Tensor, Gradient>,
    next_tensor: u64,
    root: Gradient,
    links: SortedMap<LinkId, u8>,
    now: Time,
}

impl Slice {
    pub(crate) fn new(rules: &Rules, slice: SliceId, out: &mut Out) -> Self {
        let origin = Origin {
            slice,
            timeline: timeline(),
            map: MapNumber(1),
            view: View::first(REIGN),
            step: Step(0),
        };
        let mut effects = Vec::new();
        let machine = Shard::new(rules.clone(), origin, &mut effects);
        let mut begun = Self {
            machine,
            slice,
            blocks: rules.slices.range(slice).len(),
            versions: SortedMap::from([(Step(0), initial(slice))]),
            tensors: SortedMap::new(),
            next_tensor: 0,
            root: Gradient::new(),
            links: SortedMap::new(),
            now: Time(0),
        };
        let mut events = VecDeque::new();
        for effect in effects {
            begun.effect(effect, &[], &mut events, out);
        }
        assert!(events.is_empty(), "nothing is there to sum");
        begun
    }

    pub(crate) fn version(&self) -> u64 {
        self.machine.version().0
    }

    pub(crate) fn hear(&mut self, from: Place, message: Message, model: &Explored, out: &mut Out) {
        let link = |slice: &Self| match from {
            Place::Worker(worker) => {
                let mut links = slice.links.iter().rev();
                links.find(|(_, w)| **w == worker).map(|(link, _)| *link)
            }
            Place::Center | Place::Slice(_) => None,
        };
        let event = match (message, from) {
            (Message::Dialled(link), Place::Worker(worker)) => {
                self.links.insert(link, worker);
                out.send(from, Message::Up);
                Event::LinkUp(link)
            }
            (Message::Hungup(link), _) => {
                self.links.remove(&link);
                Event::LinkDown(link)
            }
            (Message::Gone, _) => {
                let Some(link) = link(self) else { return };
                self.links.remove(&link);
                Event::LinkDown(link)
            }
            (Message::Asked(asks), _) => {
                let Some(link) = link(self) else { return };
                Event::Asked(link, asks)
            }
            (Message::Pushed(mut push, gradient), _) => {
                let Some(link) = link(self) else { return };
                self.next_tensor += 1;
                push.tensor = Tensor(self.next_tensor);
                self.tensors.insert(push.tensor, gradient);
                Event::Pushed(link, push)
            }
            (Message::Vote(says), _) => Event::Slice(says),
            (Message::Order(order), _) => Event::Order(order),
            (message, from) => unreachable!("{message:?} of {from:?}"),
        };
        self.run(event, model, out);
    }

    pub(crate) fn tick(&mut self, model: &Explored, out: &mut Out) {
        if let Some(at) = self.machine.deadline() {
            self.now = self.now.max(at);
            self.run(Event::Tick, model, out);
        }
    }

    fn run(&mut self, event: Event, model: &Explored, out: &mut Out) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut effects = Vec::new();
            self.machine.step(self.now, event, &mut effects);
            for effect in effects {
                self.effect(effect, &model.serial, &mut events, out);
            }
        }
        // Handles count on; which ones are free again is of no consequence.
        if self.tensors.is_empty() {
            self.next_tensor = 0;
        }
    }

    fn effect(
        &mut self,
        effect: Effect,
        serial: &[Vec<Weights>],
        events: &mut VecDeque<Event>,
        out: &mut Out,
    ) {
        match effect {
            Effect::Free(tensor) => {
                let freed = self.tensors.remove(&tensor);
                out.ensure(freed.is_some(), || format!("{tensor} is freed twice"));
            }
            Effect::Say(link, says) => {
                if let Some(worker) = self.links.get(&link) {
                    out.send(Place::Worker(*worker), Message::Heard(says));
                }
            }
            Effect::SendWeights {
                link,
                step,
                purpose,
                ..
            } => {
                if let Some(worker) = self.links.get(&link) {
                    let message = Message::Sent(timeline(), step, purpose, self.versions[&step]);
                    out.send(Place::Worker(*worker), message);
                }
            }
            Effect::Combine { step, nodes, .. } => {
                self.root = self.combine(&nodes, out);
                events.push_back(Event::Combined {
                    step,
                    squares: vec![1.0; self.blocks],
                    non_finite: Vec::new(),
                });
            }
            Effect::Compare([first, second]) => {
                let same = self.tensors[&first] == self.tensors[&second];
                out.ensure(same, || format!("{first} and {second} differ"));
                events.push_back(Event::Compared { same });
            }
            Effect::Apply { step, action, .. } => {
                out.ensure(matches!(action, Action::Apply { .. }), || {
                    format!("{action:?}")
                });
                let made = next(self.slice, step, self.versions[&step], &self.root);
                let right = serial[step.next().0 as usize][usize::from(self.slice.0)];
                out.ensure(made == right, || {
                    format!("slice {} has other weights {}", self.slice, step.next())
                });
                self.versions.insert(step.next(), made);
                self.versions.retain(|version, _| *version >= step);
                events.push_back(Event::Applied {
                    step,
                    digests: blocks(made, self.blocks),
                    finite: true,
                });
            }
            Effect::Cut(step) => out.send(Place::Center, Message::Cut(step)),
            Effect::Tell(to, says) => out.send(Place::Slice(to.0), Message::Vote(says)),
            Effect::Report(report) => out.send(Place::Center, Message::Report(report)),
            Effect::DropRoots { .. } => {}
            other => unreachable!("{other:?} of a slice without replicas and test rows"),
        }
    }

    fn combine(&self, nodes: &[(Node, Tensor)], out: &mut Out) -> Gradient {
        let mut root = Gradient::new();
        for (_, tensor) in nodes {
            for (partition, weights) in &self.tensors[tensor] {
                let twice = root.insert(*partition, weights.clone()).is_some();
                out.ensure(!twice, || format!("partition {partition} is summed twice"));
            }
        }
        root
    }
}
