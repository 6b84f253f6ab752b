//! Slices from and to the coordinator's store, each over a data link of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use resilin_core::frame::DataHeader;
use resilin_core::handshake::Role;
use resilin_core::message::{Branch, StoreAsks, StoreSays};
use resilin_core::{SliceId, Span, Step, View};
use resilin_learn::kernel::SliceKernel;

use super::facts::Facts;
use crate::clock::duration;
use crate::link::{
    Address, Backoff, BufferPool, Inbox, Link, LinkOptions, LinkSender, Received, SharedValues,
    dial,
};
use crate::shard::{Arriving, Belongs, Cut, kernel_of, tensors_of};

/// Time for a connection and a handshake.
const DEADLINE: Duration = Duration::from_secs(5);

/// First and longest pause between two attempts.
const PAUSES: (Span, Span) = (Span::from_millis(20), Span::from_millis(500));

/// How long a copy is offered to a store that does not answer.
const OFFERED: Duration = Duration::from_secs(30);

/// How long the store may take to let go of a copy that was sent whole.
const TAKEN: Duration = Duration::from_secs(60);

/// Gets a slice as it was at the base of the branch. Tries for as long as it is waited for; an error
/// is the store's own answer.
pub(super) async fn restore(
    facts: Arc<Facts>,
    slice: SliceId,
    branch: Branch,
) -> Result<SliceKernel, String> {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, std::process::id().into());
    loop {
        match attempt(&facts, slice, branch).await {
            Ok(answer) => return made(facts, slice, branch, answer?).await,
            Err(cause) => tracing::debug!(%slice, cause, "the store does not answer"),
        }
        tokio::time::sleep(duration(backoff.next_pause())).await;
    }
}

/// The kernel, made off this thread: it is hashed as a whole.
async fn made(
    facts: Arc<Facts>,
    slice: SliceId,
    branch: Branch,
    tensors: Vec<SharedValues>,
) -> Result<SliceKernel, String> {
    let make = move || {
        let blocks = facts.task.slices(branch.shards).range(slice);
        kernel_of(facts.task.slice_plan(blocks), branch.base, &tensors)
    };
    let made = tokio::task::spawn_blocking(make).await;
    made.map_err(|error| format!("the slice was not made: {error}"))
}

type Answer = Result<Vec<SharedValues>, String>;

/// The outer error is the network's: it is worth another try.
async fn attempt(facts: &Facts, slice: SliceId, branch: Branch) -> Result<Answer, String> {
    let (sender, mut inbox) = link(facts, slice, branch).await?;
    let asks = StoreAsks::Restore { branch };
    sender
        .send_control(&asks)
        .map_err(|error| error.to_string())?;
    match inbox.next().await {
        Received::Control(message) => match message.decode() {
            Ok(StoreSays::Restored { .. }) => {}
            Ok(StoreSays::Refused { cause }) => return Ok(Err(cause)),
            Err(error) => return Err(error.to_string()),
        },
        Received::Tensor { header, .. } => return Err(unexpected(&header)),
        Received::Closed(cause) => return Err(cause.to_string()),
    }
    let plan = facts
        .task
        .slice_plan(facts.task.slices(branch.shards).range(slice));
    let belongs = belongs(facts, slice, branch, branch.base);
    let mut arriving = Arriving::new(belongs, plan.values().len(), tensors_of(&plan));
    loop {
        match inbox.next().await {
            Received::Tensor { header, values } => {
                if let Some(tensors) = arriving.take(&header, values.share()) {
                    return Ok(Ok(tensors));
                }
            }
            Received::Control(_) => return Err("a message among a slice's tensors".into()),
            Received::Closed(cause) => return Err(cause.to_string()),
        }
    }
}

fn unexpected(header: &DataHeader) -> String {
    format!("a {:?} before the store's answer", header.kind)
}

async fn link(
    facts: &Facts,
    slice: SliceId,
    branch: Branch,
) -> Result<(LinkSender, Inbox), String> {
    let blocks = facts.task.slices(branch.shards).range(slice);
    let values = facts.task.layout.values(blocks).len() as u64;
    // Nothing is gained by keeping buffers: a slice is restored once.
    let options = LinkOptions::data(values, BufferPool::new(0));
    let address = Address::from(facts.join.as_str());
    let hello = facts.hello(Role::Store { slice });
    let link = dial(&address, hello, options, DEADLINE).await;
    link.map(Link::split).map_err(|error| error.to_string())
}

fn belongs(facts: &Facts, slice: SliceId, branch: Branch, step: Step) -> Belongs {
    Belongs {
        run: facts.run,
        branch,
        view: View::default(),
        step,
        blocks: facts.task.slices(branch.shards).range(slice),
    }
}

/// Sends a copy to the store. What does not arrive is a checkpoint that is not made.
pub(super) async fn upload(facts: Arc<Facts>, branch: Branch, cut: Cut) {
    let (slice, step, begun) = (cut.slice, cut.step, Instant::now());
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, std::process::id().into());
    let opened = loop {
        match link(&facts, slice, branch).await {
            Ok(opened) => break Ok(opened),
            Err(cause) if begun.elapsed() >= OFFERED => break Err(cause),
            Err(_) => tokio::time::sleep(duration(backoff.next_pause())).await,
        }
    };
    let sent = match opened {
        Ok((sender, inbox)) => send(&facts, branch, cut, &sender, inbox).await,
        Err(cause) => Err(cause),
    };
    if let Err(cause) = sent {
        tracing::warn!(%slice, %step, cause, "a copy for a checkpoint was not taken by the store");
    }
}

async fn send(
    facts: &Facts,
    branch: Branch,
    cut: Cut,
    sender: &LinkSender,
    mut inbox: Inbox,
) -> Result<(), String> {
    let belongs = belongs(facts, cut.slice, branch, cut.step);
    let asks = StoreAsks::Cut {
        branch,
        step: cut.step,
        digests: cut.digests.clone(),
        tensors: u32::try_from(cut.pinned.tensors().count()).expect("few moments"),
    };
    sender
        .send_control(&asks)
        .map_err(|error| error.to_string())?;
    for tensor in belongs.state(cut.lend()) {
        let sent = sender.send(&tensor).await;
        sent.map_err(|error| error.to_string())?;
    }
    // The store ends the link once it has everything.
    match tokio::time::timeout(TAKEN, inbox.next()).await {
        Ok(Received::Closed(_)) => Ok(()),
        Ok(Received::Control(message)) => match message.decode() {
            Ok(StoreSays::Refused { cause }) => Err(cause),
            Ok(StoreSays::Restored { .. }) | Err(_) => Err("another answer than expected".into()),
        },
        Ok(Received::Tensor { header, .. }) => Err(unexpected(&header)),
        Err(_elapsed) => Err(format!("it was not taken within {} s", TAKEN.as_secs())),
    }
}
