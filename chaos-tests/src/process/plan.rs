//! What goes wrong in a run of real processes, and when. A plan names no process: a fault chooses
//! among those that live at its moment, so one plan fits any run.

use std::fmt;

use resilin_core::time::Span;

/// Most faults of one plan: one every 10 ms for almost three hours.
pub const MOST_FAULTS: usize = 1_000_000;

/// Longest plan.
pub const LONGEST: Span = Span::from_millis(7 * 24 * 3600 * 1000);

/// Faults in the order of their moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed that it was drawn from; of a plan written by hand, anything.
    pub seed: u64,
    /// When it ends; later faults are none.
    pub duration: Span,
    /// What happens.
    pub faults: Vec<Planned>,
}

/// A fault and its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// How long after the beginning.
    pub at: Span,
    /// Whom it meets: counted through those that are there, modulo their number.
    pub choice: u32,
    /// What goes wrong.
    pub fault: Fault,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL.
    Kill(Role),
    /// SIGSTOP, and SIGCONT so long after it.
    Freeze(Role, Span),
    /// All connections that a worker or a shard process dialled are reset.
    Cut,
    /// Its connections stay open and carry nothing for so long.
    Silence(Way, Span),
    /// Its connections carry so many bytes a second each way, for so long.
    Throttle(u64, Span),
    /// What its connections carry comes later by the first span, for the second.
    Delay(Span, Span),
}

/// The kind of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Evaluates gradients.
    Worker,
    /// Keeps slices of the weights, in a process of its own.
    Shard,
    /// Leads the run.
    Coordinator,
}

/// A direction of the connections that a process dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From the process.
    Up,
    /// To the process.
    Down,
    /// Either.
    Both,
}

/// What a fault is, without its numbers: the unit of counts and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// [`Fault::Kill`].
    Kill(Role),
    /// [`Fault::Freeze`].
    Freeze(Role),
    /// [`Fault::Cut`].
    Cut,
    /// [`Fault::Silence`].
    Silence,
    /// [`Fault::Throttle`].
    Throttle,
    /// [`Fault::Delay`].
    Delay,
}

impl Fault {
    /// What it is.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Kill(role) => Kind::Kill(role),
            Self::Freeze(role, _) => Kind::Freeze(role),
            Self::Cut => Kind::Cut,
            Self::Silence(..) => Kind::Silence,
            Self::Throttle(..) => Kind::Throttle,
            Self::Delay(..) => Kind::Delay,
        }
    }

    /// How long it lasts; nothing for what happens at once.
    #[must_use]
    pub fn lasts(self) -> Span {
        match self {
            Self::Kill(_) | Self::Cut => Span::ZERO,
            Self::Freeze(_, span)
            | Self::Silence(_, span)
            | Self::Throttle(_, span)
            | Self::Delay(_, span) => span,
        }
    }
}

impl Kind {
    /// Whether it spoils connections and not a process.
    #[must_use]
    pub fn is_link(self) -> bool {
        match self {
            Self::Kill(_) | Self::Freeze(_) => false,
            Self::Cut | Self::Silence | Self::Throttle | Self::Delay => true,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Worker => "worker",
            Self::Shard => "shard",
            Self::Coordinator => "coordinator",
        })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Both => "both",
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(role) => write!(f, "kill {role}"),
            Self::Freeze(role) => write!(f, "freeze {role}"),
            Self::Cut => f.write_str("cut link"),
            Self::Silence => f.write_str("silence link"),
            Self::Throttle => f.write_str("throttle link"),
            Self::Delay => f.write_str("delay link"),
        }
    }
}

impl fmt::Display for Fault {
    /// As in `freeze worker for 1.500 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::Kill(_) | Self::Cut => write!(f, "{kind}"),
            Self::Freeze(_, span) => write!(f, "{kind} for {span}"),
            Self::Silence(Way::Both, span) => write!(f, "{kind} both ways for {span}"),
            Self::Silence(way, span) => write!(f, "{kind} {way} for {span}"),
            Self::Throttle(bytes, span) => write!(f, "{kind} to {bytes} bytes/s for {span}"),
            Self::Delay(delay, span) => write!(f, "{kind} by {delay} for {span}"),
        }
    }
}
