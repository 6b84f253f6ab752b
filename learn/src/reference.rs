//! The serial oracle: a whole run in one process, without members, links or failures. Every run of
//! the same job, wherever and with whomever, gives these bits.

use std::sync::Arc;

use resilin_core::machine::Rules;
use resilin_core::not_finite::{Found, remedy};
use resilin_core::sorted::SortedMap;
use resilin_core::tree::Node;
use resilin_core::vote::{Action, Flags, Vote, decide};
use resilin_core::{PartitionId, SliceId, Step, Timeline};

use crate::kernel::{Digest, EvaluateError, Evaluator, NodeResult, SliceKernel, Which, chain_line};
use crate::model::{Outcome, Score};
use crate::task::Task;

/// What happens along the way.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The initial weights are there.
    Start {
        /// The chain line of step 0.
        chain: Digest,
    },
    /// A step was committed.
    Step(StepReport),
    /// The last step of an epoch was committed, and its weights scored.
    Epoch {
        /// The epoch, from 0.
        epoch: u64,
        /// Score on the test rows, if there are any and they are due.
        test: Option<Score>,
    },
}

/// One committed step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// The version that the step made: 1 for the first.
    pub version: Step,
    /// Its chain line.
    pub chain: Digest,
    /// Mean loss over the step's samples, on the weights before it.
    pub loss: f64,
    /// Rows applied; none of a skipped step.
    pub samples: u64,
    /// What became of the gradient.
    pub fate: Fate,
}

/// What became of a step's gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was applied.
    Applied,
    /// It was not finite, and the policy is to leave it out.
    Skipped,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// The final weights, in layout order.
    pub weights: Vec<f32>,
    /// Chain line of the final weights.
    pub chain: Digest,
    /// Rows applied in all.
    pub samples: u64,
    /// Score of the final weights on the test rows.
    pub test: Option<Score>,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// Rows or model failed.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// Non-finite values, and the policy is to halt.
    #[error("step {step}: {what} is not finite; {remedy}")]
    NonFinite {
        /// The step.
        step: Step,
        /// What was not finite.
        what: String,
        /// What to do.
        remedy: String,
    },
}

/// Trains from the first step to the last and tells `report` of each.
///
/// # Errors
/// If rows cannot be read, the model does not take them, or values stop being finite.
pub fn run(task: &Arc<Task>, mut report: impl FnMut(Progress)) -> Result<Trained, ReferenceError> {
    let mut run = Reference::new(task);
    report(Progress::Start { chain: run.chain() });
    let (mut samples, mut test) = (0, None);
    let steps_per_epoch = task.sampling.steps_per_epoch();
    for step in (0..task.total_steps).map(Step) {
        let done = run.step(step)?;
        samples += done.samples;
        let version = done.version;
        report(Progress::Step(done));
        test = if run.rules.evaluated(version) {
            run.test()?
        } else {
            None
        };
        if version.0.is_multiple_of(steps_per_epoch) {
            let epoch = task.sampling.position(step).epoch;
            report(Progress::Epoch { epoch, test });
        }
    }
    let weights = run.weights().as_ref().clone();
    Ok(Trained {
        weights,
        chain: run.chain(),
        samples,
        test,
    })
}

/// What somebody evaluated of the open step.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The node.
    pub node: Node,
    /// Its gradient, one value a parameter.
    pub gradient: &'a [f32],
    /// What comes with it.
    pub result: &'a NodeResult,
}

/// The state of a serial run, for callers that step by themselves.
pub struct Reference {
    task: Arc<Task>,
    rules: Rules,
    evaluator: Evaluator,
    slice: SliceKernel,
    sum: Vec<f32>,
}

impl Reference {
    /// A run before its first step.
    #[must_use]
    pub fn new(task: &Arc<Task>) -> Self {
        let plan = task.slice_plan(0..task.layout.blocks());
        Self::on(task, SliceKernel::new(plan, task.initial_weights()))
    }

