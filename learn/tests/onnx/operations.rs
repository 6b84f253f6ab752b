//! What an ONNX operation is on our tape.

use resilin_learn::autograd::ops::{self, Reduced, Window};
use resilin_learn::autograd::{Parameters, Tape, Var};
use resilin_learn::math::Float;

use crate::case::Case;
use crate::shapes::{channels_first, channels_last, class_axis_last, last, window};

/// The outputs of a case that we have; the first always.
pub(crate) fn outputs<F: Float>(case: &Case) -> Vec<Vec<F>> {
    let tape = &mut Tape::new(Parameters::trained(&[]).expect("no names"));
    let inputs = case.inputs.iter();
    let x: Vec<Var> = inputs
        .map(|t| tape.constant(&t.shape, &t.cast::<F>()))
        .collect();
    if case.operation == "BatchNormalization" {
        return batch_norm(tape, case, &x);
    }
    let found = value_by_value(tape, case, &x)
        .or_else(|| arranged(tape, case, &x))
        .or_else(|| reduced(tape, case, &x))
        .or_else(|| layer(tape, case, &x));
    let found = found.unwrap_or_else(|| panic!("{} is not compared", case.operation));
    let expected = &case.outputs[0].shape;
    assert_eq!(
        tape.shape(found).dimensions(),
        expected,
        "{}: shape",
        case.name
    );
    vec![tape.value(found).to_vec()]
}

fn value_by_value<F: Float>(t: &mut Tape<F>, case: &Case, x: &[Var]) -> Option<Var> {
    let number = |name, usual| F::from_f64(case.number(name, usual));
    let all = |t: &mut Tape<F>, join: fn(&mut Tape<F>, Var, Var) -> Var| {
        let rest = x[1..].iter();
        rest.fold(x[0], |joined, next| join(t, joined, *next))
    };
    Some(match case.operation.as_str() {
        "Abs" => ops::abs(t, x[0]),
        "Neg" => ops::neg(t, x[0]),
        "Exp" => ops::exp(t, x[0]),
        "Log" => ops::ln(t, x[0]),
        "Sqrt" => ops::sqrt(t, x[0]),
        "Reciprocal" => ops::reciprocal(t, x[0]),
        "Tanh" => ops::tanh(t, x[0]),
        "Relu" => ops::relu(t, x[0]),
        "Sigmoid" => ops::sigmoid(t, x[0]),
        "Softplus" => ops::softplus(t, x[0]),
        "LeakyRelu" => ops::leaky_relu(t, x[0], number("alpha", 0.01)),
        "Elu" => ops::elu(t, x[0], number("alpha", 1.0)),
        "Clip" => {
            let (lowest, highest) = (t.scalar(x[1]), t.scalar(x[2]));
            ops::clamp(t, x[0], lowest, highest)
        }
        "Add" | "Sum" => all(t, ops::add),
        "Sub" => ops::sub(t, x[0], x[1]),
        "Mul" => ops::mul(t, x[0], x[1]),
        "Div" => ops::div(t, x[0], x[1]),
        "Max" => all(t, ops::maximum),
        "Min" => all(t, ops::minimum),
        "Mean" => {
            let sum = all(t, ops::add);
            ops::scale(t, sum, F::ONE / F::from_f64(x.len() as f64))
        }
        _ => return None,
    })
}

