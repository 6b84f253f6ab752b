//! `grad`, `value_and_grad`, `make_vjp`, recomputed parts and buffers.

use resilin_core::layout::{Entry, Role};
use resilin_learn::autograd::{
    Parameters, Tape, Tensor, Var, check_function, grad, make_vjp, ops, recompute, value_and_grad,
};
use resilin_learn::math::Float;

/// sum(tanh(x w)^2), with the tanh layers as one function.
fn layers<F: Float>(tape: &mut Tape<F>, v: &[Var]) -> Var {
    let product = ops::dense(tape, v[0], v[1], None);
    let first = ops::tanh(tape, product);
    let second = ops::dense(tape, first, v[1], None);
    ops::tanh(tape, second)
}

fn loss<F: Float>(tape: &mut Tape<F>, v: &[Var]) -> Var {
    let value = layers(tape, v);
    ops::square_sum(tape, value)
}

fn arguments<F: Float>() -> [Tensor<F>; 2] {
    let values = |count: usize, step: f64| -> Vec<F> {
        (0..count)
            .map(|i| F::from_f64(libm::sin(step * (1.0 + i as f64))))
            .collect()
    };
    [
        Tensor::new(&[4, 3], values(12, 0.7)),
        Tensor::new(&[3, 3], values(9, 1.3)),
    ]
}

#[test]
fn value_and_gradient_are_those_of_the_tape() {
    let both = value_and_grad(loss::<f64>);
    let (value, gradients) = both(&arguments());
    assert_eq!(grad(loss::<f64>)(&arguments()), gradients);
    let shapes: Vec<_> = gradients.iter().map(|g| g.shape()).collect();
    assert_eq!(shapes, arguments::<f64>().map(|a| a.shape()));
    let outputs = make_vjp(layers::<f64>, &arguments()).value();
    let squares: f64 = outputs.values().iter().map(|v| v * v).sum();
    assert!((value - squares).abs() < 1e-14);
    check_function(&arguments(), 1e-8, loss).expect("the gradient is right");
}

#[test]
fn a_vjp_is_linear_in_its_gradient_and_can_be_pulled_again() {
    let mut vjp = make_vjp(layers::<f64>, &arguments());
    let unit =
        |place: usize| -> Vec<f64> { (0..12).map(|i| f64::from(u8::from(i == place))).collect() };
    let (third, seventh) = (vjp.pull(&unit(3)), vjp.pull(&unit(7)));
    let both: Vec<f64> = unit(3)
        .iter()
        .zip(unit(7))
        .map(|(a, b)| 2.0 * a - b)
        .collect();
    for ((both, third), seventh) in vjp.pull(&both).iter().zip(&third).zip(&seventh) {
        let parts = third.values().iter().zip(seventh.values());
        for (both, (third, seventh)) in both.values().iter().zip(parts) {
            assert!((both - (2.0 * third - seventh)).abs() < 1e-14);
        }
    }
    assert_eq!(vjp.pull(&unit(3)), third);
}

#[test]
fn what_is_recomputed_has_the_same_bits() {
    let kept = value_and_grad(loss::<f32>)(&arguments());
    let again = value_and_grad(|tape: &mut Tape<f32>, v: &[Var]| {
        let value = recompute(tape, v, layers::<f32>);
        ops::square_sum(tape, value)
    });
    assert_eq!(again(&arguments()), kept);
    assert_ne!(kept.0, 0.0);
}

#[test]
fn a_buffers_gradient_is_its_next_value_times_the_rows() {
    let entry = |name: &str, role| Entry {
        name: name.into(),
        shape: vec![2],
        role,
    };
    let entries = vec![entry("w", Role::Trained), entry("mean", Role::Buffer)];
    let mut tape = Tape::<f32>::new(Parameters::new(entries).expect("names differ"));
    tape.load(&[1.0, 2.0, 10.0, 20.0]);
    let (w, mean) = (tape.parameter("w"), tape.parameter("mean"));
    let next = tape.constant(&[2], &[0.5, 0.25]);
    let term = ops::buffer(&mut tape, mean, next, 8);
    let sum = ops::sum(&mut tape, w);
    let loss = ops::add(&mut tape, sum, term);
    let mut gradient = [0.0; 4];
    tape.backward(loss, &mut gradient);
    assert_eq!((tape.scalar(loss), gradient), (3.0, [1.0, 1.0, 4.0, 2.0]));
}
