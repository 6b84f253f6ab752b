//! What all actors of a coordinator share: constants of the run, and each other's addresses.

use std::sync::{Arc, OnceLock};

use actix::Addr;
use resilin_checkpoint::Run;
use resilin_core::SliceId;
use resilin_core::handshake::Expected;
use resilin_core::machine::Rules;
use resilin_core::message::Branch;
use resilin_core::sorted::SortedMap;
use resilin_learn::dataset::Manifest;
use resilin_learn::task::Task;

use super::fleet::FleetActor;
use super::job::JobActor;
use super::store::{Source, StoreActor};
use crate::clock::Clock;
use crate::shard::ShardActor;

/// The actors, known to each other once all are started.
pub(super) struct Peers {
    pub(super) fleet: Addr<FleetActor>,
    pub(super) job: Addr<JobActor>,
    pub(super) store: Addr<StoreActor>,
    pub(super) shards: SortedMap<SliceId, Addr<ShardActor>>,
}

/// Constants of one coordinator's life.
pub(super) struct Common {
    pub(super) task: Arc<Task>,
    pub(super) rules: Rules,
    pub(super) expected: Expected,
    /// This life of the coordinator.
    pub(super) reign: u64,
    /// The branch at its start.
    pub(super) branch: Branch,
    /// For the store actor, and for reading checkpoints beside it.
    pub(super) run: Run,
    /// What shard processes restore from.
    pub(super) source: Source,
    pub(super) clock: Clock,
    pub(super) peers: OnceLock<Peers>,
}

impl Common {
    /// The actors; they are started before the first message reaches one of them.
    pub(super) fn peers(&self) -> &Peers {
        self.peers
            .get()
            .expect("actors are introduced before the first message")
    }

    /// Messages that an actor holds before senders wait.
    pub(super) fn mailbox(&self) -> usize {
        self.task.job.cluster.mailbox
    }
}

/// What the rows of a task are: those that are trained on, then the test rows if there are any.
pub(super) fn manifests(task: &Task) -> Vec<Manifest> {
    let test = task.split.test.iter();
    std::iter::once(&task.split.train)
        .chain(test)
        .map(|rows| rows.manifest().clone())
        .collect()
}
