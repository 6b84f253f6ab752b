//! Slices from and to the coordinator's store, each over a data link of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use resilin_core::frame::DataHeader;
use resilin_core::handshake::Role;
use resilin_core::message::{Branch, StoreAsks, StoreSays};
use resilin_core::{SliceId, Span, Step, View};
use resilin_learn::kernel::{Digest, SliceKernel};
use tokio::time::timeout;

use super::facts::Facts;
use crate::clock::duration;
use crate::link::{
    Address, Backoff, BufferPool, Inbox, Link, LinkOptions, LinkSender, OutTensor, Received,
    SharedValues, dial,
};
use crate::shard::{Arriving, Belongs, Cut, kernel_of};

/// Time for a connection and a handshake.
const DEADLINE: Duration = Duration::from_secs(5);

/// First and longest pause between two attempts.
const PAUSES: (Span, Span) = (Span::from_millis(20), Span::from_millis(500));

/// How many leases of silence are borne at most: the store may read a large checkpoint before its
/// first byte.
const MOST_LEASES: u64 = 64;

/// How long a copy is offered to a store that does not answer.
const OFFERED: Duration = Duration::from_secs(30);

/// How long a cut whose part was sent whole may take.
const TAKEN: Duration = Duration::from_secs(60);

/// Gets a slice as it was at the base of the branch. Tries for as long as it is waited for; an error
/// is the store's own answer.
///
/// A coordinator that is cut off without a reset is dialled again after a lease without a byte, and
/// each time after twice as long: one that reads for long is heard in the end.
pub(super) async fn restore(
    facts: Arc<Facts>,
    slice: SliceId,
    branch: Branch,
) -> Result<SliceKernel, String> {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, std::process::id().into());
    let lease = facts.task.job.failure.lease;
    let mut silence = lease;
    loop {
        match attempt(&facts, slice, branch, duration(silence)).await {
            Ok(answer) => return made(facts, slice, branch, answer?).await,
            Err(Lost::Silent) => {
                tracing::info!(%slice, %silence, "the store says nothing; dialling again");
                silence = silence.times(2).min(lease.times(MOST_LEASES));
            }
            Err(Lost::Failed(cause)) => tracing::debug!(%slice, cause, "the store does not answer"),
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

/// Why there was no answer: it is worth another try.
enum Lost {
    /// Nothing came.
    Silent,
    /// What the network or the answer was.
    Failed(String),
}

impl From<String> for Lost {
    fn from(cause: String) -> Self {
        Self::Failed(cause)
    }
}

async fn attempt(
    facts: &Facts,
    slice: SliceId,
    branch: Branch,
    silence: Duration,
) -> Result<Answer, Lost> {
    let dialled = timeout(silence, link(facts, slice, branch)).await;
    let (sender, mut inbox) = dialled.map_err(|_elapsed| Lost::Silent)??;
    let asks = StoreAsks::Restore { branch };
    sender
        .send_control(&asks)
        .map_err(|error| error.to_string())?;
    match inbox.next_within(silence).await.ok_or(Lost::Silent)? {
        Received::Control(message) => match message.decode() {
            Ok(StoreSays::Restored { .. }) => {}
            Ok(StoreSays::Refused { cause }) => return Ok(Err(cause)),
            Ok(StoreSays::Over) => return Err("another answer than expected".to_owned().into()),
            Err(error) => return Err(error.to_string().into()),
        },
        Received::Tensor { header, .. } => return Err(unexpected(&header).into()),
        Received::Closed(cause) => return Err(cause.to_string().into()),
    }
    let plan = facts
        .task
        .slice_plan(facts.task.slices(branch.shards).range(slice));
    let belongs = belongs(facts, slice, branch, branch.base);
    let mut arriving = Arriving::new(belongs, &plan, plan.tensors().len());
    loop {
        match inbox.next_within(silence).await.ok_or(Lost::Silent)? {
            Received::Tensor { header, values } => {
                if let Some(tensors) = arriving.take(&header, values.share()) {
                    return Ok(Ok(tensors));
                }
            }
            Received::Control(_) => {
                return Err("a message among a slice's tensors".to_owned().into());
            }
            Received::Closed(cause) => return Err(cause.to_string().into()),
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
    let values = facts.task.slice_plan(blocks).longest() as u64;
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

/// Sends a copy to the store, and again to a restarted coordinator until its cut is over. What does
/// not arrive is a checkpoint that is not made.
pub(super) async fn upload(facts: Arc<Facts>, branch: Branch, cut: Cut) {
    let Cut { slice, step, .. } = cut;
    let digests = cut.digests.clone();
    let belongs = belongs(&facts, slice, branch, step);
    let part = Part {
        slice,
        digests,
        tensors: belongs.state(cut.lend()),
        belongs,
    };
    let begun = Instant::now();
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, std::process::id().into());
    loop {
        match part.send(&facts).await {
            Ok(()) => return,
            Err(cause) if begun.elapsed() >= OFFERED => {
                tracing::warn!(%slice, %step, cause, "a copy for a checkpoint was not taken");
                return;
            }
            Err(cause) => tracing::debug!(%slice, %step, cause, "a copy is offered again"),
        }
        tokio::time::sleep(duration(backoff.next_pause())).await;
    }
}

/// A slice's part of a cut.
struct Part {
    slice: SliceId,
    belongs: Belongs,
    digests: Vec<Digest>,
    tensors: Vec<OutTensor>,
}

impl Part {
    /// Returns once the cut is over.
    async fn send(&self, facts: &Facts) -> Result<(), String> {
        let Belongs { branch, step, .. } = self.belongs;
        let (sender, mut inbox) = link(facts, self.slice, branch).await?;
        let asks = StoreAsks::Cut {
            branch,
            step,
            digests: self.digests.clone(),
            tensors: u32::try_from(self.tensors.len()).expect("few moments"),
        };
        sender
            .send_control(&asks)
            .map_err(|error| error.to_string())?;
        let late = || format!("it was not over within {} s", TAKEN.as_secs());
        for tensor in &self.tensors {
            let sent = timeout(TAKEN, sender.send(tensor)).await;
            let sent = sent.map_err(|_elapsed| late())?;
            sent.map_err(|error| error.to_string())?;
        }
        match timeout(TAKEN, inbox.next()).await {
            Ok(Received::Control(message)) => match message.decode() {
                Ok(StoreSays::Over) => Ok(()),
                Ok(StoreSays::Refused { cause }) => Err(cause),
                Ok(StoreSays::Restored { .. }) => Err("another answer than expected".into()),
                Err(error) => Err(error.to_string()),
            },
            Ok(Received::Closed(cause)) => Err(cause.to_string()),
            Ok(Received::Tensor { header, .. }) => Err(unexpected(&header)),
            Err(_elapsed) => Err(late()),
        }
    }
}
