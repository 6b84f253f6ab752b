//! `resilin stop`: ends a run at a step boundary with a durable checkpoint.

use resilin_actors::Exit;
use serde_json::json;

use crate::client::ClientArgs;
use crate::print;

/// Stop a run at the next step, with a checkpoint; the same command line goes on from there
#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    client: ClientArgs,
}

impl Stop {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        self.client.client()?.post("stop", &json!({}))?;
        print::line("the run stops at the next step")
    }
}
