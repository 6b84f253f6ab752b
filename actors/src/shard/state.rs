//! A slice's whole state as tensors on a link: the weights, the optimizer's moments, and what the
//! schedule remembers.
//!
//! Each tensor says in its header's `samples` which one it is, so that what two tries sent of one
//! version can be put together; a version of a timeline has one state only.

use std::ops::Range;
use std::sync::Arc;

use resilin_core::frame::{DataHeader, Encoding, Kind};
use resilin_core::message::Branch;
use resilin_core::sorted::SortedMap;
use resilin_core::{Incarnation, RunId, Step, View};
use resilin_learn::kernel::{SliceKernel, SlicePlan};

use super::kernel::Cut;
use crate::link::{OutTensor, SharedValues};

/// The kernel of a slice whose state arrived; further tensors are not looked at.
///
/// # Panics
/// If tensors are missing or of another length; whoever took them in has looked.
pub(crate) fn kernel_of(plan: SlicePlan, step: Step, tensors: &[SharedValues]) -> SliceKernel {
    let names = plan.tensors();
    let place = |name: &str| {
        let place = names.iter().position(|tensor| *tensor == name);
        place.expect("one of the state's tensors")
    };
    let restored = SliceKernel::restore(plan, step, |name, _, out| {
        out.copy_from_slice(&tensors[place(name)]);
        Ok::<(), std::convert::Infallible>(())
    });
    match restored {
        Ok(kernel) => kernel,
        Err(never) => match never {},
    }
}

/// Where a state belongs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Belongs {
    pub(crate) run: RunId,
    pub(crate) branch: Branch,
    pub(crate) view: View,
    pub(crate) step: Step,
    /// The slice's blocks.
    pub(crate) blocks: Range<usize>,
}

impl Belongs {
    /// The header of a tensor of this kind; `index` counts the tensors of a state.
    pub(crate) fn header(&self, kind: Kind, index: u64) -> DataHeader {
        DataHeader {
            run: self.run,
            kind,
            timeline: self.branch.timeline,
            map: self.branch.map,
            view: self.view,
            incarnation: Incarnation::default(),
            sequence: 0,
            step: self.step,
            based_on: None,
            node: None,
            blocks: self.blocks.clone(),
            offset: 0,
            total: 0,
            encoding: Encoding::F32,
            samples: index,
            weight: 0.0,
            loss_sum: 0.0,
        }
    }

    /// All tensors of a state, to be sent in this order.
    pub(crate) fn state(&self, tensors: impl IntoIterator<Item = SharedValues>) -> Vec<OutTensor> {
        let numbered = (0..).zip(tensors);
        numbered
            .map(|(index, values)| OutTensor {
                header: self.header(Kind::State, index),
                values: values.into(),
                before: None,
            })
            .collect()
    }
}

/// A copy whose buffers go home once nothing is sent from them any more.
struct Lent(Option<Cut>);

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(mut cut) = self.0.take() {
            cut.pinned.release();
            cut.home.reuse(cut.pinned);
        }
    }
}

/// One tensor of a lent copy.
struct Part {
    lent: Arc<Lent>,
    index: usize,
}

impl AsRef<[f32]> for Part {
    fn as_ref(&self) -> &[f32] {
        let cut = self.lent.0.as_ref().expect("taken only when dropped");
        let tensor = cut.pinned.tensors().nth(self.index);
        tensor.expect("counted before").1
    }
}

impl Cut {
    /// The tensors of the copy, which are not copied again.
    pub(crate) fn lend(self) -> Vec<SharedValues> {
        let count = self.pinned.tensors().count();
        let lent = Arc::new(Lent(Some(self)));
        (0..count)
            .map(|index| {
                let lent = Arc::clone(&lent);
                SharedValues::new(Arc::new(Part { lent, index }))
            })
            .collect()
    }
}

/// A state that is arriving.
pub(crate) struct Arriving {
    belongs: Belongs,
    /// Length of each tensor that is wanted.
    lengths: Vec<usize>,
    here: SortedMap<u64, SharedValues>,
}

impl Arriving {
    /// The state of a slice; a copy may bring further weights after it, up to `wanted` tensors.
    pub(crate) fn new(belongs: Belongs, plan: &SlicePlan, wanted: usize) -> Self {
        let mut lengths: Vec<usize> = plan.tensors().iter().map(|n| plan.length(n)).collect();
        lengths.resize(wanted, plan.values().len());
        Self {
            belongs,
            lengths,
            here: SortedMap::new(),
        }
    }

    /// Takes a tensor in, if it is one of this state; all of them once none is missing.
    pub(crate) fn take(
        &mut self,
        header: &DataHeader,
        values: SharedValues,
    ) -> Option<Vec<SharedValues>> {
        let Belongs {
            run,
            branch,
            view: _,
            step,
            blocks,
        } = &self.belongs;
        let mine = header.kind == Kind::State
            && header.run == *run
            && (header.timeline, header.map) == (branch.timeline, branch.map)
            && header.step == *step
            && header.blocks == *blocks
            && self.lengths.get(header.samples as usize) == Some(&values.len());
        if mine {
            self.here.insert(header.samples, values);
        }
        let whole = self.here.len() == self.lengths.len();
        whole.then(|| std::mem::take(&mut self.here).into_values().collect())
    }
}
