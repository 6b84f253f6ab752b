//! The life of one data link at a shard: let in, read until it ends. The next message is taken off
//! the link only when the shard has handled the last, so a busy shard holds its senders back.

use std::ops::Range;
use std::sync::Arc;

use actix::Addr;
use resilin_core::LinkId;
use resilin_core::frame::{DataHeader, Kind};
use resilin_core::tree::Node;

use super::Setting;
use super::actor::ShardActor;
use super::mailbox::{Asked, Gone, Opened, Pushed};
use crate::link::{BufferPool, Inbox, Knock, Link, LinkOptions, PooledBuffer, Received};

/// What a contribution to the slice looks like.
pub(super) struct Expectation {
    /// The slice's blocks.
    pub(super) blocks: Range<usize>,
    /// The slice's values.
    pub(super) values: usize,
    /// Where they are stored.
    pub(super) pool: BufferPool,
}

/// Serves a link to its end.
pub(super) async fn serve(
    link: LinkId,
    knock: Knock,
    setting: Arc<Setting>,
    expectation: Expectation,
    shard: Addr<ShardActor>,
) {
    let mut options = LinkOptions::data(expectation.values as u64, expectation.pool.clone());
    options.in_flight = setting.in_flight;
    let admitted = knock.admit(&setting.expected, options).await;
    let Ok((sender, mut inbox)) = admitted.map(Link::split) else {
        return;
    };
    if shard.send(Opened(link, sender)).await.is_err() {
        return;
    }
    if let Err(cause) = read(link, &mut inbox, &expectation, &shard).await {
        tracing::debug!(link = link.0, cause, "a data link ended");
    }
    // A closed mailbox is the end of the process.
    let _ = shard.send(Gone(link)).await;
}

async fn read(
    link: LinkId,
    inbox: &mut Inbox,
    expectation: &Expectation,
    shard: &Addr<ShardActor>,
) -> Result<(), String> {
    loop {
        let handled = match inbox.next().await {
            Received::Control(message) => {
                let asks = message.decode().map_err(|error| error.to_string())?;
                shard.send(Asked(link, asks)).await
            }
            Received::Tensor { header, values } => {
                let node = expectation.check(&header, &values)?;
                let (header, values) = (Box::new(header), values.share());
                shard
                    .send(Pushed {
                        link,
                        node,
                        header,
                        values,
                    })
                    .await
            }
            Received::Closed(cause) => return Err(cause.to_string()),
        };
        if handled.is_err() {
            return Ok(());
        }
    }
}

impl Expectation {
    fn check(&self, header: &DataHeader, values: &PooledBuffer) -> Result<Node, String> {
        let fits = header.blocks == self.blocks && values.len() == self.values;
        match (header.kind, header.node) {
            (Kind::Gradient, Some(node)) if fits => Ok(node),
            (kind, node) => Err(format!(
                "a {kind:?} of {} values for blocks {:?} and node {node:?} does not belong here",
                values.len(),
                header.blocks
            )),
        }
    }
}
