//! Modules of Burn as models, in this process: the gradient beside that of our own autograd, running
//! statistics as buffers, draws, and what is refused.

use burn::module::{Initializer, Module};
use burn::nn::loss::{CrossEntropyLossConfig, MseLoss, Reduction};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::tanh;
use burn::tensor::{Device, Tensor};
use resilin::autograd::{Parameters, Tape, Var, ops};
use resilin::burn::{BurnModel, Samples};
use resilin::dataset::{Batch, TargetKind};
use resilin::model::{Microbatch, Model, Outcome, Sink};
use resilin::models::{ClosureModel, Rows};
use resilin::random::{Key, Purpose};
use resilin::{Dataset, Split, Table, Trainer};
use resilin_core::{PartitionId, Step};

const WIDTH: usize = 5;
const UNITS: usize = 7;
const CLASSES: usize = 3;
const ROWS: Rows = Rows {
    width: WIDTH,
    targets: TargetKind::Classes(CLASSES as u32),
};

#[derive(Module, Debug)]
struct Mlp {
    hidden: Linear,
    out: Linear,
}

impl Mlp {
    fn new(device: &Device) -> Self {
        Self {
            hidden: LinearConfig::new(WIDTH, UNITS).init(device),
            out: LinearConfig::new(UNITS, CLASSES).init(device),
        }
    }

    fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        self.out.forward(tanh(self.hidden.forward(rows)))
    }
}

fn cross_entropy(logits: Tensor<2>, samples: &Samples) -> Tensor<1> {
    let entropy = CrossEntropyLossConfig::new().init(&samples.device());
    entropy.forward(logits, samples.classes())
}

fn mlp() -> BurnModel<Mlp> {
    let loss = |mlp: &Mlp, samples: &Samples| {
        cross_entropy(mlp.forward(samples.features.clone()), samples)
    };
    BurnModel::new(ROWS, Mlp::new, loss).with_prediction(Mlp::forward)
}

/// The same with our own autograd.
fn ours() -> ClosureModel {
    fn logits(tape: &mut Tape<f32>, batch: &Batch) -> Var {
        let x = tape.batch(batch);
        let x = ops::layer(tape, x, "hidden");
        let x = ops::tanh(tape, x);
        ops::layer(tape, x, "out")
    }
    let parameters = Parameters::layers(&[("hidden", WIDTH, UNITS), ("out", UNITS, CLASSES)])
        .expect("the names differ");
    ClosureModel::classifier(parameters, ROWS, logits)
}

fn table(seed: u64, rows: usize) -> Table {
    let mut draws = Key::new(seed, Purpose::Synthetic).stream();
    let values: Vec<f32> = (0..rows * WIDTH).map(|_| draws.unit_f32() - 0.5).collect();
    let class = |row: &[f32]| u32::from(row[0] > row[1]) + u32::from(row[2] > row[3]);
    let classes = values.chunks_exact(WIDTH).map(class).collect();
    Table::of_classes("comparisons", WIDTH, values, classes).expect("good rows")
}

fn batch(rows: u32) -> Batch {
    let mut batch = Batch::default();
    let ids: Vec<u32> = (0..rows).collect();
    table(3, rows as usize)
        .read(&ids, &mut batch)
        .expect("they exist");
    batch
}

/// What models put into it.
#[derive(Debug, Default, PartialEq)]
struct Kept {
    gradients: Vec<Vec<f32>>,
    outcomes: Vec<Outcome>,
    len: usize,
}

impl Sink for Kept {
    fn gradient(&mut self, k: usize) -> &mut [f32] {
        // Contents are unspecified, so a model must overwrite them.
        self.gradients.resize(k + 1, vec![f32::NAN; self.len]);
        &mut self.gradients[k]
    }

    fn done(&mut self, _: usize, outcome: Outcome) {
        self.outcomes.push(outcome);
    }
}

/// Gradients of these batches on the initial weights with seed 1, each a partition of step 4.
fn evaluate(model: &impl Model, weights: &[f32], batches: &[Batch]) -> Kept {
    let microbatches: Vec<Microbatch<'_>> = (0..)
        .zip(batches)
        .map(|(partition, batch)| Microbatch {
            seed: 1,
            step: Step(4),
            partition: PartitionId(partition),
            batch,
        })
        .collect();
    let mut kept = Kept {
        len: weights.len(),
        ..Kept::default()
    };
    model
        .evaluate(weights, &microbatches, &mut model.workspace(), &mut kept)
        .expect("the rows fit");
    kept
}

