//! The tensors of a module: which of them are trained, what they are called, and how flat weights
//! go in and flat gradients come out.
//!
//! Burn visits the tensors of a module always in the same order, that of its fields. So the n-th
//! tensor has the n-th [`Place`].

use std::ops::Range;
use std::slice::Iter;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Gradients, Tensor, TensorData};

use resilin_core::layout::{Entry, Role};
use resilin_learn::model::ModelError;

/// What a tensor of the module is to training.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// Trained; here in the flat vector.
    Trained(Range<usize>),
    /// A running statistic: what it becomes is summed and applied as a buffer.
    Buffer(Range<usize>),
    /// Frozen: the same in every process, since each builds it from the seed.
    Fixed,
}

/// A module's tensors, as they are after it was built.
pub(super) struct Tree {
    /// One a tensor, in the order of visits.
    pub(super) places: Vec<Place>,
    /// Those that have a place in the flat vector, in flatten order.
    pub(super) entries: Vec<Entry>,
    /// Their values.
    pub(super) initial: Vec<f32>,
    /// The values of all frozen ones.
    pub(super) fixed: Vec<f32>,
}

impl Tree {
    /// # Errors
    /// A tensor that is not f32, or nothing that is trained.
    pub(super) fn of(module: &impl Module) -> Result<Self, ModelError> {
        let found = Look::at(module);
        // What stays without a gradient when all is unfrozen is no parameter but a statistic.
        let thawed = Look::at(&module.valid().train().unfreeze());
        let mut tree = Self {
            places: Vec::new(),
            entries: Vec::new(),
            initial: Vec::new(),
            fixed: Vec::new(),
        };
        for (tensor, thawed) in found.into_iter().zip(thawed) {
            tree.add(tensor, thawed.is_trained)?;
        }
        let is_trained = |place: &Place| matches!(place, Place::Trained(_));
        if !tree.places.iter().any(is_trained) {
            let text =
                "the module has no tensor that is trained; give it a `Param`, and freeze less";
            return Err(ModelError(text.into()));
        }
        Ok(tree)
    }

    fn add(&mut self, tensor: Seen, is_parameter: bool) -> Result<(), ModelError> {
        let Ok(values) = tensor.data.as_slice::<f32>() else {
            return Err(ModelError(format!(
                "the tensor `{}` of the module is not f32 but {:?}; make it f32",
                tensor.name,
                tensor.data.dtype()
            )));
        };
        let role = match (tensor.is_trained, is_parameter) {
            (true, _) => Role::Trained,
            (false, false) => Role::Buffer,
            (false, true) => {
                self.fixed.extend(values);
                self.places.push(Place::Fixed);
                return Ok(());
            }
        };
        let range = self.initial.len()..self.initial.len() + values.len();
        self.initial.extend(values);
        self.places.push(match role {
            Role::Trained => Place::Trained(range),
            Role::Buffer => Place::Buffer(range),
        });
        self.entries.push(Entry {
            name: tensor.name,
            shape: tensor.data.shape().to_vec(),
            role,
        });
        Ok(())
    }

    /// Whether an evaluation changes something in the module.
    pub(super) fn has_buffers(&self) -> bool {
        self.places
            .iter()
            .any(|place| matches!(place, Place::Buffer(_)))
    }
}

/// A tensor as a visit shows it.
struct Seen {
    name: String,
    is_trained: bool,
    data: TensorData,
}

#[derive(Default)]
struct Look {
    path: Vec<String>,
    seen: Vec<Seen>,
}

impl Look {
    fn at(module: &impl Module) -> Vec<Seen> {
        let mut look = Self::default();
        module.visit(&mut look);
        look.seen
    }
}

impl ModuleVisitor for Look {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        self.seen.push(Seen {
            name: self.path.join("."),
            is_trained: tensor.is_require_grad(),
            data: tensor.into_data(),
        });
    }
}

/// The module with these flat weights; one copy a tensor.
pub(super) fn load<M: Module>(module: M, places: &[Place], weights: &[f32]) -> M {
    let mut places = places.iter();
    let module = module.map(&mut Load {
        places: &mut places,
        weights,
    });
    assert!(places.next().is_none(), "as many tensors as before");
    module
}

struct Load<'a, 'p> {
    places: &'a mut Iter<'p, Place>,
    weights: &'a [f32],
}

impl ModuleMapper for Load<'_, '_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let range = match next(self.places) {
            Place::Trained(range) | Place::Buffer(range) => range.clone(),
            Place::Fixed => return param,
        };
        let values = self.weights[range].to_vec();
        param.map(|old| {
            let data = TensorData::new(values, old.shape());
            let tensor = Tensor::from_data(data, (&old.device(), DType::F32));
            tensor.set_require_grad(old.is_require_grad())
        })
    }
}

/// Takes the gradient of every trained tensor out; one copy a tensor.
pub(super) fn collect(
    module: &impl Module,
    places: &[Place],
    gradients: Gradients,
    flat: &mut [f32],
) {
    module.visit(&mut Collect {
        places: &mut places.iter(),
        gradients,
        flat,
    });
}

struct Collect<'a, 'p> {
    places: &'a mut Iter<'p, Place>,
    gradients: Gradients,
    flat: &'a mut [f32],
}

impl ModuleVisitor for Collect<'_, '_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Place::Trained(range) = next(self.places) else {
            return;
        };
        let flat = &mut self.flat[range.clone()];
        match param.val().grad_remove(&mut self.gradients) {
            Some(gradient) => copy(gradient, flat),
            // The loss does not depend on it.
            None => flat.fill(0.0),
        }
    }
}

/// Writes what every buffer became, times the rows that it became so by.
pub(super) fn collect_buffers(
    module: &impl Module,
    places: &[Place],
    rows: usize,
    flat: &mut [f32],
) {
    // The statistics of the thread that evaluates come in only by this.
    module.valid().visit(&mut Buffers {
        places: &mut places.iter(),
        rows: rows as f32,
        flat,
    });
}

struct Buffers<'a, 'p> {
    places: &'a mut Iter<'p, Place>,
    rows: f32,
    flat: &'a mut [f32],
}

impl ModuleVisitor for Buffers<'_, '_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Place::Buffer(range) = next(self.places) {
            let flat = &mut self.flat[range.clone()];
            copy(param.val(), flat);
            for value in flat {
                *value *= self.rows;
            }
        }
    }
}

fn next<'p>(places: &mut Iter<'p, Place>) -> &'p Place {
    places.next().expect("as many tensors as before")
}

fn copy<const D: usize>(tensor: Tensor<D>, flat: &mut [f32]) {
    let data = tensor.into_data();
    let values = data.as_slice().expect("the tensors are f32");
    flat.copy_from_slice(values);
}
