//! Elementary functions, value by value.

use super::map;
use crate::autograd::{Tape, Var};
use crate::math::{self, Float};

/// -x.
pub fn neg<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    map(tape, x, |x| -x, |_, _| -F::ONE)
}

/// e^x.
pub fn exp<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    map(tape, x, math::exp, |_, y| y)
}

/// Natural logarithm.
pub fn ln<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    map(tape, x, F::ln, |x, _| F::ONE / x)
}

/// Square root; its slope at 0 is infinite.
pub fn sqrt<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    map(tape, x, F::root, |_, y| F::HALF / y)
}

/// x * x.
pub fn square<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    map(tape, x, |x| x * x, |x, _| F::TWO * x)
}

/// 1 / x.
pub fn reciprocal<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    map(tape, x, |x| F::ONE / x, |_, y| -(y * y))
}

/// |x|; its slope at 0 is 0.
pub fn abs<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    map(tape, x, F::magnitude, |x, _| sign(x))
}

/// The error function.
pub fn erf<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    let factor = F::from_f64(std::f64::consts::FRAC_2_SQRT_PI);
    map(tape, x, F::erf, move |x, _| factor * math::exp(-(x * x)))
}

/// `x` held between two bounds; the slope outside is 0.
pub fn clamp<F: Float>(tape: &mut Tape<F>, x: Var, lowest: F, highest: F) -> Var {
    let value = move |x: F| {
        if x < lowest {
            lowest
        } else if x > highest {
            highest
        } else {
            x
        }
    };
    map(
        tape,
        x,
        value,
        move |x, y| if x == y { F::ONE } else { F::ZERO },
    )
}

fn sign<F: Float>(x: F) -> F {
    if x == F::ZERO {
        F::ZERO
    } else {
        F::ONE.with_sign_of(x)
    }
}
