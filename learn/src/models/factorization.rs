//! `factorization`: a factorization machine (Rendle 2010) over columns of ids, such as users and
//! items.
//!
//! A row's output is a constant, plus a number for each of its ids, plus the products of the ids'
//! vectors, two by two. With two columns that is matrix factorization with biases.

use resilin_core::layout::{Entry, Role};

use super::initial::Initial;
use super::on_tape::{Network, OnTape};
use super::{Draws, RowLoss, Rows};
use crate::autograd::ops::{self, Reduced};
use crate::autograd::{Parameters, Tape, Var};
use crate::dataset::Batch;
use crate::math::Float;
use crate::model::ModelError;

/// Standard deviation of the initial vectors.
const DEVIATION: f64 = 0.1;

/// What a factorization looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorizationConfig {
    /// The rows it takes: one id a column.
    pub rows: Rows,
    /// Number of ids of each column; they count from 0.
    pub fields: Vec<usize>,
    /// Length of an id's vector.
    pub rank: usize,
    /// What a row costs: a loss of one output.
    pub loss: RowLoss,
}

/// A factorization machine with `factors.weight` [ids, rank], `ids.weight` [ids, 1] and `bias`.
pub type Factorization = OnTape<FactorizationNetwork>;

/// The layers of a [`Factorization`].
pub struct FactorizationNetwork {
    config: FactorizationConfig,
    /// The first row of each column's ids in the tables.
    starts: Vec<u32>,
    parameters: Parameters,
}

impl FactorizationNetwork {
    /// The network of a configuration.
    ///
    /// # Errors
    /// Another number of columns than the rows have, too many ids, or a loss of several outputs.
    pub fn new(config: FactorizationConfig) -> Result<Self, ModelError> {
        if config.fields.len() != config.rows.width || config.rank == 0 {
            return Err(ModelError(format!(
                "{} fields of rank {} for rows of {} values; give the number of ids of each column",
                config.fields.len(),
                config.rank,
                config.rows.width
            )));
        }
        let outputs = config.loss.outputs(config.rows.targets)?;
        if outputs != 1 {
            return Err(ModelError(format!(
                "a factorization has one output, and the rows need {outputs}; give one value or two classes"
            )));
        }
        let mut total: u32 = 0;
        let mut starts = Vec::new();
        for field in &config.fields {
            starts.push(total);
            let next = u32::try_from(*field)
                .ok()
                .and_then(|n| total.checked_add(n));
            total = next.ok_or_else(|| ModelError("more than 2^32 ids in all".into()))?;
        }
        let entry = |name: &str, shape: &[usize]| Entry {
            name: name.into(),
            shape: shape.to_vec(),
            role: Role::Trained,
        };
        let ids = total as usize;
        let parameters = Parameters::new(vec![
            entry("factors.weight", &[ids, config.rank]),
            entry("ids.weight", &[ids, 1]),
            entry("bias", &[1]),
        ])?;
        Ok(Self {
            config,
            starts,
            parameters,
        })
    }
}

impl Network for FactorizationNetwork {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn rows(&self) -> Rows {
        self.config.rows
    }

    fn loss(&self) -> &RowLoss {
        &self.config.loss
    }

    fn is_choosy(&self) -> bool {
        true
    }

    fn check(&self, batch: &Batch) -> Result<(), ModelError> {
        self.rows().check_features(batch)?;
        super::rows::check_numbers(batch, |column| self.config.fields[column])
    }

    fn outputs<F: Float>(
        &self,
        tape: &mut Tape<F>,
        batch: &Batch,
        _: &Draws<'_>,
        _: &mut Vec<Var>,
    ) -> Var {
        let columns = self.starts.iter().cycle();
        let ids = batch.features.iter().zip(columns);
        let ids: Vec<u32> = ids.map(|(id, start)| *id as u32 + start).collect();
        let shape = [batch.rows, batch.width];
        let [factors, each, bias] =
            ["factors.weight", "ids.weight", "bias"].map(|name| tape.parameter(name));
        let vectors = ops::embedding(tape, factors, &shape, &ids);
        let each = ops::embedding(tape, each, &shape, &ids);
        let each = ops::sum_axes(tape, each, &[1], Reduced::Dropped);

        // Half of (square of the sum less the sum of squares): all products of two, once.
        let sum = ops::sum_axes(tape, vectors, &[1], Reduced::Dropped);
        let of_sum = ops::square(tape, sum);
        let squares = ops::square(tape, vectors);
        let squares = ops::sum_axes(tape, squares, &[1], Reduced::Dropped);
        let twice = ops::sub(tape, of_sum, squares);
        let twice = ops::sum_axes(tape, twice, &[1], Reduced::Kept);
        let products = ops::scale(tape, twice, F::HALF);

        let outputs = ops::add(tape, products, each);
        ops::add(tape, outputs, bias)
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        let factors = self.parameters.entries()[0].len();
        let (factors, rest) = weights.split_at_mut(factors);
        let mut stream = Initial::stream(seed, 0);
        for value in factors {
            *value = (stream.normal() * DEVIATION) as f32;
        }
        rest.fill(0.0);
    }
}
