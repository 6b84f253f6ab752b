//! The update rules against 12-step trajectories of an independent implementation (PyTorch, f64).

use resilin_core::Step;
use resilin_learn::optimizer::{
    Adagrad, Adam, AdamW, Momentum, Nesterov, Optimizer, Preparation, Real, RmsProp, Sgd, Update,
};
use serde_json::Value;

const GOLDENS: &str = include_str!("data/optimizers.json");

struct Case {
    options: Value,
    start: Vec<f64>,
    gradients: Vec<Vec<f64>>,
    expected: Vec<Vec<f64>>,
}

impl Case {
    fn named(name: &str) -> Self {
        let goldens: Value = serde_json::from_str(GOLDENS).unwrap();
        let cases = goldens["cases"].as_array().unwrap();
        let case = cases.iter().find(|c| c["name"] == name).unwrap();
        let vectors = |key: &str| case[key].as_array().unwrap().iter().map(floats).collect();
        Self {
            options: case["options"].clone(),
            start: floats(&case["start"]),
            gradients: vectors("gradients"),
            expected: vectors("after_each_step"),
        }
    }

    fn option(&self, name: &str) -> f64 {
        self.options[name].as_f64().unwrap()
    }

    /// The largest distance from the expected trajectory, over all steps and values.
    fn error<T: Real + Into<f64>>(&self, l2: f64, optimizer: &dyn Optimizer<T>) -> f64 {
        let convert = |values: &[f64]| values.iter().map(|v| T::from_f64(*v)).collect::<Vec<T>>();
        let zero = T::from_f64(0.0);
        let preparation = Preparation {
            l2,
            clip_value: None,
        };
        let range = 0..self.start.len();
        let mut weights = convert(&self.start);
        let mut moments = vec![vec![zero; weights.len()]; optimizer.moments().len()];
        let mut worst: f64 = 0.0;
        assert_eq!(self.gradients.len(), 12);
        for (step, (gradient, expected)) in self.gradients.iter().zip(&self.expected).enumerate() {
            let mut gradient = convert(gradient);
            preparation.apply(T::from_f64(1.0), &weights, &mut gradient, range.clone());
            let mut next = vec![zero; weights.len()];
            optimizer.apply(Update {
                step: Step(step as u64),
                learning_rate: T::from_f64(self.option("learning_rate")),
                scale: T::from_f64(1.0),
                range: range.clone(),
                weights: &weights,
                gradient: &gradient,
                next: &mut next,
                moments: &mut moments,
            });
            weights = next;
            for (w, e) in weights.iter().zip(expected) {
                worst = worst.max(((*w).into() - e).abs());
            }
        }
        worst
    }
}

fn floats(list: &Value) -> Vec<f64> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap())
        .collect()
}

fn check<O: Optimizer<f64> + Optimizer<f32>>(name: &str, l2: f64, optimizer: &O) {
    let case = Case::named(name);
    let (double, single) = (
        case.error::<f64>(l2, optimizer),
        case.error::<f32>(l2, optimizer),
    );
    assert!(double <= 1e-12, "{name} in f64 is off by {double:e}");
    assert!(single <= 1e-6, "{name} in f32 is off by {single:e}");
}

fn adam(case: &Case) -> Adam {
    Adam {
        beta1: case.option("beta1"),
        beta2: case.option("beta2"),
        epsilon: case.option("epsilon"),
    }
}

#[test]
fn every_golden_trajectory_is_followed() {
    let goldens: Value = serde_json::from_str(GOLDENS).unwrap();
    let cases = goldens["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let case = Case::named(name);
        match name {
            "sgd" => check(name, 0.0, &Sgd),
            "sgd_weight_decay" => check(name, case.option("l2_added_to_gradient"), &Sgd),
            "momentum" => {
                let momentum = case.option("momentum");
                check(name, 0.0, &Momentum { momentum });
            }
            "nesterov" => {
                let momentum = case.option("momentum");
                check(name, 0.0, &Nesterov { momentum });
            }
            "adam" => check(name, 0.0, &adam(&case)),
            "adamw" => {
                let decay = case.option("decoupled_weight_decay");
                let adam = adam(&case);
                check(name, 0.0, &AdamW { adam, decay });
            }
            "rmsprop" => {
                let rule = RmsProp {
                    decay: case.option("decay"),
                    epsilon: case.option("epsilon"),
                    start: case.option("average_starts_at"),
                };
                check(name, 0.0, &rule);
            }
            "adagrad" => {
                let epsilon = case.option("epsilon");
                check(name, 0.0, &Adagrad { epsilon });
            }
            other => panic!("`{other}` is in the goldens and is not compared"),
        }
    }
}

#[test]
fn a_range_touches_nothing_else() {
    let mut next = vec![9.0f32; 4];
    let mut moments = vec![vec![0.0; 4]];
    Momentum { momentum: 0.5 }.apply(Update {
        step: Step(0),
        learning_rate: 0.5,
        scale: 2.0,
        range: 1..3,
        weights: &[1.0; 4],
        gradient: &[1.0; 4],
        next: &mut next,
        moments: &mut moments,
    });
    assert_eq!(next, [9.0, 0.0, 0.0, 9.0]);
    assert_eq!(moments, [vec![0.0, 2.0, 2.0, 0.0]]);
}
