//! A first model of one's own: a loss written with the autograd, rows from memory, three worker
//! processes. `cargo run --release -p own-model --bin first-model`, and kill what you like.

use std::error::Error;
use std::ops::ControlFlow;

use resilin::autograd::{Parameters, Tape, Var, ops};
use resilin::dataset::Batch;
use resilin::models::{ClosureModel, Rows};
use resilin::random::{Key, Purpose};
use resilin::{Split, Table, Trainer};

/// Two inputs, 16 tanh units, two classes.
fn outputs(tape: &mut Tape<f32>, batch: &Batch) -> Var {
    let x = tape.batch(batch);
    let hidden = ops::layer(tape, x, "in");
    let hidden = ops::tanh(tape, hidden);
    ops::layer(tape, hidden, "out")
}

/// Points in a square: inside a circle or not.
fn points(seed: u64, count: usize) -> Result<Table, Box<dyn Error>> {
    let mut draws = Key::new(seed, Purpose::Synthetic).stream();
    let values: Vec<f32> = (0..2 * count)
        .map(|_| 2.0 * draws.unit_f32() - 1.0)
        .collect();
    let inside = |p: &[f32]| u32::from(p[0] * p[0] + p[1] * p[1] < 0.5);
    let classes = values.chunks_exact(2).map(inside).collect();
    Ok(Table::of_classes("circle", 2, values, classes)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let parameters = Parameters::layers(&[("in", 2, 16), ("out", 16, 2)])?;
    // `ClosureModel::new` takes any other loss.
    let model = ClosureModel::classifier(parameters, Rows::of_classes(2, 2), outputs);
    let trained = Trainer::new(model, Split::new(points(1, 4000)?, points(2, 1000)?))
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
