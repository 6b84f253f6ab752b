//! The model that a module is.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use resilin_core::layout::Entry;
use resilin_core::random::Purpose;
use resilin_learn::dataset::{Batch, TargetKind, Targets};
use resilin_learn::kernel::Digest;
use resilin_learn::math::largest;
use resilin_learn::model::{Microbatch, Model, ModelError, Outcome, Score, Sink, Workspace};
use resilin_learn::models::Rows;

use super::arithmetic;
use super::samples::{Samples, features};
use super::tree::{Tree, collect, collect_buffers, load};

/// Burn has one generator for the whole process. Whoever seeds it holds this until it has drawn.
static GENERATOR: Mutex<()> = Mutex::new(());

type Build<M> = dyn Fn(&Device) -> M + Send + Sync;
type Loss<M> = dyn Fn(&M, &Samples) -> Tensor<1> + Send + Sync;
type Predict<M> = dyn Fn(&M, Tensor<2>) -> Tensor<2> + Send + Sync;

/// A module of Burn as a [`Model`]: its parameters by their names in the module's tree, its running
/// statistics (batch norm) as buffers; what is frozen stays as it was built.
pub struct BurnModel<M> {
    rows: Rows,
    build: Box<Build<M>>,
    loss: Box<Loss<M>>,
    predict: Option<Box<Predict<M>>>,
    draws: Draws,
    prepared: OnceLock<Prepared<M>>,
}

/// Whether a training loss draws from Burn's generator.
#[derive(Clone, Copy)]
enum Draws {
    Never,
    Keyed,
}

/// What is known once the module was built for a seed.
struct Prepared<M> {
    seed: u64,
    module: Mutex<M>,
    tree: Tree,
}

impl<M: Module + 'static> BurnModel<M> {
    /// A model for such rows, from what builds the module on a device, and its loss: the *mean* over
    /// the rows, one value, as Burn's own losses give it.
    ///
    /// The module is built anew in every process, after Burn's generator was seeded with the job's
    /// seed, and must come out the same.
    pub fn new(
        rows: impl Into<Rows>,
        build: impl Fn(&Device) -> M + Send + Sync + 'static,
        loss: impl Fn(&M, &Samples) -> Tensor<1> + Send + Sync + 'static,
    ) -> Self {
        Self {
            rows: rows.into(),
            build: Box::new(build),
            loss: Box::new(loss),
            predict: None,
            draws: Draws::Never,
            prepared: OnceLock::new(),
        }
    }

    /// With outputs [rows, classes or values] for features [rows, width]. Of classes, the largest
    /// output is the predicted one: scores then count the rows predicted right.
    #[must_use]
    pub fn with_prediction(
        mut self,
        predict: impl Fn(&M, Tensor<2>) -> Tensor<2> + Send + Sync + 'static,
    ) -> Self {
        self.predict = Some(Box::new(predict));
        self
    }

    /// With a loss that draws (dropout): Burn's generator is seeded by step and partition before each
    /// microbatch. The process then evaluates one loss at a time, since the generator is shared.
    #[must_use]
    pub fn with_draws(mut self) -> Self {
        self.draws = Draws::Keyed;
        self
    }

    fn try_prepare(&self, seed: u64) -> Result<Prepared<M>, ModelError> {
        let device = Device::flex().autodiff();
        let _turn = seeded(&device, seed);
        let module = (self.build)(&device);
        let tree = Tree::of(&module)?;
        Ok(Prepared {
            seed,
            module: Mutex::new(module),
            tree,
        })
    }

    fn prepared(&self) -> &Prepared<M> {
        self.prepared
            .get()
            .expect("a task prepares its model before anything else")
    }

    /// The loss of a microbatch, on the tape.
    fn training_loss(&self, module: &M, microbatch: &Microbatch<'_>) -> Tensor<1> {
        let device = Device::flex().autodiff();
        let samples = Samples::new(microbatch.batch, &device);
        let _turn = match self.draws {
            Draws::Never => None,
            Draws::Keyed => {
                let seed = microbatch.stream(Purpose::User, 0).next_u64();
                Some(seeded(&device, seed))
            }
        };
        (self.loss)(module, &samples)
    }

    fn outputs(&self, module: &M, batch: &Batch) -> Result<Option<Vec<f32>>, ModelError> {
        let Some(predict) = &self.predict else {
            return Ok(None);
        };
        let outputs = predict(module, features(batch, &Device::flex()));
        let wanted = [batch.rows, self.rows.outputs()];
        if outputs.dims() != wanted {
            return Err(ModelError(format!(
                "the prediction has the shape {:?}; give {wanted:?}, one row of outputs a sample",
                outputs.dims()
            )));
        }
        let values = outputs.into_data().try_into_vec();
        let values = values.map_err(|error| ModelError(format!("the prediction: {error}")))?;
        Ok(Some(values))
    }

    /// Rows whose class has the largest output.
    fn correct(&self, outputs: &[f32], targets: &Targets) -> Option<u64> {
        let (TargetKind::Classes(count), Targets::Classes(classes)) = (self.rows.targets, targets)
        else {
            return None;
        };
        let rows = outputs.chunks_exact(count as usize).zip(classes);
        let right = rows.filter(|(row, class)| largest(row) == **class as usize);
        Some(right.count() as u64)
    }
}

