//! The task that writes to a link's socket; it never waits for reading (PROTOCOL 18).

use std::sync::Arc;

use resilin_core::frame::{self, DataHeader, Encoding, Kind, Route};
use tokio::io::AsyncWriteExt;

use super::error::LinkError;
use super::lane::Outgoing;
use super::outbox::{Piece, Work};
use super::shared::Shared;
use super::wire::{Sink, hasher, write_both};

/// Writes what the outbox gives until the link ends, then closes the sending direction.
pub(super) async fn write_until_end(mut sink: Sink, lane: Option<Outgoing>, shared: Arc<Shared>) {
    tokio::select! {
        biased;
        _end = shared.until_end() => {}
        cause = write_all(&mut sink, lane, &shared) => shared.end(cause),
    }
    // The peer may be gone already; then there is nobody to tell.
    let _ = sink.shutdown().await;
}

async fn write_all(sink: &mut Sink, lane: Option<Outgoing>, shared: &Shared) -> LinkError {
    let mut scratch = Scratch {
        lane,
        ..Scratch::default()
    };
    loop {
        let result = match shared.next_work().await {
            Ok(work) => write_one(sink, shared, work, &mut scratch).await,
            Err(end) => Err(end),
        };
        if let Err(cause) = result {
            return cause;
        }
    }
}

/// Memory of the writing task.
#[derive(Default)]
struct Scratch {
    head: Vec<u8>,
    /// A sparse piece.
    runs: Vec<u8>,
    lane: Option<Outgoing>,
}

async fn write_one(
    sink: &mut Sink,
    shared: &Shared,
    work: Work,
    Scratch { head, runs, lane }: &mut Scratch,
) -> Result<(), LinkError> {
    match work {
        Work::Control(frame) => {
            write_both(sink, &frame, &[]).await?;
            shared.count_out(frame.len());
        }
        Work::Credit(credit) => {
            let frame = frame::credit_frame(credit);
            write_both(sink, &frame, &[]).await?;
            shared.count_out(frame.len());
        }
        Work::Piece(piece) => {
            if let Some(encoding) = in_runs(&piece, runs) {
                let header = DataHeader {
                    encoding,
                    ..piece.header.clone()
                };
                frame::data_head(&header, runs, shared.checksum, head)?;
                write_both(sink, head, runs).await?;
                shared.count_out(head.len() + runs.len());
                shared.count_saved(size_of_val(&*piece.values) - runs.len());
                return Ok(());
            }
            // A lane never makes this task wait. Piece by piece in turn, all peers have a version at
            // nearly the same time; else the first would compute while the others wait for theirs.
            tokio::task::yield_now().await;
            write_piece(sink, shared, &piece, head, lane.as_mut()).await?;
        }
    }
    Ok(())
}

/// The runs of a piece and what they mean, where that is shorter: of a table, whose rows a step mostly
/// leaves alone, both the gradient and the weights.
fn in_runs(piece: &Piece, runs: &mut Vec<u8>) -> Option<Encoding> {
    let values = &piece.values;
    let count = u32::try_from(values.len()).expect("a piece is shorter");
    match (piece.header.kind, &piece.before) {
        (_, Some(before)) => frame::encode_changed(values, before, runs)
            .then_some(Encoding::ChangedRows { values: count }),
        (Kind::Gradient, None) => {
            frame::encode_sparse(values, runs).then_some(Encoding::SparseRows { values: count })
        }
        (
            Kind::Weights | Kind::Delta | Kind::SlotState | Kind::Vote | Kind::Root | Kind::State,
            None,
        ) => None,
    }
}

/// Writes a whole piece, to the lane where that has room.
async fn write_piece(
    sink: &mut Sink,
    shared: &Shared,
    Piece { header, values, .. }: &Piece,
    head: &mut Vec<u8>,
    lane: Option<&mut Outgoing>,
) -> Result<(), LinkError> {
    let payload: &[u8] = bytemuck::cast_slice(values);
    let length = payload.len();
    let mut hasher = match values.has_crc() {
        true => None,
        false => hasher(shared.checksum),
    };
    let by_lane = lane.is_some_and(|lane| lane.write(payload, shared.lane_is_read(), &mut hasher));
    let crc = || match (by_lane, hasher) {
        (true, Some(hasher)) => values.crc_or(|| hasher.finalize()),
        (true, None) | (false, _) => values.crc(),
    };
    let (route, rest) = match by_lane {
        true => (Route::Lane, &[][..]),
        false => (Route::Socket, payload),
    };
    frame::data_head_of(header, length, shared.checksum, route, crc, head)?;
    write_both(sink, head, rest).await?;
    shared.count_out(head.len() + length);
    if by_lane {
        shared.count_by_lane(length);
    }
    Ok(())
}
