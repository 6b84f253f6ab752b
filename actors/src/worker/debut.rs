//! Where the time of a worker goes from its start to its first contribution: one line of the log for
//! each milestone, the first time that it is reached.

use std::time::Instant;

use resilin_core::sorted::SortedSet;

/// What a worker has reached, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Milestone {
    /// The coordinator said welcome.
    Welcomed,
    /// Rows and model are there.
    Built,
    /// The first step's weights are there as a whole.
    Weights,
    /// The first sum is computed.
    Computed,
    /// Every slice has stored its part of a sum.
    Stored,
}

impl Milestone {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [
        Self::Welcomed,
        Self::Built,
        Self::Weights,
        Self::Computed,
        Self::Stored,
    ];

    /// As the log has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Welcomed => "welcomed",
            Self::Built => "built",
            Self::Weights => "weights",
            Self::Computed => "computed",
            Self::Stored => "stored",
        }
    }

    /// Reads a line of a worker's log: which milestone was reached, and the milliseconds since the
    /// process began to run.
    #[must_use]
    pub fn read(line: &str) -> Option<(Self, f64)> {
        let (_, fields) = line.split_once("first time milestone=\"")?;
        let (word, ms) = fields.split_once("\" ms=")?;
        let milestone = Self::ALL.into_iter().find(|each| each.word() == word)?;
        Some((milestone, ms.trim().parse().ok()?))
    }
}

/// The milestones of one process.
pub(super) struct Debut {
    begun: Instant,
    reached: SortedSet<Milestone>,
}

impl Debut {
    /// The process begins.
    pub(super) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            reached: SortedSet::new(),
        }
    }

    /// Tells of it, if it is the first time.
    pub(super) fn reach(&mut self, milestone: Milestone) {
        if self.reached.insert(milestone) {
            let ms = self.begun.elapsed().as_secs_f64() * 1e3;
            tracing::info!(milestone = milestone.word(), ms, "first time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_and_when() {
        let line = "2026-11-30T02:11:32.6Z  INFO first time milestone=\"weights\" ms=161.25";
        assert_eq!(Milestone::read(line), Some((Milestone::Weights, 161.25)));
        for other in ["", "INFO run opened", "first time milestone=\"lunch\" ms=1"] {
            assert_eq!(Milestone::read(other), None, "{other}");
        }
    }
}
