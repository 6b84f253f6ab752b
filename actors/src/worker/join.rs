//! The life of a worker process: dial, build the job, work, and redial whenever the coordinator is
//! lost, for as long as that makes sense.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr};
use resilin_core::Span;
use resilin_core::handshake::{Fingerprint, Role};
use resilin_core::job::{Document, Job};
use resilin_core::message::{CoordinatorSays, Welcome, WorkerSays};
use resilin_learn::registry::Registry;
use resilin_learn::rehearsal::rehearse;
use resilin_learn::task::Task;
use tokio::sync::oneshot;

use super::Options;
use super::actor::{Linked, Orphaned, Terminate, Told, WorkerActor};
use super::debut::{Debut, Milestone};
use crate::clock::duration;
use crate::control::{Control, Dialler, REDIAL_LIMIT};
use crate::exit::Exit;
use crate::link::{Inbox, LinkSender, Received};
use crate::process::Signals;

/// Time for the last words on the control link.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves until the end.
pub(super) async fn serve(
    options: Options,
    registry: Arc<Registry>,
    mut debut: Debut,
) -> Result<Exit, Exit> {
    let mut signals = Signals::take()?;
    let limit = options.redial_limit;
    let mut dialler = Dialler::new(
        Role::Worker,
        &options.join,
        options.token,
        limit.unwrap_or(REDIAL_LIMIT),
    );
    let control = tokio::select! {
        control = dialler.dial() => control?,
        () = signals.next() => return Ok(Exit::Done),
    };
    debut.reach(Milestone::Welcomed);
    let task = tokio::select! {
        task = build(&registry, &control, options.data) => task?,
        () = signals.next() => {
            leave(&control.sender).await;
            return Ok(Exit::Done);
        }
    };
    debut.reach(Milestone::Built);
    dialler.data = Some(Fingerprint(task.data_digest()));
    dialler.limit = limit.unwrap_or(task.job.failure.redial_limit);

    let (end, mut ended) = oneshot::channel();
    let actor = WorkerActor::new(task, dialler.host().into(), dialler.hello(), debut, end);
    let worker = actor?.start();
    let mut joined = std::pin::pin!(stay_joined(dialler, control, worker.clone()));
    loop {
        tokio::select! {
            exit = &mut ended => {
                return Ok(exit.unwrap_or_else(|_| Exit::Fault("the worker actor is gone".into())));
            }
            exit = &mut joined => return Ok(exit),
            () = signals.next() => worker.do_send(Terminate),
        }
    }
}

/// A member that was not ready yet has nothing to hand over.
async fn leave(control: &LinkSender) {
    // Who does not hear it sees the link end.
    let _ = control.send_control(&WorkerSays::Leave);
    let _ = tokio::time::timeout(LAST_WORDS, control.flush()).await;
}

/// Feeds the actor from one control link after the other; returns when there is no use in dialling.
async fn stay_joined(
    mut dialler: Dialler,
    mut control: Control<Welcome>,
    worker: Addr<WorkerActor>,
) -> Exit {
    loop {
        let Control {
            sender,
            inbox,
            welcome: Welcome { incarnation, .. },
        } = control;
        dialler.incarnation = Some(incarnation);
        let linked = Linked {
            sender,
            incarnation,
        };
        // The actor lives as long as the process.
        let _ = worker.send(linked).await;
        let cause = read(inbox, &worker).await;
        tracing::info!(cause, "control link lost; dialling again");
        let _ = worker.send(Orphaned).await;
        control = match dialler.dial().await {
            Ok(control) => control,
            Err(exit) => return exit,
        };
    }
}

async fn read(mut inbox: Inbox, worker: &Addr<WorkerActor>) -> String {
    loop {
        match inbox.next().await {
            Received::Control(message) => match message.decode::<CoordinatorSays>() {
                Ok(says) => {
                    let _ = worker.send(Told(says)).await;
                }
                Err(error) => return error.to_string(),
            },
            Received::Tensor { .. } => return "a tensor on a control link".into(),
            Received::Closed(cause) => return cause.to_string(),
        }
    }
}

/// Builds the job off this thread and tries its model; heartbeats go on meanwhile, since reading
/// rows takes its time.
async fn build(
    registry: &Arc<Registry>,
    control: &Control<Welcome>,
    data: Option<PathBuf>,
) -> Result<Arc<Task>, Exit> {
    let text = control.welcome.job.clone();
    let parse =
        |text: &str| Document::received(text).map_err(|error| Exit::Usage(error.to_string()));
    let job = Job::read(&mut parse(&text)?).map_err(|error| Exit::Usage(error.to_string()))?;
    let document = parse(&text)?;
    let registry = Arc::clone(registry);
    let build = tokio::task::spawn_blocking(move || {
        let task = registry.task(document, data.as_deref());
        let task = Arc::new(task.map_err(|error| Exit::Usage(error.to_string()))?);
        rehearse(&task)?;
        Ok(task)
    });
    tokio::select! {
        built = build => match built {
            Ok(task) => task,
            Err(error) => Err(Exit::Fault(format!("building the job failed: {error}"))),
        },
        never = beat(&control.sender, job.failure.lease) => match never {},
    }
}

async fn beat(sender: &LinkSender, lease: Span) -> std::convert::Infallible {
    let pause: Duration = duration(lease.part(4));
    loop {
        tokio::time::sleep(pause).await;
        let beat = WorkerSays::Heartbeat {
            generation: None,
            step: None,
            samples_per_s: 0.0,
            linked: true,
        };
        // A link that is gone is noticed when the job is built.
        let _ = sender.send_control(&beat);
    }
}
