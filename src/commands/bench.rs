//! `resilin bench`: what elasticity costs on this machine, measured with real processes and links.

mod bystander;
mod compute;
mod coordinator;
mod detection;
mod exchange;
mod flood;
mod join;
mod lab;
mod memory;
mod model;
mod outside;
mod recovery;
mod step;
mod storm;

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
    /// Gradient steps on one thread, beside another program that makes the same
    Compute(compute::Compute),
    /// What the steps of a job cost in one process, also of a model of your own or a command
    Model(model::OwnModel),
    /// Samples a second of one worker against the serial reference, and of two against one
    Step(step::Step),
    /// From the loss of one of four workers to the next committed step
    Recovery(recovery::Recovery),
    /// From the loss of one of four workers until it counts as lost
    Detection(detection::Detection),
    /// What kills of the coordinator cost one run
    Coordinator(coordinator::Coordinator),
    /// From the start of a worker to its first contribution to a model of 100 MB
    Join(join::Join),
    /// Eight senders at twice the capacity of a shard for 10 s
    Flood,
    /// The memory of shard processes while one of them is too slow for sixteen workers
    Memory(memory::Memory),
    /// One run under a thousand kills of workers, and its hash
    Storm(storm::Storm),
}

impl Bench {
    pub(crate) fn run(&self, registry: &Registry) -> Result<(), Exit> {
        match &self.what {
            What::Exchange => exchange::run(self.json),
            What::Compute(compute) => compute.run(registry, self.json),
            What::Model(model) => model.run(registry, self.json),
            What::Step(step) => step.run(registry, self.json),
            What::Recovery(recovery) => recovery.run(self.json),
            What::Detection(detection) => detection.run(self.json),
            What::Coordinator(coordinator) => coordinator.run(self.json),
            What::Join(join) => join.run(self.json),
            What::Flood => flood::run(self.json),
            What::Memory(memory) => memory.run(self.json),
            What::Storm(storm) => storm.run(registry, self.json),
        }
    }
}
