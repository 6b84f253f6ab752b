//! Many seeds, on every processor.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use resilin_chaos::invariants::Violation;
use resilin_chaos::replay::{Home, Seeds};

/// Runs seeds until one fails.
pub(crate) fn run(home: Home, from: u64, seeds: u64) -> ExitCode {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let end = from.saturating_add(seeds);
    let (next, events) = (AtomicU64::new(from), AtomicU64::new(0));
    let failed: Mutex<Option<(u64, Violation)>> = Mutex::new(None);
    let style = "{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left";
    let style = ProgressStyle::with_template(style).expect("a template of known words");
    let bar = ProgressBar::new(seeds).with_style(style);
    // A panic is told with its seed.
    std::panic::set_hook(Box::new(|_| ()));
    let began = Instant::now();
    let work = || {
        let mut mine = Seeds::of(home);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            match mine.verdict(&home.schedule(seed)) {
                Ok(ended) => {
                    events.fetch_add(ended.stats.events, Ordering::Relaxed);
                    bar.inc(1);
                }
                Err(violation) => {
                    next.store(end, Ordering::Relaxed);
                    let mut failed = failed.lock().expect("panics are caught");
                    if failed.as_ref().is_none_or(|(other, _)| seed < *other) {
                        *failed = Some((seed, violation));
                    }
                    return;
                }
            }
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    bar.finish_and_clear();
    let failed = failed.into_inner().expect("panics are caught");
    if let Some((seed, violation)) = failed {
        eprintln!(
            "{violation}\n{}\nfewer faults: add --shrink",
            home.replay(seed)
        );
        return ExitCode::FAILURE;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{seeds} seeds from {from} on kept every invariant in {} events; {:.0} seeds/s on {threads} \
         threads, {seconds:.1} s",
        events.into_inner(),
        seeds as f64 / seconds,
    );
    ExitCode::SUCCESS
}
