//! `cnn`, `transformer` and `factorization`: finite differences through whole models, buffers,
//! independence of neighbours, and what they refuse.

mod common;

use common::{batch, bits, evaluate, microbatch, parameters};
use resilin_core::layout::Role;
use resilin_core::random::{Key, Purpose};
use resilin_learn::autograd::check_gradient;
use resilin_learn::dataset::{Batch, TargetKind, Targets};
use resilin_learn::math::Activation;
use resilin_learn::model::Model;
use resilin_learn::models::{
    CnnConfig, CnnNetwork, Draws, FactorizationConfig, FactorizationNetwork, Layer, Mlp, MlpConfig,
    Network, OnTape, RowLoss, Rows, TransformerConfig, TransformerNetwork, training_loss,
};

fn cnn(layers: &[&str], targets: TargetKind, loss: RowLoss) -> CnnNetwork {
    let layers = layers.iter().map(|text| text.parse::<Layer>().expect(text));
    let config = CnnConfig {
        rows: Rows {
            width: 6 * 5 * 2,
            targets,
        },
        image: [6, 5, 2],
        layers: layers.collect(),
        activation: Activation::Tanh,
        loss,
    };
    CnnNetwork::new(config).expect("a legal network")
}

/// Everything that a `cnn` has.
fn full_cnn() -> CnnNetwork {
    let layers = [
        "conv 3 3 pad 1 norm",
        "residual 3",
        "residual 4 stride 2",
        "average 2 stride 1",
        "dropout 0.2",
        "dense 4",
    ];
    cnn(&layers, TargetKind::Classes(3), RowLoss::CrossEntropy)
}

fn transformer() -> TransformerNetwork {
    let rows = Rows {
        width: 5,
        targets: TargetKind::Classes(11),
    };
    let config = TransformerConfig {
        rows,
        blocks: 2,
        heads: 2,
        width: 6,
        dropout: 0.1,
    };
    TransformerNetwork::new(config).expect("a legal network")
}

fn factorization(targets: TargetKind, loss: RowLoss) -> FactorizationNetwork {
    let config = FactorizationConfig {
        rows: Rows { width: 3, targets },
        fields: vec![5, 4, 3],
        rank: 2,
        loss,
    };
    FactorizationNetwork::new(config).expect("a legal network")
}

/// Rows whose values are whole numbers below the counts of their columns.
fn numbers(rows: usize, counts: &[u32], targets: TargetKind, seed: u64) -> Batch {
    let mut stream = Key::new(seed, Purpose::User).stream();
    let values = (0..rows)
        .flat_map(|_| counts.iter())
        .map(|count| stream.below(*count) as f32);
    Batch {
        features: values.collect(),
        ..batch(rows, counts.len(), targets, seed)
    }
}

fn start<N: Network>(network: &N) -> Vec<f32> {
    let mut weights = vec![f32::NAN; network.parameters().len()];
    network.initialise(7, &mut weights);
    weights
}

fn check<N: Network>(name: &str, network: &N, rows: &Batch) {
    let weights: Vec<f64> = start(network).into_iter().map(f64::from).collect();
    let drawn = microbatch(rows, 3, 1);
    let checked = check_gradient(network.parameters(), &weights, 1e-6, |tape| {
        training_loss(network, tape, rows, &Draws::of(&drawn))
    });
    if let Err(error) = checked {
        panic!("{name}: {error}");
    }
}

#[test]
fn whole_models_agree_with_finite_differences() {
    let classes = TargetKind::Classes(3);
    check("cnn", &full_cnn(), &batch(4, 60, classes, 1));
    let plain = cnn(
        &["conv 2 3", "pool 2", "dense 3"],
        classes,
        RowLoss::CrossEntropy,
    );
    check("plain cnn", &plain, &batch(4, 60, classes, 2));
    let eleven = TargetKind::Classes(11);
    check(
        "transformer",
        &transformer(),
        &numbers(3, &[11; 5], eleven, 3),
    );
    let two = TargetKind::Classes(2);
    let network = factorization(two, RowLoss::BinaryCrossEntropy);
    check("factorization", &network, &numbers(6, &[5, 4, 3], two, 4));
}

