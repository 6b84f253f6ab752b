//! The model that a command is.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use resilin_core::layout::{Entry, Role};
use resilin_core::random::Purpose;
use resilin_learn::dataset::{Batch, Manifest, TargetKind};
use resilin_learn::kernel::Digest;
use resilin_learn::model::{Microbatch, Model, ModelError, Repeats, Score, Sink, Workspace};
use resilin_learn::models::Rows;

use crate::command::CommandLine;
use crate::description::{entries, parameters};
use crate::desk::{Desk, all_finite};
use crate::fault::Fault;
use crate::message::{Data, Kind};
use crate::pool::{Description, Pool};

/// How often a command is started that is killed before it has said what it is: by itself that says
/// nothing of the command, and a process that cannot describe its model is refused.
const STARTS: u32 = 3;

/// Rows that are predicted at once: what passes through the memory has a bound.
const PREDICTED: usize = 1024;

/// A model that an outside command evaluates.
pub(crate) struct CommandModel {
    pool: Arc<Pool>,
    /// Known once the model is prepared.
    prepared: OnceLock<Prepared>,
}

/// What the command said before the first use of the model.
struct Prepared {
    seed: u64,
    description: Arc<Description>,
    entries: Vec<Entry>,
    initial: Vec<f32>,
}

impl CommandModel {
    /// A model whose command was not started yet.
    pub(crate) fn new(command: Arc<CommandLine>, deadline: Duration, data: &Manifest) -> Self {
        let (kind, outputs) = match data.targets {
            // Rows of no values have nothing but their number.
            TargetKind::Classes(numbers) if data.width == 0 => (Kind::Numbers, numbers),
            TargetKind::Classes(classes) => (Kind::Classes, classes),
            TargetKind::Values(values) => (Kind::Values, values),
        };
        let data = Data {
            rows: data.rows,
            width: data.width,
            kind,
            outputs,
        };
        Self {
            pool: Arc::new(Pool::new(command, deadline, data)),
            prepared: OnceLock::new(),
        }
    }

    fn prepared(&self) -> &Prepared {
        self.prepared
            .get()
            .expect("a task prepares its model before anything else")
    }

    fn try_prepare(&self, seed: u64) -> Result<Prepared, Fault> {
        let (child, description) = self.pool.start(seed)?;
        let entries = entries(&description)?;
        let parameters = parameters(&entries)?;
        let mut desk = Desk::at(child, parameters)?;
        let mut initial = vec![0.0; parameters];
        desk.initial(&mut initial)?;
        self.pool.keep(desk.leave());
        Ok(Prepared {
            seed,
            description: Arc::new(description),
            entries,
            initial,
        })
    }
}

impl Model for CommandModel {
    fn prepare(&self, seed: u64) -> Result<(), ModelError> {
        let mut prepared = self.try_prepare(seed);
        for _ in 1..STARTS {
            match &prepared {
                Err(fault) if fault.is_kill() => prepared = self.try_prepare(seed),
                Ok(_) | Err(_) => break,
            }
        }
        let prepared = prepared.map_err(|fault| self.pool.error(fault))?;
        assert!(self.prepared.set(prepared).is_ok(), "prepared once");
        Ok(())
    }

    fn fingerprint(&self) -> Option<Digest> {
        let Prepared {
            description,
            entries,
            initial,
            ..
        } = self.prepared();
        let mut hasher = blake3::Hasher::new();
        for Entry { name, shape, role } in entries {
            let role = match role {
                Role::Trained => "trained",
                Role::Buffer => "buffer",
            };
            hasher.update(format!("{name:?} {shape:?} {role}\n").as_bytes());
        }
        hasher.update(description.fingerprint.as_bytes());
        hasher.update(bytemuck::cast_slice(initial));
        Some(*hasher.finalize().as_bytes())
    }

    fn rest(&self) {
        self.pool.end_idle();
    }

    fn repeats(&self) -> Repeats {
        Repeats::Unproven
    }

    fn entries(&self) -> Vec<Entry> {
        self.prepared().entries.clone()
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        let Prepared {
            seed: prepared,
            initial,
            ..
        } = self.prepared();
        assert_eq!(seed, *prepared, "the model was prepared for another seed");
        weights.copy_from_slice(initial);
    }