fn arranged<F: Float>(t: &mut Tape<F>, case: &Case, x: &[Var]) -> Option<Var> {
    let result = &case.outputs[0].shape;
    Some(match case.operation.as_str() {
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => ops::reshape(t, x[0], result),
        "Concat" => ops::concat(t, x, case.axis(case.number("axis", 0.0) as i64)),
        "Transpose" => {
            let backwards = || (0..case.sizes().len() as i64).rev().collect();
            let axes: Vec<i64> = case.list("perm").unwrap_or_else(backwards);
            let axes: Vec<usize> = axes.into_iter().map(|axis| axis as usize).collect();
            ops::transpose(t, x[0], &axes)
        }
        "Gather" => {
            let ids = case.inputs[1].numbers();
            let ids: Vec<u32> = ids.into_iter().map(|id| id as u32).collect();
            ops::gather(t, x[0], case.axis(case.number("axis", 0.0) as i64), &ids)
        }
        "Slice" => {
            let [starts, ends] = [1, 2].map(|input| case.inputs[input].numbers());
            let axes = case.inputs.get(3).map(|axes| axes.numbers());
            let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
            let bounds = starts.into_iter().zip(ends).zip(axes);
            bounds.fold(x[0], |x, ((start, end), axis)| {
                let axis = case.axis(axis);
                let size = t.shape(x).dimensions()[axis] as i64;
                let place = |at: i64| (if at < 0 { at + size } else { at }).clamp(0, size) as usize;
                ops::slice(t, x, axis, place(start)..place(end))
            })
        }
        _ => return None,
    })
}

fn reduced<F: Float>(t: &mut Tape<F>, case: &Case, x: &[Var]) -> Option<Var> {
    let kept = match case.number("keepdims", 1.0) {
        0.0 => Reduced::Dropped,
        _ => Reduced::Kept,
    };
    let inner: fn(&mut Tape<F>, Var) -> Var = match case.operation.as_str() {
        "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceLogSum" | "GlobalAveragePool"
        | "GlobalMaxPool" => |_, x| x,
        "ReduceMin" => ops::neg,
        "ReduceL1" => ops::abs,
        "ReduceL2" | "ReduceSumSquare" => ops::square,
        "ReduceLogSumExp" => ops::exp,
        _ => return None,
    };
    let axes = match case.operation.as_str() {
        "GlobalAveragePool" | "GlobalMaxPool" => (2..case.sizes().len()).collect(),
        _ => case.axes(),
    };
    let x = inner(t, x[0]);
    let reduced = match case.operation.as_str() {
        "ReduceMean" | "GlobalAveragePool" => ops::mean_axes(t, x, &axes, kept),
        "ReduceMax" | "ReduceMin" | "GlobalMaxPool" => ops::max_axes(t, x, &axes, kept),
        _ => ops::sum_axes(t, x, &axes, kept),
    };
    Some(match case.operation.as_str() {
        "ReduceMin" => ops::neg(t, reduced),
        "ReduceL2" => ops::sqrt(t, reduced),
        "ReduceLogSum" | "ReduceLogSumExp" => ops::ln(t, reduced),
        _ => reduced,
    })
}

fn layer<F: Float>(t: &mut Tape<F>, case: &Case, x: &[Var]) -> Option<Var> {
    Some(match case.operation.as_str() {
        "MatMul" => ops::matmul(t, x[0], x[1]),
        "Gemm" => gemm(t, case, x),
        "Softmax" => last(t, case, x[0], ops::softmax),
        "LogSoftmax" => last(t, case, x[0], ops::log_softmax),
        "LayerNormalization" => layer_norm(t, case, x),
        "SoftmaxCrossEntropyLoss" => cross_entropy(t, case, x),
        "Conv" => {
            let weight = &case.inputs[1].shape;
            let Window {
                stride, padding, ..
            } = window(case, [weight[2], weight[3]]);
            let images = channels_last(t, x[0]);
            let weight = ops::transpose(t, x[1], &[2, 3, 1, 0]);
            let bias = x.get(2).copied();
            let found = ops::conv2d(t, images, weight, bias, stride, padding);
            channels_first(t, found)
        }
        "MaxPool" | "AveragePool" => {
            let size = case.list("kernel_shape").expect("a window");
            let window = window(case, [size[0] as usize, size[1] as usize]);
            let images = channels_last(t, x[0]);
            let found = match case.operation.as_str() {
                "MaxPool" => ops::max_pool2d(t, images, window),
                _ => ops::average_pool2d(t, images, window),
            };
            channels_first(t, found)
        }
        _ => return None,
    })
}

