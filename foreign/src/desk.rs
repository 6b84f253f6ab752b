//! A child at work: what is asked of it goes into the memory, what it computes is read from there,
//! and every answer is checked before it counts.

use resilin_learn::dataset::{Batch, Targets};
use resilin_learn::model::{Microbatch, Outcome, Score};

use crate::child::Child;
use crate::fault::Fault;
use crate::memory::{Plan, aligned};
use crate::message::{Answer, Ask, Rows, Space};

/// A child whose tensors are known, with the memory for them.
pub(crate) struct Desk {
    child: Child,
    plan: Plan,
}

impl Desk {
    /// Makes the memory that the tensors need.
    pub(crate) fn at(mut child: Child, parameters: usize) -> Result<Self, Fault> {
        let plan = Plan { parameters };
        child.memory.reserve(plan.rows()).map_err(Fault::Memory)?;
        Ok(Self { child, plan })
    }

    /// The child, for another desk.
    pub(crate) fn leave(self) -> Child {
        self.child
    }

    /// Has the initial weights written, and reads them.
    pub(crate) fn initial(&mut self, weights: &mut [f32]) -> Result<(), Fault> {
        match self.child.ask(&Ask::Initialise(self.space()))? {
            Answer::Initial { values } => self.check_values(values)?,
            Answer::Description { .. }
            | Answer::Gradient { .. }
            | Answer::Score { .. }
            | Answer::Failed { .. } => return Err(Fault::Unexpected),
        }
        let read = self.child.memory.read(Plan::WEIGHTS, weights);
        read.map_err(Fault::Memory)?;
        if all_finite(weights) {
            return Ok(());
        }
        Err(Fault::Wrong(
            "gives initial weights that are not finite; initialise them otherwise".into(),
        ))
    }

    /// Shows new weights.
    pub(crate) fn weights(&mut self, weights: &[f32]) -> Result<(), Fault> {
        assert_eq!(weights.len(), self.plan.parameters, "whole flat vectors");
        self.child.version += 1;
        let written = self.child.memory.write(Plan::WEIGHTS, weights);
        written.map(drop).map_err(Fault::Memory)
    }

    /// The summed gradient of a microbatch at the weights that were shown last.
    pub(crate) fn gradient(
        &mut self,
        microbatch: &Microbatch<'_>,
        draw: u64,
        gradient: &mut [f32],
    ) -> Result<Outcome, Fault> {
        let rows = self.rows(microbatch.batch)?;
        let ask = Ask::Gradient {
            space: self.space(),
            step: microbatch.step.0,
            partition: microbatch.partition.0,
            draw,
            rows,
        };
        let (samples, weight, loss_sum) = match self.child.ask(&ask)? {
            Answer::Gradient {
                values,
                samples,
                weight,
                loss_sum,
            } => {
                self.check_values(values)?;
                (samples, weight, loss_sum)
            }
            Answer::Description { .. }
            | Answer::Initial { .. }
            | Answer::Score { .. }
            | Answer::Failed { .. } => return Err(Fault::Unexpected),
        };
        check_rows(samples, microbatch.batch)?;
        if !(weight.is_finite() && weight > 0.0) {
            return Err(Fault::Wrong(format!(
                "gives a weight of {weight} for {samples} rows; a weight is above 0"
            )));
        }
        let read = self.child.memory.read(self.plan.gradient(), gradient);
        read.map_err(Fault::Memory)?;
        Ok(Outcome {
            samples,
            weight,
            loss_sum: checked_loss(loss_sum, gradient)?,
        })
    }

    /// Scores rows at the weights that were shown last.
    pub(crate) fn score(&mut self, batch: &Batch) -> Result<Score, Fault> {
        let ask = Ask::Score {
            rows: self.rows(batch)?,
            space: self.space(),
        };
        let (rows, correct, loss_sum) = match self.child.ask(&ask)? {
            Answer::Score {
                rows,
                correct,
                loss_sum,
            } => (rows, correct, loss_sum),
            Answer::Description { .. }
            | Answer::Initial { .. }
            | Answer::Gradient { .. }
            | Answer::Failed { .. } => return Err(Fault::Unexpected),
        };
        check_rows(rows, batch)?;
        if let Some(correct) = correct.filter(|correct| *correct > rows) {
            return Err(Fault::Wrong(format!(
                "says that {correct} of {rows} rows are right; count each row once"
            )));
        }
        Ok(Score {
            rows,
            correct,
            loss_sum: loss_sum.unwrap_or(f64::NAN),
            ..Score::default()
        })
    }

    /// Writes rows into the memory.
    fn rows(&mut self, batch: &Batch) -> Result<Rows, Fault> {
        let features = self.plan.rows();
        let targets = aligned(features + 4 * batch.features.len() as u64);
        let count = match &batch.targets {
            Targets::Classes(classes) => classes.len(),
            Targets::Values { values, .. } => values.len(),
        };
        let memory = &mut self.child.memory;
        let written = memory.reserve(targets + 4 * count as u64).and_then(|()| {
            memory.write(features, &batch.features)?;
            match &batch.targets {
                Targets::Classes(classes) => memory.write(targets, classes),
                Targets::Values { values, .. } => memory.write(targets, values),
            }
        });
        written.map_err(Fault::Memory)?;
        Ok(Rows {
            count: batch.rows,
            features,
            targets,
        })
    }

    fn space(&self) -> Space {
        Space {
            bytes: self.child.memory.bytes(),
            weights: Plan::WEIGHTS,
            version: self.child.version,
            gradient: self.plan.gradient(),
        }
    }

    fn check_values(&self, values: usize) -> Result<(), Fault> {
        let wanted = self.plan.parameters;
        if values == wanted {
            return Ok(());
        }
        Err(Fault::Wrong(format!(
            "wrote {values} values where its tensors have {wanted}; write one for each"
        )))
    }
}

fn check_rows(counted: u64, batch: &Batch) -> Result<(), Fault> {
    if counted == batch.rows as u64 {
        return Ok(());
    }
    Err(Fault::Wrong(format!(
        "evaluated {counted} rows of {}; evaluate each row once",
        batch.rows
    )))
}

/// A loss that is not finite comes with a gradient that is not either, which the run's policy for
/// such values then judges.
fn checked_loss(loss_sum: Option<f64>, gradient: &[f32]) -> Result<f64, Fault> {
    match loss_sum {
        Some(loss) => Ok(loss),
        None if !all_finite(gradient) => Ok(f64::NAN),
        None => Err(Fault::Wrong(
            "gives a loss that is not finite beside a gradient that is; check the loss".into(),
        )),
    }
}

/// Whether no value is a NaN or an infinity.
pub(crate) fn all_finite(values: &[f32]) -> bool {
    values.iter().all(|value| value.is_finite())
}
