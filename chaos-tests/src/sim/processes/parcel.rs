//! What travels on the links of shard processes.

use std::sync::Arc;

use resilin_core::frame::{self, FrameError};
use resilin_core::message::{HostSays, HostTold, ReplicaSays, SliceSays, StoreAsks, StoreSays};
use resilin_core::{Incarnation, Step, Timeline, View};

use crate::sim::codec;

/// The tensors of a slice: the weights, then the moments; in a copy the weights of the version
/// before may come last.
pub(in crate::sim) type State = Arc<Vec<Vec<f32>>>;

/// A message or a tensor.
#[derive(Clone, Debug)]
pub(in crate::sim) enum Parcel {
    /// The coordinator answers a shard process.
    Welcome(Incarnation),
    Said(HostSays),
    Told(HostTold),
    Vote(SliceSays),
    Replica(ReplicaSays),
    Root {
        view: View,
        timeline: Timeline,
        step: Step,
        values: Arc<Vec<f32>>,
    },
    /// The tensors of a copy.
    Copy {
        timeline: Timeline,
        step: Step,
        state: State,
    },
    Asks(StoreAsks),
    /// The tensors of a cut.
    Part(State),
    /// A slice from the store, or its reason why not.
    Answer(StoreSays, State),
}

impl Parcel {
    /// Whether it comes whole as long as its link lives, also in bad weather: the weather stands for
    /// what broken links do, and of these a link's own first words and tensors have other ways.
    pub(in crate::sim) fn arrives(&self) -> bool {
        match self {
            Self::Welcome(_)
            | Self::Said(HostSays::Ready { .. })
            | Self::Replica(ReplicaSays::Copy { .. })
            | Self::Copy { .. }
            | Self::Asks(_)
            | Self::Part(_)
            | Self::Answer(..) => true,
            Self::Said(
                HostSays::Heartbeat { .. }
                | HostSays::Report(_)
                | HostSays::InSync { .. }
                | HostSays::Failed { .. }
                | HostSays::Drain
                | HostSays::Leave,
            )
            | Self::Told(_)
            | Self::Vote(_)
            | Self::Replica(
                ReplicaSays::Pledge { .. }
                | ReplicaSays::Record { .. }
                | ReplicaSays::Pledged { .. }
                | ReplicaSays::Recorded { .. }
                | ReplicaSays::Lacks { .. },
            )
            | Self::Root { .. } => false,
        }
    }

    /// Through the codec and back.
    pub(in crate::sim) fn encoded(self) -> Self {
        match self {
            Self::Said(says) => Self::Said(codec::pass(&says)),
            Self::Told(told) => Self::Told(codec::pass(&told)),
            Self::Vote(says) => Self::Vote(codec::pass(&says)),
            Self::Replica(says) => Self::Replica(codec::pass(&says)),
            Self::Asks(asks) => Self::Asks(codec::pass(&asks)),
            Self::Answer(says, state) => Self::Answer(codec::pass(&says), state),
            Self::Welcome(_) | Self::Root { .. } | Self::Copy { .. } | Self::Part(_) => self,
        }
    }

    /// Its frame on the wire.
    pub(in crate::sim) fn frame(&self) -> Result<Vec<u8>, FrameError> {
        match self {
            Self::Welcome(incarnation) => frame::control_frame(incarnation),
            Self::Said(says) => frame::control_frame(says),
            Self::Told(told) => frame::control_frame(told),
            Self::Vote(says) => frame::control_frame(says),
            Self::Replica(says) => frame::control_frame(says),
            Self::Root { values, .. } => frame::control_frame(values.as_ref()),
            Self::Asks(asks) => frame::control_frame(asks),
            Self::Copy { state, .. } | Self::Part(state) => frame::control_frame(state.as_ref()),
            Self::Answer(says, _) => frame::control_frame(says),
        }
    }
}