/// alpha a b + beta c, with a and b transposed where it is said.
fn gemm<F: Float>(t: &mut Tape<F>, case: &Case, x: &[Var]) -> Var {
    let mut side = |x, name| match case.number(name, 0.0) {
        0.0 => x,
        _ => ops::transpose(t, x, &[1, 0]),
    };
    let (a, b) = (side(x[0], "transA"), side(x[1], "transB"));
    let product = ops::dense(t, a, b, None);
    let product = ops::scale(t, product, F::from_f64(case.number("alpha", 1.0)));
    let Some(c) = x.get(2) else { return product };
    let c = ops::scale(t, *c, F::from_f64(case.number("beta", 1.0)));
    ops::add(t, product, c)
}

/// Over all dimensions from `axis` on: they become one.
fn layer_norm<F: Float>(t: &mut Tape<F>, case: &Case, x: &[Var]) -> Var {
    let sizes = case.sizes();
    let axis = case.axis(case.number("axis", -1.0) as i64);
    let width: usize = sizes[axis..].iter().product();
    let rows: usize = sizes[..axis].iter().product();
    let epsilon = F::from_f64(case.number("epsilon", 1e-5));
    let rows = ops::reshape(t, x[0], &[rows, width]);
    let [weight, bias] = [x[1], x[2]].map(|x| ops::reshape(t, x, &[width]));
    let found = ops::layer_norm(t, rows, weight, Some(bias), epsilon);
    ops::reshape(t, found, sizes)
}

fn cross_entropy<F: Float>(t: &mut Tape<F>, case: &Case, x: &[Var]) -> Var {
    let logits = class_axis_last(t, x[0]);
    let classes: Vec<u32> = case.inputs[1]
        .numbers()
        .into_iter()
        .map(|c| c as u32)
        .collect();
    let weights: Option<Vec<F>> = case.inputs.get(2).map(|weights| weights.cast());
    let (sum, total) = match &weights {
        None => {
            let sum = ops::cross_entropy_sum(t, logits, &classes);
            (sum, F::from_f64(classes.len() as f64))
        }
        Some(weights) => {
            let sum = ops::weighted_cross_entropy_sum(t, logits, &classes, weights);
            let of = classes.iter().map(|class| weights[*class as usize]);
            (sum, of.fold(F::ZERO, |total, weight| total + weight))
        }
    };
    match case.word("reduction", "mean").as_str() {
        "sum" => sum,
        _ => ops::scale(t, sum, F::ONE / total),
    }
}

/// The output, and in training the running mean and variance.
fn batch_norm<F: Float>(t: &mut Tape<F>, case: &Case, x: &[Var]) -> Vec<Vec<F>> {
    let images = channels_last(t, x[0]);
    let epsilon = F::from_f64(case.number("epsilon", 1e-5));
    let running = ops::Moments {
        mean: x[3],
        variance: x[4],
    };
    if case.number("training_mode", 0.0) == 0.0 {
        let found = ops::normalized(t, images, running, [x[1], x[2]], epsilon);
        let found = channels_first(t, found);
        return vec![t.value(found).to_vec()];
    }
    let (found, now) = ops::batch_norm(t, images, x[1], x[2], epsilon);
    let found = channels_first(t, found);
    let kept = F::from_f64(case.number("momentum", 0.9));
    let moved = |old: Var, new: Var| -> Vec<F> {
        let pairs = t.value(old).iter().zip(t.value(new));
        pairs
            .map(|(old, new)| *old * kept + *new * (F::ONE - kept))
            .collect()
    };
    let (mean, variance) = (
        moved(running.mean, now.mean),
        moved(running.variance, now.variance),
    );
    vec![t.value(found).to_vec(), mean, variance]
}
