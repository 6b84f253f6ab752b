//! What a link has still to send, and in which order: a plain state machine without a socket.
//!
//! Control and credit go before tensors. Tensors go one at a time, in pieces, and only as far as
//! the receiver's credit reaches (PROTOCOL 18). Everything in here is bounded: queued tensors by
//! the in-flight limit, control by [`MAX_URGENT_BYTES`], streams by one tensor each.

use std::collections::VecDeque;
use std::ops::Range;

use resilin_core::frame::{Credit, DataHeader, PIECE_VALUES};
use resilin_core::sorted::SortedMap;

use super::coming::{Found, OutValues};
use super::pool::SharedValues;

/// Most bytes of control frames that wait: four of the longest.
pub(super) const MAX_URGENT_BYTES: usize = 16 << 20;

/// Bytes of a lane whose reader speaks for their sake alone: half of the longest.
const URGENT_LANE_BYTES: u64 = 2 << 20;

/// A tensor to be sent. The link sets `sequence`, `offset` and `total` of the header.
#[derive(Clone, Debug)]
pub struct OutTensor {
    /// What it is.
    pub header: DataHeader,
    /// Its values.
    pub values: OutValues,
    /// The values of the version that the header's `based_on` names, where the receiver has them:
    /// what changed since is enough.
    pub before: Option<SharedValues>,
}

impl OutTensor {
    fn bytes(&self) -> usize {
        self.values.len() * size_of::<f32>()
    }
}

/// Names a stream of versions of which only the newest matters, such as a slice's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream(pub u16);

/// No room: the limit is reached, try again when the peer has taken something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// What the writer does next.
#[derive(Debug)]
pub(super) enum Work {
    /// A whole frame.
    Control(Vec<u8>),
    /// A grant to the peer.
    Credit(Credit),
    /// One piece of a tensor.
    Piece(Box<Piece>),
}

#[derive(Debug)]
pub(super) struct Piece {
    pub(super) header: DataHeader,
    pub(super) values: SharedValues,
    pub(super) before: Option<SharedValues>,
}

/// What there is to send of the tensor under way.
#[derive(Debug)]
enum Next {
    Piece(Box<Piece>),
    /// Its values or the credit for them have yet to come.
    Wait,
    /// Its values will never come.
    GivenUp,
}

/// Where the tensor being sent came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Queue,
    Stream(Stream),
}

#[derive(Debug)]
struct Current {
    tensor: OutTensor,
    origin: Origin,
    sent: usize,
}

/// How far this side has read its lane.
#[derive(Clone, Copy, Debug)]
struct LaneRead {
    bytes: u64,
    told: u64,
    until: u64,
}

impl LaneRead {
    fn new(bytes: u64) -> Self {
        Self {
            bytes,
            told: 0,
            until: 0,
        }
    }

    /// Half a lane at a time, which is a whole tensor where the lane has room for two.
    fn is_due(self) -> bool {
        self.until > self.told && (self.until - self.told) * 2 >= self.bytes
    }

    /// Whether it is worth waking the peer. Otherwise it goes with the next word, such as the answer
    /// to a tensor: two of the shorter ones fit, and what does not goes by the socket.
    fn is_urgent(self) -> bool {
        self.is_due() && self.until - self.told >= URGENT_LANE_BYTES
    }
}

/// The queue of a link.
#[derive(Debug)]
pub(super) struct Outbox {
    urgent: VecDeque<Vec<u8>>,
    urgent_bytes: usize,
    queue: VecDeque<OutTensor>,
    newest: SortedMap<Stream, OutTensor>,
    current: Option<Current>,
    /// Who had the last turn; the other goes first next, so that neither starves.
    last: Origin,
    queued_bytes: usize,
    /// Bytes of a queued tensor whose last piece is being written: it is alive until that is done.
    leaving_bytes: usize,
    in_flight: usize,
    credit: u64,
    owed: u64,
    owe_at: u64,
    lane: LaneRead,
    sequence: u64,
    superseded: u64,
}

impl Outbox {
    /// A queue of at most `in_flight` bytes towards a peer that grants `peer_window` bytes and
    /// gets its own grants back in lumps of a quarter of `window`, and half of a lane of `lane` bytes.
    pub(super) fn new(in_flight: usize, peer_window: u32, window: u32, lane: u64) -> Self {
        Self {
            urgent: VecDeque::new(),
            urgent_bytes: 0,
            queue: VecDeque::new(),
            newest: SortedMap::new(),
            current: None,
            last: Origin::Queue,
            queued_bytes: 0,
            leaving_bytes: 0,
            in_flight,
            credit: peer_window.into(),
            owed: 0,
            owe_at: u64::from(window / 4),
            lane: LaneRead::new(lane),
            sequence: 0,
            superseded: 0,
        }
    }

    /// Queues a whole control frame.
    pub(super) fn push_control(&mut self, frame: Vec<u8>) -> Result<(), Full> {
        if self.urgent_bytes + frame.len() > MAX_URGENT_BYTES {
            return Err(Full);
        }
        self.urgent_bytes += frame.len();
        self.urgent.push_back(frame);
        Ok(())
    }

