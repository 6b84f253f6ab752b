//! `resilin status`: a run at this moment, as its coordinator sees it.

use resilin_actors::Exit;
use resilin_actors::coordinator::RunStatus;
use resilin_core::machine::job::{HostStatus, MemberStatus, SliceStatus};

use super::events;
use crate::client::ClientArgs;
use crate::print;

/// Newest facts that are shown.
const FACTS: usize = 5;

/// Show a run: steps, loss, workers, checkpoints, and whom it waits for
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    #[command(flatten)]
    client: ClientArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let status = self.client.client()?.status()?;
        if self.json {
            return print::json(&status);
        }
        print::line(&lines(&status).join("\n"))
    }
}

fn lines(status: &RunStatus) -> Vec<String> {
    let job = &status.job;
    let durable = job
        .durable_step
        .map_or_else(|| "none yet".into(), |step| format!("step {step}"));
    let loss = job
        .loss
        .map_or_else(String::new, |loss| format!(", loss {loss:.4}"));
    let mut lines = vec![
        format!("run         {} ({})", status.name, status.location.run),
        format!(
            "step        {} of {} (epoch {} of {}){loss}",
            job.step, job.total_steps, job.epoch, job.epochs
        ),
        format!("speed       {:.0} samples/s", job.samples_per_s),
        format!("durable     {durable}"),
    ];
    if let Some(accuracy) = job.metrics.last().and_then(|newest| newest.accuracy()) {
        lines.push(format!("accuracy    {accuracy:.4} on the test rows"));
    }
    if let Some(cause) = &job.degraded {
        lines.push(format!("degraded    persistence: {cause}"));
    }
    if let Some(who) = &job.waiting {
        lines.push(format!("waiting for {who}"));
    }
    lines.push(format!(
        "members     generation {}; {} joined, {} lost, {} drained; {} partitions reassigned",
        job.generation, job.joined, job.lost, job.drained, job.reassigned
    ));
    lines.push(format!(
        "workers     {} of {} wanted",
        job.workers.len(),
        job.wanted
    ));
    let reign = job.generation.reign;
    lines.extend(job.workers.iter().map(|worker| member(worker, reign)));
    let recent = status.recent.iter().rev().take(FACTS).rev();
    lines.extend(recent.map(|fact| format!("  {}", events::text(fact))));
    if !job.slices.is_empty() {
        lines.push(format!("shards      {}", job.slices.len()));
        lines.extend(job.slices.iter().map(slice));
        lines.push(format!("hosts       {}", job.hosts.len()));
        lines.extend(job.hosts.iter().map(host));
    }
    lines.push(format!(
        "join        resilin worker --join {}",
        status.location.join
    ));
    lines
}

fn slice(slice: &SliceStatus) -> String {
    let backup = match (slice.backup, slice.in_sync) {
        (None, _) => "no copy".into(),
        (Some(backup), true) => format!("copied to {backup}"),
        (Some(backup), false) => format!("being copied to {backup}"),
    };
    format!(
        "  {:<4} {:<9} at {:<16} view {}  step {}  {backup}",
        slice.slice.to_string(),
        slice.state,
        slice.primary.to_string(),
        slice.view,
        slice.step
    )
}

fn host(host: &HostStatus) -> String {
    format!(
        "  {:<16} {:<24} {:<9} {:>3} shards {:>3} copies",
        host.incarnation.to_string(),
        host.name,
        host.state,
        host.primaries,
        host.backups
    )
}

fn member(member: &MemberStatus, reign: u64) -> String {
    let step = member
        .step
        .map_or_else(|| "-".into(), |step| step.to_string());
    let waits = member.waits_ms.map_or_else(String::new, |millis| {
        let seconds = millis.div_ceil(1000);
        format!("  gets work in {seconds} s, since it was lost again and again")
    });
    let slower = member.times_slower.map_or_else(String::new, |times| {
        format!("  {times:.0} times slower than the others")
    });
    format!(
        "  {:<6} {:<24} {:<9} {:>3} partitions  step {step}  {:.0} samples/s{slower}{waits}",
        member.incarnation.within(reign),
        member.name,
        member.state,
        member.partitions,
        member.samples_per_s
    )
}