    /// A run as it was at `step`: `read` fills a tensor (`weights`, a moment, or what the schedule
    /// remembers) with its values.
    ///
    /// # Errors
    /// What `read` says.
    pub fn restore<E>(
        task: &Arc<Task>,
        step: Step,
        mut read: impl FnMut(&str, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let plan = task.slice_plan(0..task.layout.blocks());
        let slice = SliceKernel::restore(plan, step, |name, _, values| read(name, values))?;
        Ok(Self::on(task, slice))
    }

    fn on(task: &Arc<Task>, slice: SliceKernel) -> Self {
        Self {
            rules: task.rules(1),
            evaluator: Evaluator::new(Arc::clone(task)),
            slice,
            sum: vec![0.0; task.layout.len()],
            task: Arc::clone(task),
        }
    }

    /// The open step: the newest weights are those before it.
    #[must_use]
    pub fn open_step(&self) -> Step {
        self.slice.version()
    }

    /// Digests of the newest weights' blocks.
    #[must_use]
    pub fn digests(&self) -> &[Digest] {
        self.slice.digests()
    }

    /// One partition's part of the open step: its outcome and the digest of its gradient.
    ///
    /// # Errors
    /// If rows cannot be read, or the model does not take them.
    pub fn leaf(&mut self, partition: PartitionId) -> Result<(Outcome, Digest), EvaluateError> {
        let weights = Arc::clone(self.weights());
        let step = self.open_step();
        let Self { evaluator, sum, .. } = self;
        evaluator.digest_leaf(&weights, step, partition, sum)
    }

    /// The newest weights.
    #[must_use]
    pub fn weights(&self) -> &Arc<Vec<f32>> {
        self.slice
            .weights(self.slice.version())
            .expect("the newest version is live")
    }

    /// The chain line of the newest weights.
    #[must_use]
    pub fn chain(&self) -> Digest {
        chain_line(self.slice.digests())
    }

    /// Evaluates and applies the open step.
    ///
    /// # Errors
    /// If rows cannot be read, the model does not take them, or values stop being finite.
    pub fn step(&mut self, step: Step) -> Result<StepReport, ReferenceError> {
        let weights = Arc::clone(self.weights());
        let node = self.task.tree.root();
        let mut sum = std::mem::take(&mut self.sum);
        let result = self.evaluator.evaluate(&weights, step, node, &mut sum);
        drop(weights);
        let done = result.map_err(ReferenceError::from).and_then(|result| {
            let (gradient, result) = (sum.as_slice(), &result);
            let whole = Part {
                node,
                gradient,
                result,
            };
            self.apply(step, &[whole])
        });
        self.sum = sum;
        done
    }

    /// Applies the open step as others evaluated it. The bits do not depend on how its tree was
    /// dealt into parts.
    ///
    /// # Errors
    /// Values that are not finite, where the policy is to halt.
    ///
    /// # Panics
    /// If the parts do not cover every partition that has samples exactly once.
    pub fn apply(&mut self, step: Step, parts: &[Part<'_>]) -> Result<StepReport, ReferenceError> {
        let with_samples = self.task.sampling.with_samples(step);
        let outcome = self.outcome(parts);
        let mut report = StepReport {
            version: step.next(),
            chain: [0; 32],
            loss: outcome.loss_sum / outcome.weight,
            samples: 0,
            fate: Fate::Skipped,
        };
        let mut broken = parts.iter().flat_map(|part| &part.result.non_finite);
        let (action, found, what) = match broken.next() {
            Some((partition, _)) => (
                self.decide(step, Vec::new(), vec![0]),
                Found::Leaf(*partition),
                format!("the gradient of partition {partition}"),
            ),
            None => {
                let nodes: Vec<_> = parts.iter().map(|p| (p.node, p.gradient)).collect();
                let stats = self
                    .slice
                    .combine(step, &nodes, &with_samples, outcome.weight);
                let what = format!("the sum of all gradients in blocks {:?}", stats.non_finite);
                let action = self.decide(step, stats.squares, stats.non_finite);
                (action, Found::Sum, what)
            }
        };
        match action {
            Action::Apply { scale } => {
                if !self.slice.apply(step, scale, report.loss).finite {
                    let what = "a weight that the step makes".into();
                    return Err(self.non_finite(step, what, Found::Update));
                }
                (report.samples, report.fate) = (outcome.samples, Fate::Applied);
            }
            Action::Skip => drop(self.slice.skip(step)),
            Action::Halt => return Err(self.non_finite(step, what, found)),
        }
        report.chain = self.chain();
        Ok(report)
    }

    fn non_finite(&self, step: Step, what: String, found: Found) -> ReferenceError {
        let remedy = remedy(step, found, &self.task.sampling);
        ReferenceError::NonFinite { step, what, remedy }
    }

    /// What the parts add up to, in tree order.
    fn outcome(&self, parts: &[Part<'_>]) -> Outcome {
        let sum = |value: fn(&Outcome) -> f64| {
            let of = |node: Node| {
                let part = parts.iter().find(|part| part.node == node)?;
                Some(value(&part.result.outcome))
            };
            self.task.tree.sum(&of).unwrap_or(0.0)
        };
        Outcome {
            samples: parts.iter().map(|part| part.result.outcome.samples).sum(),
            weight: sum(|outcome| outcome.weight),
            loss_sum: sum(|outcome| outcome.loss_sum),
        }
    }

    /// The decision of the only slice.
    fn decide(&self, step: Step, squares: Vec<f64>, non_finite: Vec<u32>) -> Action {
        let slice = SliceId(0);
        let vote = Vote {
            timeline: Timeline::first(0),
            step,
            slice,
            squares,
            non_finite,
            flags: Flags::default(),
        };
        decide(&self.rules.votes, &SortedMap::from([(slice, vote)])).action
    }

    /// Scores the newest weights on the test rows; `None` if there are none.
    ///
    /// # Errors
    /// If rows cannot be read, or the model does not take them.
    pub fn test(&mut self) -> Result<Option<Score>, EvaluateError> {
        let weights = Arc::clone(self.weights());
        self.evaluator.score_all(&weights, Which::Test)
    }
}
