//! What can go wrong in the store, each with what it means for the state and the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Why a call of the store failed. Nothing was announced by a call that failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed; what was durable before still is.
    #[error("cannot {doing} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// The verb, such as `write`.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is too little space; nothing was begun.
    #[error(
        "disk full: {} has {free} bytes free and needs {need}; free some space or choose another --state directory",
        path.display()
    )]
    Full {
        /// The state directory.
        path: PathBuf,
        /// Bytes that the call would have written, with its margin.
        need: u64,
        /// Bytes that are left.
        free: u64,
    },
    /// Another process holds the state directory.
    #[error(
        "state {state} is in use by process {holder}: `resilin status --state {state}` shows the run \
         that it leads; stop it, or choose another --state directory",
        state = path.parent().unwrap_or(path).display()
    )]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The holder's process id as it wrote it down.
        holder: String,
    },
    /// A call did not come back in time: whether it happened is unknown until the state is opened
    /// again (PROTOCOL 28).
    #[error(
        "the store did not answer within {seconds} s ({doing}): check the disk below {}, then start again",
        path.display()
    )]
    Unknown {
        /// What was called.
        doing: &'static str,
        /// The record store's directory.
        path: PathBuf,
        /// The deadline.
        seconds: u64,
    },
    /// The record store failed, without being damaged.
    #[error("cannot {doing} the records below {}: {why}", path.display())]
    Records {
        /// What was called.
        doing: &'static str,
        /// The record store's directory.
        path: PathBuf,
        /// The record store's answer.
        why: String,
    },
    /// Stored bytes are not what was written.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// The call makes no sense in this state; nothing was changed.
    #[error("{0}")]
    Refused(String),
}

impl StoreError {
    /// Wraps a system error with what was being done to which path.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    pub(crate) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_path_buf(),
            why: why.into(),
        }
    }

    /// Whether space on the disk is the reason.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Self::Held { .. }
            | Self::Unknown { .. }
            | Self::Records { .. }
            | Self::Damaged { .. }
            | Self::Refused(_) => false,
        }
    }
}

/// What to do about a system error, where that can be said, with what joins it to the sentence.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "; make it writable or choose another --state directory"
        }
        io::ErrorKind::StorageFull => "; free some space or choose another --state directory",
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "; that is no directory: choose another --state directory"
        }
        // The system knows many more, and its own words are the best there is.
        _ => "",
    }
}

/// The result of a call of the store.
pub type Result<T> = std::result::Result<T, StoreError>;
