//! Checks every primitive that can be differentiated twice, and prints it.

use resilin_learn::autograd::{Primitive, Tensor, check_second_order};

fn main() {
    // Away from 0, where roots and logarithms end and slopes jump.
    let first = Tensor::new(&[2, 2], vec![0.7, 1.9, 2.3, 0.4]);
    let second = Tensor::new(&[2, 2], vec![1.3, 0.6, 0.9, 2.1]);
    for primitive in Primitive::ALL {
        let arguments = [first.clone(), second.clone()];
        let arguments = &arguments[..primitive.inputs()];
        let checked = check_second_order(arguments, 1e-6, |twice, x| twice.apply(primitive, x));
        match checked {
            Ok(()) => println!("{}: both derivatives agree", primitive.name()),
            Err(error) => println!("{}: {error}", primitive.name()),
        }
    }
}
