//! Gradients of gradients, against central differences and by hand.

use resilin_learn::autograd::{
    Parameters, Primitive, Tape, Tensor, Twice, check_second_order, ops,
};

/// Away from 0, where roots and logarithms end and slopes jump.
fn arguments(primitive: Primitive) -> Vec<Tensor<f64>> {
    let both = [
        Tensor::new(&[2, 2], vec![0.7, 1.9, 2.3, 0.4]),
        Tensor::new(&[2, 2], vec![1.3, 0.6, 0.9, 2.1]),
    ];
    both[..primitive.inputs()].to_vec()
}

#[test]
fn every_primitive_has_the_second_derivative_of_central_differences() {
    for primitive in Primitive::ALL {
        let checked = check_second_order(&arguments(primitive), 1e-6, |twice, x| {
            // Squared: the second derivative of a linear one would be nothing.
            let y = twice.apply(primitive, x);
            twice.apply(Primitive::Square, &[y])
        });
        println!("{}: {checked:?}", primitive.name());
        assert!(checked.is_ok(), "{}: {checked:?}", primitive.name());
    }
}

#[test]
fn the_list_in_the_docs_is_that_of_the_code() {
    let names = Primitive::ALL.map(|primitive| format!("`{}`", primitive.name()));
    let docs = include_str!("../../docs/gradients.md");
    let (_, rest) = docs
        .split_once("<!-- second order: begin -->\n")
        .expect("begin");
    let (list, _) = rest
        .split_once("\n<!-- second order: end -->")
        .expect("end");
    assert_eq!(list, names.join(" "));
}

#[test]
fn a_network_of_two_layers_agrees() {
    let arguments = [
        Tensor::new(&[2, 3], vec![0.3, -0.7, 0.2, 0.9, 0.1, -0.4]),
        Tensor::new(&[3, 2], vec![0.5, -0.2, 0.8, 0.3, -0.6, 0.7]),
        Tensor::new(&[2, 1], vec![1.1, -0.9]),
    ];
    let checked = check_second_order(&arguments, 1e-6, |twice, x| {
        let hidden = twice.apply(Primitive::Matmul, &[x[0], x[1]]);
        let hidden = twice.apply(Primitive::Tanh, &[hidden]);
        let output = twice.apply(Primitive::Matmul, &[hidden, x[2]]);
        let output = twice.apply(Primitive::Square, &[output]);
        twice.apply(Primitive::Sum, &[output])
    });
    assert!(checked.is_ok(), "{checked:?}");
}

#[test]
fn a_second_derivative_is_the_one_by_hand() {
    let parameters = Parameters::trained(&[("x", &[1]), ("unused", &[1])]).expect("two names");
    let mut tape = Tape::<f64>::new(parameters);
    tape.load(&[0.5, 3.0]);
    let (x, unused) = (tape.parameter("x"), tape.parameter("unused"));
    let mut twice = Twice::on(&mut tape);
    let square = twice.apply(Primitive::Mul, &[x, x]);
    let cube = twice.apply(Primitive::Mul, &[square, x]);
    let [slope, none] = twice.gradient(cube, &[x, unused])[..] else {
        panic!("one for each variable")
    };
    assert_eq!((tape.scalar(slope), tape.scalar(none)), (0.75, 0.0));
    let slope = ops::sum(&mut tape, slope);
    let mut second = [f64::NAN; 2];
    tape.backward(slope, &mut second);
    assert_eq!(second, [3.0, 0.0], "6x");
}
