//! `resilin scale`: how many local workers `train` keeps running, and how many parts the parameters
//! have.

use resilin_actors::Exit;
use serde_json::json;

use crate::client::ClientArgs;
use crate::print;

/// Change how many workers `train` keeps running, or how many shards the parameters are in; results
/// stay the same, to the bit
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Wanted workers; 0 pauses the run
    #[arg(value_name = "N", required_unless_present = "shards")]
    workers: Option<u32>,
    /// Wanted shards, where [cluster] shard_processes is above 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
    /// The step after which --shards takes effect [default: the next that all shards can rest at]
    #[arg(long, value_name = "STEP", requires = "shards")]
    at: Option<u64>,
    #[command(flatten)]
    client: ClientArgs,
}

impl Scale {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let client = self.client.client()?;
        // First what can be refused, so that an error means that nothing was changed.
        if let Some(shards) = self.shards {
            let body = json!({ "shards": shards, "at": self.at });
            client.post("reshard", &body)?;
            print::line(&format!("{shards} shards are wanted"))?;
        }
        if let Some(workers) = self.workers {
            client.post("scale", &json!({ "workers": workers }))?;
            print::line(&format!("{workers} workers are wanted"))?;
        }
        Ok(())
    }
}
