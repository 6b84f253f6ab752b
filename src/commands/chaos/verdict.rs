//! What the two runs say together: a table for people, an object for programs.

use std::collections::BTreeMap;
use std::path::Path;

use resilin_actors::Exit;
use resilin_chaos::process::plan::{Kind, Plan};
use serde::Serialize;

use super::course::Run;
use crate::figures::Spread;
use crate::trial::Struck;

/// The verdict.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    /// Whether every version of both runs has the same weights.
    equal: bool,
    /// The first version that differs or is missing on one side.
    first_difference: Option<u64>,
    /// Steps of the job.
    steps: u64,
    weights_sha256: Option<String>,
    quiet_weights_sha256: Option<String>,
    seed: u64,
    /// Kills that met a process.
    kills: u64,
    /// Faults that met nobody.
    missed: u64,
    /// Processes that ended otherwise than by a fault of the plan.
    unplanned_ends: u64,
    steps_redone: u64,
    /// By kind of fault, and all together.
    recovery: Vec<Recovery>,
    /// Committed samples a second under faults over those of the quiet run.
    goodput: Option<f64>,
    samples_per_s: Option<f64>,
    quiet_samples_per_s: Option<f64>,
    faults: Vec<Struck>,
}

/// From a fault to the first step committed after it.
#[derive(Debug, Serialize)]
struct Recovery {
    /// The kind; `all` together.
    fault: String,
    /// How many met somebody.
    count: usize,
    /// Of those that a step followed.
    #[serde(flatten)]
    spread: Option<Spread>,
}

impl Verdict {
    pub(super) fn new(plan: &Plan, quiet: &Run, tried: &Run) -> Self {
        let first_difference = first_difference(&quiet.chain, &tried.chain);
        let hashes = [quiet, tried].map(|run| run.report.weights_sha256.clone());
        let [quiet_weights_sha256, weights_sha256] = hashes;
        let record = &tried.record;
        let rates = (tried.samples_per_s(), quiet.samples_per_s());
        let is_kill = |struck: &&Struck| matches!(struck.kind, Kind::Kill(_));
        Self {
            equal: first_difference.is_none() && weights_sha256 == quiet_weights_sha256,
            first_difference,
            steps: quiet.report.total_steps,
            weights_sha256,
            quiet_weights_sha256,
            seed: plan.seed,
            kills: record.met().filter(is_kill).count() as u64,
            missed: (record.struck.len() - record.met().count()) as u64,
            unplanned_ends: record.unplanned,
            steps_redone: tried.redone,
            recovery: recoveries(record.met()),
            goodput: rates.0.zip(rates.1).map(|(tried, quiet)| tried / quiet),
            samples_per_s: rates.0,
            quiet_samples_per_s: rates.1,
            faults: record.struck.clone(),
        }
    }

    /// The table.
    pub(super) fn lines(&self) -> Vec<String> {
        let hash = match self.first_difference {
            None if self.equal => format!("equal to the quiet run at all {} steps", self.steps),
            None => "the chains are equal, the last weights are not".into(),
            Some(step) => format!("DIFFERENT from the quiet run, first at step {step}"),
        };
        let sha = self.weights_sha256.as_deref().unwrap_or("none");
        let mut lines = vec![
            format!("hash            {hash}"),
            format!("weights sha256  {sha}"),
            format!(
                "kills           {}, other faults {}, met nobody {}",
                self.kills,
                self.faults.len() as u64 - self.kills - self.missed,
                self.missed
            ),
            format!("steps redone    {}", self.steps_redone),
        ];
        if self.unplanned_ends > 0 {
            lines.push(format!("unplanned ends  {}", self.unplanned_ends));
        }
        lines.extend(self.recovery.iter().map(|recovery| {
            let spread = recovery
                .spread
                .map_or_else(|| "-".into(), |spread| spread.to_string());
            let Recovery { fault, count, .. } = recovery;
            format!("recovery        {fault:<18} {count:4}  {spread}")
        }));
        let rates = (self.goodput.zip(self.samples_per_s)).zip(self.quiet_samples_per_s);
        lines.push(match rates {
            Some(((goodput, tried), quiet)) => format!(
                "goodput         {goodput:.2} ({tried:.0} of {quiet:.0} committed samples/s)"
            ),
            None => "goodput         not measured: the run was too short".into(),
        });
        lines
    }

    /// The end of the command.
    pub(super) fn exit(&self, kept: Option<&Path>) -> Exit {
        if self.equal {
            return Exit::Done;
        }
        let remedy = match kept {
            Some(path) => format!("both runs are in {}", path.display()),
            None => "run it again with --state DIR to keep both runs".into(),
        };
        let seed = self.seed;
        Exit::Fault(format!(
            "the weights differ from those of the quiet run (seed {seed}); {remedy}"
        ))
    }
}

fn first_difference(quiet: &[[u8; 32]], tried: &[[u8; 32]]) -> Option<u64> {
    let differs = quiet
        .iter()
        .zip(tried)
        .position(|(one, other)| one != other);
    let shorter = quiet.len().min(tried.len());
    let missing = (quiet.len() != tried.len()).then_some(shorter);
    differs.or(missing).map(|step| step as u64)
}

fn recoveries<'a>(met: impl Iterator<Item = &'a Struck>) -> Vec<Recovery> {
    let mut kinds: BTreeMap<Kind, Vec<Option<f64>>> = BTreeMap::new();
    for struck in met {
        let of_kind = kinds.entry(struck.kind).or_default();
        of_kind.push(struck.recovery_ms);
    }
    let all = kinds.values().flatten().copied().collect();
    let kinds = kinds
        .into_iter()
        .map(|(kind, times)| (kind.to_string(), times));
    kinds
        .chain(std::iter::once(("all".to_owned(), all)))
        .map(|(fault, times): (String, Vec<Option<f64>>)| Recovery {
            fault,
            count: times.len(),
            spread: Spread::of(&times.into_iter().flatten().collect::<Vec<_>>()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_differs_where_a_line_does_or_is_missing() {
        let (one, other) = ([1; 32], [2; 32]);
        assert_eq!(first_difference(&[one, one], &[one, one]), None);
        assert_eq!(first_difference(&[one, one], &[one, other]), Some(1));
        assert_eq!(first_difference(&[one, one], &[one]), Some(1));
        assert_eq!(first_difference(&[], &[one]), Some(0));
    }
}
