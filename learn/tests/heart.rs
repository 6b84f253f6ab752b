//! Training to the optimum of a convex problem that LIBLINEAR solved: logistic regression with L2
//! on heart_scale (`liblinear-train -s 0 -c 1 -e 1e-10`, no bias).
//!
//! A softmax over two classes holds w1 and w2 with w1 - w2 = w; at the optimum w1 = -w2 = w / 2, so
//! its L2 coefficient is twice that of the logistic problem, over the number of rows.

use std::sync::Arc;

use resilin_core::job::Document;
use resilin_learn::dataset::{Batch, DataError, Dataset, Manifest, Split, TargetKind, Targets};
use resilin_learn::kernel::{Evaluator, Which};
use resilin_learn::reference;
use resilin_learn::registry::Registry;

const ROWS: usize = 270;
const WIDTH: usize = 13;
/// LIBLINEAR's weights.
const OPTIMUM: [f64; WIDTH] = [
    0.350095318,
    0.679172926,
    1.157797011,
    0.685136770,
    0.057926374,
    -0.483701870,
    0.348817536,
    -0.650876076,
    0.374655417,
    0.216385974,
    0.521601865,
    1.183246346,
    0.692072955,
];
/// Its objective and the rows that it gets right.
const OBJECTIVE: f64 = 98.23;
const RIGHT: u64 = 226;

struct Heart {
    manifest: Manifest,
    features: Vec<[f32; WIDTH]>,
    classes: Vec<u32>,
}

impl Heart {
    fn read() -> Self {
        let (mut features, mut classes) = (Vec::new(), Vec::new());
        for line in include_str!("data/heart/heart_scale").lines() {
            let mut fields = line.split_whitespace();
            classes.push(u32::from(fields.next() == Some("+1")));
            let mut row = [0.0; WIDTH];
            for field in fields {
                let (index, value) = field.split_once(':').unwrap();
                row[index.parse::<usize>().unwrap() - 1] = value.parse().unwrap();
            }
            features.push(row);
        }
        assert_eq!((features.len(), classes.iter().sum::<u32>()), (ROWS, 120));
        let manifest = Manifest {
            source: "heart".into(),
            files: Vec::new(),
            rows: ROWS as u64,
            width: WIDTH as u32,
            targets: TargetKind::Classes(2),
            missing: "zero".into(),
            digest: String::new(),
        };
        Self {
            manifest,
            features,
            classes,
        }
    }

    fn margin(&self, row: usize, w: &[f64; WIDTH]) -> f64 {
        let sign = if self.classes[row] == 1 { 1.0 } else { -1.0 };
        let dot: f64 = self.features[row]
            .iter()
            .zip(w)
            .map(|(x, w)| f64::from(*x) * w)
            .sum();
        sign * dot
    }

    /// LIBLINEAR's: |w|^2 / 2 + sum log(1 + exp(-y w x)).
    fn objective(&self, w: &[f64; WIDTH]) -> f64 {
        let losses = (0..ROWS).map(|row| (-self.margin(row, w)).exp().ln_1p());
        0.5 * w.iter().map(|w| w * w).sum::<f64>() + losses.sum::<f64>()
    }
}

impl Dataset for Heart {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError> {
        batch.rows = rows.len();
        batch.width = WIDTH;
        batch.features = rows
            .iter()
            .flat_map(|r| self.features[*r as usize])
            .collect();
        batch.targets = Targets::Classes(rows.iter().map(|r| self.classes[*r as usize]).collect());
        Ok(())
    }
}

#[test]
fn softmax_reaches_the_optimum_of_logistic_regression() {
    let text = format!(
        "[run]\nbatch = 270\npartitions = 10\nsteps = 1500\n[data]\nname = \"heart\"\n\
         [model]\nname = \"softmax\"\nbias = false\n\
         [optimizer]\nname = \"nesterov\"\nlearning_rate = 0.5\nmomentum = 0.9\nl2 = {}",
        2.0 / ROWS as f64
    );
    let registry = Registry::default().data("heart", |_, _| {
        Ok(Split {
            train: Arc::new(Heart::read()),
            test: None,
        })
    });
    let task = Arc::new(
        registry
            .task(Document::parse(&text).unwrap(), None)
            .unwrap(),
    );
    let trained = reference::run(&task, |_| {}).unwrap();

    // The tensor is [input, class].
    let weights: &[f32; 2 * WIDTH] = trained.weights.as_slice().try_into().unwrap();
    let w = std::array::from_fn(|i| f64::from(weights[2 * i + 1]) - f64::from(weights[2 * i]));
    for (i, (ours, theirs)) in w.iter().zip(OPTIMUM).enumerate() {
        assert!(
            (ours - theirs).abs() < 1e-3,
            "weight {i} is {ours}, not {theirs}"
        );
    }
    let objective = Heart::read().objective(&w);
    assert!(
        (objective - OBJECTIVE).abs() < 5e-3,
        "objective {objective}"
    );
    let mut evaluator = Evaluator::new(Arc::clone(&task));
    let score = evaluator
        .score_all(&trained.weights, Which::Train)
        .unwrap()
        .unwrap();
    assert_eq!((score.rows, score.correct), (ROWS as u64, Some(RIGHT)));
}
