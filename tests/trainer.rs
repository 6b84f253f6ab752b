//! Training from Rust code, in this process: the weights are the serial reference's, whoever shares
//! the work.

#[path = "../foreign/tests/python/mod.rs"]
mod python;

use std::ops::ControlFlow;
use std::sync::Arc;

use python::has_python;
use resilin::dataset::{Batch, TargetKind};
use resilin::math::Activation;
use resilin::models::{Linear, LinearConfig, Mlp, MlpConfig, Rows};
use resilin::random::{Key, Purpose};
use resilin::{Dataset, Moment, Split, Table, TrainError, Trainer};

const WIDTH: usize = 5;

/// Rows whose class is which of three sums is largest.
fn table(seed: u64, rows: usize) -> Arc<Table> {
    let mut draws = Key::new(seed, Purpose::Synthetic).stream();
    let values: Vec<f32> = (0..rows * WIDTH).map(|_| draws.unit_f32() - 0.5).collect();
    let class = |row: &[f32]| {
        let sums = [row[0] + row[1], row[2] - row[3], row[4]];
        let best = (0..3).max_by(|a: &usize, b| sums[*a].total_cmp(&sums[*b]));
        u32::try_from(best.expect("three")).expect("small")
    };
    let classes = values.chunks_exact(WIDTH).map(class).collect();
    Arc::new(Table::of_classes("sums", WIDTH, values, classes).expect("good rows"))
}

fn mlp() -> Mlp {
    let rows = Rows {
        width: WIDTH,
        targets: TargetKind::Classes(3),
    };
    Mlp::new(MlpConfig {
        rows,
        hidden: vec![9],
        activation: Activation::Tanh,
        dropout: 0.2,
    })
    .expect("a model")
}

/// 250 rows do not divide by 12 partitions of 2: some microbatches are short.
fn trainer(workers: u32) -> Trainer<'static> {
    let data = Split {
        train: table(1, 250),
        test: Some(table(2, 90)),
    };
    Trainer::new(mlp(), data)
        .workers(workers)
        .epochs(12)
        .batch(24)
        .set("run", "partitions", 12)
        .set("run", "block", 32)
        .set("run", "clip_norm", 2.0)
        .optimizer("adam", 0.03)
}

#[test]
fn the_weights_do_not_depend_on_the_workers() {
    let alone = trainer(1).fit().expect("it trains");
    assert_eq!(alone.steps(), 12 * 250_u64.div_ceil(24));
    let score = alone
        .evaluate()
        .expect("rows")
        .expect("there are test rows");
    assert!(score.correct >= Some(75), "{score:?}");
    for workers in [2, 3, 5, 12, 13] {
        let shared = trainer(workers).fit().expect("it trains");
        let bits = |weights: &[f32]| weights.iter().map(|w| w.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(shared.weights()), bits(alone.weights()), "{workers}");
        assert_eq!(shared.sha256(), alone.sha256());
    }
}

#[test]
fn an_observer_hears_every_step_and_score_and_may_stop() {
    let heard = |workers: u32, last: u64| {
        let mut moments = Vec::new();
        let data = trainer(workers).observe(|moment| {
            moments.push(moment.clone());
            match moment {
                Moment::Step { step, .. } if *step >= last => ControlFlow::Break(()),
                Moment::Step { .. }
                | Moment::Scored { .. }
                | Moment::Members { .. }
                | Moment::Restored { .. } => ControlFlow::Continue(()),
            }
        });
        let trained = data.fit().expect("it trains");
        (moments, trained)
    };
    let (moments, trained) = heard(1, 30);
    assert!(trained.was_stopped());
    assert_eq!(trained.steps(), 30);
    let steps: Vec<u64> = moments
        .iter()
        .filter_map(|moment| match moment {
            Moment::Step { step, .. } => Some(*step),
            Moment::Scored { .. } | Moment::Members { .. } | Moment::Restored { .. } => None,
        })
        .collect();
    assert_eq!(steps, (1..=30).collect::<Vec<_>>());
    let scored = moments.iter().filter_map(|moment| match moment {
        Moment::Scored { epoch, step, .. } => Some((*epoch, *step)),
        Moment::Step { .. } | Moment::Members { .. } | Moment::Restored { .. } => None,
    });
    assert_eq!(scored.collect::<Vec<_>>(), [(1, 11), (2, 22)]);
    let (others, shared) = heard(4, 30);
    assert_eq!(others, moments, "losses and scores are the same bits");
    assert_eq!(shared.sha256(), trained.sha256());
}

