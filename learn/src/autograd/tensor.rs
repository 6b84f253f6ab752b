//! A tensor outside a tape: what functions of [`super::grad`] take and give.

use super::Shape;
use crate::math::Float;

/// Values with their dimensions, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<F> {
    shape: Shape,
    values: Vec<F>,
}

impl<F: Float> Tensor<F> {
    /// Values of these dimensions.
    ///
    /// # Panics
    /// If there are not as many values as the dimensions' product.
    #[must_use]
    pub fn new(dimensions: &[usize], values: Vec<F>) -> Self {
        let shape = Shape::new(dimensions);
        assert_eq!(
            shape.len(),
            values.len(),
            "a value per place of {dimensions:?}"
        );
        Self { shape, values }
    }

    /// A single value.
    #[must_use]
    pub fn scalar(value: F) -> Self {
        Self::new(&[], vec![value])
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The values, row-major.
    #[must_use]
    pub fn values(&self) -> &[F] {
        &self.values
    }
}
