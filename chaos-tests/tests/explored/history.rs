//! What clients saw of one shard while they pushed and pulled side by side must be explained by some
//! order in which each call happened at once.

use resilin_core::machine::Rules;
use resilin_core::machine::shard::{Effect, Event, Origin, Push, Shard};
use resilin_core::message::{ShardSays, Use, Verdict, WorkerAsks};
use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::sorted::{SortedMap, SortedSet};
use resilin_core::time::Time;
use resilin_core::tree::Node;
use resilin_core::{Incarnation, LinkId, MapNumber, PartitionId, SliceId, Step, Tensor};
use resilin_core::{Timeline, View};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use crate::symbols::PARTITIONS;
use crate::world::rules;

const CLIENTS: u64 = 3;

/// Makes versions: the shard itself, as a client of what it serves.
const MAKER: u64 = 0;

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    Push(Step, PartitionId),
    Pull(Step),
    /// The version after this step is made.
    Apply(Step),
}

/// Its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Pushed(Pushed),
    /// Weights of a version.
    Weights(Step),
    /// The version is gone.
    Gone,
    Applied,
}

/// A push's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pushed {
    Stored,
    Covered,
    Stale,
}

/// A shard whose calls happen one after the other, each at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Serial {
    version: Step,
    covered: SortedSet<PartitionId>,
}

impl SequentialSpec for Serial {
    type Op = Call;
    type Ret = Answer;

    fn invoke(&mut self, call: &Call) -> Answer {
        match call {
            Call::Push(step, _) if *step < self.version => Answer::Pushed(Pushed::Stale),
            Call::Push(_, partition) if self.covered.insert(*partition) => {
                Answer::Pushed(Pushed::Stored)
            }
            Call::Push(..) => Answer::Pushed(Pushed::Covered),
            Call::Pull(step) if step.next() < self.version => Answer::Gone,
            Call::Pull(step) => Answer::Weights(*step),
            Call::Apply(step) => {
                self.version = step.next();
                self.covered.clear();
                Answer::Applied
            }
        }
    }

    fn is_valid_step(&mut self, call: &Call, answer: &Answer) -> bool {
        let possible = match call {
            Call::Push(step, _) | Call::Pull(step) => *step <= self.version,
            Call::Apply(step) => *step == self.version && self.covered.len() == PARTITIONS as usize,
        };
        possible && self.invoke(call) == *answer
    }
}

type Tester = LinearizabilityTester<u64, Serial>;

/// A shard, its clients' calls under way, and the history.
struct Recorder {
    shard: Shard,
    rules: Rules,
    history: Tester,
    calls: SortedMap<u64, Call>,
    /// What the shard is doing for itself, to be answered later.
    work: Vec<Event>,
    tensors: u64,
}

fn timeline() -> Timeline {
    Timeline::first(1)
}

impl Recorder {
    fn new(rules: &Rules) -> Self {
        let origin = Origin {
            slice: SliceId(0),
            timeline: timeline(),
            map: MapNumber(1),
            view: View::first(1),
            step: Step(0),
        };
        let mut recorder = Self {
            shard: Shard::new(rules.clone(), origin, &mut Vec::new()),
            rules: rules.clone(),
            history: Tester::new(Serial::default()),
            calls: SortedMap::new(),
            work: Vec::new(),
            tensors: 0,
        };
        for client in 1..=CLIENTS {
            recorder.hear(Event::LinkUp(LinkId(client)));
        }
        recorder
    }

    fn call(&mut self, client: u64, call: Call) {
        self.history
            .on_invoke(client, call)
            .expect("one call a client");
        self.calls.insert(client, call);
        let link = LinkId(client);
        let event = match call {
            Call::Push(step, partition) => {
                let node = Node::leaf(partition);
                let samples = self.rules.samples(step, node);
                self.tensors += 1;
                Event::Pushed(
                    link,
                    Push {
                        timeline: timeline(),
                        map: MapNumber(1),
                        view: View::first(1),
                        step,
                        node,
                        incarnation: Incarnation::default(),
                        tensor: Tensor(self.tensors),
                        samples,
                        weight: samples as f64,
                        loss_sum: 0.0,
                    },
                )
            }
            Call::Pull(step) => {
                let pull = WorkerAsks::Pull {
                    timeline: timeline(),
                    map: MapNumber(1),
                    view: View::first(1),
                    step,
                    purpose: Use::Train,
                    holds: None,
                };
                Event::Asked(link, pull)
            }
            Call::Apply(_) => unreachable!("nobody else makes versions"),
        };
        self.hear(event);
    }

