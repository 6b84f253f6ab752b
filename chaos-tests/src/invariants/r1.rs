//! R1: a replica of a slice applies a step at most once in a timeline, and only with all partitions,
//! each once.

use std::collections::BTreeSet;

use resilin_core::message::StepRecord;
use resilin_core::tree::PartitionSet;
use resilin_core::{PartitionId, SliceId, Step, Timeline};

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Once {
    applied: BTreeSet<(SliceId, Timeline, Step, u64)>,
}

impl Invariant for Once {
    fn id(&self) -> &'static str {
        "R1"
    }

    fn see(&mut self, fact: &Fact<'_>, world: &World<'_>) -> Result<(), String> {
        if let Fact::Applied {
            slice,
            timeline,
            replica,
            step,
            ..
        } = fact
        {
            let new = self.applied.insert((*slice, *timeline, *step, *replica));
            ensure(new, || {
                format!("slice {slice} applied step {step} twice in {timeline}")
            })?;
        }
        let Fact::Committed(record) = fact else {
            return Ok(());
        };
        let by = |replica| (record.slice, record.timeline, record.step, replica);
        let mut applied = self.applied.range(by(0)..=by(u64::MAX));
        ensure(applied.next().is_some(), || {
            format!("a record of a step that was not applied: {record:?}")
        })?;
        if record.skipped {
            return Ok(());
        }
        complete(record, world)
    }
}

fn complete(record: &StepRecord, world: &World<'_>) -> Result<(), String> {
    let sampling = &world.oracle.task.sampling;
    let with_samples = sampling.with_samples(record.step);
    let mut covered = PartitionSet::default();
    for part in &record.nodes {
        for partition in (part.node.first()..part.node.end()).map(PartitionId) {
            ensure(!covered.contains(partition), || {
                format!("partition {partition} twice in {record:?}")
            })?;
            if with_samples.contains(partition) {
                covered.insert(partition);
            }
        }
    }
    ensure(covered.includes(&with_samples), || {
        format!("a partition is missing in {record:?}")
    })?;
    let samples = sampling.samples(record.step);
    ensure(record.samples == samples, || {
        format!("{samples} samples are due in {record:?}")
    })
}
