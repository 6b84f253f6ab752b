//! `resilin scale`: how many local workers `train` keeps running.

use resilin_actors::Exit;
use serde_json::json;

use crate::client::ClientArgs;
use crate::print;

/// Change how many workers `train` keeps running; results stay the same, to the bit
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Wanted workers; 0 pauses the run
    #[arg(value_name = "N")]
    workers: u32,
    #[command(flatten)]
    client: ClientArgs,
}

impl Scale {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let body = json!({ "workers": self.workers });
        self.client.client()?.post("scale", &body)?;
        print::line(&format!("{} workers are wanted", self.workers))
    }
}
