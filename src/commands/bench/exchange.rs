//! `resilin bench exchange`: the data path, until contributions are stored and answered.

use resilin_actors::Exit;
use resilin_actors::bench::exchange::{ExchangePlan, Rate, SliceWork, measure};
use resilin_actors::link::PooledBuffer;

use crate::face::print_json;

/// Sum and plain gradient descent, as little as a slice can do.
#[derive(Default)]
struct Descent {
    weights: Vec<f32>,
    sum: Vec<f32>,
}

impl SliceWork for Descent {
    fn sum(&mut self, contributions: &[PooledBuffer]) {
        let Some((first, rest)) = contributions.split_first() else {
            return;
        };
        self.sum.clear();
        self.sum.extend_from_slice(first);
        self.weights.resize(first.len(), 0.0);
        for contribution in rest {
            for (sum, value) in self.sum.iter_mut().zip(contribution.iter()) {
                *sum += value;
            }
        }
    }

    fn apply(&mut self) {
        for (weight, gradient) in self.weights.iter_mut().zip(&self.sum) {
            *weight -= 0.1 * gradient;
        }
    }
}

pub(super) fn run(json: bool) -> Result<(), Exit> {
    let report = measure(ExchangePlan::default(), Descent::default());
    let report = report.map_err(|error| Exit::Fault(error.to_string()))?;
    if json {
        print_json(&report);
        return Ok(());
    }
    println!(
        "contributions of {} MiB over loopback TCP, medians of {} rounds",
        report.contribution_bytes >> 20,
        report.rounds
    );
    let line = |name: &str, rate: Rate| {
        println!(
            "{name:<16} {:6.2} ms  {:5.2} GB/s  {:.2} of the bare copy",
            rate.contribution_ms, rate.gigabytes_per_s, rate.of_bare
        );
    };
    line("bare copy", report.bare);
    line("link, crc off", report.link_crc_off);
    line("link, crc on", report.link_crc_on);
    println!(
        "sum of {}       {:6.2} ms\napply          {:8.2} ms",
        report.contributions, report.sum_ms, report.apply_ms
    );
    Ok(())
}
