//! How a process ends: one line for a person, and the exit code that scripts rely on.

use std::fmt;

use resilin_checkpoint::StoreError;
use resilin_core::Step;
use resilin_learn::rehearsal::RehearsalError;

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Finished, released or drained.
    Done,
    /// A port, a file, the network or a training step failed.
    Fault(String),
    /// The command line or the job file is wrong.
    Usage(String),
    /// This process is not accepted, or the state directory is another's.
    Refused(String),
    /// The store is damaged beyond rebuild.
    Damaged(String),
    /// There were too few workers for too long.
    WaitedTooLong(String),
    /// The run rests at this durable version and can be taken up again.
    Stopped(Step),
    /// The coordinator is gone for longer than the redial limit.
    Gone(String),
}

impl Exit {
    /// The code of the process.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Fault(_) => 1,
            Self::Usage(_) => 2,
            Self::Refused(_) => 3,
            Self::Damaged(_) => 4,
            Self::WaitedTooLong(_) => 5,
            Self::Stopped(_) => 6,
            Self::Gone(_) => 75,
        }
    }
}

impl Exit {
    /// The end of a run whose model does not stand the first rows: nothing was begun, and no other
    /// process could do better.
    #[must_use]
    pub fn of_first_rows(error: RehearsalError) -> Self {
        let line = error.to_string();
        match error {
            RehearsalError::Evaluate(_) => Self::Usage(line),
            RehearsalError::Varies { .. } => Self::Refused(line),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Fault(cause)
            | Self::Usage(cause)
            | Self::Refused(cause)
            | Self::Damaged(cause)
            | Self::WaitedTooLong(cause)
            | Self::Gone(cause) => f.write_str(cause),
            Self::Stopped(Step(0)) => {
                f.write_str("stopped before the first step; the same command line begins there")
            }
            Self::Stopped(step) => write!(
                f,
                "stopped at step {step}, which is durable; the same command line, without --fresh, \
                 goes on from there"
            ),
        }
    }
}

impl From<RehearsalError> for Exit {
    fn from(error: RehearsalError) -> Self {
        let line = error.to_string();
        match error {
            RehearsalError::Evaluate(_) => Self::Fault(line),
            RehearsalError::Varies { .. } => Self::Refused(line),
        }
    }
}

impl From<StoreError> for Exit {
    fn from(error: StoreError) -> Self {
        let line = error.to_string();
        match error {
            StoreError::Held { .. } | StoreError::Refused(_) => Self::Refused(line),
            StoreError::Damaged { .. } => Self::Damaged(line),
            StoreError::Io { .. }
            | StoreError::Full { .. }
            | StoreError::Unknown { .. }
            | StoreError::Records { .. } => Self::Fault(line),
        }
    }
}
