//! The tape: finite differences through every operation, dropout by its key, reuse, and the
//! hand-written models equal to the same models on a tape, bit for bit.

mod common;

use common::{batch, bits, evaluate, microbatch, parameters};
use resilin_core::random::{Key, Purpose};
use resilin_learn::autograd::{Parameters, Tape, Var, check_gradient, ops};
use resilin_learn::dataset::{Batch, TargetKind, Targets};
use resilin_learn::math::{Activation, Float};
use resilin_learn::model::{Model, Score};
use resilin_learn::models::{ClosureModel, Draws, Mlp, MlpConfig, Rows};

fn two_matrices() -> (Parameters, Vec<f64>) {
    let parameters =
        Parameters::trained(&[("x", &[4, 3]), ("w", &[3, 4]), ("b", &[4]), ("y", &[4, 4])]);
    let parameters = parameters.expect("names differ");
    let mut stream = Key::new(3, Purpose::User).stream();
    let weights = (0..parameters.len()).map(|_| stream.normal()).collect();
    (parameters, weights)
}

/// A square of a weighted sum, so that each operation gets an uneven gradient from above.
fn uneven(tape: &mut Tape<f64>, value: Var) -> Var {
    let weights: Vec<f64> = (0..tape.value(value).len())
        .map(|i| (i as f64).sin())
        .collect();
    let dimensions = tape.shape(value);
    let weights = tape.constant(dimensions.dimensions(), &weights);
    let weighted = ops::mul(tape, value, weights);
    let sum = ops::sum(tape, weighted);
    ops::mul(tape, sum, sum)
}

type Build = fn(&mut Tape<f64>, [Var; 4]) -> Var;

#[test]
fn every_operation_agrees_with_finite_differences() {
    let operations: [(&str, Build); 16] = [
        ("dense", |t, [x, w, b, _]| ops::dense(t, x, w, Some(b))),
        ("dense without bias", |t, [x, w, _, _]| {
            ops::dense(t, x, w, None)
        }),
        ("shared weight", |t, [x, w, _, _]| {
            let first = ops::dense(t, x, w, None);
            let second = ops::dense(t, first, first, None);
            ops::add(t, first, second)
        }),
        ("shared bias", |t, [x, w, b, y]| {
            let first = ops::dense(t, x, w, Some(b));
            ops::dense(t, first, y, Some(b))
        }),
        ("tanh", |t, [_, _, _, y]| ops::tanh(t, y)),
        ("relu", |t, [_, _, _, y]| ops::relu(t, y)),
        ("sigmoid", |t, [_, _, _, y]| ops::sigmoid(t, y)),
        ("add", |t, [x, w, _, y]| {
            let product = ops::dense(t, x, w, None);
            ops::add(t, product, y)
        }),
        ("mul", |t, [x, w, _, y]| {
            let product = ops::dense(t, x, w, None);
            ops::mul(t, product, y)
        }),
        ("scale", |t, [_, _, _, y]| ops::scale(t, y, -1.7)),
        ("square_sum", |t, [_, _, _, y]| ops::square_sum(t, y)),
        ("log_softmax", |t, [_, _, _, y]| ops::log_softmax(t, y)),
        ("cross_entropy_sum", |t, [_, _, _, y]| {
            ops::cross_entropy_sum(t, y, &[0, 3, 1, 1])
        }),
        ("cross_entropy_mean", |t, [_, _, _, y]| {
            ops::cross_entropy_mean(t, y, &[0, 3, 1, 1])
        }),
        ("squared_error", |t, [x, w, b, y]| {
            let product = ops::dense(t, x, w, Some(b));
            let sum = ops::squared_error_sum(t, product, y);
            let mean = ops::squared_error_mean(t, y, product);
            ops::add(t, sum, mean)
        }),
        ("dropout", |t, [_, _, _, y]| {
            ops::dropout(t, y, 0.4, &mut Key::new(1, Purpose::Dropout).stream())
        }),
    ];
    let (parameters, weights) = two_matrices();
    for (name, operation) in operations {
        let checked = check_gradient(&parameters, &weights, 2e-7, |tape| {
            let inputs = ["x", "w", "b", "y"].map(|name| tape.parameter(name));
            let value = operation(tape, inputs);
            uneven(tape, value)
        });
        assert!(
            checked.is_ok(),
            "{name}: {}",
            checked.expect_err("it failed")
        );
    }
}

#[test]
fn the_checker_finds_a_wrong_gradient() {
    let (parameters, weights) = two_matrices();
    let checked = check_gradient(&parameters, &weights, 2e-7, |tape| {
        let y = tape.parameter("y");
        let shape = tape.shape(y);
        let wrong = tape.record(
            shape,
            &[y],
            |values, out| out.copy_from_slice(values.slice(y)),
            move |up, gradients| gradients.add(y, |i| if i == 5 { 0.0 } else { up.gradient[i] }),
        );
        ops::square_sum(tape, wrong)
    });
    let message = checked.expect_err("the gradient is wrong").to_string();
    assert!(message.contains("`y`[5] is 0"), "{message}");
}

#[test]
fn what_a_loss_does_not_use_has_gradient_zero() {
    let (parameters, weights) = two_matrices();
    let mut tape = Tape::new(parameters.clone());
    tape.load(&weights);
    let b = tape.parameter("b");
    let loss = ops::square_sum(&mut tape, b);
    let mut gradient = vec![f64::NAN; weights.len()];
    tape.backward(loss, &mut gradient);
    let (range, _) = parameters.get("b").expect("it is a parameter");
    let mut expected = vec![0.0; weights.len()];
    for i in range {
        expected[i] = 2.0 * weights[i];
    }
    assert_eq!(gradient, expected);
}

