//! The shard process: joins a coordinator and serves replicas of slices, whichever it is told to.
//!
//! It needs no rows and no state directory: what a slice was comes from the coordinator's store or
//! from the slice's other replica. What it has in memory outlives the coordinator, which learns the
//! job from it again. The main thread has the control link and the Host machine; each replica has
//! threads of its own.

mod actor;
mod facts;
mod join;
mod outside;
mod peers;
mod replicas;
mod store;

use std::sync::Arc;

use resilin_core::Span;
use resilin_core::handshake::Token;
use resilin_learn::registry::Registry;

use crate::exit::Exit;
use crate::process::{self, Parent};

/// What a shard process is started with.
pub struct Options {
    /// Where the coordinator listens, as `host:port`.
    pub join: String,
    /// Where workers and other shard processes dial this one; port 0 takes a free one.
    pub listen: String,
    /// Where they are told to dial, if not where it listens.
    pub advertise: Option<String>,
    /// The secret of the cluster; needed to listen elsewhere than on loopback.
    pub token: Option<Token>,
    /// How long to dial a coordinator that does not answer; `None`: a minute, and once the job is
    /// known `[failure] redial_limit`.
    pub redial_limit: Option<Span>,
    /// Whether this process ends with the one that started it.
    pub parent: Parent,
}

/// Serves replicas until released, refused, or left without a coordinator.
#[must_use]
pub fn run(options: Options, registry: Arc<Registry>) -> Exit {
    process::abort_on_panic();
    if let Err(exit) = process::watch(options.parent) {
        return exit;
    }
    let served = actix::System::new().block_on(join::serve(options, registry));
    served.unwrap_or_else(|exit| exit)
}
