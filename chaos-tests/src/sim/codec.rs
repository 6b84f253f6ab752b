//! The wire's encoding: what is sent here must be what arrives there, so that nothing is shared
//! between processes by accident and slices can move out of the coordinator.

use resilin_core::frame::{DataHeader, Encoding, Kind};
use resilin_core::machine::shard::Push;
use resilin_core::{RunId, SliceId};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Through the codec and back. Bytes are compared, as a NaN is not equal to itself.
pub(super) fn pass<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let bytes = rmp_serde::to_vec_named(value).expect("every message has an encoding");
    let back: T = rmp_serde::from_slice(&bytes).expect("what was encoded can be decoded");
    let again = rmp_serde::to_vec_named(&back).expect("every message has an encoding");
    assert_eq!(bytes, again, "the codec changes nothing");
    back
}

/// A contribution as the header of its data frame.
pub(super) fn pass_push(push: Push, run: RunId, slice: SliceId, values: usize) -> Push {
    let first = usize::from(slice.0);
    let header = pass(&DataHeader {
        run,
        kind: Kind::Gradient,
        timeline: push.timeline,
        map: push.map,
        view: push.view,
        incarnation: push.incarnation,
        sequence: 0,
        step: push.step,
        based_on: None,
        node: Some(push.node),
        blocks: first..first + 1,
        offset: 0,
        total: values as u64,
        encoding: Encoding::F32,
        samples: push.samples,
        weight: push.weight,
        loss_sum: push.loss_sum,
    });
    Push {
        timeline: header.timeline,
        map: header.map,
        view: header.view,
        step: header.step,
        node: header.node.expect("it was just set"),
        incarnation: header.incarnation,
        samples: header.samples,
        weight: header.weight,
        loss_sum: header.loss_sum,
        ..push
    }
}
