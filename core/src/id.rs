//! The names of things: one newtype each, so that a step is never taken for a partition.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number that follows.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// One update of the global weights; the clock of a run. Step `t` evaluates on weights `t` and
    /// makes weights `t + 1`.
    Step(u64)
}
number! {
    /// One of the fixed ranges of each epoch's sample order: the unit of reassignment.
    PartitionId(u32)
}
number! {
    /// A slice of the parameters: the blocks of one shard, counted in block order.
    SliceId(u16)
}
number! {
    /// Number of the slice layout; it changes when the shard count does (PROTOCOL 4).
    MapNumber(u32)
}
number! {
    /// A connection, numbered by the shell that owns it; never sent, never reused in a process.
    LinkId(u64)
}
number! {
    /// An opaque handle to a tensor that the shell or the simulator holds for a machine.
    Tensor(u64)
}

macro_rules! reigned {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub struct $name {
            /// The coordinator's life that issued the number (PROTOCOL 1).
            pub reign: u64,
            /// Counts up within the reign.
            pub number: u32,
        }

        impl $name {
            /// The first one of a reign.
            #[must_use]
            pub fn first(reign: u64) -> Self {
                Self { reign, number: 1 }
            }

            /// The one that follows in the same reign.
            #[must_use]
            pub fn next(self) -> Self {
                Self { reign: self.reign, number: self.number + 1 }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}.{}", self.reign, self.number)
            }
        }
    };
}

reigned! {
    /// Version of a job's membership; the next one begins when it changes.
    Generation
}
reigned! {
    /// One life of one process, given by the coordinator at join.
    Incarnation
}
reigned! {
    /// A branch of a run's history: every rollback begins a new one (PROTOCOL 2).
    Timeline
}
reigned! {
    /// Who serves a slice (PROTOCOL 3).
    View
}

impl Incarnation {
    /// For people: `#NUMBER` in the coordinator's life that gave it, the whole number in others.
    #[must_use]
    pub fn within(self, reign: u64) -> String {
        match self.reign == reign {
            true => format!("#{}", self.number),
            false => self.to_string(),
        }
    }
}

/// Names a run on the wire: the first eight bytes of the digest over every job key that decides
/// bits. Two coordinators' runs of one job share it; reign and timeline tell those apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub u64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
