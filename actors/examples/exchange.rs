//! Prints what the data path carries on this machine: `cargo run --release --example exchange`.

use resilin_actors::bench::BenchError;
use resilin_actors::bench::exchange::{ExchangePlan, measure};
use resilin_actors::bench::slice::MomentumSlice;

fn main() -> Result<(), BenchError> {
    let plan = ExchangePlan::default();
    let report = measure(plan, MomentumSlice::new(&plan))?;
    println!("{report:#?}");
    Ok(())
}