    fn answer(&mut self, client: u64, answer: Answer) {
        if self.calls.remove(&client).is_some() {
            self.history
                .on_return(client, answer)
                .expect("it was called");
        }
    }

    fn hear(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.shard.step(Time(0), event, &mut effects);
        for effect in effects {
            self.effect(effect);
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Say(link, ShardSays::Answer { verdict, .. }) => {
                let verdict = match verdict {
                    Verdict::Stored => Pushed::Stored,
                    Verdict::Covered => Pushed::Covered,
                    Verdict::StaleStep => Pushed::Stale,
                    Verdict::Superseded | Verdict::Malformed => unreachable!("{verdict:?}"),
                };
                self.answer(link.0, Answer::Pushed(verdict));
            }
            Effect::Say(link, ShardSays::Gone { .. }) => self.answer(link.0, Answer::Gone),
            Effect::SendWeights { link, step, .. } => self.answer(link.0, Answer::Weights(step)),
            Effect::Combine { step, .. } => {
                let call = Call::Apply(step);
                self.history.on_invoke(MAKER, call).expect("one at a time");
                let blocks = self.rules.slices.range(SliceId(0)).len();
                self.work.push(Event::Combined {
                    step,
                    squares: vec![1.0; blocks],
                    non_finite: Vec::new(),
                });
            }
            Effect::Compare(_) => self.work.push(Event::Compared { same: true }),
            Effect::Apply { step, .. } => self.work.push(Event::Applied {
                step,
                digests: Vec::new(),
                finite: true,
            }),
            _ => {}
        }
    }

    /// What the shard does for itself ends.
    fn go_on(&mut self) {
        if let Some(event) = self.work.pop() {
            let applied = matches!(event, Event::Applied { .. });
            self.hear(event);
            if applied {
                self.history
                    .on_return(MAKER, Answer::Applied)
                    .expect("it began");
            }
        }
    }
}

/// Clients that push and pull as chance will have it.
fn record(rules: &Rules, seed: u64) -> Recorder {
    let mut stream = Key::new(seed, Purpose::User).stream();
    let mut recorder = Recorder::new(rules);
    for _ in 0..14 {
        let client = 1 + u64::from(stream.below(CLIENTS as u32));
        if recorder.calls.contains_key(&client) || stream.below(4) == 0 {
            recorder.go_on();
        } else {
            let call = call(&mut stream, recorder.shard.version());
            recorder.call(client, call);
        }
    }
    recorder
}

fn call(stream: &mut Stream, version: Step) -> Call {
    let step = Step(version.0.saturating_sub(u64::from(stream.below(3))));
    if stream.below(3) == 0 {
        // The next version too: it is waited for.
        Call::Pull(Step(step.0 + u64::from(stream.below(2))))
    } else {
        Call::Push(step, PartitionId(stream.below(PARTITIONS)))
    }
}

#[test]
fn histories_of_a_shard_are_linearizable() {
    let rules = rules(1);
    let mut made = 0;
    for seed in 0..200 {
        let recorder = record(&rules, seed);
        made += recorder.shard.version().0;
        let history = &recorder.history;
        assert!(history.is_consistent(), "seed {seed}: {history:?}");
    }
    assert!(made > 100, "{made} versions in all");
}

#[test]
fn a_partition_that_is_stored_twice_is_not() {
    let mut history = Tester::new(Serial::default());
    for client in [1, 2] {
        let push = Call::Push(Step(0), PartitionId(0));
        let stored = Answer::Pushed(Pushed::Stored);
        history.on_invret(client, push, stored).unwrap();
    }
    assert!(!history.is_consistent());
}
