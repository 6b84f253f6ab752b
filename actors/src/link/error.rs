//! Why a link ended, was not made, or does not take more.

use std::io;

use resilin_core::frame::FrameError;
use resilin_core::handshake::Refusal;

/// Why a link ended. The first cause wins; both directions end together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The peer closed it between two frames.
    #[error("the peer closed the link")]
    PeerClosed,
    /// This side closed it.
    #[error("closed here: {0}")]
    ClosedHere(String),
    /// The operating system ended it.
    #[error("link lost: {text}")]
    Lost {
        /// The kind, such as a reset.
        kind: io::ErrorKind,
        /// The system's words.
        text: String,
    },
    /// The peer sent what no honest peer sends, or bytes were changed on the way.
    #[error("link dropped: {0}")]
    Frame(#[from] FrameError),
    /// The peer sent more payload than it was granted.
    #[error("link dropped: the peer sent {sent} bytes beyond its window of {window}")]
    WindowOverrun {
        /// Bytes that were not consumed yet.
        sent: u64,
        /// What was granted.
        window: u32,
    },
}

impl LinkError {
    /// Whether the peer or the network just went away; nothing wrong was said.
    #[must_use]
    pub fn is_hang_up(&self) -> bool {
        match self {
            Self::PeerClosed | Self::Lost { .. } => true,
            Self::ClosedHere(_) | Self::Frame(_) | Self::WindowOverrun { .. } => false,
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Lost {
            kind: error.kind(),
            text: error.to_string(),
        }
    }
}

/// Why something was not sent. It was not, and will not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The queue is at its limit; the peer is slow.
    #[error("the link's queue is full: the peer takes nothing; try again later")]
    Full,
    /// The link has ended.
    #[error(transparent)]
    Closed(#[from] LinkError),
    /// The message does not fit a frame.
    #[error(transparent)]
    Message(#[from] FrameError),
}

/// Why no link was made.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody answers there.
    #[error("cannot reach {address}: {source}; is the coordinator running there?")]
    Connect {
        /// What was dialled.
        address: String,
        /// The system's words.
        source: io::Error,
    },
    /// No answer in time.
    #[error("no answer from {address} within {seconds} s")]
    Timeout {
        /// What was dialled.
        address: String,
        /// The deadline.
        seconds: f64,
    },
    /// The peer answered and said no.
    #[error("{address} refused this process: {refusal}")]
    Refused {
        /// What was dialled.
        address: String,
        /// Its reason.
        refusal: Refusal,
    },
    /// The peer is not a Resilin process, or hung up.
    #[error("handshake with {address} failed: {source}")]
    Handshake {
        /// What was dialled.
        address: String,
        /// What was wrong.
        source: LinkError,
    },
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process has it.
    #[error(
        "{address} is in use by another process; stop it or choose another port (0 takes a free one)"
    )]
    InUse {
        /// The address.
        address: String,
    },
    /// Anything else the system says.
    #[error("cannot listen on {address}: {source}")]
    Other {
        /// The address.
        address: String,
        /// The system's words.
        source: io::Error,
    },
}
