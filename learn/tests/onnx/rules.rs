//! ONNX's update rules as ours: rate, step, and then weights, gradients and state of each tensor.

use resilin_core::Step;
use resilin_learn::math::Float;
use resilin_learn::optimizer::{Adagrad, Momentum, Nesterov, Optimizer, Preparation, Real, Update};

use crate::case::Case;

/// The new weights of all tensors, and then their state.
pub(crate) fn updated<F: Float + Real>(case: &Case) -> Vec<Vec<F>> {
    let (rate, step) = (case.inputs[0].values[0], case.inputs[1].values[0]);
    let tensors = (case.inputs.len() - 2) / 3;
    let (rule, rate): (Box<dyn Optimizer<F>>, f64) = if case.operation == "Adagrad" {
        let epsilon = case.number("epsilon", 1e-6);
        let decay = case.number("decay_factor", 0.0);
        (Box::new(Adagrad { epsilon }), rate / (1.0 + step * decay))
    } else {
        let momentum = case.number("alpha", 0.0);
        match case.word("mode", "standard").as_str() {
            "nesterov" => (Box::new(Nesterov { momentum }), rate),
            _ => (Box::new(Momentum { momentum }), rate),
        }
    };
    let preparation = Preparation {
        l2: case.number("norm_coefficient", 0.0),
        clip_value: None,
    };
    // Their factor on the gradient counts from the second step on; it is a scale as that of
    // clipping by norm.
    let scale = match (case.operation.as_str(), step) {
        ("Momentum", step) if step > 0.0 => case.number("beta", 1.0),
        _ => 1.0,
    };
    let mut found = vec![Vec::new(); 2 * tensors];
    for tensor in 0..tensors {
        let input = |kind: usize| case.inputs[2 + kind * tensors + tensor].cast::<F>();
        let (weights, mut gradient, mut state) = (input(0), input(1), [input(2)]);
        let range = 0..weights.len();
        let one = Real::from_f64(1.0);
        preparation.apply(one, &weights, &mut gradient, range.clone());
        let mut next = vec![F::ZERO; weights.len()];
        rule.apply(Update {
            step: Step(step as u64),
            learning_rate: Real::from_f64(rate),
            scale: Real::from_f64(scale),
            range,
            weights: &weights,
            gradient: &gradient,
            next: &mut next,
            moments: &mut state,
        });
        found[tensor] = next;
        let [state] = state;
        found[tensors + tensor] = state;
    }
    found
}
