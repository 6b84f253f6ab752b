//! Decoding, in one place: a message's decoder is long, and compiled where it is used. Whatever
//! reads messages, from links to the simulator, shares those that are made here.

use serde::de::DeserializeOwned;

use super::decode::Decoder;
use super::{Credit, DataHeader, FrameError};
use crate::handshake::{Hello, HelloReply};
use crate::ledger::Record;
use crate::message;

/// What can come in a frame.
pub trait Message: Sized {
    /// Decodes a control payload or a header.
    ///
    /// # Errors
    /// The bytes are no such message, or there are bytes after it.
    fn decode(bytes: &[u8]) -> Result<Self, FrameError>;
}

macro_rules! messages {
    ($($message:ty),* $(,)?) => {
        $(impl Message for $message {
            fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
                decode_message(bytes)
            }
        })*
    };
}

messages![
    Credit,
    DataHeader,
    Hello,
    HelloReply,
    Record,
    message::CoordinatorSays,
    message::HostSays,
    message::HostTold,
    message::HostWelcome,
    message::ReplicaSays,
    message::ShardOrder,
    message::ShardReport,
    message::ShardSays,
    message::SliceSays,
    message::StoreAsks,
    message::StoreSays,
    message::Welcome,
    message::WorkerAsks,
    message::WorkerSays,
];

/// Decodes a message that is no [`Message`]; bytes after it are an error.
///
/// # Errors
/// As [`Message::decode`].
pub fn decode_message<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, FrameError> {
    let mut decoder = Decoder::new(bytes);
    let message = M::deserialize(&mut decoder)?;
    match decoder.rest() as u64 {
        0 => Ok(message),
        trailing => Err(FrameError::Trailing(trailing)),
    }
}
