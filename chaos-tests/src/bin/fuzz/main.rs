//! `fuzz`: random schedules, every invariant. It exits with 1 at the first seed that breaks one and
//! prints the command that shows it again; README.md has the commands.

mod arguments;
mod crowd;
mod many;

use std::process::ExitCode;

use resilin_chaos::invariants::Violation;
use resilin_chaos::replay::{Home, Seeds};
use resilin_chaos::schedule::Schedule;
use resilin_chaos::shrink::shrink;

use arguments::{Arguments, Task, Wanted};

fn main() -> ExitCode {
    let Wanted { home, task } = match Arguments::parse(std::env::args().skip(1)) {
        Ok(wanted) => wanted,
        Err(problem) => {
            eprintln!("error: {problem}\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match task {
        Task::Many { from, seeds } => many::run(home, from, seeds),
        Task::One { seed, keep } => one(home, &kept(home, seed, keep)),
        Task::Trace { seed, keep } => trace(home, &kept(home, seed, keep)),
        Task::Shrink { seed } => shrink_seed(home, seed),
        Task::Crowd { workers, seed } => crowd::run(workers, seed),
    }
}

/// The seed's schedule, or some of its faults.
fn kept(home: Home, seed: u64, keep: Option<Vec<usize>>) -> Schedule {
    let mut schedule = home.schedule(seed);
    if let Some(keep) = keep {
        let faults = keep.iter().filter_map(|index| schedule.faults.get(*index));
        schedule.faults = faults.copied().collect();
    }
    schedule
}

fn one(home: Home, schedule: &Schedule) -> ExitCode {
    match Seeds::of(home).verdict(schedule) {
        Ok(ended) => {
            println!(
                "{:?} after {}: {:?}",
                ended.outcome, ended.took, ended.stats
            );
            ExitCode::SUCCESS
        }
        Err(violation) => fail(&violation),
    }
}

fn trace(home: Home, schedule: &Schedule) -> ExitCode {
    match Seeds::of(home).trace(schedule) {
        Ok(_) => ExitCode::SUCCESS,
        Err(violation) => fail(&violation),
    }
}

fn fail(violation: &Violation) -> ExitCode {
    eprintln!("{violation}");
    ExitCode::FAILURE
}

/// Leaves out every fault without which the seed still breaks the same invariant.
fn shrink_seed(home: Home, seed: u64) -> ExitCode {
    let mut seeds = Seeds::of(home);
    let whole = home.schedule(seed);
    let Err(first) = seeds.verdict(&whole) else {
        println!("seed {seed} keeps every invariant; there is nothing to shrink");
        return ExitCode::SUCCESS;
    };
    // Panics are looked for here, and not news.
    std::panic::set_hook(Box::new(|_| ()));
    let all: Vec<usize> = (0..whole.faults.len()).collect();
    let left = shrink(&all, |keep| {
        let schedule = kept(home, seed, Some(keep.to_vec()));
        seeds.verdict(&schedule).is_err_and(|v| v.id == first.id)
    });
    println!("{} of {} faults are needed:", left.len(), all.len());
    for index in &left {
        let (when, fault) = &whole.faults[*index];
        println!("  {index}: {when:?} {fault:?}");
    }
    let indices: Vec<String> = left.iter().map(usize::to_string).collect();
    println!("{} --keep {}", home.replay(seed), indices.join(","));
    fail(&first)
}