#[test]
fn every_loss_agrees_with_finite_differences() {
    let values = TargetKind::Values(2);
    let share = Targets::Values {
        width: 2,
        values: (0..8).map(|i| i as f32 / 7.0).collect(),
    };
    let cases = [
        (values, RowLoss::SquaredError),
        (values, RowLoss::Huber { delta: 0.7 }),
        (values, RowLoss::BinaryCrossEntropy),
        (TargetKind::Classes(2), RowLoss::BinaryCrossEntropy),
        (TargetKind::Classes(3), RowLoss::CrossEntropy),
        (
            TargetKind::Classes(3),
            RowLoss::WeightedCrossEntropy(vec![0.5, 2.0, 1.0]),
        ),
    ];
    for (targets, loss) in cases {
        let mut rows = batch(4, 60, targets, 5);
        if (targets, &loss) == (values, &RowLoss::BinaryCrossEntropy) {
            rows.targets = share.clone();
        }
        check(
            &format!("{loss:?}"),
            &cnn(&["dense 3"], targets, loss),
            &rows,
        );
    }
}

/// The engine of `mlp` and the tape give the same bits for every loss.
#[test]
fn mlp_and_a_cnn_of_dense_layers_give_the_same_bits() {
    let cases = [
        (TargetKind::Values(2), RowLoss::SquaredError),
        (TargetKind::Values(2), RowLoss::Huber { delta: 0.7 }),
        (TargetKind::Classes(2), RowLoss::BinaryCrossEntropy),
        (TargetKind::Classes(3), RowLoss::CrossEntropy),
        (
            TargetKind::Classes(3),
            RowLoss::WeightedCrossEntropy(vec![0.5, 2.0, 1.0]),
        ),
    ];
    for (targets, loss) in cases {
        let config = MlpConfig {
            rows: Rows { width: 60, targets },
            hidden: vec![4],
            activation: Activation::Tanh,
            dropout: 0.0,
        };
        let mlp = Mlp::with_loss(config, loss.clone()).expect("a legal model");
        let tape = OnTape::new(cnn(&["dense 4"], targets, loss.clone()));
        let mut weights = vec![f32::NAN; parameters(&mlp)];
        mlp.initialise(8, &mut weights);
        let rows = batch(9, 60, targets, 6);
        let all = || [microbatch(&rows, 2, 0)];
        let (ours, theirs) = (
            evaluate(&mlp, &weights, &all()),
            evaluate(&tape, &weights, &all()),
        );
        assert_eq!(
            bits(&ours.gradients[0]),
            bits(&theirs.gradients[0]),
            "{loss:?}"
        );
        let (ours, theirs) = (ours.outcomes[0], theirs.outcomes[0]);
        assert_eq!((ours.samples, ours.weight), (theirs.samples, theirs.weight));
        assert!((ours.loss_sum - theirs.loss_sum).abs() <= 1e-5 * ours.loss_sum);
        let score = |model: &dyn Model| {
            let score = model.score(&weights, &rows, &mut model.workspace());
            score.expect("rows fit")
        };
        let (ours, theirs) = (score(&mlp), score(&tape));
        assert_eq!(
            (ours.rows, ours.correct),
            (theirs.rows, theirs.correct),
            "{loss:?}"
        );
    }
}

#[test]
fn class_weights_weigh_the_mean_and_not_the_score() {
    let targets = TargetKind::Classes(3);
    let weighted = RowLoss::WeightedCrossEntropy(vec![0.5, 2.0, 1.0]);
    let models = [weighted, RowLoss::CrossEntropy].map(|loss| OnTape::new(cnn(&[], targets, loss)));
    let mut weights = vec![0.0; parameters(&models[0])];
    models[0].initialise(3, &mut weights);
    let rows = batch(20, 60, targets, 8);
    let Targets::Classes(classes) = &rows.targets else {
        panic!("rows of classes")
    };
    let expected: f64 = classes
        .iter()
        .map(|class| [0.5, 2.0, 1.0][*class as usize])
        .sum();
    let outcome = |model| evaluate(model, &weights, &[microbatch(&rows, 1, 0)]).outcomes[0];
    assert_eq!(
        (outcome(&models[0]).samples, outcome(&models[0]).weight),
        (20, expected)
    );
    assert_eq!(outcome(&models[1]).weight, 20.0);
    let scores = [0, 1].map(|i| {
        let model: &dyn Model = &models[i];
        model
            .score(&weights, &rows, &mut model.workspace())
            .expect("rows fit")
    });
    assert_eq!(scores[0], scores[1]);
}

