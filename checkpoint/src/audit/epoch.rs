//! One epoch, row by row.

use resilin_core::PartitionId;
use resilin_core::ledger::StepRecord;
use resilin_core::sampling::Sampling;
use resilin_core::tree::PartitionSet;

/// How often each row of one epoch was applied.
pub(super) struct Epoch {
    pub(super) number: u64,
    order: Vec<u32>,
    pub(super) applied: Vec<u8>,
    pub(super) skipped: u64,
}

impl Epoch {
    pub(super) fn new(sampling: &Sampling, number: u64) -> Self {
        let order = sampling.order(number);
        Self {
            number,
            applied: vec![0; order.len()],
            order,
            skipped: 0,
        }
    }

    /// Counts the rows of the nodes that a step summed.
    pub(super) fn apply(&mut self, sampling: &Sampling, record: &StepRecord) -> Result<(), String> {
        let step = record.step;
        let with_samples = sampling.with_samples(step);
        let mut covered = PartitionSet::default();
        let mut samples = 0;
        for part in &record.nodes {
            let node = part.node;
            let end = node.end().min(sampling.partitions());
            let below = (node.first()..end).map(PartitionId);
            let mut rows = 0;
            for partition in below.filter(|partition| with_samples.contains(*partition)) {
                if covered.contains(partition) {
                    return Err(format!(
                        "step {step}: partition {partition} was summed twice"
                    ));
                }
                covered.insert(partition);
                let positions = sampling.positions(step, partition);
                rows += positions.end - positions.start;
                for position in positions {
                    let row = self.order[position as usize] as usize;
                    self.applied[row] = self.applied[row].saturating_add(1);
                }
            }
            if rows != part.samples {
                let said = part.samples;
                return Err(format!(
                    "step {step}: node {node} has {rows} samples, the record says {said}"
                ));
            }
            samples += rows;
        }
        if let Some(missing) = with_samples.iter().find(|p| !covered.contains(*p)) {
            return Err(format!("step {step}: partition {missing} was not summed"));
        }
        if samples != record.samples {
            let said = record.samples;
            return Err(format!(
                "step {step} has {samples} samples, the record says {said}"
            ));
        }
        Ok(())
    }

    pub(super) fn twice(&self) -> Option<usize> {
        self.applied.iter().position(|times| *times > 1)
    }
}
