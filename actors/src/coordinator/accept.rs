//! One listener for everything: who knocks is handed to the actor that its role names.

use std::sync::Arc;

use resilin_core::handshake::{Refusal, RefusalCode, Role};

use super::common::Common;
use super::fleet;
use crate::link::{Knock, Listener};
use crate::shard;

/// Hands every connection on, for as long as the process lives.
pub(super) async fn accept(mut listener: Listener, common: Arc<Common>) {
    loop {
        route(listener.next().await, &common).await;
    }
}

async fn route(knock: Knock, common: &Common) {
    let peers = common.peers();
    match knock.hello.role {
        Role::Worker => {
            // A closed mailbox is the end of the process.
            let _ = peers.fleet.send(fleet::Arrived(knock)).await;
        }
        Role::WorkerData { slice } => match peers.shards.get(&slice) {
            Some(shard) => {
                let _ = shard.send(shard::Arrived(knock)).await;
            }
            None => refuse(knock, format!("there is no slice {slice} here")),
        },
        role @ (Role::Shard
        | Role::ShardPeer { .. }
        | Role::Backup { .. }
        | Role::Store { .. }
        | Role::Supervisor) => {
            refuse(knock, format!("role {role:?} is not served here"));
        }
    }
}

fn refuse(knock: Knock, reason: String) {
    let code = RefusalCode::Role;
    actix::spawn(knock.refuse(Refusal { code, reason }));
}
