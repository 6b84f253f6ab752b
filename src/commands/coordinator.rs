//! `resilin coordinator`: the process that leads a run, and that workers dial.

use std::path::PathBuf;

use resilin_actors::Exit;
use resilin_actors::coordinator::{self, Options};
use resilin_actors::process::Parent;
use resilin_checkpoint::Start;
use resilin_learn::registry::Registry;

use crate::address;
use crate::client::{STATE, token};
use crate::commands::exit;
use crate::job_file::JobArgs;

/// Lead a run: lease partitions to workers that dial in, keep weights and checkpoints
#[derive(Debug, clap::Args)]
pub(crate) struct Coordinator {
    #[command(flatten)]
    job: JobArgs,
    /// Workers that are wanted, instead of [cluster] workers
    #[arg(long, value_name = "N", overrides_with = "workers")]
    workers: Option<u32>,
    /// Directory where runs, their ledgers and checkpoints are kept
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Address for workers, HOST:PORT, instead of [cluster] listen; port 0 takes a free one
    // The last one counts: at a restart, the supervisor adds where the coordinator was.
    #[arg(long, value_name = "ADDR", overrides_with = "listen", value_parser = address::listened)]
    listen: Option<String>,
    /// Address that workers are told to dial, HOST:PORT, where they do not reach the one listened on
    #[arg(long, value_name = "ADDR", value_parser = address::dialled)]
    advertise: Option<String>,
    /// Address of the HTTP interface, HOST:PORT, instead of [cluster] api
    #[arg(long, value_name = "ADDR", overrides_with = "api", value_parser = address::listened)]
    api: Option<String>,
    /// File with the token that workers and tools must show; needed beyond loopback addresses
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Start the run over: removes its checkpoints and its ledger
    #[arg(long)]
    fresh: bool,
    /// End at once when standard input ends
    #[arg(long)]
    end_with_parent: bool,
}

impl Coordinator {
    pub(crate) fn run(self, registry: &Registry) -> Result<(), Exit> {
        let mut document = self.job.document()?;
        if let Some(workers) = self.workers {
            document.set("cluster", "workers", workers);
        }
        let options = Options {
            job: document,
            state: self.state,
            data: self.job.data,
            listen: self.listen,
            advertise: self.advertise,
            api: self.api,
            token: self.token_file.as_deref().map(token).transpose()?,
            token_file: self.token_file,
            start: match self.fresh {
                true => Start::Fresh,
                false => Start::Resume,
            },
            parent: parent(self.end_with_parent),
        };
        exit(coordinator::run(options, registry))
    }
}

/// What the flag `--end-with-parent` means.
pub(super) fn parent(end_with_parent: bool) -> Parent {
    match end_with_parent {
        true => Parent::EndWith,
        false => Parent::Outlive,
    }
}
