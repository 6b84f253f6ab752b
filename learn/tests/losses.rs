//! Several losses under one sum: the autoencoder that is the worked example, and losses of a
//! closure.

mod common;

use common::{batch, bits, evaluate, microbatch};
use resilin_core::random::{Key, Purpose};
use resilin_learn::autograd::{Parameters, Tape, Var, check_gradient, ops};
use resilin_learn::dataset::{Batch, TargetKind};
use resilin_learn::math::{Activation, Float};
use resilin_learn::model::{Model, Score};
use resilin_learn::models::{
    ClosureModel, Draws, NamedLoss, Network, OnTape, Rows, VaeConfig, VaeNetwork, training_loss,
};

const ROWS: Rows = Rows {
    width: 6,
    targets: TargetKind::Classes(3),
};

fn vae(reconstruction_weight: f64, kl_weight: f64) -> VaeNetwork {
    let config = VaeConfig {
        rows: ROWS,
        hidden: vec![5, 4],
        latent: 2,
        activation: Activation::Tanh,
        reconstruction_weight,
        kl_weight,
    };
    VaeNetwork::new(config).expect("a legal network")
}

/// Rows of values in [0, 1].
fn shares(rows: usize, seed: u64) -> Batch {
    let mut stream = Key::new(seed, Purpose::User).stream();
    let values = (0..rows * ROWS.width).map(|_| stream.unit_f32());
    Batch {
        features: values.collect(),
        ..batch(rows, ROWS.width, ROWS.targets, seed)
    }
}

fn start(network: &VaeNetwork) -> Vec<f32> {
    let mut weights = vec![f32::NAN; network.parameters().len()];
    network.initialise(7, &mut weights);
    weights
}

#[test]
fn a_vae_agrees_with_finite_differences() {
    let network = vae(0.75, 1.5);
    let weights: Vec<f64> = start(&network).into_iter().map(f64::from).collect();
    let rows = shares(4, 3);
    let drawn = microbatch(&rows, 3, 1);
    let checked = check_gradient(network.parameters(), &weights, 1e-6, |tape| {
        training_loss(&network, tape, &rows, &Draws::of(&drawn))
    });
    assert!(checked.is_ok(), "{checked:?}");
}

#[test]
fn its_noise_is_named_by_step_and_partition_alone() {
    let model = OnTape::new(vae(1.0, 1.0));
    let weights = start(&vae(1.0, 1.0));
    let rows = shares(4, 3);
    let gradient = |step, partition| {
        let kept = evaluate(&model, &weights, &[microbatch(&rows, step, partition)]);
        bits(&kept.gradients[0])
    };
    let here = gradient(3, 1);
    assert_eq!(here, gradient(3, 1));
    assert_ne!(here, gradient(4, 1), "another step");
    assert_ne!(here, gradient(3, 2), "another partition");
    let two = [microbatch(&rows, 9, 0), microbatch(&rows, 3, 1)];
    let beside = evaluate(&model, &weights, &two);
    assert_eq!(
        here,
        bits(&beside.gradients[1]),
        "whatever is evaluated before it"
    );
}

#[test]
fn a_score_has_each_loss_and_their_weighted_sum() {
    let network = vae(0.5, 3.0);
    let weights = start(&network);
    let model = OnTape::new(network);
    let rows = shares(70, 5);
    let score = |rows: &Batch| {
        let mut workspace = model.workspace();
        model
            .score(&weights, rows, &mut workspace)
            .expect("it fits")
    };
    let all = score(&rows);
    let [reconstruction, kl, ..] = all.parts;
    assert_eq!(model.losses(), ["reconstruction", "kl"]);
    assert_eq!((all.rows, all.correct), (70, None));
    assert_eq!(all.parts[2..], [0.0, 0.0]);
    assert!(kl > 0.0 && reconstruction > kl, "{all:?}");
    let sum = 0.5 * reconstruction + 3.0 * kl;
    assert!((all.loss_sum - sum).abs() <= 1e-4 * sum, "{all:?}");
    let each: Vec<Score> = (0..70).map(|row| score(&rows.rows(row..row + 1))).collect();
    let alone: f64 = each.iter().map(|score| score.parts[1]).sum();
    assert!(
        (kl - alone).abs() <= 1e-4 * kl,
        "rows do not see each other"
    );
    let means = all.mean_losses(&model.losses());
    let expected = [("kl", kl / 70.0), ("reconstruction", reconstruction / 70.0)];
    assert!(
        means
            .iter()
            .map(|(name, mean)| (name.as_str(), *mean))
            .eq(expected)
    );
}