    fn workspace(&self) -> Workspace {
        let Prepared {
            seed, description, ..
        } = self.prepared();
        let seat = Seat {
            pool: Arc::clone(&self.pool),
            seed: *seed,
            description: Arc::clone(description),
            parameters: self.prepared().initial.len(),
            desk: None,
        };
        Box::new(seat)
    }

    fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        workspace: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        seat(workspace).with(|desk| {
            desk.weights(weights)?;
            for (k, microbatch) in microbatches.iter().enumerate() {
                let mut draws = microbatch.stream(Purpose::User, 0);
                let draw = draws.next_u64() >> 11;
                let gradient = sink.gradient(k);
                let outcome = desk.gradient(microbatch, draw, gradient)?;
                if !all_finite(gradient) {
                    // The policy for such values knows step and partition, but no command.
                    let (step, partition) = (microbatch.step, microbatch.partition);
                    let command = self.pool.command();
                    tracing::warn!(%command, %step, %partition, "a gradient is not finite");
                }
                sink.done(k, outcome);
            }
            Ok(())
        })
    }

    fn score(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
    ) -> Result<Score, ModelError> {
        seat(workspace).with(|desk| {
            desk.weights(weights)?;
            desk.score(batch)
        })
    }

    fn predict(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
        outputs: &mut Vec<f32>,
    ) -> Result<usize, ModelError> {
        let Data {
            width,
            kind,
            outputs: guess,
            ..
        } = self.pool.data();
        let refused = match kind {
            Kind::Numbers => {
                Some("has its rows itself, by number; make predictions in its own language")
            }
            Kind::Classes | Kind::Values if self.prepared().description.predicts => None,
            Kind::Classes | Kind::Values => Some(
                "gives no predictions; give it a `predict`, with the resilin_model.py of this \
                 version",
            ),
        };
        if let Some(why) = refused {
            return Err(self.pool.error(Fault::Wrong(why.into())));
        }
        Rows::of_classes(width as usize, guess).check_features(batch)?;
        seat(workspace).with(|desk| {
            desk.weights(weights)?;
            let mut width = None;
            for features in batch.features.chunks(PREDICTED * batch.width) {
                let rows = features.len() / batch.width;
                let guess = width.unwrap_or(guess as usize);
                let found = desk.predict(rows, features, guess, outputs)?;
                match width.replace(found) {
                    Some(before) if before != found => {
                        return Err(Fault::Wrong(format!(
                            "predicts {before} values a row, and for other rows {found}; give \
                             each row as many"
                        )));
                    }
                    Some(_) | None => {}
                }
            }
            Ok(width.expect("there are rows"))
        })
    }
}

/// A thread's place at the model, with a child once it has evaluated something.
struct Seat {
    pool: Arc<Pool>,
    seed: u64,
    description: Arc<Description>,
    parameters: usize,
    desk: Option<Desk>,
}

fn seat(workspace: &mut Workspace) -> &mut Seat {
    workspace
        .downcast_mut()
        .expect("the workspace is one of this model")
}

impl Seat {
    /// Does something with a child; one with a fault is not used again.
    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Desk) -> Result<T, Fault>,
    ) -> Result<T, ModelError> {
        let desk = match self.desk.take() {
            Some(desk) => Ok(desk),
            None => self.sit_down(),
        };
        let done = desk.and_then(|mut desk| {
            let done = act(&mut desk)?;
            self.desk = Some(desk);
            Ok(done)
        });
        done.map_err(|fault| self.pool.error(fault))
    }

    fn sit_down(&self) -> Result<Desk, Fault> {
        let child = match self.pool.take() {
            Some(child) => child,
            None => {
                let (child, description) = self.pool.start(self.seed)?;
                if description != *self.description {
                    let text = "describes other tensors than before; let them follow from its \
                                arguments and the data alone";
                    return Err(Fault::Wrong(text.into()));
                }
                child
            }
        };
        Desk::at(child, self.parameters)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(desk) = self.desk.take() {
            self.pool.keep(desk.leave());
        }
    }
}
