//! A child at work: what is asked of it goes into the memory, what it computes is read from there,
//! and every answer is checked before it counts.

use resilin_learn::dataset::{Batch, Targets};
use resilin_learn::model::{Microbatch, Outcome, Score};

use crate::child::Child;
use crate::fault::Fault;
use crate::memory::{Plan, aligned};
use crate::message::{Answer, Ask, Rows, Space};

/// The most values that are predicted for one row.
const MOST_OUTPUTS: usize = 1 << 20;

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
            | Answer::Prediction { .. }
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
            | Answer::Prediction { .. }
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
            | Answer::Prediction { .. }
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

    /// Appends what the model gives for rows without targets at the weights that were shown last;
    /// returns the values a row, which are `guess` in most models.
    pub(crate) fn predict(
        &mut self,
        count: usize,
        features: &[f32],
        guess: usize,
        outputs: &mut Vec<f32>,
    ) -> Result<usize, Fault> {
        let place = self.plan.rows();
        let end = aligned(place + 4 * features.len() as u64);
        let memory = &mut self.child.memory;
        let written = memory
            .reserve(end)
            .and_then(|()| memory.write(place, features));
        written.map_err(Fault::Memory)?;
        let rows = Rows {
            count,
            features: place,
            targets: None,
        };
        let guess = guess.min(MOST_OUTPUTS);
        let mut predicted = self.predicted(rows, end, count * guess)?;
        if predicted.0 > guess {
            // Only the model knows how many values it gives: once it has said so, they have room.
            predicted = self.predicted(rows, end, count * predicted.0)?;
        }
        let (width, values) = predicted;
        if values != count * width {
            return Err(Fault::Wrong(format!(
                "predicted {values} values for {count} rows of {width} values each; write all"
            )));
        }
        let begin = outputs.len();
        outputs.resize(begin + values, 0.0);
        let read = self.child.memory.read(end, &mut outputs[begin..]);
        read.map_err(Fault::Memory)?;
        Ok(width)
    }

    /// Values a row, and how many were written.
    fn predicted(&mut self, rows: Rows, at: u64, room: usize) -> Result<(usize, usize), Fault> {
        let reserved = self.child.memory.reserve(at + 4 * room as u64);
        reserved.map_err(Fault::Memory)?;
        let ask = Ask::Predict {
            space: self.space(),
            rows,
            outputs: at,
            room,
        };
        let (width, values) = match self.child.ask(&ask)? {
            Answer::Prediction { width, values } => (width, values),
            Answer::Description { .. }
            | Answer::Initial { .. }
            | Answer::Gradient { .. }
            | Answer::Score { .. }
            | Answer::Failed { .. } => return Err(Fault::Unexpected),
        };
        if (1..=MOST_OUTPUTS).contains(&width) {
            return Ok((width, values));
        }
        Err(Fault::Wrong(format!(
            "predicts {width} values a row; give 1 to {MOST_OUTPUTS}"
        )))
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
            targets: Some(targets),
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
