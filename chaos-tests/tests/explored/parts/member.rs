//! A worker's process: its Worker, and arithmetic in symbols.

use std::collections::VecDeque;

use resilin_core::machine::Rules;
use resilin_core::machine::shard::Push;
use resilin_core::machine::worker::{Computed, Effect, Event, Worker};
use resilin_core::message::Use;
use resilin_core::sorted::SortedMap;
use resilin_core::time::Time;
use resilin_core::{Incarnation, LinkId, SliceId, Step, Tensor};

use super::ROWS;
use crate::happening::{Message, Place};
use crate::symbols::{Gradient, Weights, gradient};
use crate::world::{Out, link};

/// A worker's process.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    machine: Worker,
    worker: u8,
    incarnation: Option<Incarnation>,
    links: SortedMap<SliceId, LinkId>,
    dialled: u64,
    weights: SortedMap<Step, SortedMap<SliceId, Weights>>,
    tensors: SortedMap<Tensor, Gradient>,
    next_tensor: u64,
    samples: SortedMap<(Step, u32, u32), u64>,
    left: bool,
    now: Time,
}

impl Member {
    pub(crate) fn new(rules: &Rules, worker: u8) -> Self {
        let mut samples = SortedMap::new();
        for step in (0..rules.last().0).map(Step) {
            let root = rules.tree.root();
            let (left, right) = root.children().expect("two partitions");
            for node in [root, left, right] {
                let key = (step, node.first(), node.end());
                samples.insert(key, rules.samples(step, node));
            }
        }
        Self {
            machine: Worker::new(rules.clone(), ROWS.into()),
            worker,
            incarnation: None,
            links: SortedMap::new(),
            dialled: 0,
            weights: SortedMap::new(),
            tensors: SortedMap::new(),
            next_tensor: 0,
            samples,
            left: false,
            now: Time(0),
        }
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left
    }

    /// What others notice of its death.
    pub(crate) fn gone(&self) -> Out {
        let mut out = Out::default();
        out.send(Place::Center, Message::Gone);
        for slice in self.links.keys() {
            out.send(Place::Slice(slice.0), Message::Gone);
        }
        out
    }

    pub(crate) fn hear(&mut self, from: Place, message: Message, out: &mut Out) {
        let event = match (message, from) {
            (Message::Welcome(incarnation), _) => {
                self.incarnation = Some(incarnation);
                Event::Welcomed(incarnation)
            }
            (Message::Told(says), _) => Event::Told(says),
            (Message::Up, Place::Slice(slice)) => Event::SliceUp(SliceId(slice)),
            (Message::Heard(says), Place::Slice(slice)) => Event::Heard(SliceId(slice), says),
            (Message::Sent(timeline, step, purpose, weights), Place::Slice(slice)) => {
                let slice = SliceId(slice);
                self.weights.entry(step).or_default().insert(slice, weights);
                Event::Weights {
                    slice,
                    timeline,
                    step,
                    purpose,
                }
            }
            (message, from) => unreachable!("{message:?} of {from:?}"),
        };
        self.run(event, out);
    }

    pub(crate) fn tick(&mut self, out: &mut Out) {
        if let Some(at) = self.machine.deadline() {
            self.now = self.now.max(at);
            self.run(Event::Tick { samples_per_s: 1.0 }, out);
        }
    }

    fn run(&mut self, event: Event, out: &mut Out) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut effects = Vec::new();
            self.machine.step(self.now, event, &mut effects);
            for effect in effects {
                self.effect(effect, &mut events, out);
            }
        }
    }

    fn effect(&mut self, effect: Effect, events: &mut VecDeque<Event>, out: &mut Out) {
        match effect {
            Effect::Retain(_) | Effect::Release(_) | Effect::Audit { .. } => {
                unreachable!("no leaf is drawn")
            }
            Effect::Say(says) => out.send(Place::Center, Message::Said(says)),
            Effect::Layout(_) | Effect::Regroup(_) => {}
            Effect::Dial(view) => {
                self.dialled += 1;
                let link = link(self.worker, view.slice, self.dialled);
                self.links.insert(view.slice, link);
                out.send(Place::Slice(view.slice.0), Message::Dialled(link));
            }
            Effect::Hangup(slice) => {
                if let Some(link) = self.links.remove(&slice) {
                    out.send(Place::Slice(slice.0), Message::Hungup(link));
                }
            }
            Effect::Ask(slice, asks) => out.send(Place::Slice(slice.0), Message::Asked(asks)),
            Effect::Push {
                view,
                timeline,
                map,
                step,
                computed,
            } => {
                let gradient = self.tensors[&computed.tensor].clone();
                let push = Push {
                    timeline,
                    map,
                    view: view.view,
                    step,
                    node: computed.node,
                    incarnation: self.incarnation.expect("only members push"),
                    tensor: computed.tensor,
                    samples: computed.samples,
                    weight: computed.weight,
                    loss_sum: computed.loss_sum,
                };
                out.send(Place::Slice(view.slice.0), Message::Pushed(push, gradient));
            }
            Effect::Compute {
                timeline,
                step,
                nodes,
            } => {
                let weights: Vec<Weights> = self.weights[&step].values().copied().collect();
                let count = nodes.len();
                for (index, node) in nodes.into_iter().enumerate() {
                    self.next_tensor += 1;
                    let tensor = Tensor(self.next_tensor);
                    self.tensors.insert(tensor, gradient(node, &weights));
                    let samples = self.samples[&(step, node.first(), node.end())];
                    events.push_back(Event::Computed {
                        timeline,
                        step,
                        computed: Computed {
                            node,
                            tensor,
                            samples,
                            weight: samples as f64,
                            loss_sum: 0.0,
                            non_finite: Vec::new(),
                            audited: Vec::new(),
                        },
                        last: index + 1 == count,
                    });
                }
            }
            Effect::Forget(Use::Train, below) => self.weights.retain(|step, _| *step >= below),
            Effect::Forget(Use::Evaluate, _) => {}
            Effect::Free(tensor) => {
                let freed = self.tensors.remove(&tensor);
                out.ensure(freed.is_some(), || format!("{tensor} is freed twice"));
            }
            Effect::Exit(_) => self.left = true,
            Effect::Rejoin { .. } | Effect::Rejoined(_) | Effect::Score { .. } => {
                unreachable!("nobody is fenced and there are no test rows")
            }
        }
    }
}