#[test]
fn gradients_do_not_depend_on_the_microbatches_beside() {
    let eleven = TargetKind::Classes(11);
    let cnn = OnTape::new(full_cnn());
    let transformer = OnTape::new(transformer());
    let cases: [(&str, &dyn Model, Vec<Batch>); 2] = [
        (
            "cnn",
            &cnn,
            (0..3)
                .map(|k| batch(2 + 3 * k, 60, TargetKind::Classes(3), k as u64))
                .collect(),
        ),
        (
            "transformer",
            &transformer,
            (0..3)
                .map(|k| numbers(1 + k, &[11; 5], eleven, k as u64))
                .collect(),
        ),
    ];
    for (name, model, batches) in cases {
        let mut weights = vec![0.0; parameters(model)];
        model.initialise(2, &mut weights);
        let all: Vec<_> = batches
            .iter()
            .zip(0..)
            .map(|(b, p)| microbatch(b, 3, p))
            .collect();
        let together = evaluate(model, &weights, &all);
        for (k, one) in all.into_iter().enumerate() {
            let alone = evaluate(model, &weights, &[one]);
            assert_eq!(
                bits(&together.gradients[k]),
                bits(&alone.gradients[0]),
                "{name} {k}"
            );
            assert_eq!(together.outcomes[k], alone.outcomes[0], "{name} {k}");
            assert!(alone.gradients[0].iter().any(|g| *g != 0.0), "{name} {k}");
        }
    }
}

#[test]
fn running_statistics_move_a_tenth_of_the_way_to_those_of_the_microbatch() {
    let network = cnn(
        &["conv 2 1 norm"],
        TargetKind::Classes(3),
        RowLoss::CrossEntropy,
    );
    let model = OnTape::new(network);
    let mut weights = vec![0.0; parameters(&model)];
    model.initialise(5, &mut weights);
    let rows = batch(4, 60, TargetKind::Classes(3), 9);
    let gradient = &evaluate(&model, &weights, &[microbatch(&rows, 0, 0)]).gradients[0];

    let mut at = 0;
    let mut means = Vec::new();
    for entry in model.entries() {
        let range = at..at + entry.len();
        at = range.end;
        if entry.role == Role::Buffer {
            let old = &weights[range.clone()];
            let next: Vec<f32> = gradient[range].iter().map(|sum| sum / 4.0).collect();
            means.push((entry.name, old.to_vec(), next));
        }
    }
    // The convolution is one product a pixel: channel c is x0 w[0][c] + x1 w[1][c].
    let channel = |c: usize| -> Vec<f32> {
        let pixels = rows.features.chunks(2);
        pixels
            .map(|x| x[0] * weights[c] + x[1] * weights[2 + c])
            .collect()
    };
    for c in 0..2 {
        let values = channel(c);
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let squares = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>();
        let variance = squares / values.len() as f32;
        assert!((means[0].2[c] - 0.1 * mean).abs() < 1e-5);
        assert!((means[1].2[c] - (0.9 + 0.1 * variance)).abs() < 1e-5);
    }
    let names: Vec<_> = means
        .iter()
        .map(|(name, old, _)| (name.as_str(), old[0]))
        .collect();
    assert_eq!(names, [("layer0.mean", 0.0), ("layer0.variance", 1.0)]);
}

/// Bytes behind a place change nothing before it: the loss at the first places of a row.
#[test]
fn a_transformer_does_not_see_what_follows() {
    let network = transformer();
    let weights = start(&network);
    let classes = TargetKind::Classes(11);
    let rows = numbers(1, &[11; 5], classes, 4);
    let mut other = rows.clone();
    other.features[4] = (other.features[4] + 1.0) % 11.0;
    let outputs = |batch: &Batch| {
        let mut tape = resilin_learn::autograd::Tape::<f32>::new(network.parameters().clone());
        tape.load(&weights);
        let var = network.outputs(&mut tape, batch, &Draws::none(), &mut Vec::new());
        tape.value(var).to_vec()
    };
    let (first, second) = (outputs(&rows), outputs(&other));
    assert_eq!(bits(&first[..44]), bits(&second[..44]));
    assert_ne!(bits(&first[44..]), bits(&second[44..]));
}