#[test]
fn a_prediction_is_the_class_that_the_score_counts() {
    let trained = trainer(3).fit().expect("it trains");
    let rows = [0.4, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.4, -0.4, 0.0];
    let predictions = trained.predict(&rows).expect("two rows");
    assert_eq!(predictions.rows().len(), 2);
    assert_eq!(predictions.classes(), [0, 1]);
    let names: Vec<_> = trained.tensors().map(|(entry, _)| entry.name).collect();
    assert_eq!(
        names,
        [
            "layer0.weight",
            "layer0.bias",
            "layer1.weight",
            "layer1.bias"
        ]
    );
    let short = trained.predict(&rows[..7]).expect_err("a row and a half");
    assert!(short.to_string().contains("5 values"), "{short}");
}

#[test]
fn values_are_predicted_as_they_are() {
    let xs: Vec<f32> = (0..60).map(|n| n as f32 / 30.0 - 1.0).collect();
    let ys = xs.iter().map(|x| 3.0 * x + 0.5).collect();
    let table = Table::of_values("line", 1, xs, 1, ys).expect("good rows");
    let model = Linear::new(LinearConfig {
        inputs: 1,
        outputs: 1,
        bias: true,
    })
    .expect("a model");
    let data = Split {
        train: Arc::new(table),
        test: None,
    };
    let trained = Trainer::new(model, data)
        .workers(2)
        .steps(400)
        .batch(12)
        .optimizer("sgd", 0.2)
        .fit()
        .expect("it trains");
    assert_eq!(trained.evaluate().expect("no rows, no error"), None);
    let found = trained.predict(&[2.0]).expect("one row");
    let value = found.rows().next().expect("one row")[0];
    assert!((value - 6.5).abs() < 1e-3, "{value}");
}

/// A model in another language trains and predicts where it is called.
#[test]
fn a_command_predicts_what_it_is_scored_by() {
    if !has_python() {
        return;
    }
    let test = table(2, 90);
    let data = Split {
        train: table(1, 250),
        test: Some(test.clone()),
    };
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/foreign/tests/model.py");
    let trained = Trainer::of_command(&format!("python3 {model}"), data)
        .workers(2)
        .epochs(2)
        .batch(25)
        .optimizer("adam", 0.05)
        .fit()
        .expect("it trains");
    let mut batch = Batch::default();
    let ids: Vec<u32> = (0..90).collect();
    test.read(&ids, &mut batch).expect("there are that many");
    let predicted = trained.predict(&batch.features).expect("whole rows");
    let predicted = predicted.classes();
    let right = predicted
        .iter()
        .zip(batch.classes())
        .filter(|(a, b)| a == b);
    let score = trained
        .evaluate()
        .expect("rows")
        .expect("there are test rows");
    assert_eq!(score.correct, Some(right.count() as u64));
    assert!(score.correct > Some(45), "{score:?}");
}

#[test]
fn a_wrong_setting_is_named() {
    let odd = trainer(1).set("run", "btch", 3).fit();
    let Err(TrainError::Job(error)) = odd else {
        panic!("{odd:?}")
    };
    assert!(error.to_string().contains("btch"), "{error}");
    let odd = trainer(1)
        .optimizer("adamm", 0.1)
        .fit()
        .expect_err("no such rule");
    assert!(odd.to_string().contains("adamm"), "{odd}");
}
