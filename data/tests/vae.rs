//! The worked example of a loss of one's own, on the embedded digits: it learns to give them back.

use std::sync::Arc;

use resilin_core::Step;
use resilin_core::job::Document;
use resilin_learn::dataset::{Batch, Dataset};
use resilin_learn::reference::Reference;
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;

/// The job file of `docs/gradients.md`.
const JOB: &str = include_str!("../../examples/vae.toml");

fn task() -> Arc<Task> {
    let registry = resilin_data::sources(Registry::default());
    let mut document = Document::parse(JOB).expect("TOML");
    document.set("run", "epochs", 12_u64);
    Arc::new(registry.task(document, None).expect("a job"))
}

/// What the test rows cost who always predicts the mean of the training rows.
fn cost_of_the_mean(task: &Task) -> f64 {
    let read = |rows: &dyn Dataset| {
        let ids: Vec<u32> = (0..rows.manifest().rows as u32).collect();
        let mut batch = Batch::default();
        rows.read(&ids, &mut batch).expect("rows");
        batch
    };
    let train = read(task.split.train.as_ref());
    let test = read(task.split.test.as_deref().expect("digits have test rows"));
    let mean = |column: usize| {
        let values = train.features.iter().skip(column).step_by(train.width);
        values.map(|x| f64::from(*x)).sum::<f64>() / train.rows as f64
    };
    let means: Vec<f64> = (0..train.width).map(|c| mean(c).clamp(1e-6, 1.0)).collect();
    let cost = |(place, x): (usize, &f32)| {
        let (x, mean) = (f64::from(*x), means[place % test.width]);
        -(x * mean.ln() + (1.0 - x) * (1.0 - mean).ln())
    };
    test.features.iter().enumerate().map(cost).sum::<f64>() / test.rows as f64
}

#[test]
fn the_digits_come_out_better_than_their_mean() {
    let task = task();
    let mut run = Reference::new(&task);
    for step in 0..task.total_steps {
        run.step(Step(step)).expect("it trains");
    }
    let score = run
        .test()
        .expect("it scores")
        .expect("digits have test rows");
    let losses = score.mean_losses(&task.model.losses());
    let base = cost_of_the_mean(&task);
    println!("{losses:?} {base}");
    let whole = score.loss_sum / score.rows as f64;
    assert!(
        whole < 0.9 * base,
        "{losses:?}: {whole}, the mean costs {base}"
    );
    assert!(
        losses["kl"] > 2.0,
        "{losses:?}: the values in the middle say nothing of a row"
    );
}
