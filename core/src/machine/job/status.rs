//! What people see of a job.

use serde::{Deserialize, Serialize};

use super::crew::Stage;
use super::{AuditCounts, Counters, Job, Metrics};
use crate::fact::{Dated, Fact};
use crate::id::{Generation, Incarnation, SliceId, Step, Timeline, View};
use crate::time::Time;

/// A job at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The newest version that every slice has.
    pub step: Step,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// The pass over the data, from 1.
    pub epoch: u64,
    /// Passes over the data in the whole run, rounded up.
    pub epochs: u64,
    /// Mean loss of the newest step.
    pub loss: Option<f64>,
    /// Rows applied a second, over the newest steps.
    pub samples_per_s: f64,
    /// Rows applied since this coordinator began.
    pub samples: u64,
    /// The newest durable version.
    pub durable_step: Option<Step>,
    /// Why checkpoints fail, while they do.
    pub degraded: Option<String>,
    /// Whom or what the run waits for, if it does.
    pub waiting: Option<String>,
    /// Version of the membership.
    pub generation: Generation,
    /// Branch of history.
    pub timeline: Timeline,
    /// Members, by incarnation.
    pub workers: Vec<MemberStatus>,
    /// Slices in order; empty while they live in the coordinator's process.
    #[serde(default)]
    pub slices: Vec<SliceStatus>,
    /// Hosts, by incarnation.
    #[serde(default)]
    pub hosts: Vec<HostStatus>,
    /// Workers wanted; nobody once the run is over.
    pub wanted: u32,
    /// Members that became ready, in all.
    pub joined: u64,
    /// Members lost, in all.
    pub lost: u64,
    /// Members that left in peace, in all.
    pub drained: u64,
    /// Leases that moved, in all.
    pub reassigned: u64,
    /// Rows evaluated and not used.
    pub discarded: u64,
    /// Wanted checkpoints left out because one was being written.
    pub cuts_missed: u64,
    /// Steps skipped because of non-finite values.
    pub skipped: u64,
    /// Leaves that were evaluated twice.
    pub audits: AuditCounts,
    /// Every evaluation, by version.
    pub metrics: Vec<Metrics>,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its number.
    pub incarnation: Incarnation,
    /// Host and process id, as it says itself; else the address its control link comes from.
    pub name: String,
    /// `joining`, `active`, `draining`, or `waiting` for work after it was lost again and again.
    pub state: String,
    /// Standing leases.
    pub partitions: usize,
    /// The step it works on, as it last said.
    pub step: Option<Step>,
    /// Samples a second of its compute; 0 when unknown.
    pub samples_per_s: f64,
    /// How many times slower than the others' median, where that is worth a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_slower: Option<f64>,
    /// How long it still gets no work for having been lost again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_ms: Option<u64>,
}

/// One slice and who serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceStatus {
    /// The slice.
    pub slice: SliceId,
    /// Number of the view.
    pub view: View,
    /// The newest version it reported.
    pub step: Step,
    /// Who is its primary.
    pub primary: Incarnation,
    /// `serving`, `lost` or `returning`.
    pub state: String,
    /// Who is its backup.
    pub backup: Option<Incarnation>,
    /// Whether the backup has all that was published.
    pub in_sync: bool,
    /// Steps that it has yet to acknowledge, as the primary last said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Its number.
    pub incarnation: Incarnation,
    /// Host and process id, as it says itself.
    pub name: String,
    /// `joining`, `ready`, `waiting` (it was lost again and again), `draining` or `unlinked`.
    pub state: String,
    /// Slices whose primary it is.
    pub primaries: usize,
    /// Slices whose backup it is.
    pub backups: usize,
}

impl Job {
    /// What there is to see.
    #[must_use]
    pub fn status(&self, now: Time) -> Status {
        let step = self.low();
        let last = self.rules.last();
        let Counters {
            members,
            samples,
            discarded,
            cuts_missed,
            skipped,
        } = self.counters;
        Status {
            step,
            total_steps: last.0,
            epoch: self
                .rules
                .sampling
                .position(Step(step.0.min(last.0.saturating_sub(1))))
                .epoch
                + 1,
            epochs: last.0.div_ceil(self.rules.sampling.steps_per_epoch()),
            loss: self.last_loss,
            samples_per_s: self.rate(now),
            samples,
            durable_step: self.durable,
            degraded: self.degraded.clone(),
            waiting: self.waiting(now),
            generation: self.generation,
            timeline: self.branch.timeline,
            workers: self.member_status(now),
            slices: self.slice_status(),
            hosts: self.host_status(),
            wanted: if self.is_told() { 0 } else { self.wanted },
            joined: members.joined,
            lost: members.lost,
            drained: members.drained,
            reassigned: members.reassigned,
            discarded,
            cuts_missed,
            skipped,
            audits: self.audits.counts,
            metrics: self.metrics.values().copied().collect(),
        }
    }

    /// A fact with its place in the run.
    #[must_use]
    pub fn dated(&self, at_ms: u64, fact: Fact) -> Dated {
        Dated {
            at_ms,
            timeline: self.branch.timeline,
            generation: self.generation,
            step: self.low(),
            fact,
        }
    }

    fn member_status(&self, now: Time) -> Vec<MemberStatus> {
        let standing = |member| {
            let held = self.leases.of(member);
            held.filter(|(_, lease)| lease.until.is_none()).count()
        };
        self.members
            .iter()
            .map(|(incarnation, state)| MemberStatus {
                incarnation,
                name: state.name.clone(),
                state: match state.stage() {
                    Stage::Active if state.held_back().is_some() => "waiting".into(),
                    Stage::Joining => "joining".into(),
                    Stage::Active => "active".into(),
                    Stage::Draining => "draining".into(),
                },
                partitions: standing(incarnation),
                step: state.step,
                samples_per_s: state.speed.measured,
                times_slower: state.speed.slow,
                waits_ms: state.held_back().map(|until| until.since(now).as_millis()),
            })
            .collect()
    }

    fn rate(&self, now: Time) -> f64 {
        let Some((first, _)) = self.commits.front() else {
            return 0.0;
        };
        let samples: u64 = self
            .commits
            .iter()
            .skip(1)
            .map(|(_, samples)| samples)
            .sum();
        let seconds = now.since(*first).as_secs_f64();
        if seconds > 0.0 {
            samples as f64 / seconds
        } else {
            0.0
        }
    }

    /// Names who is missing: the holders of what the open step lacks.
    fn waiting(&self, now: Time) -> Option<String> {
        if let Some(waiting) = self.waiting_for_hosts() {
            return Some(waiting);
        }
        let low = self.low();
        if low == self.rules.last() {
            return self
                .evaluation
                .as_ref()
                .map(|_| "the last evaluation".into());
        }
        if let Some(who) = self.waiting_for_minimum() {
            return Some(who);
        }
        // Every step waits for somebody most of its time: only what takes too long has a name.
        if !self.is_slow(now) {
            return None;
        }
        let missing = self.late_by_holder();
        let Some((holder, partitions)) = missing.first_key_value() else {
            return self.waiting_for_scores();
        };
        let name = &self.members.get(*holder)?.name;
        let partitions: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        Some(format!(
            "worker {} ({name}) at step {}: partitions {}",
            holder.within(self.settings.reign),
            self.reached(),
            partitions.join(", ")
        ))
    }
}
