//! The living half: starts the actors, opens the ports, and waits for the end.

use std::num::NonZeroU16;
use std::sync::{Arc, OnceLock};

use actix::{Actor, Arbiter};
use resilin_checkpoint::StateDir;
use resilin_core::machine::job::{Command, HostSettings, Outcome, Settings};
use resilin_core::message::SliceView;
use resilin_core::sorted::SortedMap;
use resilin_core::{SliceId, View};
use resilin_learn::kernel::hex;
use tokio::sync::oneshot;

use super::accept::accept;
use super::announce::{Announcement, Location};
use super::common::{Common, Peers};
use super::fleet::{self, FleetActor};
use super::job::{self, JobActor, Operator};
use super::lineage::Lineage;
use super::opening::Opening;
use super::store::{Source, StoreActor};
use super::{http, inside};
use crate::clock::Clock;
use crate::exit::Exit;
use crate::link::{Address, ListenOptions, Listener};
use crate::process::Signals;
use crate::shard::Begin;
use crate::spawn;

/// Serves the run to its end.
pub(super) fn serve(opening: Opening) -> Exit {
    let served = actix::System::new().block_on(serve_async(opening));
    served.unwrap_or_else(|exit| exit)
}

async fn serve_async(opening: Opening) -> Result<Exit, Exit> {
    let mut signals = Signals::take()?;
    let address = Address::from(opening.listen.as_str());
    let listener = Listener::bind(&address, ListenOptions::with_near_socket()).await;
    let listener = listener.map_err(|error| Exit::Fault(error.to_string()))?;
    let http = http::bind(&opening.api)?;
    let listen = listener.address().to_string();
    let join = opening.advertise.clone().unwrap_or_else(|| listen.clone());
    let views = views(&opening, &join)?;

    let location = Location {
        join,
        listen,
        api: http.address(),
        run: opening.rules.run.to_string(),
        pid: std::process::id(),
        directory: opening.run.path().to_path_buf(),
        token_file: opening.token_file.clone(),
    };
    let (state, state_path) = (opening.state_path.clone(), opening.state_path.clone());
    let token = opening.expected.token.clone();
    let (common, ended, _lock) = start(opening, views)?;
    spawn::beside(accept(listener, Arc::clone(&common)));
    let http = http.start(Arc::clone(&common), token, location.clone(), state_path)?;
    location
        .write(&state)
        .map_err(|error| Exit::Fault(format!("cannot write below {}: {error}", state.display())))?;
    Announcement::Ready(location).print();

    let outcome = until_over(&common, ended, &mut signals).await;
    // Members hear of the end before their links do.
    let _ = common.peers().fleet.send(fleet::Flush).await;
    http.stop().await;
    Location::remove(&state);
    Ok(exit(outcome, &common))
}

/// Who serves each slice: this process, under views that are written down now (PROTOCOL 3); or the
/// shard processes that were written down before.
fn views(opening: &Opening, address: &str) -> Result<Vec<SliceView>, Exit> {
    if opening.lineage.kernels.is_empty() {
        return Ok(opening.lineage.views.clone());
    }
    let view = |slice| SliceView {
        slice,
        view: View::first(opening.reign),
        address: address.to_string(),
        primary: None,
        backup: None,
    };
    let slices = opening.lineage.kernels.keys();
    let views: SortedMap<SliceId, SliceView> = slices.map(|slice| (*slice, view(*slice))).collect();
    opening.run.set_views(&views)?;
    Ok(views.into_values().collect())
}

type Started = (Arc<Common>, oneshot::Receiver<Outcome>, StateDir);

/// Starts all actors, each on a thread of its own, and introduces them to each other.
fn start(opening: Opening, views: Vec<SliceView>) -> Result<Started, Exit> {
    let Opening {
        task,
        rules,
        state,
        run,
        reign,
        lineage,
        durable,
        metrics,
        members,
        wishes,
        expected,
        ..
    } = opening;
    let Lineage {
        branch,
        kernels,
        recorded,
        chain,
        superseded,
        views: _,
    } = lineage;
    let cluster = &task.job.cluster;
    let hosts = NonZeroU16::new(cluster.shard_processes).map(|processes| HostSettings {
        processes: processes.get(),
        replicas: cluster.replicas,
    });
    let settings = Settings {
        reign,
        branch,
        views: views.clone(),
        hosts,
        recorded,
        chain,
        superseded,
        metrics,
        data: hex(&task.data_digest()),
        workers: task.job.cluster.workers,
        max_workers: task.job.cluster.max_workers,
        wait_below_min: task.job.failure.wait_below_min,
        min_workers: task.job.cluster.min_workers,
        durable,
        members,
        wishes,
    };
    let common = Arc::new(Common {
        task,
        rules,
        expected,
        reign,
        branch,
        run,
        source: Source::default(),
        clock: Clock::start(),
        peers: OnceLock::new(),
    });
    let (over, ended) = oneshot::channel();

    let shards = inside::start(&common, kernels, &views)
        .map_err(|error| Exit::Fault(format!("cannot start a thread: {error}")))?;
    let for_job = Arc::clone(&common);
    let job = JobActor::start_in_arbiter(&Arbiter::new().handle(), move |_| {
        JobActor::new(for_job, settings, over)
    });
    let for_fleet = Arc::clone(&common);
    let fleet = FleetActor::start_in_arbiter(&Arbiter::new().handle(), move |_| {
        FleetActor::new(for_fleet)
    });
    let for_store = Arc::clone(&common);
    let store = StoreActor::start_in_arbiter(&Arbiter::new().handle(), move |_| {
        StoreActor::new(for_store, durable)
    });
    let peers = Peers {
        fleet,
        job,
        store,
        shards,
    };
    assert!(
        common.peers.set(peers).is_ok(),
        "actors are introduced once"
    );
    for shard in common.peers().shards.values() {
        shard.do_send(Begin);
    }
    common.peers().job.do_send(job::Begin);
    Ok((common, ended, state))
}

/// Waits for the outcome; the first signal asks for a stop, a second one for an end at once.
async fn until_over(
    common: &Common,
    mut ended: oneshot::Receiver<Outcome>,
    signals: &mut Signals,
) -> Option<Outcome> {
    tokio::select! {
        outcome = &mut ended => return outcome.ok(),
        () = signals.next() => tracing::info!("stopping at the next step"),
    }
    common.peers().job.do_send(Operator(Command::Leave));
    tokio::select! {
        outcome = &mut ended => outcome.ok(),
        () = signals.next() => None,
    }
}

fn exit(outcome: Option<Outcome>, common: &Common) -> Exit {
    match outcome {
        Some(Outcome::Finished) => Exit::Done,
        Some(Outcome::Stopped(step)) => Exit::Stopped(step),
        Some(Outcome::Halted { cause, .. }) => Exit::Fault(cause),
        Some(Outcome::Outranked { cause }) => Exit::Refused(cause),
        Some(Outcome::SaveFailed { durable, reason }) => {
            let last = match durable {
                Some(step) => format!("step {step} is the last durable one"),
                None => "no step is durable".into(),
            };
            Exit::Fault(format!(
                "the last checkpoint was not saved: {reason}; {last}"
            ))
        }
        Some(Outcome::WaitedTooLong) => {
            let wanted = common.task.job.cluster.min_workers;
            Exit::WaitedTooLong(format!(
                "fewer than {wanted} workers were ready for longer than wait_below_min; start \
                 workers with `resilin worker --join`"
            ))
        }
        None => Exit::Fault("ended by a second signal; start again to go on".into()),
    }
}
