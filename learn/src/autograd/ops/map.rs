//! An operation value by value, from a function and its slope.

use crate::autograd::{Tape, Var};
use crate::math::Float;

/// `value(x)` for each value, with `slope(x, y)` the derivative at `x` where the value is `y`. Both
/// must give the same bits everywhere: no `exp` or the like of the platform.
///
/// ```
/// use resilin_learn::autograd::{Tape, Tensor, Var, check_function, ops};
/// use resilin_learn::math::Float;
///
/// /// x / (1 + |x|).
/// fn softsign<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
///     let below = |x: F| F::ONE + x.magnitude();
///     ops::map(tape, x, move |x| x / below(x), move |x, _| F::ONE / (below(x) * below(x)))
/// }
///
/// let x = Tensor::new(&[3], vec![-2.0, 0.1, 0.7]);
/// check_function(&[x], 1e-8, |tape, x| softsign(tape, x[0])).unwrap();
/// ```
pub fn map<F: Float>(
    tape: &mut Tape<F>,
    x: Var,
    value: impl Fn(F) -> F,
    slope: impl Fn(F, F) -> F + Send + 'static,
) -> Var {
    tape.record(
        tape.shape(x),
        &[x],
        |values, out| {
            for (out, x) in out.iter_mut().zip(values.slice(x)) {
                *out = value(*x);
            }
        },
        move |up, gradients| {
            let (input, output) = (up.values.slice(x), up.output());
            gradients.add_each(x, [up.gradient, input, output], |[above, x, y]| {
                above * slope(x, y)
            });
        },
    )
}
