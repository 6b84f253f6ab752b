//! The coordinator: Job and Saver, and a store that never fails.

use std::collections::VecDeque;

use resilin_core::ledger::{Members, Record};
use resilin_core::machine::Rules;
use resilin_core::machine::fleet::{Cause, Member as News};
use resilin_core::machine::job::{Effect, Event, Job, Outcome, Settings, Wishes};
use resilin_core::machine::saver::{self, Saver};
use resilin_core::message::{Branch, SliceView, WorkerSays};
use resilin_core::sorted::SortedMap;
use resilin_core::time::{Span, Time};
use resilin_core::{MapNumber, SliceId, Step, View};
use resilin_learn::kernel::chain_line;

use super::{REIGN, ROWS, incarnation, timeline, worker_of};
use crate::happening::{Message, Place};
use crate::symbols::{SLICES, blocks};
use crate::world::{Explored, Out};

/// The coordinator.
#[derive(Clone, Debug)]
pub(crate) struct Center {
    job: Job,
    saver: Saver,
    now: Time,
    pub(crate) over: Option<Outcome>,
}

enum Turn {
    Job(Event),
    Saver(saver::Event),
}

impl Center {
    pub(crate) fn new(rules: &Rules) -> Self {
        let view = |slice| SliceView {
            slice,
            view: View::first(REIGN),
            address: "here:1".into(),
            primary: None,
            backup: None,
        };
        let settings = Settings {
            reign: REIGN,
            branch: Branch {
                timeline: timeline(),
                map: MapNumber(1),
                shards: SLICES,
                base: Step(0),
            },
            views: rules.slices.ids().map(view).collect(),
            hosts: None,
            recorded: Step(0),
            chain: SortedMap::new(),
            superseded: SortedMap::new(),
            metrics: SortedMap::new(),
            data: ROWS.into(),
            workers: 2,
            max_workers: 2,
            wait_below_min: None,
            min_workers: 1,
            durable: None,
            members: Members::default(),
            wishes: Wishes::default(),
        };
        Self {
            job: Job::new(rules.clone(), settings),
            saver: Saver::new(SLICES, (None, Step(0)), None, Span::from_millis(1_000)),
            now: Time(0),
            over: None,
        }
    }

    pub(crate) fn hear(&mut self, from: Place, message: Message, model: &Explored, out: &mut Out) {
        let turns = match (from, message) {
            (Place::Worker(worker), Message::Hello) => {
                let incarnation = incarnation(worker);
                out.send(from, Message::Welcome(incarnation));
                let name = format!("worker{worker}");
                vec![Turn::Job(Event::Member(News::Up { incarnation, name }))]
            }
            (Place::Worker(worker), Message::Said(WorkerSays::Leave)) => {
                let news = News::Down(incarnation(worker), Cause::Left);
                vec![Turn::Job(Event::Member(news))]
            }
            (Place::Worker(worker), Message::Said(says)) => {
                vec![Turn::Job(Event::Member(News::Said(
                    incarnation(worker),
                    says,
                )))]
            }
            (Place::Worker(worker), Message::Gone) => {
                let news = News::Down(incarnation(worker), Cause::LinkReset);
                vec![Turn::Job(Event::Member(news))]
            }
            (Place::Slice(_), Message::Report(report)) => vec![Turn::Job(Event::Shard(report))],
            (Place::Slice(slice), Message::Cut(step)) => {
                let slice = SliceId(slice);
                vec![
                    Turn::Saver(saver::Event::Begun(slice, step)),
                    Turn::Saver(saver::Event::Written(slice, step)),
                ]
            }
            (from, message) => unreachable!("{message:?} of {from:?}"),
        };
        self.run(turns, model, out);
    }

    /// Whatever is due, and what is due next.
    pub(crate) fn tick(&mut self, model: &Explored, out: &mut Out) {
        let due = [self.job.deadline(), self.saver.deadline()];
        if let Some(at) = due.into_iter().flatten().min() {
            self.now = self.now.max(at);
            let turns = vec![Turn::Job(Event::Tick), Turn::Saver(saver::Event::Tick)];
            self.run(turns, model, out);
        }
    }

    fn run(&mut self, turns: Vec<Turn>, model: &Explored, out: &mut Out) {
        let mut turns = VecDeque::from(turns);
        while let Some(turn) = turns.pop_front() {
            match turn {
                Turn::Job(event) => {
                    let mut effects = Vec::new();
                    self.job.step(self.now, event, &mut effects);
                    for effect in effects {
                        self.effect(effect, &mut turns, model, out);
                    }
                }
                Turn::Saver(event) => {
                    let mut effects = Vec::new();
                    self.saver.step(self.now, event, &mut effects);
                    turns.extend(effects.into_iter().filter_map(saved));
                }
            }
        }
    }

    fn effect(
        &mut self,
        effect: Effect,
        turns: &mut VecDeque<Turn>,
        model: &Explored,
        out: &mut Out,
    ) {
        match effect {
            Effect::Say(member, says) => {
                out.send(Place::Worker(worker_of(member)), Message::Told(says));
            }
            Effect::Order(order) => {
                for slice in 0..SLICES {
                    out.send(Place::Slice(slice), Message::Order(order));
                }
            }
            Effect::Append(Record::Step(step)) => {
                let made = step.step.next();
                let weights = &model.serial[made.0 as usize];
                let ranges = model
                    .rules
                    .slices
                    .ids()
                    .map(|s| model.rules.slices.range(s).len());
                let digests: Vec<_> = weights
                    .iter()
                    .zip(ranges)
                    .flat_map(|(weights, count)| blocks(*weights, count))
                    .collect();
                out.ensure(step.chain == chain_line(&digests), || {
                    format!("the ledger has another line {made}")
                });
            }
            Effect::Append(_) | Effect::Tell(_) => {}
            // The store is quick.
            Effect::Commit(step) => turns.push_back(Turn::Saver(saver::Event::Committed(step))),
            Effect::Saver(event) => turns.push_back(Turn::Saver(event)),
            Effect::Close(_) => turns.push_back(Turn::Job(Event::Closed)),
            Effect::Over(outcome) => self.over = Some(outcome),
            Effect::Fence(..)
            | Effect::Host(..)
            | Effect::KeepBranch(_)
            | Effect::KeepViews(_)
            | Effect::KeepWishes(_) => {
                unreachable!("nobody is fenced, and slices live in the coordinator")
            }
        }
    }
}

/// What the saver's effect leads to.
fn saved(effect: saver::Effect) -> Option<Turn> {
    use resilin_core::message::ShardOrder;
    use saver::Effect as Saving;
    match effect {
        Saving::RequestCut => Some(Turn::Job(Event::Order(ShardOrder::RequestCut))),
        Saving::Commit(step) => Some(Turn::Job(Event::Commit(step))),
        Saving::NotCommitted(step) => Some(Turn::Job(Event::NotCommitted(step))),
        Saving::Abandon(_) => None,
        Saving::CutOverAt(slice, step) => {
            let order = ShardOrder::CutOver { step };
            Some(Turn::Job(Event::OrderSlice(slice, order)))
        }
        Saving::CutOver(step) => Some(Turn::Job(Event::Order(ShardOrder::CutOver { step }))),
        Saving::Durable(step) => Some(Turn::Job(Event::Durable(step))),
        Saving::Degraded(reason) => Some(Turn::Job(Event::Degraded(reason))),
    }
}
