//! One listener for everything: who knocks is handed to the actor that its role names.

use std::sync::Arc;

use resilin_core::handshake::{Refusal, RefusalCode, Role as Link};
use resilin_core::machine::fleet::Role;

use super::common::Common;
use super::{fleet, store};
use crate::link::{Knock, Listener};
use crate::shard;
use crate::spawn;

/// Hands every connection on, for as long as the process lives.
pub(super) async fn accept(mut listener: Listener, common: Arc<Common>) {
    loop {
        route(listener.next().await, &common).await;
    }
}

async fn route(knock: Knock, common: &Arc<Common>) {
    let peers = common.peers();
    match knock.hello.role {
        Link::Worker => {
            // A closed mailbox is the end of the process.
            let _ = peers.fleet.send(fleet::Arrived(knock, Role::Worker)).await;
        }
        Link::Shard if common.task.job.cluster.shard_processes > 0 => {
            let _ = peers.fleet.send(fleet::Arrived(knock, Role::Host)).await;
        }
        Link::Shard => {
            let text = "the run keeps its shards in the coordinator; set [cluster] \
                        shard_processes to have them in processes of their own";
            refuse(knock, text.into());
        }
        Link::Store { slice } => {
            spawn::beside(store::serve(knock, slice, Arc::clone(common)));
        }
        Link::WorkerData { slice } => match peers.shards.get(&slice) {
            Some(shard) => {
                let _ = shard.send(shard::Arrived(knock)).await;
            }
            None => refuse(knock, format!("there is no slice {slice} here")),
        },
        role @ (Link::ShardPeer { .. } | Link::Backup { .. } | Link::Supervisor) => {
            refuse(knock, format!("role {role:?} is not served here"));
        }
    }
}

fn refuse(knock: Knock, reason: String) {
    let code = RefusalCode::Role;
    spawn::beside(knock.refuse(Refusal { code, reason }));
}
