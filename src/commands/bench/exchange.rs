//! `resilin bench exchange`: the data path, until contributions are stored and answered, and what a
//! reader that takes nothing does to it.

use resilin_actors::Exit;
use resilin_actors::bench::exchange::{self, ExchangePlan, ExchangeReport, Rate};
use resilin_actors::bench::slice::MomentumSlice;
use resilin_actors::bench::slow_reader::{self, SlowReaderPlan, SlowReaderReport};
use serde::Serialize;

use crate::print;

#[derive(Debug, Serialize)]
struct Summary {
    #[serde(flatten)]
    exchange: ExchangeReport,
    slow_reader: SlowReaderReport,
}

pub(super) fn run(json: bool) -> Result<(), Exit> {
    let plan = ExchangePlan::default();
    let exchange = exchange::measure(plan, MomentumSlice::new(&plan));
    let exchange = exchange.map_err(|error| Exit::Fault(error.to_string()))?;
    if !json {
        show_exchange(&exchange);
    }
    let slow_reader = slow_reader::measure(SlowReaderPlan::default());
    let slow_reader = slow_reader.map_err(|error| Exit::Fault(error.to_string()))?;
    if json {
        return print::json(&Summary {
            exchange,
            slow_reader,
        });
    }
    show_slow_reader(&slow_reader);
    Ok(())
}

fn show_exchange(report: &ExchangeReport) {
    print::progress(&format!(
        "contributions of {} MiB over loopback TCP, medians of {} rounds",
        report.contribution_bytes >> 20,
        report.rounds
    ));
    let line = |name: &str, rate: Rate| {
        print::progress(&format!(
            "{name:<16} {:6.2} ms  {:5.2} GB/s  {:.2} of the bare copy",
            rate.contribution_ms, rate.gigabytes_per_s, rate.of_bare
        ));
    };
    line("bare copy", report.bare);
    line("link, crc off", report.link_crc_off);
    line("link, crc on", report.link_crc_on);
    print::progress(&format!(
        "sum of {}       {:6.2} ms\napply          {:8.2} ms",
        report.contributions, report.sum_ms, report.apply_ms
    ));
}

fn show_slow_reader(report: &SlowReaderReport) {
    print::progress(&format!(
        "a reader that takes nothing for {:.0} s, {} tensors of {} MiB",
        report.slow_s,
        report.tensors,
        report.tensor_bytes >> 20
    ));
    print::progress(&format!("sender stopped   {:6.2} s", report.stopped_s));
    print::progress(&format!(
        "queued at most   {:6.1} MiB of {} MiB in flight",
        mebibytes(report.queued_max_bytes),
        report.in_flight_bytes >> 20
    ));
    print::progress(&format!(
        "heartbeat gap    {:6.0} ms, one every {:.0} ms",
        report.heartbeat_gap_max_ms, report.heartbeat_ms
    ));
    print::progress(&format!(
        "tensors intact   {:6} of {}",
        report.intact, report.tensors
    ));
    let verdict = if report.holds() { "yes" } else { "no" };
    print::progress(&format!("within bounds    {verdict:>6}"));
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
