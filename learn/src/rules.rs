//! What the machines of a run know from the start, taken from its task.

use resilin_core::machine::Rules;
use resilin_core::machine::audit::AuditRules;
use resilin_core::vote::VoteRules;

use crate::kernel::{Which, score_tasks};
use crate::task::Task;

/// Weights that a worker keeps for audits, unless two versions are larger.
const AUDIT_BYTES: u64 = 64 << 20;

impl Task {
    /// Which leaves are audited.
    #[must_use]
    pub fn audit_rules(&self) -> AuditRules {
        let version = self.layout.len() * size_of::<f32>();
        AuditRules {
            rate: self.job.failure.audit_rate,
            seed: self.job.run.seed,
            versions: (AUDIT_BYTES / version as u64).clamp(2, 256),
        }
    }

    /// The rules of this run with its parameters over `shards` shards.
    #[must_use]
    pub fn rules(&self, shards: u16) -> Rules {
        let job = &self.job;
        let test_rows = Which::Test.rows(self);
        let every = match job.run.evaluate_every {
            // At the end only: no version but the last is a multiple.
            0 => u64::MAX,
            epochs => epochs.saturating_mul(self.sampling.steps_per_epoch()),
        };
        Rules {
            run: self.effective.run_id(),
            sampling: self.sampling,
            tree: self.tree,
            slices: self.slices(shards),
            bits: job.run.bits,
            votes: VoteRules {
                clip_norm: job.run.clip_norm,
                non_finite: job.run.non_finite,
                total_steps: self.total_steps,
                cut_every: job.checkpoint.every_steps,
            },
            evaluate_every: (test_rows > 0).then_some(every),
            evaluation_tasks: score_tasks(test_rows),
            lease: job.failure.lease,
            audit: self.audit_rules(),
            grace: job.failure.drain_grace,
            cut_interval: job.checkpoint.every,
        }
    }
}