fn initial(model: &impl Model) -> Vec<f32> {
    model.prepare(1).expect("it can be built");
    let entries = model.entries();
    let mut weights = vec![0.0; entries.iter().map(resilin::Entry::len).sum()];
    model.initialise(1, &mut weights);
    weights
}

fn names(model: &impl Model) -> Vec<String> {
    let describe = |entry: &resilin::Entry| format!("{} {:?}", entry.name, entry.role);
    model.entries().iter().map(describe).collect()
}

#[test]
fn gradients_are_those_of_our_own_autograd() {
    const TOLERANCE: f32 = 1e-5;
    let (theirs, ours) = (mlp(), ours());
    let weights = initial(&theirs);
    assert_eq!(theirs.entries(), ours.entries());
    let batches = [batch(33), batch(1)];
    let (theirs_kept, ours_kept) = (
        evaluate(&theirs, &weights, &batches),
        evaluate(&ours, &weights, &batches),
    );
    for (their, our) in theirs_kept.gradients.iter().zip(&ours_kept.gradients) {
        let largest = our
            .iter()
            .fold(0.0_f32, |most, value| most.max(value.abs()));
        assert!(largest > 0.1, "{our:?}");
        for (their, our) in their.iter().zip(our) {
            let difference = (their - our).abs();
            assert!(difference <= TOLERANCE * largest, "{their} and {our}");
        }
    }
    for (their, our) in theirs_kept.outcomes.iter().zip(&ours_kept.outcomes) {
        assert_eq!((their.samples, their.weight), (our.samples, our.weight));
        let difference = (their.loss_sum - our.loss_sum).abs();
        assert!(difference <= 1e-5 * our.loss_sum, "{their:?} {our:?}");
    }
    let scores = [&theirs as &dyn Model, &ours].map(|model| {
        let score = model.score(&weights, &batches[0], &mut model.workspace());
        score.expect("the rows fit")
    });
    assert_eq!(scores[0].correct, scores[1].correct);
    let difference = (scores[0].loss_sum - scores[1].loss_sum).abs();
    assert!(difference <= 1e-5 * scores[1].loss_sum, "{scores:?}");
}

#[derive(Module, Debug)]
struct Normed {
    norm: BatchNorm,
    dropout: Dropout,
    frozen: Linear,
    out: Linear,
}

impl Normed {
    fn new(device: &Device) -> Self {
        Self {
            norm: BatchNormConfig::new(WIDTH).init(device),
            dropout: DropoutConfig::new(0.5).init(),
            frozen: LinearConfig::new(WIDTH, UNITS).init(device).freeze(),
            out: LinearConfig::new(UNITS, CLASSES).init(device),
        }
    }

    fn loss(&self, samples: &Samples) -> Tensor<1> {
        let x = self.norm.forward(samples.features.clone());
        let x = self.frozen.forward(self.dropout.forward(x));
        cross_entropy(self.out.forward(x), samples)
    }
}

fn normed() -> BurnModel<Normed> {
    BurnModel::new(ROWS, Normed::new, Normed::loss).with_draws()
}

#[test]
fn statistics_are_buffers_and_what_is_frozen_has_no_place() {
    let model = normed();
    let weights = initial(&model);
    assert_eq!(
        names(&model),
        [
            "norm.gamma Trained",
            "norm.beta Trained",
            "norm.running_mean Buffer",
            "norm.running_var Buffer",
            "out.weight Trained",
            "out.bias Trained",
        ]
    );
    assert_eq!(weights[2 * WIDTH..4 * WIDTH], [[0.0; 5], [1.0; 5]].concat());
    // Each microbatch starts from the buffers of the step, not from what the one before left.
    let rows = batch(4);
    let kept = evaluate(&model, &weights, &[rows.clone(), batch(9), rows.clone()]);
    for k in [0, 2] {
        for column in 0..WIDTH {
            let mean = (0..4)
                .map(|row| rows.features[row * WIDTH + column])
                .sum::<f32>()
                / 4.0;
            // Burn keeps 0.9 of a statistic; the sink gets it once a row.
            let next = kept.gradients[k][2 * WIDTH + column];
            assert!((next - 4.0 * 0.1 * mean).abs() < 1e-6, "{next} {mean}");
        }
    }
}

