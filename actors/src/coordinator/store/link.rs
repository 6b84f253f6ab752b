//! The store's side of a data link of a shard process: a slice goes out, or a cut comes in.

use std::sync::Arc;

use resilin_core::handshake::{Refusal, RefusalCode};
use resilin_core::machine::saver::Event;
use resilin_core::message::{Branch, StoreAsks, StoreSays};
use resilin_core::{SliceId, Step, View};
use resilin_learn::kernel::Digest;
use tokio::sync::oneshot;

use super::{Copy, Part};
use crate::coordinator::common::Common;
use crate::coordinator::job;
use crate::link::{BufferPool, Inbox, Knock, Link, LinkOptions, LinkSender, Received};
use crate::shard::{Arriving, Belongs};

/// Serves one request; the link ends with it.
pub(in crate::coordinator) async fn serve(knock: Knock, slice: SliceId, common: Arc<Common>) {
    if usize::from(slice.0) >= common.task.layout.blocks() {
        let (code, reason) = (RefusalCode::Role, format!("there is no slice {slice}"));
        return knock.refuse(Refusal { code, reason }).await;
    }
    // Buffers are not kept: requests are rare, and their sizes change with the layout.
    let task = &common.task;
    let values = task.slice_plan(0..task.layout.blocks()).longest() as u64;
    let options = LinkOptions::data(values, BufferPool::new(0));
    let admitted = knock.admit(&common.expected, options).await;
    let Ok((sender, mut inbox)) = admitted.map(Link::split) else {
        return;
    };
    let Received::Control(message) = inbox.next().await else {
        return;
    };
    let served = match message.decode() {
        Ok(StoreAsks::Restore { branch }) => {
            restore(&common, slice, branch, &sender, &mut inbox).await
        }
        Ok(StoreAsks::Cut {
            branch,
            step,
            digests,
            ..
        }) if is_known(&common, slice, branch) => {
            let belongs = belongs(&common, slice, branch, step);
            cut(&common, slice, belongs, digests, &sender, inbox).await
        }
        Ok(StoreAsks::Cut { branch, .. }) => {
            Err(format!("{} slices have no slice {slice}", branch.shards))
        }
        Err(error) => Err(error.to_string()),
    };
    if let Err(cause) = served {
        tracing::debug!(%slice, cause, "a link of the store ended early");
    }
}

async fn restore(
    common: &Arc<Common>,
    slice: SliceId,
    branch: Branch,
    sender: &LinkSender,
    inbox: &mut Inbox,
) -> Result<(), String> {
    let known = is_known(common, slice, branch);
    let for_read = Arc::clone(common);
    let read = move || {
        let Common {
            source, run, task, ..
        } = &*for_read;
        match known {
            true => source.read(run, task, slice, branch),
            false => Err(format!("{} slices have no slice {slice}", branch.shards)),
        }
    };
    let read = tokio::task::spawn_blocking(read).await;
    let tensors = match read.map_err(|error| error.to_string())? {
        Ok(tensors) => tensors,
        Err(cause) => {
            let says = StoreSays::Refused { cause };
            sender
                .send_control(&says)
                .map_err(|error| error.to_string())?;
            return sender.flush().await.map_err(|error| error.to_string());
        }
    };
    let says = StoreSays::Restored {
        branch,
        tensors: u32::try_from(tensors.len()).expect("few moments"),
    };
    sender
        .send_control(&says)
        .map_err(|error| error.to_string())?;
    for tensor in belongs(common, slice, branch, branch.base).state(tensors) {
        let sent = sender.send(&tensor).await;
        sent.map_err(|error| error.to_string())?;
    }
    // The other end ends the link once it has everything.
    let _ = inbox.next().await;
    Ok(())
}

async fn cut(
    common: &Common,
    slice: SliceId,
    belongs: Belongs,
    digests: Vec<Digest>,
    sender: &LinkSender,
    mut inbox: Inbox,
) -> Result<(), String> {
    let Belongs { branch, step, .. } = belongs;
    let job = &common.peers().job;
    let plan = common
        .task
        .slice_plan(common.task.slices(branch.shards).range(slice));
    let mut arriving = Arriving::new(belongs, &plan, plan.tensors().len());
    let cause = loop {
        match inbox.next().await {
            Received::Tensor { header, values } => {
                if let Some(tensors) = arriving.take(&header, values.share()) {
                    let (over, is_over) = oneshot::channel();
                    let part = Part {
                        branch,
                        slice,
                        step,
                        digests,
                        copy: Copy::Arrived(tensors),
                        over: Some(over),
                    };
                    common.peers().store.do_send(part);
                    // It is dropped, not sent.
                    let _ = is_over.await;
                    let sent = sender.send_control(&StoreSays::Over);
                    sent.map_err(|error| error.to_string())?;
                    return sender.flush().await.map_err(|error| error.to_string());
                }
            }
            Received::Control(_) => break "a message among a cut's tensors".into(),
            Received::Closed(cause) => break cause.to_string(),
        }
    };
    let reason = format!("slice {slice} did not send its part: {cause}");
    job.do_send(job::FromStore(Event::Failed(Some(slice), step, reason)));
    Err(cause)
}

fn belongs(common: &Common, slice: SliceId, branch: Branch, step: Step) -> Belongs {
    Belongs {
        run: common.rules.run,
        branch,
        view: View::default(),
        step,
        blocks: common.task.slices(branch.shards).range(slice),
    }
}

fn is_known(common: &Common, slice: SliceId, branch: Branch) -> bool {
    branch.shards > 0 && slice.0 < common.task.slices(branch.shards).slices()
}
