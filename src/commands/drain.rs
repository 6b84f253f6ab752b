//! `resilin drain`: one worker leaves without losing work.

use resilin_actors::Exit;
use serde_json::json;

use crate::client::ClientArgs;
use crate::print;

/// Let one worker hand back what it holds and leave; `train` wants one fewer then
#[derive(Debug, clap::Args)]
pub(crate) struct Drain {
    /// Number of the worker, as `resilin status` shows it (REIGN.NUMBER, or NUMBER alone)
    #[arg(value_name = "WORKER")]
    worker: String,
    #[command(flatten)]
    client: ClientArgs,
}

impl Drain {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let body = json!({ "worker": self.worker });
        self.client.client()?.post("drain", &body)?;
        print::line(&format!("worker {} drains", self.worker))
    }
}
