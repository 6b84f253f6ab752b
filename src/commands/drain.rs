//! `resilin drain`: one worker leaves without losing work.

use resilin_actors::Exit;
use serde_json::json;

use crate::client::ClientArgs;
use crate::print;

/// Let one worker hand back what it holds and leave; `train` wants one fewer then
#[derive(Debug, clap::Args)]
pub(crate) struct Drain {
    /// Number of the worker, as `resilin status` shows it (REIGN.NUMBER, or NUMBER alone)
    #[arg(value_name = "WORKER", value_parser = number)]
    worker: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// What may be a worker's number; which there are only the coordinator knows.
fn number(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it is empty; `resilin status` shows the numbers of the workers".into()),
        number => Ok(number.into()),
    }
}

impl Drain {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let body = json!({ "worker": self.worker });
        self.client.client()?.post("drain", &body)?;
        print::line(&format!("worker {} drains", self.worker))
    }
}