#[test]
fn results_repeat_also_beside_other_threads() {
    let model = normed();
    let weights = initial(&model);
    let batches = [batch(8), batch(8), batch(3)];
    let first = evaluate(&model, &weights, &batches);
    // Same rows, other partition: other draws.
    assert_ne!(first.gradients[0], first.gradients[1]);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| evaluate(&model, &weights, &batches)))
            .collect();
        for thread in threads {
            assert_eq!(thread.join().expect("no panic"), first);
        }
    });
}

#[test]
fn another_process_builds_the_same_or_is_refused() {
    let of_frozen = |value: f64| {
        let build = move |device: &Device| {
            let linear = LinearConfig::new(WIDTH, UNITS);
            let linear = linear.with_initializer(Initializer::Constant { value });
            let mut module = Normed::new(device);
            module.frozen = linear.init(device).freeze();
            module
        };
        let model = BurnModel::new(ROWS, build, Normed::loss);
        (initial(&model), model.fingerprint().expect("one"))
    };
    assert_eq!(of_frozen(1.0), of_frozen(1.0));
    let (one, other) = (of_frozen(1.0), of_frozen(2.0));
    assert_eq!(one.0, other.0);
    assert_ne!(one.1, other.1);
}

fn split() -> Split {
    Split::new(table(1, 250), table(2, 90))
}

#[test]
fn the_weights_do_not_depend_on_the_workers() {
    let fit = |workers| {
        let trainer = Trainer::new(mlp(), split())
            .workers(workers)
            .epochs(20)
            .batch(24)
            .set("run", "partitions", 12)
            .optimizer("adam", 0.05);
        trainer.fit().expect("it trains")
    };
    let alone = fit(1);
    let score = alone.evaluate().expect("rows").expect("test rows");
    assert!(score.correct >= Some(75), "{score:?}");
    assert_eq!(
        alone
            .predict(&[0.5, -0.5, 0.5, -0.5, 0.0])
            .expect("one row")
            .classes(),
        [2]
    );
    assert_eq!(fit(3).sha256(), alone.sha256());
}

#[test]
fn a_loss_that_draws_untold_is_refused_by_name() {
    let model = BurnModel::new(ROWS, Normed::new, Normed::loss);
    let error = Trainer::new(model, split()).batch(24).fit().err();
    let text = error.expect("dropout differs each time").to_string();
    assert!(
        text.contains("gives two results for the same microbatch"),
        "{text}"
    );
}

#[test]
fn losses_that_cannot_be_trained_are_one_line() {
    let untrained = |loss: fn(&Mlp, &Samples) -> Tensor<1>| {
        let model = BurnModel::new(ROWS, Mlp::new, loss);
        let error = Trainer::new(model, split()).batch(24).fit().err();
        error.expect("it cannot be trained").to_string()
    };
    let text = untrained(|mlp, samples| {
        let logits = mlp.forward(samples.features.clone());
        let wanted = logits.zeros_like();
        MseLoss::new()
            .forward_no_reduction(logits, wanted)
            .flatten(0, 1)
    });
    assert!(
        text.contains("the loss has 6 values; give one, the mean over the rows"),
        "{text}"
    );
    let text = untrained(|_, samples| {
        let rows = samples.features.clone();
        MseLoss::new().forward(rows.clone(), rows.zeros_like(), Reduction::Mean)
    });
    assert!(
        text.contains("depends on no tensor that is trained"),
        "{text}"
    );
    let frozen = BurnModel::new(
        ROWS,
        |device| Mlp::new(device).freeze(),
        |mlp, samples| cross_entropy(mlp.forward(samples.features.clone()), samples),
    );
    let error = frozen
        .prepare(1)
        .expect_err("nothing is trained")
        .to_string();
    assert!(error.contains("has no tensor that is trained"), "{error}");
}
