//! A first model of one's own: a loss written with the autograd, rows from memory, three worker
//! processes. `cargo run --release -p own-model --bin first-model`, and kill what you like.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;

use resilin::autograd::{Parameters, Tape, Var, ops};
use resilin::dataset::{Batch, TargetKind, Targets};
use resilin::models::{ClosureModel, Rows};
use resilin::random::{Key, Purpose};
use resilin::{Split, Table, Trainer};

fn dense(tape: &mut Tape<f32>, x: Var, layer: &str) -> Var {
    let weight = tape.parameter(&format!("{layer}.weight"));
    let bias = tape.parameter(&format!("{layer}.bias"));
    ops::dense(tape, x, weight, Some(bias))
}

/// Two inputs, 16 tanh units, two classes.
fn outputs(tape: &mut Tape<f32>, batch: &Batch) -> Var {
    let x = tape.rows(batch.rows, batch.width, &batch.features);
    let hidden = dense(tape, x, "in");
    let hidden = ops::tanh(tape, hidden);
    dense(tape, hidden, "out")
}

/// Points in a square: inside a circle or not.
fn points(seed: u64, count: usize) -> Result<Arc<Table>, Box<dyn Error>> {
    let mut draws = Key::new(seed, Purpose::Synthetic).stream();
    let mut draw = || 2.0 * draws.unit_f32() - 1.0;
    let values: Vec<f32> = (0..2 * count).map(|_| draw()).collect();
    let inside = |p: &[f32]| u32::from(p[0] * p[0] + p[1] * p[1] < 0.5);
    let classes = values.chunks_exact(2).map(inside).collect();
    Ok(Arc::new(Table::of_classes("circle", 2, values, classes)?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let parameters = Parameters::trained(&[
        ("in.weight", &[2, 16]),
        ("in.bias", &[16]),
        ("out.weight", &[16, 2]),
        ("out.bias", &[2]),
    ])?;
    let (width, targets) = (2, TargetKind::Classes(2));
    let model = ClosureModel::new(parameters, Rows { width, targets }, |tape, batch, _| {
        let outputs = outputs(tape, batch);
        match &batch.targets {
            Targets::Classes(classes) => ops::cross_entropy_sum(tape, outputs, classes),
            Targets::Values { .. } => unreachable!("rows are checked against `targets` before"),
        }
    });
    let (train, test) = (points(1, 4000)?, Some(points(2, 1000)? as _));
    let trained = Trainer::new(model.with_prediction(outputs), Split { train, test })
        .workers(3)
        .epochs(10)
        .batch(96)
        .optimizer("adam", 0.02)
        .processes("resilin-runs")
        .observe(|moment| {
            println!("{moment:?}");
            ControlFlow::Continue(())
        })
        .fit()?;
    let guess = trained.predict(&[0.1, 0.2, 0.9, 0.9])?.classes();
    println!(
        "(0.1, 0.2), (0.9, 0.9): {guess:?}, weights {}",
        trained.sha256()
    );
    Ok(())
}
