//! `resilin bench flood`: eight senders at twice the capacity of what they push to, for ten seconds
//! and with a short lease: nobody is declared dead, and memory is bounded.

use resilin_actors::Exit;
use resilin_actors::bench::flood::{self, FloodPlan};

use crate::print;

pub(super) fn run(json: bool) -> Result<(), Exit> {
    let report = flood::measure(FloodPlan::default());
    let report = report.map_err(|error| Exit::Fault(error.to_string()))?;
    if json {
        return print::json(&report);
    }
    let mebi = |bytes: f64| bytes / f64::from(1 << 20);
    print::progress(&format!(
        "{} senders offer {:.0} MiB/s, {:.0} MiB/s are taken",
        report.senders,
        mebi(report.offered_bytes_per_s),
        mebi(report.taken_bytes_per_s)
    ));
    print::progress(&format!(
        "held up          {:.0} % of a sender's time",
        report.held_up * 1e2
    ));
    print::progress(&format!(
        "heartbeat gap    {:.0} ms at most, the lease is {:.0} ms",
        report.heartbeat_gap_max_ms, report.lease_ms
    ));
    print::progress(&format!("declared dead    {}", report.declared_dead));
    print::progress(&format!(
        "tensors alive    {:.0} MiB at most, {:.0} MiB allowed",
        mebi(report.held_max_bytes as f64),
        mebi(report.held_limit_bytes as f64)
    ));
    if let Some(grown) = report.resident_growth_bytes {
        print::progress(&format!(
            "resident memory  {:.0} MiB more, {:.0} MiB allowed, both ends",
            mebi(grown as f64),
            mebi(report.resident_limit_bytes as f64)
        ));
    }
    let verdict = if report.holds() { "yes" } else { "no" };
    print::progress(&format!("within bounds    {verdict}"));
    Ok(())
}
