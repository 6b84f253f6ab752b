//! The data links of a worker: dialled and redialled until told to hang up. They are on the actor's
//! thread, which has little to do beside them: on another each message would wake both.

use std::ops::Range;
use std::time::Duration;

use actix::Addr;
use resilin_core::handshake::{Hello, Role};
use resilin_core::message::SliceView;
use resilin_core::{LinkId, SliceId, Span};
use tokio::sync::{mpsc, oneshot};

use super::actor::{Arrived, Heard, Opened, SliceGone, WorkerActor};
use super::tensors::Arrivals;
use crate::clock::duration;
use crate::link::{
    Address, Backoff, BufferPool, Inbox, Link, LinkOptions, LinkSender, OutTensor, Received, dial,
};

/// Time for a connection and a handshake.
const DEADLINE: Duration = Duration::from_secs(5);

/// First and longest pause between two attempts.
const PAUSES: (Span, Span) = (Span::from_millis(10), Span::from_millis(250));

/// Contributions that may wait for room on a link. What does not fit is sent again by the machine.
const WAITING: usize = 64;

/// How a slice is dialled.
pub(super) struct Dial {
    pub(super) link: LinkId,
    pub(super) view: SliceView,
    pub(super) hello: Hello,
    /// Host of the coordinator, for a view that names none.
    pub(super) host: String,
    /// Values of the slice within the whole.
    pub(super) values: Range<usize>,
    pub(super) arrivals: Arrivals,
    pub(super) in_flight: usize,
    pub(super) pool: BufferPool,
}

/// Keeps a link to a slice until `hung_up` says so or is dropped.
pub(super) async fn keep(dial: Dial, worker: Addr<WorkerActor>, hung_up: oneshot::Receiver<()>) {
    tokio::select! {
        _ = hung_up => {}
        () = dial.forever(&worker) => {}
    }
}

impl Dial {
    async fn forever(&self, worker: &Addr<WorkerActor>) {
        let address = Address::from(Address::on(&self.view.address, &self.host).as_str());
        let slice = self.view.slice;
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, std::process::id().into());
        loop {
            let hello = Hello {
                role: Role::WorkerData { slice },
                ..self.hello.clone()
            };
            let length = self.values.len() as u64;
            let (arrivals, values) = (self.arrivals.clone(), self.values.clone());
            let mut options = LinkOptions::data(length, self.pool.clone());
            options.in_flight = self.in_flight;
            options.want = Box::new(move |header| arrivals.place(slice, &values, header));
            match dial(&address, hello, options, DEADLINE).await {
                Ok(link) => {
                    backoff.reset();
                    self.serve(link, worker).await;
                }
                Err(error) => tracing::debug!(%slice, %error, "a slice does not answer"),
            }
            tokio::time::sleep(duration(backoff.next_pause())).await;
        }
    }

    async fn serve(&self, link: Link, worker: &Addr<WorkerActor>) {
        let (sender, inbox) = link.split();
        let (pushes, waiting) = mpsc::channel(WAITING);
        let (link, slice) = (self.link, self.view.slice);
        let opened = Opened {
            link,
            slice,
            sender: sender.clone(),
            pushes,
        };
        let _ = worker.send(opened).await;
        // Reading goes on while there is no room to send.
        let cause = tokio::select! {
            cause = read(link, slice, inbox, worker) => cause,
            cause = push(waiting, sender) => cause,
        };
        tracing::debug!(%slice, cause, "a data link ended");
        let _ = worker.send(SliceGone { link, slice }).await;
    }
}

async fn read(
    link: LinkId,
    slice: SliceId,
    mut inbox: Inbox,
    worker: &Addr<WorkerActor>,
) -> String {
    loop {
        // The worker actor lives as long as the process.
        match inbox.next().await {
            Received::Control(message) => match message.decode() {
                Ok(says) => {
                    let _ = worker.send(Heard { link, slice, says }).await;
                }
                Err(error) => return error.to_string(),
            },
            Received::Tensor { header, values } => {
                let arrived = Arrived {
                    link,
                    slice,
                    timeline: header.timeline,
                    map: header.map,
                    step: header.step,
                    values,
                };
                let _ = worker.send(arrived).await;
            }
            Received::Closed(cause) => return cause.to_string(),
        }
    }
}

async fn push(mut waiting: mpsc::Receiver<OutTensor>, sender: LinkSender) -> String {
    while let Some(tensor) = waiting.recv().await {
        if let Err(cause) = sender.send(&tensor).await {
            return cause.to_string();
        }
    }
    "nothing is pushed any more".into()
}
