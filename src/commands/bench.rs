//! `resilin bench`: what elasticity costs on this machine, measured with real processes and links.

mod exchange;
mod lab;
mod recovery;
mod step;

use clap::Subcommand;
use resilin_actors::Exit;
use resilin_learn::registry::Registry;

/// Measure this machine; takes some minutes, and wants it for itself
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Contributions of 16 MiB through a link, against a bare copy through a socket; then a reader
    /// that takes nothing for 5 s
    Exchange,
    /// Samples a second of one worker against the serial reference, and of two against one
    Step(step::Step),
    /// From SIGKILL of one of four workers to the next committed step
    Recovery(recovery::Recovery),
}

impl Bench {
    pub(crate) fn run(&self, registry: &Registry) -> Result<(), Exit> {
        match &self.what {
            What::Exchange => exchange::run(self.json),
            What::Step(step) => step.run(registry, self.json),
            What::Recovery(recovery) => recovery.run(self.json),
        }
    }
}
