//! `resilin worker`: a process that evaluates gradients for a coordinator.

use std::path::PathBuf;
use std::sync::Arc;

use resilin_actors::Exit;
use resilin_actors::worker::{self, Options};
use resilin_learn::registry::Registry;

use crate::address;
use crate::client::token;
use crate::commands::coordinator::parent;
use crate::commands::exit;

/// Join a run and compute for it; may be killed at any moment, SIGTERM hands its work back first
#[derive(Debug, clap::Args)]
pub(crate) struct Worker {
    /// Address of the coordinator, HOST:PORT, as `resilin status` shows it
    #[arg(long, value_name = "ADDR", value_parser = address::dialled)]
    join: String,
    /// Directory where relative paths of [data] begin [default: the working directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// CPUs that its threads keep to, such as 0,1 [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
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
            cpus: self.cpus,
            redial_limit: None,
            parent: parent(self.end_with_parent),
        };
        exit(worker::run(options, registry))
    }
}
