//! The wire's encoding: what is sent here must be what arrives there, so that nothing is shared
//! between processes by accident and slices can move out of the coordinator.

use resilin_core::frame::{self, Checksum, DataHeader, Encoding, Frame, FrameError, Kind, Message};
use resilin_core::machine::shard::Push;
use resilin_core::{RunId, SliceId};
use serde::Serialize;

use super::events::Packet;

/// Through the codec and back. Bytes are compared, as a NaN is not equal to itself.
pub(super) fn pass<T: Serialize + Message>(value: &T) -> T {
    let bytes = rmp_serde::to_vec_named(value).expect("every message has an encoding");
    let back = T::decode(&bytes).expect("what was encoded can be decoded");
    let again = rmp_serde::to_vec_named(&back).expect("every message has an encoding");
    assert_eq!(bytes, again, "the codec changes nothing");
    back
}

/// Damages one bit of the packet's frame; the receiver must see it.
pub(super) fn refuse_damaged(packet: &Packet, run: RunId, pick: u32) {
    let mut frame = match packet {
        Packet::Said(says) => frame::control_frame(says),
        Packet::Told(says) => frame::control_frame(says),
        Packet::Asked(asks) => frame::control_frame(asks),
        Packet::Heard(says) => frame::control_frame(says),
        Packet::Welcome(incarnation) => frame::control_frame(incarnation),
        Packet::Pushed(push, values) => data(&header(push, run, SliceId(0), values.len()), values),
        Packet::Weights { values, .. } => frame::control_frame(values.as_ref()),
        Packet::Parcel(parcel) => parcel.frame(),
        Packet::Hello(_) | Packet::Accepted | Packet::Closed => return,
    }
    .expect("every message has a frame");
    let bit = pick as usize % (8 * frame.len());
    frame[bit / 8] ^= 1 << (bit % 8);
    let decoded = Frame::decode(&frame).map(drop);
    assert!(
        decoded.is_err(),
        "bit {bit} of {packet:?} is flipped unseen"
    );
}

fn data(header: &DataHeader, values: &[f32]) -> Result<Vec<u8>, FrameError> {
    let payload: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let mut frame = Vec::new();
    frame::data_head(header, &payload, Checksum::On, &mut frame)?;
    frame.extend_from_slice(&payload);
    Ok(frame)
}

/// The header of a contribution's data frame.
fn header(push: &Push, run: RunId, slice: SliceId, values: usize) -> DataHeader {
    let first = usize::from(slice.0);
    DataHeader {
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
    }
}

/// A contribution as the header of its data frame.
pub(super) fn pass_push(push: Push, run: RunId, slice: SliceId, values: usize) -> Push {
    let header = pass(&header(&push, run, slice, values));
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
