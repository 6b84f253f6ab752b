//! The life of a shard process: dial, build the job without its rows, listen, serve, and redial
//! whenever the coordinator is lost, with all that is held.

use std::convert::Infallible;
use std::sync::Arc;

use actix::{Actor, Addr, Arbiter};
use resilin_core::Span;
use resilin_core::handshake::{Expected, Fingerprint, Role};
use resilin_core::job::{Bits, Document, Job};
use resilin_core::message::{HostSays, HostTold, HostWelcome};
use resilin_learn::dataset::{Manifest, Split};
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;
use tokio::sync::oneshot;

use super::Options;
use super::actor::{HostActor, Knocked, Linked, Orphaned, Terminate, Told};
use super::facts::{Control as Saying, Facts};
use super::peers::Peers;
use crate::clock::{Clock, duration};
use crate::control::{Control, Dialler, REDIAL_LIMIT};
use crate::exit::Exit;
use crate::link::{Address, Inbox, LinkSender, ListenOptions, Listener, Received};
use crate::process::{Signals, check_exposure};
use crate::spawn;

/// Serves until the end.
pub(super) async fn serve(options: Options, registry: Arc<Registry>) -> Result<Exit, Exit> {
    let mut signals = Signals::take()?;
    check_exposure(&options.listen, options.token.as_ref())?;
    let (listener, address) = listen(&options).await?;
    let limit = options.redial_limit;
    let first_limit = limit.unwrap_or(REDIAL_LIMIT);
    let mut dialler = Dialler::new(
        Role::Shard,
        &options.join,
        options.token.clone(),
        first_limit,
    );
    let first = async {
        let control = dialler.dial::<HostWelcome>().await?;
        let task = build(&registry, &control).await?;
        // Workers evaluate.
        task.model.rest();
        Ok::<_, Exit>((control, Arc::new(task)))
    };
    let (control, task) = tokio::select! {
        first = first => first?,
        () = signals.next() => return Ok(Exit::Done),
    };
    dialler.data = Some(Fingerprint(task.data_digest()));
    dialler.limit = limit.unwrap_or(task.job.failure.redial_limit);

    let facts = Arc::new(facts(&options, &dialler, &control, task));
    let (end, mut ended) = oneshot::channel();
    let host = HostActor::new(facts, address, end).start();
    spawn::beside(accept(listener, host.clone()));
    let mut joined = std::pin::pin!(stay_joined(dialler, control, host.clone()));
    loop {
        tokio::select! {
            exit = &mut ended => {
                return Ok(exit.unwrap_or_else(|_| Exit::Fault("the host actor is gone".into())));
            }
            exit = &mut joined => return Ok(exit),
            () = signals.next() => host.do_send(Terminate),
        }
    }
}

/// The listener, and where others dial it.
async fn listen(options: &Options) -> Result<(Listener, String), Exit> {
    let address = Address::from(options.listen.as_str());
    let listener = Listener::bind(&address, ListenOptions::with_near_socket()).await;
    let listener = listener.map_err(|error| Exit::Fault(error.to_string()))?;
    let bound = listener.address().to_string();
    Ok((listener, options.advertise.clone().unwrap_or(bound)))
}

fn facts(
    options: &Options,
    dialler: &Dialler,
    control: &Control<HostWelcome>,
    task: Arc<Task>,
) -> Facts {
    let run = control.welcome.run;
    let hello = dialler.hello();
    let expected = Expected {
        run: Some(run),
        token: options.token.clone(),
        numerics: match task.job.run.bits {
            Bits::On => Some(hello.numerics),
            Bits::Off => None,
        },
        data: hello.data,
    };
    Facts {
        task,
        run,
        expected,
        join: options.join.clone(),
        host: dialler.host().into(),
        hello,
        clock: Clock::start(),
        data: Arbiter::new().handle(),
        control: Saying::default(),
        peers: Peers::default(),
    }
}

async fn accept(mut listener: Listener, host: Addr<HostActor>) {
    loop {
        let knock = listener.next().await;
        // The actor lives as long as the process.
        let _ = host.send(Knocked(knock)).await;
    }
}

/// Feeds the actor from one control link after the other; returns when there is no use in dialling.
async fn stay_joined(
    mut dialler: Dialler,
    mut control: Control<HostWelcome>,
    host: Addr<HostActor>,
) -> Exit {
    loop {
        let Control {
            sender,
            inbox,
            welcome: HostWelcome { incarnation, .. },
        } = control;
        let linked = Linked {
            sender,
            incarnation,
        };
        // The actor lives as long as the process.
        let _ = host.send(linked).await;
        let cause = read(inbox, &host).await;
        tracing::info!(cause, "control link lost; dialling again");
        dialler.incarnation = host.send(Orphaned).await.unwrap_or_default();
        control = match dialler.dial().await {
            Ok(control) => control,
            Err(exit) => return exit,
        };
    }
}

async fn read(mut inbox: Inbox, host: &Addr<HostActor>) -> String {
    loop {
        match inbox.next().await {
            Received::Control(message) => match message.decode::<HostTold>() {
                Ok(told) => {
                    let _ = host.send(Told(told)).await;
                }
                Err(error) => return error.to_string(),
            },
            Received::Tensor { .. } => return "a tensor on a control link".into(),
            Received::Closed(cause) => return cause.to_string(),
        }
    }
}

/// Builds the job off this thread; heartbeats go on meanwhile.
async fn build(registry: &Arc<Registry>, control: &Control<HostWelcome>) -> Result<Task, Exit> {
    let welcome = &control.welcome;
    let parse =
        |text: &str| Document::received(text).map_err(|error| Exit::Usage(error.to_string()));
    let job = Job::read(&mut parse(&welcome.job)?);
    let job = job.map_err(|error| Exit::Usage(error.to_string()))?;
    let document = parse(&welcome.job)?;
    let described: Option<Vec<Manifest>> = serde_json::from_str(&welcome.rows).ok();
    let split = described.and_then(Split::elsewhere).ok_or_else(|| {
        Exit::Refused("the coordinator describes its rows otherwise; use the same version".into())
    })?;
    let registry = Arc::clone(registry);
    let build = tokio::task::spawn_blocking(move || registry.task_without_rows(document, split));
    tokio::select! {
        built = build => match built {
            Ok(task) => task.map_err(|error| Exit::Usage(error.to_string())),
            Err(error) => Err(Exit::Fault(format!("building the job failed: {error}"))),
        },
        never = beat(&control.sender, job.failure.lease) => match never {},
    }
}

async fn beat(sender: &LinkSender, lease: Span) -> Infallible {
    loop {
        tokio::time::sleep(duration(lease.part(4))).await;
        let beat = HostSays::Heartbeat {
            generation: None,
            holdings: Vec::new(),
        };
        // A link that is gone is noticed when the job is built.
        let _ = sender.send_control(&beat);
    }
}
