//! `resilin shard`: a process that serves parts of the parameters for a run.

use std::sync::Arc;

use resilin_actors::Exit;
use resilin_actors::host::{self, Options};
use resilin_learn::registry::Registry;

use crate::address;
use crate::client::token;
use crate::commands::coordinator::parent;
use crate::commands::exit;

/// Join a run and serve parts of its parameters, for [cluster] shard_processes above 0; it needs no
/// data, and SIGTERM hands its parts over first where copies exist
#[derive(Debug, clap::Args)]
pub(crate) struct Shard {
    /// Address of the coordinator, HOST:PORT, as `resilin status` shows it
    #[arg(long, value_name = "ADDR", value_parser = address::dialled)]
    join: String,
    /// Address for workers and other shards, HOST:PORT; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = address::listened)]
    listen: String,
    /// Address that they are told to dial, HOST:PORT, if not the one of --listen
    #[arg(long, value_name = "ADDR", value_parser = address::dialled)]
    advertise: Option<String>,
    /// File with the token of the cluster; needed beyond loopback addresses
    #[arg(long, value_name = "FILE")]
    token_file: Option<std::path::PathBuf>,
    /// End at once when standard input ends
    #[arg(long)]
    end_with_parent: bool,
}

impl Shard {
    pub(crate) fn run(self, registry: Arc<Registry>) -> Result<(), Exit> {
        let options = Options {
            join: self.join,
            listen: self.listen,
            advertise: self.advertise,
            token: self.token_file.as_deref().map(token).transpose()?,
            redial_limit: None,
            parent: parent(self.end_with_parent),
        };
        exit(host::run(options, registry))
    }
}
