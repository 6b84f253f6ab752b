//! The link between the two replicas of a slice: dialled and redialled by the primary, served by the
//! backup, carried by both in the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::Addr;
use resilin_core::handshake::Hello;
use resilin_core::{LinkId, Span};
use tokio::sync::{mpsc, oneshot};

use super::Setting;
use super::actor::ShardActor;
use super::replica::{MirrorGone, MirrorOpened, MirrorSaid, MirrorTensor};
use crate::clock::duration;
use crate::link::{
    Address, Backoff, BufferPool, Inbox, Knock, Link, LinkOptions, LinkSender, OutTensor, Received,
    dial,
};

/// Time for a connection and a handshake.
const DEADLINE: Duration = Duration::from_secs(5);

/// First and longest pause between two attempts.
const PAUSES: (Span, Span) = (Span::from_millis(10), Span::from_millis(250));

/// Tensors that may wait for room on the link. What does not fit is sent again by the machine.
const WAITING: usize = 64;

/// Numbers the links of this process.
static LINKS: AtomicU64 = AtomicU64::new(1);

/// How the other replica is dialled.
pub(crate) struct Dial {
    /// Where it listens, as `host:port`.
    pub(crate) address: String,
    /// What this process says of itself.
    pub(crate) hello: Hello,
}

/// What a link carries.
#[derive(Clone)]
pub(super) struct Carries {
    /// Values of the slice's longest tensor.
    pub(super) values: u64,
    pub(super) in_flight: usize,
    pub(super) pool: BufferPool,
}

impl Carries {
    fn options(&self) -> LinkOptions {
        let mut options = LinkOptions::data(self.values, self.pool.clone());
        options.in_flight = self.in_flight;
        options
    }
}

/// Keeps a link to the backup until `hung_up` says so or is dropped.
pub(super) async fn keep(
    dial: Dial,
    carries: Carries,
    shard: Addr<ShardActor>,
    hung_up: oneshot::Receiver<()>,
) {
    tokio::select! {
        _ = hung_up => {}
        () = forever(&dial, &carries, &shard) => {}
    }
}

async fn forever(to: &Dial, carries: &Carries, shard: &Addr<ShardActor>) {
    let address = Address::from(to.address.as_str());
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, std::process::id().into());
    loop {
        match dial(&address, to.hello.clone(), carries.options(), DEADLINE).await {
            Ok(link) => {
                backoff.reset();
                carry(link, shard).await;
            }
            Err(error) => tracing::debug!(%error, "the backup does not answer"),
        }
        tokio::time::sleep(duration(backoff.next_pause())).await;
    }
}

/// Serves the primary's link at its backup.
pub(super) async fn serve(
    knock: Knock,
    setting: Arc<Setting>,
    carries: Carries,
    shard: Addr<ShardActor>,
) {
    if let Ok(link) = knock.admit(&setting.expected, carries.options()).await {
        carry(link, &shard).await;
    }
}

async fn carry(link: Link, shard: &Addr<ShardActor>) {
    let (sender, inbox) = link.split();
    let (tensors, waiting) = mpsc::channel(WAITING);
    let link = LinkId(LINKS.fetch_add(1, Ordering::Relaxed));
    let opened = MirrorOpened {
        link,
        sender: sender.clone(),
        tensors,
    };
    if shard.send(opened).await.is_err() {
        return;
    }
    // Reading goes on while there is no room to send.
    let cause = tokio::select! {
        cause = read(link, inbox, shard) => cause,
        cause = push(waiting, sender) => cause,
    };
    tracing::debug!(link = link.0, cause, "the link to the other replica ended");
    // A closed mailbox is the end of the replica.
    let _ = shard.send(MirrorGone(link)).await;
}

async fn read(link: LinkId, mut inbox: Inbox, shard: &Addr<ShardActor>) -> String {
    loop {
        let handled = match inbox.next().await {
            Received::Control(message) => match message.decode() {
                Ok(says) => shard.send(MirrorSaid(link, says)).await,
                Err(error) => return error.to_string(),
            },
            Received::Tensor { header, values } => {
                let tensor = MirrorTensor {
                    link,
                    header: Box::new(header),
                    values: values.share(),
                };
                shard.send(tensor).await
            }
            Received::Closed(cause) => return cause.to_string(),
        };
        if handled.is_err() {
            return "the replica is dropped".into();
        }
    }
}

async fn push(mut waiting: mpsc::Receiver<OutTensor>, sender: LinkSender) -> String {
    while let Some(tensor) = waiting.recv().await {
        if let Err(cause) = sender.send(&tensor).await {
            return cause.to_string();
        }
    }
    "another link took its place".into()
}
