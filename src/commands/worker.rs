//! `resilin worker`: a process that evaluates gradients for a coordinator.

use std::path::PathBuf;
use std::sync::Arc;

use resilin_actors::Exit;
use resilin_actors::worker::{self, Options};
use resilin_learn::registry::Registry;

use crate::client::token;
use crate::commands::coordinator::parent;
use crate::commands::exit;

/// Join a run and compute for it; may be killed at any moment, SIGTERM hands its work back first
#[derive(Debug, clap::Args)]
pub(crate) struct Worker {
    /// Address of the coordinator, HOST:PORT, as `resilin status` shows it
    #[arg(long, value_name = "ADDR", value_parser = dialled)]
    join: String,
    /// Directory where relative paths of [data] begin [default: the working directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// File with the token of the cluster
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// End at once when standard input ends
    #[arg(long)]
    end_with_parent: bool,
}

impl Worker {
    pub(crate) fn run(self, registry: Arc<Registry>) -> Result<(), Exit> {
        let options = Options {
            join: self.join,
            token: self.token_file.as_deref().map(token).transpose()?,
            data: self.data,
            redial_limit: None,
            parent: parent(self.end_with_parent),
        };
        exit(worker::run(options, registry))
    }
}

/// An address to dial: `HOST:PORT`, or `unix:PATH`, as a coordinator can listen.
pub(super) fn dialled(text: &str) -> Result<String, String> {
    let path = text.strip_prefix("unix:").map(|path| !path.is_empty());
    let tcp = || {
        let parts = text.rsplit_once(':');
        parts.is_some_and(|(host, port)| {
            let bracketed = host.starts_with('[') && host.ends_with(']');
            let plain = !host.is_empty() && !host.contains(':');
            (bracketed || plain) && port.parse::<u16>().is_ok_and(|port| port > 0)
        })
    };
    match path.unwrap_or_else(tcp) {
        true => Ok(text.into()),
        false => Err("expected HOST:PORT with a port from 1 to 65535".into()),
    }
}