#[test]
fn a_dropped_value_is_the_draw_at_its_position() {
    let rate = 0.3;
    let values = batch(5, 40, TargetKind::Classes(2), 1);
    let mut tape = Tape::<f32>::new(Parameters::trained(&[]).expect("no names"));
    let x = tape.rows(5, 40, &values.features);
    let draws = microbatch(&values, 9, 4);
    let dropped = Draws::of(&draws).dropout(&mut tape, x, rate, 2);
    let mut stream = Key {
        clock: 9,
        partition: 4,
        index: 2,
        ..Key::new(11, Purpose::Dropout)
    }
    .stream();
    let mut kept = 0;
    for (row, column) in (0..5).flat_map(|row| (0..40).map(move |column| (row, column))) {
        let place = row * 40 + column;
        stream.seek(place as u64);
        let keep = stream.unit_f32() >= rate;
        kept += usize::from(keep);
        let mask = if keep { 1.0 / (1.0 - rate) } else { 0.0 };
        let expected = values.features[place] * mask;
        assert_eq!(
            tape.value(dropped)[place].to_bits(),
            expected.to_bits(),
            "row {row} column {column}"
        );
    }
    assert!(
        (120..=160).contains(&kept),
        "{kept} of 200 kept at rate {rate}"
    );
    assert_eq!(Draws::none().dropout(&mut tape, x, rate, 2), x);
}

/// The model 6-5-4-outputs with tanh and dropout, as a user would write it.
fn outputs<F: Float>(tape: &mut Tape<F>, batch: &Batch, draws: &Draws<'_>) -> Var {
    let mut x = tape.rows(batch.rows, batch.width, &batch.features);
    for layer in 0..3 {
        let w = tape.parameter(&format!("layer{layer}.weight"));
        let b = tape.parameter(&format!("layer{layer}.bias"));
        x = ops::dense(tape, x, w, Some(b));
        if layer < 2 {
            x = ops::tanh(tape, x);
            x = draws.dropout(tape, x, 0.25, layer);
        }
    }
    x
}

fn loss<F: Float>(tape: &mut Tape<F>, batch: &Batch, draws: &Draws<'_>) -> Var {
    let output = outputs(tape, batch, draws);
    match &batch.targets {
        Targets::Classes(classes) => ops::cross_entropy_sum(tape, output, classes),
        Targets::Values { width, values } => {
            let targets = tape.rows(batch.rows, *width, values);
            let sum = ops::squared_error_sum(tape, output, targets);
            ops::scale(tape, sum, F::ONE / F::from_f64(*width as f64))
        }
    }
}

fn both(targets: TargetKind) -> (Mlp, ClosureModel) {
    let rows = Rows { width: 6, targets };
    let config = MlpConfig {
        rows,
        hidden: vec![5, 4],
        activation: Activation::Tanh,
        dropout: 0.25,
    };
    let mlp = Mlp::new(config).expect("a legal model");
    let parameters = Parameters::new(mlp.entries()).expect("names differ");
    let closure = ClosureModel::new(parameters, rows, loss::<f32>)
        .with_prediction(|tape, batch| outputs(tape, batch, &Draws::none()));
    (mlp, closure)
}

#[test]
fn mlp_and_tape_give_the_same_bits() {
    for targets in [TargetKind::Classes(3), TargetKind::Values(2)] {
        let (mlp, closure) = both(targets);
        let mut weights = vec![f32::NAN; parameters(&mlp)];
        mlp.initialise(8, &mut weights);
        let mut same = vec![f32::NAN; weights.len()];
        closure.initialise(8, &mut same);
        assert_eq!(
            bits(&weights),
            bits(&same),
            "both start at random, by tensor"
        );

        let batches: Vec<_> = (0..4)
            .map(|k| batch(5 + 13 * k, 6, targets, k as u64))
            .collect();
        let all: Vec<_> = batches
            .iter()
            .zip(0..)
            .map(|(b, p)| microbatch(b, 7, p))
            .collect();
        let (ours, tape) = (
            evaluate(&mlp, &weights, &all),
            evaluate(&closure, &weights, &all),
        );
        for k in 0..all.len() {
            assert_eq!(
                bits(&ours.gradients[k]),
                bits(&tape.gradients[k]),
                "{targets:?} {k}"
            );
            let difference = ours.outcomes[k].loss_sum - tape.outcomes[k].loss_sum;
            assert!(
                difference.abs() <= 1e-5 * ours.outcomes[k].loss_sum,
                "{difference}"
            );
        }
        let score = |model: &dyn Model| -> Score {
            model
                .score(&weights, &batches[3], &mut model.workspace())
                .expect("fits")
        };
        let (ours, tape) = (score(&mlp), score(&closure));
        assert_eq!((ours.rows, ours.correct), (tape.rows, tape.correct));
    }
}

#[test]
fn the_whole_model_agrees_with_finite_differences() {
    for targets in [TargetKind::Classes(3), TargetKind::Values(2)] {
        let (mlp, _) = both(targets);
        let mut weights = vec![f32::NAN; parameters(&mlp)];
        mlp.initialise(8, &mut weights);
        let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
        let rows = batch(9, 6, targets, 5);
        let drawn = microbatch(&rows, 7, 1);
        let parameters = Parameters::new(mlp.entries()).expect("names differ");
        check_gradient(&parameters, &weights, 1e-7, |tape| {
            loss(tape, &rows, &Draws::of(&drawn))
        })
        .expect("the gradient is right");
    }
}
