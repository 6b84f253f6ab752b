//! What follows a layer, value by value.

use super::map;
use crate::autograd::{Tape, Var};
use crate::math::{self, Activation, Float};

/// An activation, value by value.
pub fn activate<F: Float>(tape: &mut Tape<F>, x: Var, activation: Activation) -> Var {
    tape.record(
        tape.shape(x),
        &[x],
        |values, out| {
            out.copy_from_slice(values.slice(x));
            activation.apply(out);
        },
        move |up, gradients| {
            let output = up.output();
            gradients.add_each(x, [output, up.gradient], |[output, above]| {
                activation.slope(output, above)
            });
        },
    )
}

/// Hyperbolic tangent.
pub fn tanh<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    activate(tape, x, Activation::Tanh)
}

/// max(x, 0); its slope at 0 is 0.
pub fn relu<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    activate(tape, x, Activation::Relu)
}

/// 1 / (1 + e^-x).
pub fn sigmoid<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    activate(tape, x, Activation::Sigmoid)
}

/// x where it is positive, `slope` times x elsewhere.
pub fn leaky_relu<F: Float>(tape: &mut Tape<F>, x: Var, slope: F) -> Var {
    let factor = move |x: F| if x > F::ZERO { F::ONE } else { slope };
    map(tape, x, move |x| x * factor(x), move |x, _| factor(x))
}

/// x where it is positive, `scale` (e^x - 1) elsewhere (Clevert et al. 2016).
pub fn elu<F: Float>(tape: &mut Tape<F>, x: Var, scale: F) -> Var {
    let value = move |x: F| {
        if x > F::ZERO {
            x
        } else {
            scale * (math::exp(x) - F::ONE)
        }
    };
    map(
        tape,
        x,
        value,
        move |x, y| if x > F::ZERO { F::ONE } else { y + scale },
    )
}

/// ln(1 + e^x), from e^-|x| so that neither end overflows.
pub fn softplus<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    map(tape, x, math::softplus, |x, _| math::sigmoid(x))
}

/// x times the share of the normal distribution below x (Hendrycks and Gimpel 2016), by the error
/// function.
pub fn gelu<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    let below = |x: F| {
        let root = F::from_f64(std::f64::consts::FRAC_1_SQRT_2);
        F::HALF * (F::ONE + (x * root).erf())
    };
    let density = |x: F| {
        let factor = F::from_f64(0.398_942_280_401_432_7);
        factor * math::exp(-(F::HALF * (x * x)))
    };
    let slope = move |x: F, _| below(x) + x * density(x);
    map(tape, x, move |x| x * below(x), slope)
}

/// [`gelu`] by a hyperbolic tangent, as in GPT-2: within 5e-4 of it, and cheaper.
pub fn gelu_tanh<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    let cubic = F::from_f64(0.044_715);
    let root = F::from_f64(0.797_884_560_802_865_4);
    let share = move |x: F| math::tanh(root * (x + cubic * (x * x * x)));
    let value = move |x: F| F::HALF * x * (F::ONE + share(x));
    let three = F::from_f64(3.0);
    let slope = move |x: F, _| {
        let t = share(x);
        let inner = root * (F::ONE + three * cubic * (x * x));
        F::HALF * (F::ONE + t) + F::HALF * x * (F::ONE - t * t) * inner
    };
    map(tape, x, value, slope)
}
