//! Training from Rust code: a model and rows in, weights out, in this process or with real
//! processes, and with the same bits either way.
//!
//! The job file's keys are here, too: what has no method of its own is [`Trainer::set`].

mod inside;
mod processes;
mod trained;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use resilin_core::job::{Document, JobError, Value};
use resilin_learn::dataset::Split;
use resilin_learn::kernel::EvaluateError;
use resilin_learn::model::{Model, ModelError, Score};
use resilin_learn::reference::ReferenceError;
use resilin_learn::registry::Registry;
use resilin_learn::rehearsal::RehearsalError;
use resilin_learn::task::Task;

pub use trained::{Predictions, Trained};

/// The name of the model and of the rows in the job that is made.
const OWN: &str = "own";

/// Why there are no weights.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A setting is not understood, or does not fit the others.
    #[error(transparent)]
    Job(#[from] JobError),
    /// This machine's arithmetic gives other bits.
    #[error("{0}")]
    Numerics(String),
    /// Rows or model failed, or values stopped being finite.
    #[error(transparent)]
    Training(#[from] ReferenceError),
    /// The model cannot be evaluated, or its results vary.
    #[error(transparent)]
    Rehearsal(#[from] RehearsalError),
    /// The run of real processes did not end well.
    #[error("{0}")]
    Processes(String),
}

impl From<EvaluateError> for TrainError {
    fn from(error: EvaluateError) -> Self {
        Self::Training(error.into())
    }
}

impl From<ModelError> for TrainError {
    fn from(error: ModelError) -> Self {
        EvaluateError::from(error).into()
    }
}

/// Something that an observer hears of.
#[derive(Clone, Debug, PartialEq)]
pub enum Moment {
    /// Steps were committed. With real processes, several may be one moment.
    Step {
        /// The newest version, counted in steps.
        step: u64,
        /// Steps of the whole run.
        total_steps: u64,
        /// Mean loss of the newest step.
        loss: Option<f64>,
    },
    /// A version was scored on the test rows.
    Scored {
        /// The version.
        step: u64,
        /// The pass over the data that had ended, from 1.
        epoch: u64,
        /// How well the test rows are predicted.
        score: Score,
    },
    /// Workers came or went. Only with real processes.
    Members {
        /// Those that have work, or wait for it.
        workers: usize,
    },
    /// The run goes on from an earlier version: the steps after it are made again, with the same
    /// bits. Only with real processes.
    Restored {
        /// That version.
        step: u64,
    },
}

type Observer<'a> = Box<dyn FnMut(&Moment) -> ControlFlow<()> + 'a>;

/// A training run to be.
///
/// ```
/// use std::ops::ControlFlow;
/// use std::sync::Arc;
///
/// use resilin::models::{Softmax, SoftmaxConfig};
/// use resilin::{Moment, Split, Table, Trainer};
///
/// let rows: Vec<f32> = (0..64).map(|n| (n % 8) as f32 - 3.5).collect();
/// let classes: Vec<u32> = (0..64).map(|n| u32::from(n % 8 > 3)).collect();
/// let table = Arc::new(Table::of_classes("signs", 1, rows, classes)?);
/// let model = Softmax::new(SoftmaxConfig { inputs: 1, classes: 2, bias: true })?;
///
/// let data = Split { train: table.clone(), test: Some(table.clone()) };
/// let trained = Trainer::new(model, data)
///     .workers(2)
///     .batch(16)
///     .epochs(5)
///     .optimizer("adam", 0.1)
///     .observe(|moment| {
///         if let Moment::Scored { epoch, score, .. } = moment {
///             println!("epoch {epoch}: {:?} of {} right", score.correct, score.rows);
///         }
///         ControlFlow::Continue(())
///     })
///     .fit()?;
/// assert_eq!(trained.evaluate()?.unwrap().correct, Some(64));
/// assert_eq!(trained.predict(&[-2.0, 3.0])?.classes(), [0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Trainer<'a> {
    document: Document,
    /// None for the one that `[model] command` names.
    model: Option<Arc<dyn Model>>,
    data: Split,
    workers: u32,
    state: Option<PathBuf>,
    observer: Observer<'a>,
}

impl<'a> Trainer<'a> {
    /// A run with the defaults of the job file.
    pub fn new(model: impl Model + 'static, data: Split) -> Self {
        Self::of(Some(Arc::new(model)), data).set("model", "name", OWN)
    }

    /// The same with a model in another language: `Trainer::of_command("python3 model.py", data)`,
    /// as `[model] command` of a job file. It predicts where the command does.
    #[must_use]
    pub fn of_command(command: &str, data: Split) -> Self {
        Self::of(None, data).set("model", "command", command)
    }

    fn of(model: Option<Arc<dyn Model>>, data: Split) -> Self {
        let trainer = Self {
            document: Document::empty(),
            model,
            data,
            workers: 1,
            state: None,
            observer: Box::new(|_| ControlFlow::Continue(())),
        };
        trainer.set("data", "name", OWN)
    }

    /// How many workers share the work, at least one: threads, or processes. The weights do not
    /// depend on it.
    #[must_use]
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Passes over the training rows.
    #[must_use]
    pub fn epochs(self, epochs: u64) -> Self {
        self.set("run", "epochs", epochs)
    }

    /// Length of the run in steps, instead of epochs.
    #[must_use]
    pub fn steps(self, steps: u64) -> Self {
        self.set("run", "steps", steps)
    }

    /// Rows of a step, over all workers.
    #[must_use]
    pub fn batch(self, rows: u32) -> Self {
        self.set("run", "batch", rows)
    }

    /// Seed of every random draw.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.set("run", "seed", seed)
    }

    /// The update rule, by its name in the job file, and its learning rate.
    #[must_use]
    pub fn optimizer(self, name: &str, learning_rate: f64) -> Self {
        self.set("optimizer", "name", name)
            .set("optimizer", "learning_rate", learning_rate)
    }

    /// Any other key of the job file: `.set("run", "clip_norm", 1.0)`.
    #[must_use]
    pub fn set(mut self, section: &str, key: &str, value: impl Into<Value>) -> Self {
        self.document.set(section, key, value);
        self
    }

    /// Trains with real processes, which may be killed at any moment; runs, checkpoints and ledgers
    /// are kept below `state`, and the same program goes on from the newest one.
    ///
    /// The program is started again as coordinator and as each worker, and must come to
    /// [`Self::fit`] with the same model and rows each time: there it serves and ends. So nothing
    /// with an effect belongs before it.
    #[must_use]
    pub fn processes(mut self, state: impl Into<PathBuf>) -> Self {
        self.state = Some(state.into());
        self
    }

    /// Who hears how it goes; `Break` stops the run at the next step.
    #[must_use]
    pub fn observe(mut self, observer: impl FnMut(&Moment) -> ControlFlow<()> + 'a) -> Self {
        self.observer = Box::new(observer);
        self
    }

    /// Trains to the end, or until the observer stops it.
    ///
    /// # Errors
    /// Settings that are not understood, rows or values that cannot be trained on, or processes that
    /// did not end well.
    pub fn fit(self) -> Result<Trained, TrainError> {
        resilin_learn::numerics::check().map_err(TrainError::Numerics)?;
        let Self {
            mut document,
            model,
            data,
            workers,
            state,
            observer,
        } = self;
        document.set("cluster", "workers", workers);
        let registry = registry(model, data);
        match state {
            None => {
                let task = Arc::new(registry.task(document, None)?);
                inside::train(&task, workers, observer)
            }
            Some(state) => processes::train(registry, document, &state, observer),
        }
    }
}

/// The names of every `resilin`, and the own ones.
fn registry(model: Option<Arc<dyn Model>>, data: Split) -> Registry {
    let names = resilin_foreign::models(resilin_data::sources(Registry::default()));
    let names = names.data(OWN, move |_, _| Ok(data.clone()));
    match model {
        Some(model) => names.model(OWN, move |_, _| Ok(Box::new(Arc::clone(&model)))),
        None => names,
    }
}

/// The epoch that had ended with a version, from 1.
fn epoch(task: &Task, step: u64) -> u64 {
    step.div_ceil(task.sampling.steps_per_epoch()).max(1)
}
