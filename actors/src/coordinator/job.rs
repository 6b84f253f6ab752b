//! Shell of the Job and Saver machines. It never waits: what it says to others is queued, bounded
//! by what they reported to it, since shards wait for acknowledged records and the fleet waits
//! until its news is taken.

use std::collections::VecDeque;
use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler, Message, MessageResult};
use resilin_core::fact::{Dated, Fact};
use resilin_core::ledger::Record;
use resilin_core::machine::fleet::{HostNews, Member};
use resilin_core::machine::job::{self, Command, Job, Outcome, Settings, Status};
use resilin_core::machine::saver::{self, Saver};
use resilin_core::message::{ShardOrder, ShardReport};
use resilin_core::{Span, Step, Time};
use tokio::sync::oneshot;

use super::common::Common;
use super::{fleet, notes, store};
use crate::clock::{Alarm, Tick, unix_millis};
use crate::shard;
use crate::stint::Stint;

/// A checkpoint that takes longer is given up; the store's own calls give up earlier.
const PATIENCE: Span = Span::from_millis(60_000);

/// Facts that status shows.
const RECENT: usize = 16;

/// The actor of the run's decisions.
pub(super) struct JobActor {
    common: Arc<Common>,
    job: Job,
    saver: Saver,
    alarm: Alarm,
    began: Time,
    base: Step,
    recent: VecDeque<Dated>,
    over: Option<oneshot::Sender<Outcome>>,
}

impl JobActor {
    /// The actor; `over` gets the outcome once everybody was told.
    pub(super) fn new(
        common: Arc<Common>,
        settings: Settings,
        over: oneshot::Sender<Outcome>,
    ) -> Self {
        let rules = common.rules.clone();
        let slices = rules.slices.slices();
        Self {
            saver: Saver::new(
                slices,
                (settings.durable, settings.recorded),
                rules.cut_interval,
                PATIENCE,
            ),
            base: settings.branch.base,
            recent: VecDeque::new(),
            job: Job::new(rules, settings),
            alarm: Alarm::default(),
            began: common.clock.now(),
            over: Some(over),
            common,
        }
    }

    fn job_event(&mut self, now: Time, event: job::Event) {
        let _stint = Stint::begin("job", &event);
        let mut effects = Vec::new();
        self.job.step(now, event, &mut effects);
        let (mut records, mut for_saver) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                job::Effect::Say(incarnation, says) => {
                    self.common
                        .peers()
                        .fleet
                        .do_send(fleet::Say(incarnation, says));
                }
                job::Effect::Fence(incarnation, cause) => {
                    let fleet = &self.common.peers().fleet;
                    fleet.do_send(fleet::Fence(incarnation, cause));
                }
                job::Effect::Order(order) => self.order(order),
                job::Effect::Host(host, told) => {
                    self.common.peers().fleet.do_send(fleet::Tell(host, told));
                }
                job::Effect::KeepBranch(branch) => {
                    self.append(std::mem::take(&mut records));
                    self.common.peers().store.do_send(store::KeepBranch(branch));
                }
                job::Effect::KeepViews(views) => {
                    self.common.peers().store.do_send(store::KeepViews(views));
                }
                job::Effect::KeepWishes(wishes) => {
                    self.common.peers().store.do_send(store::KeepWishes(wishes));
                }
                job::Effect::Append(record) => records.push(record),
                job::Effect::Commit(step) => {
                    self.append(std::mem::take(&mut records));
                    self.common.peers().store.do_send(store::Commit(step));
                }
                job::Effect::Saver(event) => for_saver.push(event),
                job::Effect::Close(outcome) => {
                    self.append(std::mem::take(&mut records));
                    self.close(now, outcome);
                }
                job::Effect::Over(outcome) => self.over(outcome),
                job::Effect::Tell(fact) => self.tell(fact),
            }
        }
        self.append(records);
        for event in for_saver {
            self.saver_event(now, event);
        }
    }

    /// Log, status and event file are told the same.
    fn tell(&mut self, fact: Fact) {
        let dated = self.job.dated(unix_millis(), fact);
        notes::tell(&dated);
        self.recent.push_back(dated.clone());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        self.common.peers().store.do_send(store::Tell(dated));
    }

    fn saver_event(&mut self, now: Time, event: saver::Event) {
        let _stint = Stint::begin("saver", &event);
        let mut effects = Vec::new();
        self.saver.step(now, event, &mut effects);
        let store = &self.common.peers().store;
        let mut news = Vec::new();
        for effect in effects {
            match effect {
                saver::Effect::RequestCut => news.push(job::Event::Order(ShardOrder::RequestCut)),
                saver::Effect::Commit(step) => news.push(job::Event::Commit(step)),
                saver::Effect::NotCommitted(step) => news.push(job::Event::NotCommitted(step)),
                saver::Effect::Abandon(step) => store.do_send(store::Abandon(step)),
                saver::Effect::CutOverAt(slice, step) => {
                    news.push(job::Event::OrderSlice(slice, ShardOrder::CutOver { step }));
                }
                saver::Effect::CutOver(step) => {
                    news.push(job::Event::Order(ShardOrder::CutOver { step }));
                }
                saver::Effect::Durable(step) => news.push(job::Event::Durable(step)),
                saver::Effect::Degraded(reason) => news.push(job::Event::Degraded(reason)),
            }
        }
        for event in news {
            self.job_event(now, event);
        }
    }

    fn order(&self, order: ShardOrder) {
        for shard in self.common.peers().shards.values() {
            shard.do_send(shard::Order(order));
        }
    }

    fn append(&self, records: Vec<Record>) {
        if !records.is_empty() {
            self.common.peers().store.do_send(store::Append(records));
        }
    }

    fn close(&self, now: Time, outcome: Outcome) {
        self.common.peers().store.do_send(store::Close {
            outcome,
            status: Box::new(self.job.status(now)),
            saved: self.saver.saved(),
            wall: now.since(self.began),
        });
    }

    fn over(&mut self, outcome: Outcome) {
        if let Some(over) = self.over.take() {
            // The main thread waits for nothing else; if it is gone, so is the process.
            let _ = over.send(outcome);
        }
    }

    fn arm(&mut self, context: &mut Context<Self>, now: Time) {
        let deadlines = [self.job.deadline(), self.saver.deadline()];
        let next = deadlines.into_iter().flatten().min();
        self.alarm.set(context, now, next);
    }
}