impl<M: Module + 'static> Model for BurnModel<M> {
    fn prepare(&self, seed: u64) -> Result<(), ModelError> {
        if self
            .prepared
            .get()
            .is_some_and(|prepared| prepared.seed == seed)
        {
            return Ok(());
        }
        let prepared = self.try_prepare(seed)?;
        assert!(self.prepared.set(prepared).is_ok(), "prepared once");
        Ok(())
    }

    /// Names, shapes, first values, and the machine's arithmetic.
    fn fingerprint(&self) -> Option<Digest> {
        let tree = &self.prepared().tree;
        let mut hasher = blake3::Hasher::new();
        for Entry { name, shape, role } in &tree.entries {
            hasher.update(format!("{name:?} {shape:?} {role:?}\n").as_bytes());
        }
        hasher.update(bytemuck::cast_slice(&tree.initial));
        hasher.update(bytemuck::cast_slice(&tree.fixed));
        hasher.update(&arithmetic::digest());
        Some(*hasher.finalize().as_bytes())
    }

    fn entries(&self) -> Vec<Entry> {
        self.prepared().tree.entries.clone()
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        let Prepared {
            seed: prepared,
            tree,
            ..
        } = self.prepared();
        assert_eq!(seed, *prepared, "the model was prepared for another seed");
        weights.copy_from_slice(&tree.initial);
    }

    /// A module of its own, which shares no statistic with another thread's.
    fn workspace(&self) -> Workspace {
        let module = self.prepared().module.lock();
        let module = module.unwrap_or_else(PoisonError::into_inner);
        // A mere clone would share them.
        Box::new(module.valid().train())
    }

    fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        workspace: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        let tree = &self.prepared().tree;
        let module = module::<M>(workspace);
        let mut is_loaded = false;
        for (k, microbatch) in microbatches.iter().enumerate() {
            let batch = microbatch.batch;
            self.rows.check(batch)?;
            if !is_loaded || tree.has_buffers() {
                *module = load(module.clone(), &tree.places, weights);
                is_loaded = true;
            }
            let mean = self.training_loss(module, microbatch);
            let loss_sum = sum(&mean, batch)?;
            let gradients = mean.mul_scalar(batch.rows as f32);
            if !gradients.is_tracked() {
                let text =
                    "the loss depends on no tensor that is trained; compute it by the module";
                return Err(ModelError(text.into()));
            }
            let flat = sink.gradient(k);
            collect(module, &tree.places, gradients.backward(), flat);
            if tree.has_buffers() {
                collect_buffers(module, &tree.places, batch.rows, flat);
            }
            let outcome = Outcome {
                samples: batch.rows as u64,
                weight: batch.rows as f64,
                loss_sum,
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
        let module = self.frozen(weights, workspace);
        let mean = (self.loss)(&module, &Samples::new(batch, &Device::flex()));
        let outputs = self.outputs(&module, batch)?;
        Ok(Score {
            rows: batch.rows as u64,
            correct: outputs.and_then(|outputs| self.correct(&outputs, &batch.targets)),
            loss_sum: sum(&mean, batch)?,
            ..Score::default()
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
        let module = self.frozen(weights, workspace);
        let Some(values) = self.outputs(&module, batch)? else {
            let text = "the model has a loss and no prediction; give it one (`with_prediction`)";
            return Err(ModelError(text.into()));
        };
        outputs.extend(values);
        Ok(self.rows.outputs())
    }
}

impl<M: Module + 'static> BurnModel<M> {
    /// The module with these weights, without tape, dropout or changing statistics.
    fn frozen(&self, weights: &[f32], workspace: &mut Workspace) -> M {
        let module = module::<M>(workspace);
        *module = load(module.clone(), &self.prepared().tree.places, weights);
        module.valid()
    }
}

/// Seeds Burn's generator, which is the caller's until it drops this.
fn seeded(device: &Device, seed: u64) -> MutexGuard<'static, ()> {
    let turn = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    device.seed(seed);
    turn
}

/// The sum of the rows' losses, from their mean.
fn sum(mean: &Tensor<1>, batch: &Batch) -> Result<f64, ModelError> {
    let values = mean.to_data();
    match values.as_slice::<f32>() {
        Ok([mean]) => Ok(f64::from(*mean) * batch.rows as f64),
        Ok(values) => Err(ModelError(format!(
            "the loss has {} values; give one, the mean over the rows",
            values.len()
        ))),
        Err(error) => Err(ModelError(format!("the loss is not f32: {error}"))),
    }
}

fn module<M: 'static>(workspace: &mut Workspace) -> &mut M {
    workspace
        .downcast_mut()
        .expect("a workspace is used with the model that made it")
}