#[test]
fn a_vae_gives_rows_back_and_takes_shares_only() {
    let network = vae(1.0, 1.0);
    let weights = start(&network);
    let model = OnTape::new(network);
    let (mut workspace, mut found) = (model.workspace(), Vec::new());
    let rows = shares(3, 2);
    let width = model.predict(&weights, &rows, &mut workspace, &mut found);
    assert_eq!((width.expect("it fits"), found.len()), (6, 18));
    assert!(found.iter().all(|x| (0.0..=1.0).contains(x)), "{found:?}");
    let mut wrong = shares(3, 2);
    wrong.features[8] = 1.5;
    let refused = model.score(&weights, &wrong, &mut workspace).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a vae takes values from 0 to 1, and column 2 of a row has 1.5; scale the rows"
    );
}

/// Squared error of a line, and the square of its weights once a row.
fn losses<F: Float>(tape: &mut Tape<F>, batch: &Batch) -> Vec<Var> {
    let weight = tape.parameter("weight");
    let rows = tape.rows(batch.rows, batch.width, &batch.features);
    let sum = ops::dense(tape, rows, weight, None);
    let fit = ops::square_sum(tape, sum);
    let norm = ops::square_sum(tape, weight);
    vec![fit, ops::scale(tape, norm, F::from_f64(batch.rows as f64))]
}

#[test]
fn a_closure_gives_several_losses() {
    let parameters = || Parameters::trained(&[("weight", &[6, 1])]).expect("one tensor");
    let named = [NamedLoss::new("fit", 2.0), NamedLoss::new("norm", 0.25)];
    let model = ClosureModel::of_losses(parameters(), ROWS, named.to_vec(), |tape, batch, _| {
        losses(tape, batch)
    });
    let model = model.expect("legal losses");
    let by_hand = ClosureModel::new(parameters(), ROWS, |tape, batch, _| {
        let all = losses(tape, batch);
        let [fit, norm] = [(all[0], 2.0), (all[1], 0.25)].map(|(x, by)| ops::scale(tape, x, by));
        ops::add(tape, fit, norm)
    });
    let weights = [0.5, -1.0, 0.25, 2.0, -0.5, 1.5];
    let rows = shares(4, 3);
    let one = [microbatch(&rows, 0, 0)];
    let found = evaluate(&model, &weights, &one);
    let expected = evaluate(&by_hand, &weights, &one);
    assert_eq!(bits(&found.gradients[0]), bits(&expected.gradients[0]));
    assert_eq!(found.outcomes, expected.outcomes);
    let mut workspace = model.workspace();
    let score = model
        .score(&weights, &rows, &mut workspace)
        .expect("it fits");
    assert_eq!(
        score.parts[1],
        4.0 * (0.25 + 1.0 + 0.0625 + 4.0 + 0.25 + 2.25)
    );
    assert_eq!(model.losses(), ["fit", "norm"]);
    assert_eq!(by_hand.losses(), Vec::<String>::new());

    for wrong in [
        vec![],
        vec![NamedLoss::new("fit", 1.0); 2],
        vec![NamedLoss::new("fit", f64::NAN)],
    ] {
        let refused = ClosureModel::of_losses(parameters(), ROWS, wrong.clone(), |_, _, _| vec![]);
        assert!(refused.is_err(), "{wrong:?}");
    }
}
