//! Votes between this process and the primaries of slices elsewhere: one dialled link a slice, and
//! the links that others dialled.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix::Addr;
use resilin_core::handshake::{Expected, Hello};
use resilin_core::message::SliceSays;
use resilin_core::sorted::SortedMap;
use resilin_core::{SliceId, Span};
use tokio::sync::{oneshot, watch};

use super::facts::Facts;
use crate::clock::duration;
use crate::link::{Address, Backoff, Knock, Link, LinkOptions, LinkSender, Received, dial};
use crate::shard::{ShardActor, Slice};

/// Time for a connection and a handshake.
const DEADLINE: Duration = Duration::from_secs(5);

/// First and longest pause between two attempts.
const PAUSES: (Span, Span) = (Span::from_millis(10), Span::from_millis(250));

/// Words kept for a link that is not open yet: without them a slice would ask only by timer.
const WAITING: usize = 16;

/// Where the words for each slice's primary go.
#[derive(Default)]
pub(super) struct Peers(Mutex<SortedMap<SliceId, Target>>);

enum Target {
    Here(Addr<ShardActor>),
    Linked(LinkSender),
    /// Not reached yet: the newest words wait.
    Waiting(VecDeque<SliceSays>),
}

impl Target {
    fn tell(&mut self, says: SliceSays) {
        match self {
            // At most a vote and a question a step, and no step without all votes.
            Self::Here(shard) => shard.do_send(Slice(says)),
            Self::Linked(sender) => {
                if let Err(error) = sender.send_control(&says) {
                    tracing::debug!(%error, "a vote was not sent");
                }
            }
            Self::Waiting(words) => {
                if words.len() == WAITING {
                    words.pop_front();
                }
                words.push_back(says);
            }
        }
    }
}

impl Peers {
    /// Tells the primary of a slice.
    pub(super) fn tell(&self, to: SliceId, says: SliceSays) {
        let mut targets = self.lock();
        let target = targets.entry(to);
        target.or_insert_with(unreached).tell(says);
    }

    /// The primary is in this process.
    pub(super) fn here(&self, slice: SliceId, shard: Addr<ShardActor>) {
        self.reach(slice, Target::Here(shard));
    }

    /// Nobody is known to be the primary; words wait.
    pub(super) fn nowhere(&self, slice: SliceId) {
        self.lock().insert(slice, unreached());
    }

    fn reach(&self, slice: SliceId, mut target: Target) {
        let mut targets = self.lock();
        if let Some(Target::Waiting(words)) = targets.remove(&slice) {
            words.into_iter().for_each(|says| target.tell(says));
        }
        targets.insert(slice, target);
    }

    /// No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, SortedMap<SliceId, Target>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreached() -> Target {
    Target::Waiting(VecDeque::new())
}

/// Keeps a link to the primary of a slice until `hung_up` is dropped.
pub(super) async fn keep(
    facts: Arc<Facts>,
    slice: SliceId,
    address: String,
    hello: Hello,
    hung_up: oneshot::Receiver<()>,
) {
    let forever = async {
        let address = Address::from(address.as_str());
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, std::process::id().into());
        loop {
            match dial(&address, hello.clone(), LinkOptions::control(), DEADLINE).await {
                Ok(link) => {
                    backoff.reset();
                    let (sender, mut inbox) = link.split();
                    facts.peers.reach(slice, Target::Linked(sender));
                    // The other end has nothing to say here; its first word would be its last.
                    let _ = inbox.next().await;
                    facts.peers.nowhere(slice);
                }
                Err(error) => tracing::debug!(%slice, %error, "a slice's primary does not answer"),
            }
            tokio::time::sleep(duration(backoff.next_pause())).await;
        }
    };
    tokio::select! {
        // What is hung up says nothing more of where the primary is.
        biased;
        _ = hung_up => {}
        () = forever => {}
    }
}

/// Hears the votes of another process for a replica here, for as long as the replica lives.
pub(super) async fn hear(
    knock: Knock,
    expected: Expected,
    shard: Addr<ShardActor>,
    mut alive: watch::Receiver<()>,
) {
    let admitted = knock.admit(&expected, LinkOptions::control()).await;
    let Ok((_sender, mut inbox)) = admitted.map(Link::split) else {
        return;
    };
    loop {
        let received = tokio::select! {
            received = inbox.next() => received,
            _ = alive.changed() => return,
        };
        let Received::Control(message) = received else {
            return;
        };
        let Ok(says) = message.decode() else {
            return;
        };
        if shard.send(Slice(says)).await.is_err() {
            return;
        }
    }
}
