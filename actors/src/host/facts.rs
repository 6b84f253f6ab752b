//! What the parts of a shard process have in common.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::ArbiterHandle;
use resilin_core::RunId;
use resilin_core::handshake::{Expected, Hello, Role};
use resilin_core::machine::Rules;
use resilin_core::message::HostSays;
use resilin_learn::task::Task;

use super::peers::Peers;
use crate::clock::Clock;
use crate::link::LinkSender;

/// Constants of one shard process, and its two ways out.
pub(super) struct Facts {
    pub(super) task: Arc<Task>,
    pub(super) run: RunId,
    pub(super) expected: Expected,
    /// Where the coordinator listens, as `host:port`.
    pub(super) join: String,
    /// The host part of it.
    pub(super) host: String,
    /// What this process says of itself, but for its life.
    pub(super) hello: Hello,
    pub(super) clock: Clock,
    /// The thread of links to the store and to other hosts.
    pub(super) data: ArbiterHandle,
    pub(super) control: Control,
    pub(super) peers: Peers,
}

impl Facts {
    /// The rules of the run with its parameters over so many shards. The id is the coordinator's: a
    /// process without rows does not know the whole job.
    pub(super) fn rules(&self, shards: u16) -> Rules {
        Rules {
            run: self.run,
            ..self.task.rules(shards)
        }
    }

    pub(super) fn hello(&self, role: Role) -> Hello {
        Hello {
            role,
            ..self.hello.clone()
        }
    }
}

/// The control link, while there is one.
#[derive(Default)]
pub(super) struct Control(Mutex<Option<LinkSender>>);

impl Control {
    pub(super) fn set(&self, sender: Option<LinkSender>) {
        *self.lock() = sender;
    }

    pub(super) fn get(&self) -> Option<LinkSender> {
        self.lock().clone()
    }

    /// Says it now or never: what matters is repeated.
    pub(super) fn say(&self, says: &HostSays) {
        if let Some(control) = &*self.lock()
            && let Err(error) = control.send_control(says)
        {
            tracing::debug!(%error, "a control message was not sent");
        }
    }

    /// No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, Option<LinkSender>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
