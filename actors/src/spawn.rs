//! Tasks of the runtime. Each is boxed, so that what the runtime does with a task is compiled once
//! and not for every future; a task lives for as long as a link or a process, never for a message.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Runs a future beside the caller, on the caller's thread.
pub(crate) fn beside(future: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    let boxed: Pin<Box<dyn Future<Output = ()>>> = Box::pin(future);
    actix::spawn(boxed)
}

/// Runs a future on the runtime of the caller.
pub(crate) fn apart(future: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let boxed: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(future);
    tokio::spawn(boxed)
}
