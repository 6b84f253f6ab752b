//! A small network whose loss is cross-entropy against smoothed targets: a share of each target
//! goes to all classes alike (Szegedy et al. 2016, "Rethinking the Inception Architecture").

use resilin::autograd::{Parameters, Tape, Var, ops};
use resilin::dataset::{Batch, TargetKind};
use resilin::math::Float;
use resilin::model::ModelError;
use resilin::models::{ClosureModel, Rows};

/// What the model is built from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Smoothed {
    /// Values in a row.
    pub(crate) width: usize,
    /// Units of each of the two hidden layers.
    pub(crate) units: usize,
    /// Share of a target that goes to all classes.
    pub(crate) smoothing: f32,
}

impl Smoothed {
    /// The model for targets of this kind.
    pub(crate) fn model(self, targets: TargetKind) -> Result<ClosureModel, ModelError> {
        let TargetKind::Classes(classes) = targets else {
            return Err(ModelError(
                "predicts classes, but the data have values; use linear or mlp".into(),
            ));
        };
        let rows = Rows {
            width: self.width,
            targets,
        };
        let parameters = self.parameters(classes as usize)?;
        Ok(ClosureModel::new(parameters, rows, move |tape, batch, _| {
            self.loss(tape, batch)
        })
        .with_prediction(logits))
    }

    fn parameters(self, classes: usize) -> Result<Parameters, ModelError> {
        let Self { width, units, .. } = self;
        Parameters::layers(&[
            ("in", width, units),
            ("hidden", units, units),
            ("out", units, classes),
        ])
    }

    /// The sum over the rows of `(1 - s) * -log p[class] + s / K * sum_k -log p[k]`.
    fn loss<F: Float>(self, tape: &mut Tape<F>, batch: &Batch) -> Var {
        let logits = logits(tape, batch);
        let count = f64::from(u32::try_from(tape.shape(logits).width()).expect("few classes"));
        let smoothing = f64::from(self.smoothing);
        let hard = ops::cross_entropy_sum(tape, logits, batch.classes());
        let hard = ops::scale(tape, hard, F::from_f64(1.0 - smoothing));
        let every = ops::log_softmax(tape, logits);
        let every = ops::sum(tape, every);
        let soft = ops::scale(tape, every, F::from_f64(-smoothing / count));
        ops::add(tape, hard, soft)
    }
}

fn logits<F: Float>(tape: &mut Tape<F>, batch: &Batch) -> Var {
    let mut x = tape.batch(batch);
    for layer in ["in", "hidden"] {
        let y = ops::layer(tape, x, layer);
        x = ops::tanh(tape, y);
    }
    ops::layer(tape, x, "out")
}

#[cfg(test)]
mod tests {
    use resilin::autograd::check_gradient;
    use resilin::dataset::Targets;

    use super::*;

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let model = Smoothed {
            width: 2,
            units: 3,
            smoothing: 0.3,
        };
        let parameters = model.parameters(3).expect("the names differ");
        let weights: Vec<f64> = (0..parameters.len())
            .map(|i| 0.1 * ((i * 7 % 11) as f64 - 5.0))
            .collect();
        let batch = Batch {
            rows: 2,
            width: 2,
            features: vec![0.5, -1.0, 0.25, 2.0],
            targets: Targets::Classes(vec![2, 0]),
        };
        check_gradient(&parameters, &weights, 1e-6, |tape| model.loss(tape, &batch))
            .expect("gradients agree");
    }
}
