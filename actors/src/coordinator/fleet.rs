//! Shell of the Fleet machine: control links in, welcomes and words out.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture};
use resilin_core::frame::FrameError;
use resilin_core::machine::fleet::{Effect, Event, Fleet, Role};
use resilin_core::message::{
    CoordinatorSays, HostSays, HostTold, HostWelcome, Welcome, WorkerSays,
};
use resilin_core::sorted::SortedMap;
use resilin_core::{Incarnation, LinkId, Time};

use super::common::Common;
use super::job;
use crate::clock::{Alarm, Tick};
use crate::link::{ControlMessage, Inbox, Knock, LinkOptions, LinkSender, Received};
use crate::spawn;
use crate::stint::Stint;

/// Time for the last words on a link before it is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Words of a member that are handed over together at most.
const WORDS: usize = 64;

/// The actor of all member processes.
pub(super) struct FleetActor {
    common: Arc<Common>,
    machine: Fleet,
    alarm: Alarm,
    links: SortedMap<LinkId, LinkSender>,
    last_link: LinkId,
}

impl FleetActor {
    pub(super) fn new(common: Arc<Common>) -> Self {
        Self {
            machine: Fleet::new(common.reign, common.rules.lease),
            common,
            alarm: Alarm::default(),
            links: SortedMap::new(),
            last_link: LinkId(0),
        }
    }

    fn event(&mut self, event: Event, context: &mut Context<Self>) {
        self.events([event], context);
    }

    fn events(&mut self, events: impl IntoIterator<Item = Event>, context: &mut Context<Self>) {
        let now = self.common.clock.now();
        let mut news = Vec::new();
        for event in events {
            self.step(now, event, &mut news);
        }
        self.tell_job(news, context);
        self.alarm.set(context, now, self.machine.deadline());
    }

    fn step(&mut self, now: Time, event: Event, news: &mut Vec<job::News>) {
        let _stint = Stint::begin("fleet", &event);
        let mut effects = Vec::new();
        self.machine.step(now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Welcome(link, incarnation) => self.welcome(link, incarnation),
                Effect::Send(link, says) => self.send(link, &says),
                Effect::Close(link) => self.close(link),
                Effect::Member(member) => news.push(job::News::Member(member)),
                Effect::Host(host) => news.push(job::News::Host(host)),
                Effect::Outranked(reign) => news.push(job::News::Outranked(reign)),
                Effect::WelcomeHost(link, incarnation) => self.welcome_host(link, incarnation),
                Effect::SendHost(link, told) => self.send(link, &told),
            }
        }
    }

    /// In order, and no further message is taken until the job has these: so its mailbox holds the
    /// links back. The job itself never waits for the fleet.
    fn tell_job(&self, news: Vec<job::News>, context: &mut Context<Self>) {
        if news.is_empty() {
            return;
        }
        let job = self.common.peers().job.clone();
        let tell = async move {
            // A closed mailbox is the end of the process.
            let _ = job.send(job::FromFleet(news)).await;
        };
        context.wait(tell.into_actor(self));
    }

    fn welcome(&self, link: LinkId, incarnation: Incarnation) {
        let welcome = Welcome {
            incarnation,
            run: self.common.rules.run,
            job: self.common.task.effective.toml(),
        };
        self.send(link, &welcome);
    }

    fn welcome_host(&self, link: LinkId, incarnation: Incarnation) {
        let described = self.common.task.split.described();
        let welcome = HostWelcome {
            incarnation,
            run: self.common.rules.run,
            job: self.common.task.effective.toml(),
            rows: serde_json::to_string(&described).expect("manifests have string keys only"),
        };
        self.send(link, &welcome);
    }

    fn send<M: serde::Serialize>(&self, link: LinkId, message: &M) {
        let Some(sender) = self.links.get(&link) else {
            return;
        };
        if let Err(error) = sender.send_control(message) {
            // A peer that takes nothing loses its lease; one that is gone is heard of by its reader.
            tracing::debug!(link = link.0, %error, "a control message was not sent");
        }
    }

    fn close(&mut self, link: LinkId) {
        if let Some(sender) = self.links.remove(&link) {
            spawn::beside(async move {
                let _ = tokio::time::timeout(LAST_WORDS, sender.flush()).await;
                sender.close("its lease has ended");
            });
        }
    }
}

impl Actor for FleetActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(self.common.mailbox());
    }
}

/// A worker or a host knocks for a control link.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Arrived(pub(super) Knock, pub(super) Role);

#[derive(Message)]
#[rtype(result = "()")]
struct Opened {
    link: LinkId,
    name: String,
    role: Role,
    before: Option<Incarnation>,
    sender: LinkSender,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Said(LinkId, Vec<Says>);

/// What a member says.
enum Says {
    Worker(WorkerSays),
    Host(HostSays),
}

#[derive(Message)]
#[rtype(result = "()")]
struct Gone(LinkId);

/// The job has something to say to a member.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Say(pub(super) Incarnation, pub(super) CoordinatorSays);

/// The job wants a member to be fenced.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Fence(pub(super) Incarnation, pub(super) String);

/// The job has something to say to a host.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Tell(pub(super) Incarnation, pub(super) HostTold);

/// Answered once everything said so far has left this process, or had time to.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Flush;

impl Handler<Arrived> for FleetActor {
    type Result = ();

