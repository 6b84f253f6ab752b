//! Every operation against central differences, with shapes that are repeated, cut and uneven.

use resilin_core::random::{Key, Purpose};
use resilin_learn::autograd::ops::{self, Mask, Reduced, Window};
use resilin_learn::autograd::{Tape, Tensor, Var, check_function};

type Build = fn(&mut Tape<f64>, &[Var]) -> Var;

/// An operation with the shapes of its arguments.
struct Case {
    name: &'static str,
    shapes: &'static [&'static [usize]],
    build: Build,
}

fn case(name: &'static str, shapes: &'static [&'static [usize]], build: Build) -> Case {
    Case {
        name,
        shapes,
        build,
    }
}

/// Normal draws; positive ones where the operation needs them.
fn arguments(case: &Case, seed: u64) -> Vec<Tensor<f64>> {
    let mut stream = Key::new(seed, Purpose::User).stream();
    let mut draw = |shape: &&[usize]| {
        let count: usize = shape.iter().product();
        let mut values: Vec<f64> = (0..count).map(|_| stream.normal()).collect();
        if matches!(case.name, "ln" | "sqrt" | "div" | "reciprocal") {
            values.iter_mut().for_each(|v| *v = 0.5 + v.abs());
        }
        Tensor::new(shape, values)
    };
    case.shapes.iter().map(&mut draw).collect()
}

fn check(cases: &[Case]) {
    for (seed, case) in (0..).zip(cases) {
        let arguments = arguments(case, seed);
        let checked = check_function(&arguments, 3e-7, case.build);
        if let Err(error) = checked {
            panic!("{}, seed {seed}: {error}", case.name);
        }
    }
}

#[test]
fn elementary_functions() {
    const ONE: &[&[usize]] = &[&[3, 5]];
    check(&[
        case("neg", ONE, |t, x| ops::neg(t, x[0])),
        case("exp", ONE, |t, x| ops::exp(t, x[0])),
        case("ln", ONE, |t, x| ops::ln(t, x[0])),
        case("sqrt", ONE, |t, x| ops::sqrt(t, x[0])),
        case("square", ONE, |t, x| ops::square(t, x[0])),
        case("reciprocal", ONE, |t, x| ops::reciprocal(t, x[0])),
        case("abs", ONE, |t, x| ops::abs(t, x[0])),
        case("erf", ONE, |t, x| ops::erf(t, x[0])),
        case("clamp", ONE, |t, x| ops::clamp(t, x[0], -0.5, 0.7)),
        case("map", ONE, |t, x| {
            ops::map(t, x[0], |x| x * x * x, |x, _| 3.0 * x * x)
        }),
    ]);
}

#[test]
fn activations() {
    const ONE: &[&[usize]] = &[&[3, 5]];
    check(&[
        case("tanh", ONE, |t, x| ops::tanh(t, x[0])),
        case("relu", ONE, |t, x| ops::relu(t, x[0])),
        case("sigmoid", ONE, |t, x| ops::sigmoid(t, x[0])),
        case("leaky_relu", ONE, |t, x| ops::leaky_relu(t, x[0], 0.1)),
        case("elu", ONE, |t, x| ops::elu(t, x[0], 1.3)),
        case("softplus", ONE, |t, x| ops::softplus(t, x[0])),
        case("gelu", ONE, |t, x| ops::gelu(t, x[0])),
        case("gelu_tanh", ONE, |t, x| ops::gelu_tanh(t, x[0])),
        case("softmax", ONE, |t, x| ops::softmax(t, x[0])),
        case("log_softmax", ONE, |t, x| ops::log_softmax(t, x[0])),
        case("dropout", ONE, |t, x| {
            ops::dropout(t, x[0], 0.4, &mut Key::new(1, Purpose::Dropout).stream())
        }),
    ]);
}

#[test]
fn arithmetic_repeats_dimensions_of_one() {
    const SAME: &[&[usize]] = &[&[2, 3], &[2, 3]];
    const ROW: &[&[usize]] = &[&[4, 2, 3], &[3]];
    const BOTH: &[&[usize]] = &[&[2, 1, 3], &[4, 1]];
    const SCALAR: &[&[usize]] = &[&[], &[2, 3]];
    for shapes in [SAME, ROW, BOTH, SCALAR] {
        check(&[
            case("add", shapes, |t, x| ops::add(t, x[0], x[1])),
            case("sub", shapes, |t, x| ops::sub(t, x[0], x[1])),
            case("mul", shapes, |t, x| ops::mul(t, x[0], x[1])),
            case("div", shapes, |t, x| ops::div(t, x[0], x[1])),
            case("maximum", shapes, |t, x| ops::maximum(t, x[0], x[1])),
            case("minimum", shapes, |t, x| ops::minimum(t, x[0], x[1])),
        ]);
    }
    check(&[
        case("scale", &[&[2, 3]], |t, x| ops::scale(t, x[0], -1.7)),
        case("with itself", &[&[2, 3]], |t, x| {
            let square = ops::mul(t, x[0], x[0]);
            ops::div(t, x[0], square)
        }),
    ]);
}

#[test]
fn arrangements() {
    const CUBE: &[&[usize]] = &[&[2, 3, 4]];
    check(&[
        case("reshape", CUBE, |t, x| ops::reshape(t, x[0], &[6, 4])),
        case("transpose", CUBE, |t, x| {
            ops::transpose(t, x[0], &[2, 0, 1])
        }),
        case("slice", CUBE, |t, x| ops::slice(t, x[0], 1, 1..3)),
        case("slices that overlap", CUBE, |t, x| {
            let (left, right) = (ops::slice(t, x[0], 2, 0..3), ops::slice(t, x[0], 2, 1..4));
            ops::mul(t, left, right)
        }),
        case("concat", &[&[2, 3], &[2, 1], &[2, 2]], |t, x| {
            ops::concat(t, &[x[0], x[2], x[1], x[0]], 1)
        }),
        case("gather", CUBE, |t, x| {
            ops::gather(t, x[0], 1, &[2, 0, 2, 2])
        }),
        case("embedding", &[&[5, 3]], |t, x| {
            ops::embedding(t, x[0], &[2, 2], &[4, 1, 4, 0])
        }),
    ]);
}

#[test]
fn reductions() {
    const CUBE: &[&[usize]] = &[&[2, 3, 4]];
    check(&[
        case("sum", CUBE, |t, x| ops::sum(t, x[0])),
        case("square_sum", CUBE, |t, x| ops::square_sum(t, x[0])),
        case("sum, last", CUBE, |t, x| {
            ops::sum_axes(t, x[0], &[2], Reduced::Kept)
        }),
        case("sum, first", CUBE, |t, x| {
            ops::sum_axes(t, x[0], &[0], Reduced::Dropped)
        }),
        case("mean", CUBE, |t, x| {
            ops::mean_axes(t, x[0], &[2, 0], Reduced::Dropped)
        }),
        case("max", CUBE, |t, x| {
            ops::max_axes(t, x[0], &[1], Reduced::Kept)
        }),
        case("max of all", CUBE, |t, x| {
            ops::max_axes(t, x[0], &[0, 1, 2], Reduced::Dropped)
        }),
    ]);
}

#[test]
fn products() {
    check(&[
        case("dense", &[&[4, 3], &[3, 2], &[2]], |t, x| {
            ops::dense(t, x[0], x[1], Some(x[2]))
        }),
        case("matmul", &[&[2, 2, 4, 3], &[2, 2, 3, 5]], |t, x| {
            ops::matmul(t, x[0], x[1])
        }),
        case("matmul with one for all", &[&[2, 4, 3], &[3, 5]], |t, x| {
            ops::matmul(t, x[0], x[1])
        }),
        case(
            "attention",
            &[&[2, 3, 2], &[2, 4, 2], &[2, 4, 5]],
            |t, x| ops::attention(t, x[0], x[1], x[2], Mask::None),
        ),
        case(
            "causal attention",
            &[&[1, 2, 4, 3], &[1, 2, 4, 3], &[1, 2, 4, 3]],
            |t, x| ops::attention(t, x[0], x[1], x[2], Mask::Causal),
        ),
        case("attention to itself", &[&[2, 4, 3]], |t, x| {
            ops::attention(t, x[0], x[0], x[0], Mask::Causal)
        }),
    ]);
}

#[test]
fn normalizations() {
    check(&[
        case("layer_norm", &[&[4, 6], &[6], &[6]], |t, x| {
            ops::layer_norm(t, x[0], x[1], Some(x[2]), 1e-5)
        }),
        case("batch_norm", &[&[3, 2, 2, 4], &[4], &[4]], |t, x| {
            ops::batch_norm(t, x[0], x[1], x[2], 1e-5).0
        }),
        case("normalized", &[&[5, 2], &[2], &[2]], |t, x| {
            let moments = ops::Moments {
                mean: t.constant(&[2], &[0.3, -0.2]),
                variance: t.constant(&[2], &[1.5, 0.4]),
            };
            ops::normalized(t, x[0], moments, [x[1], x[2]], 1e-5)
        }),
    ]);
}

#[test]
fn windows() {
    const IMAGES: &[&[usize]] = &[&[2, 5, 6, 3]];
    const CONVOLVED: &[&[usize]] = &[&[2, 5, 6, 3], &[3, 2, 3, 4], &[4]];
    check(&[
        case("conv2d", CONVOLVED, |t, x| {
            ops::conv2d(t, x[0], x[1], Some(x[2]), [1, 1], [0; 4])
        }),
        case("conv2d, uneven border and steps", CONVOLVED, |t, x| {
            ops::conv2d(t, x[0], x[1], Some(x[2]), [2, 3], [1, 0, 2, 1])
        }),
        case(
            "conv2d, one pixel",
            &[&[2, 3, 2, 3], &[1, 1, 3, 2]],
            |t, x| ops::conv2d(t, x[0], x[1], None, [1, 1], [0; 4]),
        ),
        case("max_pool2d", IMAGES, |t, x| {
            ops::max_pool2d(t, x[0], Window::square(2, 2, 0))
        }),
        case("max_pool2d, overlapping", IMAGES, |t, x| {
            ops::max_pool2d(t, x[0], Window::square(3, 1, 1))
        }),
        case("average_pool2d", IMAGES, |t, x| {
            ops::average_pool2d(t, x[0], Window::square(3, 2, 1))
        }),
    ]);
}

#[test]
fn losses() {
    const TWO: &[&[usize]] = &[&[3, 4], &[3, 4]];
    const ONE: &[&[usize]] = &[&[3, 4]];
    check(&[
        case("squared_error", TWO, |t, x| {
            ops::squared_error_mean(t, x[0], x[1])
        }),
        case("huber", TWO, |t, x| ops::huber_sum(t, x[0], x[1], 0.8)),
        case("cross_entropy", ONE, |t, x| {
            ops::cross_entropy_mean(t, x[0], &[0, 3, 1])
        }),
        case("weighted cross_entropy", ONE, |t, x| {
            let weights = [0.5, 2.0, 1.0, 3.0];
            ops::weighted_cross_entropy_sum(t, x[0], &[0, 3, 1], &weights)
        }),
        case("binary_cross_entropy", ONE, |t, x| {
            let targets: Vec<f64> = (0..12).map(|i| f64::from(i % 5) / 4.0).collect();
            let targets = t.constant(&[3, 4], &targets);
            ops::binary_cross_entropy_sum(t, x[0], targets)
        }),
    ]);
}
