//! Dimensions of a tensor, kept in place so that recording allocates nothing for them.

/// Most dimensions that a tensor has.
pub(super) const MOST: usize = 6;

/// Dimensions, row-major; a scalar has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    rank: usize,
    sizes: [usize; MOST],
}

impl Shape {
    /// The shape of a single value.
    pub const SCALAR: Self = Self {
        rank: 0,
        sizes: [1; MOST],
    };

    /// The dimensions, outermost first.
    ///
    /// # Panics
    /// With more than six.
    #[must_use]
    pub fn new(dimensions: &[usize]) -> Self {
        assert!(
            dimensions.len() <= MOST,
            "a tensor has at most {MOST} dimensions"
        );
        let mut sizes = [1; MOST];
        sizes[..dimensions.len()].copy_from_slice(dimensions);
        Self {
            rank: dimensions.len(),
            sizes,
        }
    }

    /// The dimensions, outermost first.
    #[must_use]
    pub fn dimensions(&self) -> &[usize] {
        &self.sizes[..self.rank]
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dimensions().iter().product()
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last dimension; 1 for a scalar.
    #[must_use]
    pub fn width(&self) -> usize {
        self.dimensions().last().copied().unwrap_or(1)
    }

    /// Rows, where the tensor is seen as a matrix over its last dimension.
    #[must_use]
    pub fn rows(&self) -> usize {
        let outer = self.rank.saturating_sub(1);
        self.sizes[..outer].iter().product()
    }

    /// The shape of two tensors taken together value by value, as in NumPy: aligned at their last
    /// dimensions, where one of two different sizes must be 1.
    ///
    /// # Panics
    /// If the sizes do not fit.
    #[must_use]
    pub fn broadcast(&self, other: &Self) -> Self {
        let rank = self.rank.max(other.rank);
        let mut sizes = [1; MOST];
        for (axis, size) in sizes[..rank].iter_mut().enumerate() {
            let of = |shape: &Self| match (axis + shape.rank).checked_sub(rank) {
                Some(own) => shape.sizes[own],
                None => 1,
            };
            let (left, right) = (of(self), of(other));
            assert!(
                left == right || left == 1 || right == 1,
                "{:?} and {:?} do not go together: each pair of sizes must be equal or have a 1",
                self.dimensions(),
                other.dimensions()
            );
            *size = if left == 1 { right } else { left };
        }
        Self { rank, sizes }
    }
}
