//! The update rules against trajectories of independent implementations: PyTorch and HIPS/autograd,
//! both in f64.

use resilin_core::Step;
use resilin_learn::optimizer::{
    Adagrad, Adam, AdamW, Momentum, Nesterov, Optimizer, Preparation, Real, RmsProp, Sgd, Update,
};
use serde_json::Value;

const GOLDENS: &str = include_str!("data/optimizers.json");
const HIPS: &str = include_str!("data/hips.json");

struct Case {
    name: String,
    options: Value,
    start: Vec<f64>,
    gradients: Vec<Vec<f64>>,
    expected: Vec<Vec<f64>>,
}

impl Case {
    fn of(case: &Value) -> Self {
        let vectors = |key: &str| case[key].as_array().unwrap().iter().map(floats).collect();
        Self {
            name: case["name"].as_str().unwrap().into(),
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
    fn error<T: Real + Into<f64>>(&self, rate: f64, l2: f64, optimizer: &dyn Optimizer<T>) -> f64 {
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
        assert!(self.gradients.len() >= 12, "a trajectory");
        assert_eq!(self.gradients.len(), self.expected.len());
        for (step, (gradient, expected)) in self.gradients.iter().zip(&self.expected).enumerate() {
            let mut gradient = convert(gradient);
            preparation.apply(T::from_f64(1.0), &weights, &mut gradient, range.clone());
            let mut next = vec![zero; weights.len()];
            optimizer.apply(Update {
                step: Step(step as u64),
                learning_rate: T::from_f64(rate),
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

fn check<O: Optimizer<f64> + Optimizer<f32>>(case: &Case, l2: f64, optimizer: &O) {
    let rate = case.option("learning_rate");
    let (double, single) = (
        case.error::<f64>(rate, l2, optimizer),
        case.error::<f32>(rate, l2, optimizer),
    );
    let name = &case.name;
    assert!(double <= 1e-12, "{name} in f64 is off by {double:e}");
    assert!(single <= 1e-6, "{name} in f32 is off by {single:e}");
}

fn cases(text: &str) -> Vec<Case> {
    let goldens: Value = serde_json::from_str(text).unwrap();
    goldens["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(Case::of)
        .collect()
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
    let cases = cases(GOLDENS);
    assert_eq!(cases.len(), 8);
    for case in &cases {
        match case.name.as_str() {
            "sgd" => check(case, 0.0, &Sgd),
            "sgd_weight_decay" => check(case, case.option("l2_added_to_gradient"), &Sgd),
            "momentum" => {
                let momentum = case.option("momentum");
                check(case, 0.0, &Momentum { momentum });
            }
            "nesterov" => {
                let momentum = case.option("momentum");
                check(case, 0.0, &Nesterov { momentum });
            }
            "adam" => check(case, 0.0, &adam(case)),
            "adamw" => {
                let decay = case.option("decoupled_weight_decay");
                let adam = adam(case);
                check(case, 0.0, &AdamW { adam, decay });
            }
            "rmsprop" => {
                let rule = RmsProp {
                    decay: case.option("decay"),
                    epsilon: case.option("epsilon"),
                    start: case.option("average_starts_at"),
                };
                check(case, 0.0, &rule);
            }
            "adagrad" => {
                let epsilon = case.option("epsilon");
                check(case, 0.0, &Adagrad { epsilon });
            }
            other => panic!("`{other}` is in the goldens and is not compared"),
        }
    }
}

/// The update rules of HIPS/autograd: its momentum has (1 - mass) on the gradient, which is ours with
/// that factor on the rate; its RMSProp starts at a mean square of 1.
#[test]
fn the_trajectories_of_hips_autograd_are_followed() {
    let cases = cases(HIPS);
    assert_eq!(cases.len(), 4);
    for case in &cases {
        let rate = case.option("step_size");
        let error = match case.name.as_str() {
            "sgd" | "sgd_without_mass" => {
                let momentum = case.option("mass");
                case.error::<f64>(rate * (1.0 - momentum), 0.0, &Momentum { momentum })
            }
            "rmsprop" => {
                let rule = RmsProp {
                    decay: case.option("gamma"),
                    epsilon: case.option("eps"),
                    start: 1.0,
                };
                case.error::<f64>(rate, 0.0, &rule)
            }
            "adam" => {
                let rule = Adam {
                    beta1: case.option("b1"),
                    beta2: case.option("b2"),
                    epsilon: case.option("eps"),
                };
                case.error::<f64>(rate, 0.0, &rule)
            }
            other => panic!("`{other}` is in the goldens and is not compared"),
        };
        assert!(error <= 1e-12, "{} is off by {error:e}", case.name);
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
