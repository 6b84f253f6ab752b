//! What Burn's arithmetic gives on this machine, as a digest: processes with other bits must not
//! work on one run.
//!
//! Products are cut by the sizes of the processor's caches and made with its widest registers, so
//! machines of different kinds differ in the last bits.

use burn::tensor::activation::{gelu, log_softmax, sigmoid, tanh};
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData};

/// Inner dimension of the product: longer than any cache lets it be made at once.
const LONG: usize = 4099;

/// BLAKE3 of what some operations give for fixed values.
pub(super) fn digest() -> [u8; 32] {
    let device = Device::flex();
    let mut hasher = blake3::Hasher::new();
    let mut add = |tensor: Tensor<2>| {
        let data = tensor.into_data();
        hasher.update(data.as_bytes());
    };
    let a: Tensor<2> = values([33, LONG], &device);
    let b: Tensor<2> = values([LONG, 17], &device);
    add(a.clone().matmul(b.clone()));
    add(b.transpose().matmul(a.transpose()));
    let x: Tensor<2> = values([7, 129], &device);
    add(x.clone().exp());
    add(x.clone().abs().add_scalar(0.5).log());
    add(tanh(x.clone()));
    add(sigmoid(x.clone()));
    add(gelu(x.clone()));
    add(log_softmax(x.clone(), 1));
    add(x.clone().sum_dim(1));
    add(x.sum_dim(0));
    let images: Tensor<4> = values([2, 5, 11, 13], &device);
    let window: Tensor<4> = values([9, 5, 3, 3], &device);
    let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    add(conv2d(images, window, None, options).flatten(1, 3));
    *hasher.finalize().as_bytes()
}

/// Values of mixed size and sign, the same everywhere.
fn values<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let count = shape.iter().product::<usize>();
    let value = |n: usize| ((n * 7919 % 2003) as f32 - 1001.0) / 517.0;
    let data = TensorData::new((0..count).map(value).collect(), shape);
    Tensor::from_data(data, device)
}
