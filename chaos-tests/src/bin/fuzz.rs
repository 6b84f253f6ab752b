//! `fuzz [--from S] [--seeds N] [--seed S] [--trace S]`: random schedules, every invariant; exit 1 at the first
//! seed that breaks one, with the command that shows it again.

use std::process::ExitCode;

use resilin_chaos::replay::{Seeds, replay};

const USAGE: &str = "usage: fuzz [--from SEED] [--seeds COUNT] [--seed SEED] [--trace SEED]";

fn main() -> ExitCode {
    let (mut from, mut count) = (0, 1000);
    let mut trace = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let Some(value) = arguments.next().and_then(|v| v.parse::<u64>().ok()) else {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        };
        match name.as_str() {
            "--from" => from = value,
            "--seeds" => count = value,
            "--seed" => (from, count) = (value, 1),
            "--trace" => (from, count, trace) = (value, 1, true),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let mut seeds = Seeds::default();
    let mut events = 0;
    for seed in from..from.saturating_add(count) {
        let ended = if trace {
            seeds.trace(seed)
        } else {
            seeds.run(seed)
        };
        match ended {
            Ok(ended) => {
                events += ended.stats.events;
                if count == 1 {
                    println!(
                        "{:?} after {}: {:?}",
                        ended.outcome, ended.took, ended.stats
                    );
                }
            }
            Err(violation) => {
                eprintln!("{violation}\n{}", replay(seed));
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{count} seeds from {from} on kept every invariant in {events} events");
    ExitCode::SUCCESS
}
