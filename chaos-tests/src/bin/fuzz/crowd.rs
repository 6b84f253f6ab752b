//! One run of very many workers, some of which are killed: that it ends, with the right bits, and what
//! it takes.

use std::process::ExitCode;
use std::time::Instant;

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::schedule::{Fault, Leg, Schedule, When};
use resilin_chaos::sim::{Kept, Sim};
use resilin_core::ledger::Record;
use resilin_core::sorted::SortedSet;
use resilin_core::{Incarnation, Step};

/// Slices of the run.
const SHARDS: u16 = 2;
/// Workers killed in the middle of it, and workers that join then.
const KILLED: u32 = 20;

pub(crate) fn run(workers: u32, seed: u64) -> ExitCode {
    let spec = Spec::crowd(workers);
    let oracle = Oracle::of(&spec.task());
    let leg = Leg {
        workers,
        shards: SHARDS,
    };
    let halfway = When::Reached(Step(spec.steps / 2));
    let kills = (0..KILLED.min(workers / 2)).map(|pick| (halfway, Fault::Kill(pick * 7919)));
    let storm = (halfway, Fault::JoinStorm(KILLED));
    let schedule = Schedule::scripted(seed, leg, kills.chain([storm]).collect());
    let began = Instant::now();
    match Sim::new(&oracle, &schedule).run() {
        Ok(ended) => {
            println!(
                "{workers} workers, {} partitions, {SHARDS} slices, {} steps: {:?} after {} of \
                 virtual time, {} workers in the last step; {} events in {:.1} s",
                spec.partitions,
                spec.steps,
                ended.outcome,
                ended.took,
                contributors(&ended.store),
                ended.stats.events,
                began.elapsed().as_secs_f64(),
            );
            ExitCode::SUCCESS
        }
        Err(violation) => {
            eprintln!(
                "{violation}\nagain: cargo run --release -p resilin-chaos --bin fuzz -- --workers \
                 {workers} --seed {seed}"
            );
            ExitCode::FAILURE
        }
    }
}

/// How many members the newest step was summed from.
fn contributors(kept: &Kept) -> usize {
    let newest = kept.ledger.iter().rev().find_map(|record| match record {
        Record::Step(step) => Some(step),
        _ => None,
    });
    let nodes = newest.into_iter().flat_map(|step| &step.nodes);
    let members: SortedSet<Incarnation> = nodes.map(|part| part.contributor).collect();
    members.len()
}
