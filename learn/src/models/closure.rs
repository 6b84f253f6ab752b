//! A model of any loss that is written with the autograd.

use resilin_core::layout::Entry;
use resilin_core::random::{Purpose, Stream};

use super::Rows;
use super::initial::Initial;
use super::named_loss::{self, NamedLoss};
use crate::autograd::{Parameters, Tape, Var, ops};
use crate::dataset::{Batch, TargetKind, Targets};
use crate::math::{Float, largest};
use crate::model::{Microbatch, Model, ModelError, Outcome, Score, Sink, Workspace};

type Loss = dyn Fn(&mut Tape<f32>, &Batch, &Draws<'_>) -> Vec<Var> + Send + Sync;
type Predict = dyn Fn(&mut Tape<f32>, &Batch) -> Var + Send + Sync;
type Initialise = dyn Fn(Stream, &Entry, &mut [f32]) + Send + Sync;

/// The random draws of an evaluation: named by step and partition in training, absent in scoring.
pub struct Draws<'a>(Option<&'a Microbatch<'a>>);

impl<'a> Draws<'a> {
    /// The draws of a microbatch.
    #[must_use]
    pub fn of(microbatch: &'a Microbatch<'a>) -> Self {
        Self(Some(microbatch))
    }

    /// No draws: dropout lets everything through.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Dropout with the stream of layer `layer`; the value itself where nothing is drawn.
    pub fn dropout<F: Float>(&self, tape: &mut Tape<F>, x: Var, rate: f32, layer: u32) -> Var {
        match self.stream(Purpose::Dropout, layer) {
            Some(mut stream) => ops::dropout(tape, x, rate, &mut stream),
            None => x,
        }
    }

    /// Whether weights are trained with the result, and not rows scored.
    #[must_use]
    pub fn is_training(&self) -> bool {
        self.0.is_some()
    }

    /// The stream of any other draw; `None` where nothing is drawn.
    #[must_use]
    pub fn stream(&self, purpose: Purpose, index: u32) -> Option<Stream> {
        self.0.map(|microbatch| microbatch.stream(purpose, index))
    }
}

/// A [`Model`] from named parameters and a function that puts the *sum* of the rows' losses on a
/// tape. Write the function generic over [`Float`], so that
/// [`check_gradient`](crate::autograd::check_gradient) can run it in f64.
pub struct ClosureModel {
    parameters: Parameters,
    rows: Rows,
    /// Empty for one loss without a name.
    losses: Vec<NamedLoss>,
    loss: Box<Loss>,
    predict: Option<Box<Predict>>,
    initialise: Box<Initialise>,
}

impl ClosureModel {
    /// A model whose matrices start uniform (Glorot) and whose vectors start at zero.
    pub fn new(
        parameters: Parameters,
        rows: Rows,
        loss: impl Fn(&mut Tape<f32>, &Batch, &Draws<'_>) -> Var + Send + Sync + 'static,
    ) -> Self {
        Self {
            parameters,
            rows,
            losses: Vec::new(),
            loss: Box::new(move |tape, batch, draws| vec![loss(tape, batch, draws)]),
            predict: None,
            initialise: Box::new(glorot),
        }
    }

    /// A model of outputs [rows, classes], trained by their cross-entropy; the largest is the
    /// predicted class. For rows of classes.
    pub fn classifier(
        parameters: Parameters,
        rows: Rows,
        outputs: impl Fn(&mut Tape<f32>, &Batch) -> Var + Clone + Send + Sync + 'static,
    ) -> Self {
        let trained = outputs.clone();
        Self::new(parameters, rows, move |tape, batch, _| {
            let outputs = trained(tape, batch);
            ops::cross_entropy_sum(tape, outputs, batch.classes())
        })
        .with_prediction(outputs)
    }

    /// A model of several losses: the function gives the sum over the rows of each, in the order of
    /// `losses`. What is trained is their weighted sum; scores report each by name.
    ///
    /// # Errors
    /// None or too many losses, two of one name, or a weight that is no number.
    pub fn of_losses(
        parameters: Parameters,
        rows: Rows,
        losses: Vec<NamedLoss>,
        loss: impl Fn(&mut Tape<f32>, &Batch, &Draws<'_>) -> Vec<Var> + Send + Sync + 'static,
    ) -> Result<Self, ModelError> {
        named_loss::check(&losses)?;
        Ok(Self {
            parameters,
            rows,
            losses,
            loss: Box::new(loss),
            predict: None,
            initialise: Box::new(glorot),
        })
    }

    /// With outputs [rows, classes], of which the largest is the predicted class: scores then count
    /// the rows predicted right.
    #[must_use]
    pub fn with_prediction(
        mut self,
        predict: impl Fn(&mut Tape<f32>, &Batch) -> Var + Send + Sync + 'static,
    ) -> Self {
        self.predict = Some(Box::new(predict));
        self
    }

    /// With another start: the function fills a tensor from the stream of that tensor.
    #[must_use]
    pub fn with_initial(
        mut self,
        initialise: impl Fn(Stream, &Entry, &mut [f32]) + Send + Sync + 'static,
    ) -> Self {
        self.initialise = Box::new(initialise);
        self
    }

    /// The value that is trained, and those of all losses.
    fn losses_of(&self, tape: &mut Tape<f32>, batch: &Batch, draws: &Draws<'_>) -> (Var, Vec<Var>) {
        let values = (self.loss)(tape, batch, draws);
        match self.losses.as_slice() {
            [] => (values[0], Vec::new()),
            losses => (named_loss::weighted_sum(tape, losses, &values), values),
        }
    }

    fn count_correct(&self, tape: &mut Tape<f32>, batch: &Batch) -> Option<u64> {
        let (TargetKind::Classes(count), Targets::Classes(classes)) =
            (self.rows.targets, &batch.targets)
        else {
            return None;
        };
        tape.clear();
        let outputs = self.predict.as_ref()?(tape, batch);
        let rows = tape.value(outputs).chunks_exact(count as usize);
        let right = rows
            .zip(classes)
            .filter(|(row, class)| largest(row) == **class as usize);
        Some(right.count() as u64)
    }
}

impl Model for ClosureModel {
    fn losses(&self) -> Vec<String> {
        self.losses.iter().map(|loss| loss.name.clone()).collect()
    }

    fn entries(&self) -> Vec<Entry> {
        self.parameters.entries().to_vec()
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        let mut rest = weights;
        for (tensor, entry) in (0..).zip(self.parameters.entries()) {
            let (values, after) = rest.split_at_mut(entry.len());
            (self.initialise)(Initial::stream(seed, tensor), entry, values);
            rest = after;
        }
    }

    fn workspace(&self) -> Workspace {
        Box::new(Tape::<f32>::new(self.parameters.clone()))
    }

    fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        workspace: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        for microbatch in microbatches {
            self.rows.check(microbatch.batch)?;
        }
        let tape = tape(workspace);
        tape.load(weights);
        for (k, microbatch) in microbatches.iter().enumerate() {
            tape.clear();
            let (loss, _) = self.losses_of(tape, microbatch.batch, &Draws::of(microbatch));
            tape.backward(loss, sink.gradient(k));
            let rows = microbatch.batch.rows;
            let outcome = Outcome {
                samples: rows as u64,
                weight: rows as f64,
                loss_sum: f64::from(tape.scalar(loss)),
            };
            sink.done(k, outcome);
        }
        Ok(())
    }

    fn score(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
    ) -> Result<Score, ModelError> {
        self.rows.check(batch)?;
        let tape = tape(workspace);
        tape.load(weights);
        let (loss, named) = self.losses_of(tape, batch, &Draws::none());
        let loss_sum = f64::from(tape.scalar(loss));
        let parts = named_loss::parts(tape, &named);
        Ok(Score {
            rows: batch.rows as u64,
            correct: self.count_correct(tape, batch),
            loss_sum,
            parts,
        })
    }

    fn predict(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
        outputs: &mut Vec<f32>,
    ) -> Result<usize, ModelError> {
        self.rows.check_features(batch)?;
        let predict = self.predict.as_ref().ok_or_else(|| {
            ModelError("the model has a loss and no prediction; add `with_prediction`".into())
        })?;
        let tape = tape(workspace);
        tape.load(weights);
        let found = predict(tape, batch);
        let values = tape.value(found);
        outputs.extend_from_slice(values);
        Ok(values.len() / batch.rows)
    }
}

fn glorot(stream: Stream, entry: &Entry, values: &mut [f32]) {
    match entry.shape.as_slice() {
        [.., _, outputs] => Initial::Glorot.fill(stream, entry.len() / outputs.max(&1), values),
        [] | [_] => values.fill(0.0),
    }
}

fn tape(workspace: &mut Workspace) -> &mut Tape<f32> {
    workspace
        .downcast_mut()
        .expect("a workspace is used with the model that made it")
}