#[test]
fn an_untrained_transformer_knows_nothing() {
    let model = OnTape::new(transformer());
    let mut weights = vec![0.0; parameters(&model)];
    model.initialise(1, &mut weights);
    // More rows than are scored together.
    let rows = numbers(70, &[11; 5], TargetKind::Classes(11), 3);
    let score = model
        .score(&weights, &rows, &mut model.workspace())
        .expect("rows fit");
    assert_eq!(score.rows, 70);
    assert!(
        (score.loss_sum / 70.0 - 11f64.ln()).abs() < 0.05,
        "{score:?}"
    );
}

#[test]
fn what_does_not_fit_is_refused_with_a_remedy() {
    let classes = TargetKind::Classes(3);
    let config = |image, layers: &[&str], loss| CnnConfig {
        rows: Rows {
            width: 60,
            targets: classes,
        },
        image,
        layers: layers
            .iter()
            .map(|text| text.parse().expect(text))
            .collect(),
        activation: Activation::Relu,
        loss,
    };
    let refused = |config| CnnNetwork::new(config).err().expect("refused").to_string();
    let usual = RowLoss::CrossEntropy;
    let message = refused(config([6, 6, 2], &[], usual.clone()));
    assert!(
        message.contains("6 x 6 with 2 channels is not a row of 60"),
        "{message}"
    );
    let message = refused(config([6, 5, 2], &["pool 7"], usual.clone()));
    assert!(
        message.contains("layer 1 does not fit into 6 x 5"),
        "{message}"
    );
    let message = refused(config([6, 5, 2], &["dense 3", "pool 1"], usual));
    assert!(message.contains("layer 2 follows a dense one"), "{message}");
    let message = refused(config([6, 5, 2], &[], RowLoss::SquaredError));
    assert!(message.contains("use cross_entropy"), "{message}");
    let message = refused(config([6, 5, 2], &[], RowLoss::BinaryCrossEntropy));
    assert!(message.contains("the rows have 3"), "{message}");
    let message = refused(config(
        [6, 5, 2],
        &[],
        RowLoss::WeightedCrossEntropy(vec![1.0; 2]),
    ));
    assert!(
        message.contains("2 class weights for 3 classes"),
        "{message}"
    );

    let model = OnTape::new(factorization(TargetKind::Values(1), RowLoss::SquaredError));
    let mut rows = numbers(2, &[5, 4, 3], TargetKind::Values(1), 1);
    rows.features[4] = 4.0;
    let weights = vec![0.0; parameters(&model)];
    let refused = model.score(&weights, &rows, &mut model.workspace());
    let message = refused.expect_err("no such id").to_string();
    assert!(
        message.contains("4 in column 1 is none of 4 ids"),
        "{message}"
    );
}

/// What is predicted is what scores count, for one logit, classes, values and the next byte.
#[test]
fn predictions_are_those_that_scores_count() {
    let two = TargetKind::Classes(2);
    let binary = OnTape::new(cnn(&["dense 4"], two, RowLoss::BinaryCrossEntropy));
    let eleven = TargetKind::Classes(11);
    let text = OnTape::new(transformer());
    let cases: [(&dyn Model, Batch, usize); 3] = [
        (&binary, batch(70, 60, two, 3), 2),
        (
            &OnTape::new(full_cnn()),
            batch(70, 60, TargetKind::Classes(3), 3),
            3,
        ),
        (&text, numbers(70, &[11; 5], eleven, 3), 11),
    ];
    for (model, rows, classes) in cases {
        let mut weights = vec![0.0; parameters(model)];
        model.initialise(1, &mut weights);
        let mut space = model.workspace();
        let score = model.score(&weights, &rows, &mut space).expect("rows fit");
        let bare = Batch {
            targets: Targets::default(),
            ..rows.clone()
        };
        let mut outputs = vec![];
        let width = model.predict(&weights, &bare, &mut space, &mut outputs);
        assert_eq!(
            (width.expect("rows fit"), outputs.len()),
            (classes, 70 * classes)
        );
        let Targets::Classes(truth) = &rows.targets else {
            panic!("rows of classes")
        };
        let predicted = outputs.chunks(classes).map(resilin_learn::math::largest);
        let right = predicted
            .zip(truth)
            .filter(|(p, t)| *p == **t as usize)
            .count();
        assert_eq!(score.correct, Some(right as u64));
    }
}