    /// Queues a tensor. One that is larger than the limit has room in an empty queue only.
    pub(super) fn push_tensor(&mut self, tensor: &OutTensor) -> Result<(), Full> {
        let bytes = tensor.bytes();
        if self.queued_bytes > 0 && self.queued_bytes + bytes > self.in_flight {
            return Err(Full);
        }
        self.queued_bytes += bytes;
        self.queue.push_back(tensor.clone());
        Ok(())
    }

    /// Replaces what the stream has not sent yet: an older version is dropped, also half-way.
    pub(super) fn set_newest(&mut self, stream: Stream, tensor: OutTensor) {
        let under_way = |current: &Current| current.origin == Origin::Stream(stream);
        if self.current.as_ref().is_some_and(under_way) {
            self.current = None;
            self.superseded += 1;
        }
        if self.newest.insert(stream, tensor).is_some() {
            self.superseded += 1;
        }
    }

    /// The peer has consumed `bytes`.
    pub(super) fn grant(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_add(bytes);
    }

    /// We have consumed `bytes`; true when enough is gathered to tell the peer.
    pub(super) fn owe(&mut self, bytes: u64) -> bool {
        self.owed += bytes;
        self.owed >= self.owe_at
    }

    /// We have read the lane as far as `until`; true when the peer should know.
    pub(super) fn lane_read(&mut self, until: u64) -> bool {
        self.lane.until = until;
        self.lane.is_urgent()
    }

    /// What to write next, if there is anything that may go. What was given before is written.
    pub(super) fn next(&mut self) -> Option<Work> {
        self.queued_bytes -= std::mem::take(&mut self.leaving_bytes);
        if let Some(frame) = self.urgent.pop_front() {
            self.urgent_bytes -= frame.len();
            return Some(Work::Control(frame));
        }
        if self.owed >= self.owe_at || self.lane.is_due() {
            self.lane.told = self.lane.until;
            return Some(Work::Credit(Credit {
                bytes: std::mem::take(&mut self.owed),
                lane: self.lane.told,
            }));
        }
        loop {
            if self.current.is_none() {
                self.current = Some(self.begin()?);
            }
            match self.piece() {
                Next::Piece(piece) => return Some(Work::Piece(piece)),
                Next::Wait => return None,
                Next::GivenUp => self.leave_out(),
            }
        }
    }

    /// Takes the next tensor: a stream's after a queued one, and the other way round.
    fn begin(&mut self) -> Option<Current> {
        let from_queue = |outbox: &mut Self| Some((Origin::Queue, outbox.queue.pop_front()?));
        let from_stream = |outbox: &mut Self| {
            let (stream, tensor) = outbox.newest.pop_first()?;
            Some((Origin::Stream(stream), tensor))
        };
        let (origin, mut tensor) = match self.last {
            Origin::Queue => from_stream(self).or_else(|| from_queue(self)),
            Origin::Stream(_) => from_queue(self).or_else(|| from_stream(self)),
        }?;
        self.last = origin;
        tensor.header.sequence = self.sequence;
        tensor.header.total = tensor.values.len() as u64;
        self.sequence += 1;
        Some(Current {
            tensor,
            origin,
            sent: 0,
        })
    }

    /// The next piece of the current tensor, if it is there and the credit allows it.
    fn piece(&mut self) -> Next {
        let Some(current) = &mut self.current else {
            return Next::Wait;
        };
        let length = current.tensor.values.len();
        let most = PIECE_VALUES.min(length - current.sent);
        let values = match current.tensor.values.find(current.sent, most) {
            Found::Some(values) => values,
            Found::NotYet => return Next::Wait,
            Found::Never => return Next::GivenUp,
        };
        let range: Range<usize> = current.sent..current.sent + values.len();
        let bytes = range.len() * size_of::<f32>();
        let Some(credit) = self.credit.checked_sub(bytes as u64) else {
            return Next::Wait;
        };
        self.credit = credit;
        let header = DataHeader {
            offset: range.start as u64,
            ..current.tensor.header.clone()
        };
        current.sent = range.end;
        let piece = Piece {
            header,
            values,
            before: current.tensor.before.as_ref().map(|v| v.part(range)),
        };
        if current.sent == length {
            match current.origin {
                Origin::Queue => self.leaving_bytes = current.tensor.bytes(),
                Origin::Stream(_) => {}
            }
            self.current = None;
        }
        Next::Piece(Box::new(piece))
    }

    /// Drops the current tensor where it is; the next one takes its place at the peer, too.
    fn leave_out(&mut self) {
        let current = self.current.take();
        if let Some(current) = current.filter(|current| current.origin == Origin::Queue) {
            self.queued_bytes -= current.tensor.bytes();
        }
    }

    /// Bytes of queued tensors, each whole until its last piece is written.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Versions of streams that were dropped for a newer one.
    pub(super) fn superseded(&self) -> u64 {
        self.superseded
    }

    /// Whether nothing waits, with or without credit.
    pub(super) fn is_empty(&self) -> bool {
        self.urgent.is_empty()
            && self.queue.is_empty()
            && self.newest.is_empty()
            && self.current.is_none()
    }

    /// Drops everything: the memory of a lost link is free at once.
    pub(super) fn clear(&mut self) {
        *self = Self {
            superseded: self.superseded,
            ..Self::new(self.in_flight, 0, u32::MAX, 0)
        };
    }
}

#[cfg(test)]
#[path = "outbox_test.rs"]
mod tests;
