//! Operations against PyTorch's float64 (`tests/data/primitives.json`): value and every gradient, to
//! 1e-12 in f64 and 1e-5 in f32.

use std::collections::BTreeMap;

use resilin_learn::autograd::{Parameters, Tape, Var, ops};
use resilin_learn::math::Float;
use serde_json::Value;

struct Tensor {
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// One case: named inputs, the output, and what flows back.
struct Case {
    inputs: BTreeMap<String, Tensor>,
    output: Tensor,
    upstream: Tensor,
    gradients: BTreeMap<String, Tensor>,
}

fn tensor(value: &Value) -> Tensor {
    let numbers = |value: &Value| -> Vec<f64> {
        let list = value
            .as_array()
            .cloned()
            .unwrap_or_else(|| vec![value.clone()]);
        list.iter().map(|n| n.as_f64().expect("a number")).collect()
    };
    Tensor {
        shape: numbers(&value["shape"])
            .into_iter()
            .map(|n| n as usize)
            .collect(),
        values: numbers(&value["values"]),
    }
}

fn tensors(value: &Value) -> BTreeMap<String, Tensor> {
    let map = value.as_object().expect("a map of tensors");
    map.iter()
        .map(|(name, value)| (name.clone(), tensor(value)))
        .collect()
}

fn case(name: &str) -> Case {
    let all: Value = serde_json::from_str(include_str!("data/primitives.json")).expect("JSON");
    let cases = all["cases"].as_array().expect("a list");
    let case = cases
        .iter()
        .find(|case| case["name"] == name)
        .expect("the case is in the file");
    Case {
        inputs: tensors(&case["inputs"]),
        output: tensor(&case["output"]),
        upstream: tensor(&case["upstream_gradient"]),
        gradients: tensors(&case["gradients"]),
    }
}

fn assert_close<F: Float>(found: &[F], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    assert!(!found.is_empty(), "{what}: nothing compared");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found.to_f64() - expected).abs();
        let allowed = tolerance * expected.abs().max(1.0);
        assert!(
            error <= allowed,
            "{what}[{i}] is {found:?}, PyTorch has {expected}"
        );
    }
}

/// Inputs with a gradient are parameters, so that the tape's flat gradient holds them all.
fn compare<F: Float>(
    name: &str,
    tolerance: f64,
    operation: impl Fn(&mut Tape<F>, &BTreeMap<String, Var>) -> Var,
) {
    let case = case(name);
    let named: Vec<(&str, &[usize])> = case
        .gradients
        .iter()
        .map(|(name, t)| (name.as_str(), t.shape.as_slice()))
        .collect();
    let parameters = Parameters::trained(&named).expect("names differ");
    let cast = |t: &Tensor| -> Vec<F> { t.values.iter().map(|v| F::from_f64(*v)).collect() };
    let weights: Vec<F> = case
        .gradients
        .keys()
        .flat_map(|name| cast(&case.inputs[name]))
        .collect();

    let mut tape = Tape::new(parameters.clone());
    tape.load(&weights);
    let inputs = case.inputs.iter().map(|(name, t)| {
        let var = match case.gradients.get(name) {
            Some(_) => tape.parameter(name),
            None => tape.constant(&t.shape, &cast(t)),
        };
        (name.clone(), var)
    });
    let inputs = inputs.collect();
    let output = operation(&mut tape, &inputs);
    let upstream = tape.constant(&case.upstream.shape, &cast(&case.upstream));
    let weighted = ops::mul(&mut tape, output, upstream);
    let loss = ops::sum(&mut tape, weighted);
    let mut gradient = vec![F::NAN; weights.len()];
    tape.backward(loss, &mut gradient);

    assert_eq!(
        tape.shape(output).dimensions(),
        case.output.shape,
        "{name}: shape"
    );
    assert_close(tape.value(output), &case.output.values, tolerance, name);
    for (input, expected) in &case.gradients {
        let (range, _) = parameters.get(input).expect("it is a parameter");
        assert_close(
            &gradient[range],
            &expected.values,
            tolerance,
            &format!("{name}: d{input}"),
        );
    }
}