    fn handle(&mut self, Arrived(knock, role): Arrived, context: &mut Context<Self>) {
        self.last_link = self.last_link.next();
        let serve = serve(
            self.last_link,
            knock,
            role,
            Arc::clone(&self.common),
            context.address(),
        );
        spawn::beside(serve);
    }
}

impl Handler<Opened> for FleetActor {
    type Result = ();

    fn handle(&mut self, opened: Opened, context: &mut Context<Self>) {
        let Opened {
            link,
            name,
            role,
            before,
            sender,
        } = opened;
        self.links.insert(link, sender);
        let joined = Event::Joined {
            link,
            name,
            role,
            before,
        };
        self.event(joined, context);
    }
}

impl Handler<Said> for FleetActor {
    type Result = ();

    fn handle(&mut self, Said(link, says): Said, context: &mut Context<Self>) {
        let events = says.into_iter().map(|says| match says {
            Says::Worker(says) => Event::Said(link, says),
            Says::Host(says) => Event::HostSaid(link, says),
        });
        self.events(events, context);
    }
}

impl Handler<Gone> for FleetActor {
    type Result = ();

    fn handle(&mut self, Gone(link): Gone, context: &mut Context<Self>) {
        self.links.remove(&link);
        self.event(Event::LinkDown(link), context);
    }
}

impl Handler<Say> for FleetActor {
    type Result = ();

    fn handle(&mut self, Say(incarnation, says): Say, context: &mut Context<Self>) {
        self.event(Event::Say(incarnation, says), context);
    }
}

impl Handler<Fence> for FleetActor {
    type Result = ();

    fn handle(&mut self, Fence(incarnation, cause): Fence, context: &mut Context<Self>) {
        self.event(Event::Fence(incarnation, cause), context);
    }
}

impl Handler<Tell> for FleetActor {
    type Result = ();

    fn handle(&mut self, Tell(host, told): Tell, context: &mut Context<Self>) {
        self.event(Event::Tell(host, told), context);
    }
}

impl Handler<Tick> for FleetActor {
    type Result = ();

    fn handle(&mut self, _: Tick, context: &mut Context<Self>) {
        self.alarm.rang();
        self.event(Event::Tick, context);
    }
}

impl Handler<Flush> for FleetActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Flush, _: &mut Context<Self>) -> Self::Result {
        let senders: Vec<LinkSender> = self.links.values().cloned().collect();
        Box::pin(async move {
            let flush = async {
                for sender in senders {
                    // A link that ended has nothing left to be sent.
                    let _ = sender.flush().await;
                }
            };
            let _ = tokio::time::timeout(LAST_WORDS, flush).await;
        })
    }
}

/// The life of one control link: let in, heard until it ends.
async fn serve(
    link: LinkId,
    knock: Knock,
    role: Role,
    common: Arc<Common>,
    fleet: Addr<FleetActor>,
) {
    let (name, before) = (knock.name().to_owned(), knock.hello.incarnation);
    let admitted = knock.admit(&common.expected, LinkOptions::control()).await;
    let Ok((sender, mut inbox)) = admitted.map(crate::link::Link::split) else {
        return;
    };
    let opened = Opened {
        link,
        name,
        role,
        before,
        sender,
    };
    if fleet.send(opened).await.is_err() {
        return;
    }
    let cause = loop {
        let mut said = Vec::new();
        let heard = hear(&mut inbox, role, &mut said).await;
        // What was said before the link ended counts.
        if !said.is_empty() && fleet.send(Said(link, said)).await.is_err() {
            return;
        }
        if let Err(cause) = heard {
            break cause;
        }
    };
    tracing::debug!(link = link.0, cause, "a control link ended");
    // A closed mailbox is the end of the process.
    let _ = fleet.send(Gone(link)).await;
}

/// Takes what was said, all at once: each hand-over to another thread may wait for a busy processor,
/// and one for each word would let words pile up that are repeated because nobody answers.
async fn hear(inbox: &mut Inbox, role: Role, said: &mut Vec<Says>) -> Result<(), String> {
    let mut next = Some(inbox.next().await);
    while let Some(received) = next {
        match received {
            Received::Control(message) => {
                said.push(decode(&message, role).map_err(|error| error.to_string())?);
            }
            Received::Tensor { .. } => return Err("a tensor on a control link".into()),
            Received::Closed(cause) => return Err(cause.to_string()),
        }
        next = match said.len() < WORDS {
            true => inbox.ready(),
            false => None,
        };
    }
    Ok(())
}

fn decode(message: &ControlMessage, role: Role) -> Result<Says, FrameError> {
    match role {
        Role::Worker => message.decode().map(Says::Worker),
        Role::Host => message.decode().map(Says::Host),
    }
}
