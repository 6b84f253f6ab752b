//! `resilin bench exchange`: the data path, until contributions are stored and answered.

use resilin_actors::Exit;
use resilin_actors::bench::exchange::{ExchangePlan, Rate, measure};
use resilin_actors::bench::slice::MomentumSlice;

use crate::face::print_json;

pub(super) fn run(json: bool) -> Result<(), Exit> {
    let plan = ExchangePlan::default();
    let report = measure(plan, MomentumSlice::new(&plan));
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