fn classes(name: &str) -> Vec<u32> {
    ids(name, "y")
}

fn ids(name: &str, input: &str) -> Vec<u32> {
    case(name).inputs[input]
        .values
        .iter()
        .map(|v| *v as u32)
        .collect()
}

/// PyTorch's images are [count, channels, height, width].
fn from_torch<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    ops::transpose(tape, x, &[0, 2, 3, 1])
}

fn to_torch<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    ops::transpose(tape, x, &[0, 3, 1, 2])
}

fn convolution<F: Float>(
    tape: &mut Tape<F>,
    inputs: &BTreeMap<String, Var>,
    stride: usize,
    padding: usize,
) -> Var {
    let images = from_torch(tape, inputs["x"]);
    let weight = ops::transpose(tape, inputs["w"], &[2, 3, 1, 0]);
    let bias = Some(inputs["b"]);
    let out = ops::conv2d(tape, images, weight, bias, [stride; 2], [padding; 4]);
    to_torch(tape, out)
}

fn pooled<F: Float>(
    tape: &mut Tape<F>,
    x: Var,
    pool: fn(&mut Tape<F>, Var, ops::Window) -> Var,
) -> Var {
    let images = from_torch(tape, x);
    let out = pool(tape, images, ops::Window::square(2, 2, 0));
    to_torch(tape, out)
}

fn mean<F: Float>(tape: &mut Tape<F>, sum: Var, of: Var) -> Var {
    let count = tape.shape(of).len() as f64;
    ops::scale(tape, sum, F::ONE / F::from_f64(count))
}

/// What a case of the file is on our tape.
fn operation<F: Float>(name: &str, t: &mut Tape<F>, v: &BTreeMap<String, Var>) -> Var {
    let epsilon = F::from_f64(1e-5);
    match name {
        "dense" => ops::dense(t, v["x"], v["w"], Some(v["b"])),
        "conv2d" => convolution(t, v, 1, 0),
        "conv2d_stride_padding" => convolution(t, v, 2, 1),
        "max_pool2d" => pooled(t, v["x"], ops::max_pool2d),
        "avg_pool2d" => pooled(t, v["x"], ops::average_pool2d),
        "tanh" => ops::tanh(t, v["input"]),
        "sigmoid" => ops::sigmoid(t, v["input"]),
        "relu" => ops::relu(t, v["input"]),
        "gelu" => ops::gelu(t, v["input"]),
        "gelu_tanh" => ops::gelu_tanh(t, v["input"]),
        "log_softmax" => ops::log_softmax(t, v["x"]),
        "softmax" => ops::softmax(t, v["x"]),
        "layer_norm" => ops::layer_norm(t, v["x"], v["w"], Some(v["b"]), epsilon),
        "batch_norm_train" => ops::batch_norm(t, v["x"], v["w"], v["b"], epsilon).0,
        "embedding" => ops::embedding(t, v["w"], &[4], &ids(name, "i")),
        "attention_causal" => ops::attention(t, v["q"], v["k"], v["v"], ops::Mask::Causal),
        "cross_entropy_mean" => ops::cross_entropy_mean(t, v["x"], &classes(name)),
        "binary_cross_entropy_mean" => {
            let sum = ops::binary_cross_entropy_sum(t, v["x"], v["y"]);
            mean(t, sum, v["x"])
        }
        "mse_mean" => ops::squared_error_mean(t, v["x"], v["y"]),
        "huber_mean" => {
            let sum = ops::huber_sum(t, v["x"], v["y"], F::ONE);
            mean(t, sum, v["x"])
        }
        other => panic!("`{other}` is in the goldens and is not compared"),
    }
}

fn all<F: Float>(tolerance: f64) {
    let goldens: Value = serde_json::from_str(include_str!("data/primitives.json")).expect("JSON");
    let cases = goldens["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 20);
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        compare::<F>(name, tolerance, |t, v| operation(name, t, v));
    }
}

#[test]
fn double_precision_agrees_to_1e_12() {
    all::<f64>(1e-12);
}

#[test]
fn single_precision_agrees_to_1e_5() {
    all::<f32>(1e-5);
}
