//! The report of a run: what `--report` writes and the store keeps with a finished run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use resilin_core::job::Bits;
use serde::{Deserialize, Serialize};

/// How a run went. Counts of members and wall time are of the last coordinator's life; steps,
/// samples and hashes are of the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the run.
    pub job: String,
    /// Id of the run, in hex.
    pub run_id: String,
    /// The seed.
    pub seed: u64,
    /// `finished`, `stopped`, `halted`, `save-failed` or `waited-too-long`.
    pub outcome: String,
    /// The first cause, where a run did not end well.
    pub cause: Option<String>,
    /// Steps done.
    pub steps: u64,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// Passes over the data that were begun.
    pub epochs: u64,
    /// Rows applied, each as often as the run's epochs ask for.
    pub samples: u64,
    /// SHA-256 of the weights as little-endian f32 in layout order; of the newest durable version.
    pub weights_sha256: Option<String>,
    /// The newest chain line, in hex.
    pub chain: Option<String>,
    /// Mean loss of the last step.
    pub train_loss: Option<f64>,
    /// Share of test rows predicted right by the newest version that was scored.
    pub test_accuracy: Option<f64>,
    /// Mean loss over the test rows of that version.
    pub test_loss: Option<f64>,
    /// The same of each loss that the model names, before its weight.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub test_losses: BTreeMap<String, f64>,
    /// Seconds.
    pub wall_s: f64,
    /// Rows applied a second, over this coordinator's life.
    pub samples_per_s: f64,
    /// Workers that became ready.
    pub workers_joined: u64,
    /// Workers lost without a word.
    pub workers_lost: u64,
    /// Workers that left in peace.
    pub workers_drained: u64,
    /// Leases that moved from one worker to another.
    pub partitions_reassigned: u64,
    /// Contributions computed and not used.
    pub discarded: u64,
    /// Steps left out because of non-finite values.
    pub skipped: u64,
    /// Last number of the membership.
    pub generation: u32,
    /// Checkpoints made.
    pub checkpoints: u64,
    /// Whether the same job gives the same weights to the bit; `off` promises all else.
    #[serde(default)]
    pub bits: Bits,
    /// The step that this coordinator began from, if not the first.
    pub resumed_from_step: Option<u64>,
    /// The newest durable checkpoint.
    pub checkpoint: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use resilin_core::Step;
    use resilin_core::machine::job::Metrics;

    /// JSON has no word for them: whoever looks at a run must not go blind when a model diverges.
    #[test]
    fn a_score_that_is_not_finite_can_be_told_and_read() {
        let metrics = Metrics {
            version: Step(3),
            epoch: 1,
            rows: 10,
            correct: None,
            loss_sum: f64::NAN,
            parts: [f64::INFINITY; _],
        };
        let json = serde_json::to_string(&metrics).expect("it can be told");
        let read: Metrics = serde_json::from_str(&json).expect("what is told can be read");
        assert!(read.loss_sum.is_nan() && read.parts[0].is_nan(), "{json}");
        assert_eq!((read.version, read.rows), (Step(3), 10));
    }
}
