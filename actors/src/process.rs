//! What every Resilin process does about its own end: a panic aborts, a parent's end is its own,
//! and a signal asks for an orderly one.

use std::io::{Read, Write};
use std::panic;
use std::thread;

use resilin_checkpoint::OPENING_THREAD;
use resilin_core::handshake::Token;
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// The thread that tries a model on the first rows of a run, where a panic is caught, too.
pub(crate) const TRIAL_THREAD: &str = "model-trial";

/// Whether a process outlives the one that started it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// It does; its standard input means nothing.
    #[default]
    Outlive,
    /// The end of its standard input ends it at once, as if killed.
    EndWith,
}

/// Makes every panic end the process after one line with its cause: an actor that panicked leaves a
/// closed mailbox and a process that looks alive. Recovery is the same as after SIGKILL. The threads
/// that open the store and try a model are spared; they are caught.
pub fn abort_on_panic() {
    panic::set_hook(Box::new(|info| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("unnamed");
        if name == OPENING_THREAD {
            return;
        }
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if name == TRIAL_THREAD {
            tracing::warn!("the model panics at {place}");
            return;
        }
        let text = info.payload_as_str().unwrap_or("no message");
        let line = format!(
            "cause=\"panic: {}\" thread={name} at={place}\n",
            one_line(text)
        );
        // Nothing is left to be done if standard error is closed.
        let _ = std::io::stderr().write_all(line.as_bytes());
        std::process::abort();
    }));
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('"', "'")
}

/// What people know this process by: host and process id.
pub(crate) fn name() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("{host}:{}", std::process::id())
}

/// Watches standard input, if the process ends with its parent.
pub(crate) fn watch(parent: Parent) -> Result<(), Exit> {
    match parent {
        Parent::Outlive => return Ok(()),
        Parent::EndWith => {}
    }
    let watch = || {
        let mut input = std::io::stdin().lock();
        let mut bytes = [0; 64];
        // Whatever is written there is ignored; only the end counts.
        while matches!(input.read(&mut bytes), Ok(1..)) {}
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        std::process::abort();
    };
    let thread = thread::Builder::new().name("parent".into());
    match thread.spawn(watch) {
        Ok(_detached) => Ok(()),
        Err(error) => Err(Exit::Fault(format!("cannot start a thread: {error}"))),
    }
}

/// Keeps this thread, and those that it starts from now on, to some CPUs; to none: anywhere.
pub(crate) fn keep_to(cpus: &[usize]) -> Result<(), Exit> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    sched_setaffinity(None, &set).map_err(|error| {
        let text = format!("--cpus {cpus:?}: {error}; name CPUs that this process may use");
        Exit::Usage(text)
    })
}

/// SIGTERM and SIGINT: both ask for an orderly end.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals over from the default, which kills.
    pub(crate) fn take() -> Result<Self, Exit> {
        let take = |kind| {
            signal(kind).map_err(|error| Exit::Fault(format!("cannot take signals: {error}")))
        };
        Ok(Self {
            terminate: take(SignalKind::terminate())?,
            interrupt: take(SignalKind::interrupt())?,
        })
    }

    /// The next of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Other hosts may only come in with a token.
pub(crate) fn check_exposure(address: &str, token: Option<&Token>) -> Result<(), Exit> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    let local = host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback());
    if local || token.is_some() {
        return Ok(());
    }
    Err(Exit::Usage(format!(
        "{address} can be reached from other hosts: give a token, or listen on 127.0.0.1"
    )))
}