impl Actor for JobActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(self.common.mailbox());
    }
}

/// News of members, in order.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct FromFleet(pub(super) Vec<News>);

/// News of a member.
pub(super) enum News {
    /// A worker.
    Member(Member),
    /// A host.
    Host(HostNews),
    /// A later coordinator, by its reign.
    Outranked(u64),
}

/// A shard reports.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct FromShard(pub(super) ShardReport);

/// What became of a cut.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct FromStore(pub(super) saver::Event);

/// What became of a branch or of views that were to be kept.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Kept(pub(super) job::Event);

/// What `Close` asked for is durable.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Closed;

/// An operator commands; answered by why it cannot be.
#[derive(Message)]
#[rtype(result = "Result<(), String>")]
pub(super) struct Operator(pub(super) Command);

/// What is there to see?
#[derive(Message)]
#[rtype(result = "Seen")]
pub(super) struct Look;

/// What there is to see.
pub(super) struct Seen {
    pub(super) status: Status,
    /// The newest facts, oldest first.
    pub(super) recent: Vec<Dated>,
}

/// The peers are known: the run begins.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Begin;

impl Handler<Begin> for JobActor {
    type Result = ();

    fn handle(&mut self, _: Begin, context: &mut Context<Self>) {
        self.tell(Fact::Began { base: self.base });
        // The machines begin to count time, also if nobody ever comes.
        context.notify(Tick);
    }
}

impl Handler<FromFleet> for JobActor {
    type Result = ();

    fn handle(&mut self, FromFleet(news): FromFleet, context: &mut Context<Self>) {
        let now = self.common.clock.now();
        for news in news {
            let event = match news {
                News::Member(member) => job::Event::Member(member),
                News::Host(news) => job::Event::Host(news),
                News::Outranked(reign) => job::Event::Outranked(reign),
            };
            self.job_event(now, event);
        }
        self.arm(context, now);
    }
}

impl Handler<FromShard> for JobActor {
    type Result = ();

    fn handle(&mut self, FromShard(report): FromShard, context: &mut Context<Self>) {
        let now = self.common.clock.now();
        self.job_event(now, job::Event::Shard(report));
        self.arm(context, now);
    }
}

impl Handler<FromStore> for JobActor {
    type Result = ();

    fn handle(&mut self, FromStore(event): FromStore, context: &mut Context<Self>) {
        let now = self.common.clock.now();
        self.saver_event(now, event);
        self.arm(context, now);
    }
}

impl Handler<Kept> for JobActor {
    type Result = ();

    fn handle(&mut self, Kept(event): Kept, context: &mut Context<Self>) {
        let now = self.common.clock.now();
        self.job_event(now, event);
        self.arm(context, now);
    }
}

impl Handler<Closed> for JobActor {
    type Result = ();

    fn handle(&mut self, _: Closed, _: &mut Context<Self>) {
        self.job_event(self.common.clock.now(), job::Event::Closed);
    }
}

impl Handler<Operator> for JobActor {
    type Result = Result<(), String>;

    fn handle(&mut self, Operator(command): Operator, context: &mut Context<Self>) -> Self::Result {
        self.job.may(&command)?;
        let now = self.common.clock.now();
        self.job_event(now, job::Event::Command(command));
        self.arm(context, now);
        Ok(())
    }
}

impl Handler<Tick> for JobActor {
    type Result = ();

    fn handle(&mut self, _: Tick, context: &mut Context<Self>) {
        self.alarm.rang();
        let now = self.common.clock.now();
        self.job_event(now, job::Event::Tick);
        self.saver_event(now, saver::Event::Tick);
        self.arm(context, now);
    }
}

impl Handler<Look> for JobActor {
    type Result = MessageResult<Look>;

    fn handle(&mut self, _: Look, _: &mut Context<Self>) -> Self::Result {
        MessageResult(Seen {
            status: self.job.status(self.common.clock.now()),
            recent: self.recent.iter().cloned().collect(),
        })
    }
}
