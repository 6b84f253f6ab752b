//! Prints what a reader that takes nothing does to the sender and to heartbeats:
//! `cargo run --release --example slow_reader`.

use resilin_actors::bench::BenchError;
use resilin_actors::bench::slow_reader::{SlowReaderPlan, measure};

fn main() -> Result<(), BenchError> {
    let report = measure(SlowReaderPlan::default())?;
    println!("{report:#?}\nwithin the bounds: {}", report.holds());
    Ok(())
}
