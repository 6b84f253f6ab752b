//! Processes that are lost again and again: each time they wait longer before they get work.
//!
//! A process is known by its name, host and process id: what its supervisor starts in its place is
//! another one, and counts against the supervisor's budget instead. The first loss costs nothing,
//! each further one twice as much, and a stable minute clears the account.

use crate::sorted::SortedMap;
use crate::time::{Span, Time};

/// The longest wait, in leases.
const LONGEST: u64 = 64;
/// Leases without a loss after which a process is as good as new.
const STABLE: u64 = 60;
/// Names that are remembered; beyond it the one that was lost longest ago is forgotten.
const NAMES: usize = 4096;

#[derive(Clone, Copy, Debug, Default)]
struct History {
    losses: u32,
    lost: Time,
    /// When it may work, or could since.
    admitted: Time,
}

/// The losses of every name.
#[derive(Clone, Debug)]
pub(super) struct Flapping {
    lease: Span,
    names: SortedMap<String, History>,
}

impl Flapping {
    pub(super) fn new(lease: Span) -> Self {
        Self {
            lease,
            names: SortedMap::new(),
        }
    }

    /// Until when a process that joins is to get no work, if it has to wait.
    pub(super) fn joined(&mut self, now: Time, name: &str) -> Option<Time> {
        let history = self.names.get_mut(name)?;
        let doublings = history.losses.checked_sub(2);
        let wait = doublings.map_or(0, |n| 1_u64.checked_shl(n).unwrap_or(LONGEST).min(LONGEST));
        history.admitted = now.max(history.lost + self.lease.times(wait));
        (history.admitted > now).then_some(history.admitted)
    }

    /// A process was lost; one that left in peace is not told of.
    pub(super) fn lost(&mut self, now: Time, name: &str) {
        let stable = self.lease.times(STABLE);
        if !self.names.contains_key(name) && self.names.len() >= NAMES {
            let oldest = self.names.iter().min_by_key(|(_, history)| history.lost);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.names.remove(&name);
            }
        }
        let history = self.names.entry(name.into()).or_default();
        if history.admitted + stable <= now {
            history.losses = 0;
        }
        history.losses = history.losses.saturating_add(1);
        history.lost = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Span = Span::from_millis(1000);

    fn at(leases: u64) -> Time {
        Time(0) + LEASE.times(leases)
    }

    #[test]
    fn each_loss_after_the_first_costs_twice_as_much_and_a_stable_minute_clears_all() {
        let mut flapping = Flapping::new(LEASE);
        let mut now = 100;
        assert_eq!(flapping.joined(at(now), "a:1"), None);
        flapping.lost(at(now), "a:1");
        assert_eq!(flapping.joined(at(now), "a:1"), None, "once is nothing");
        for wait in [1, 2, 4, 8, 16, 32, 64, 64] {
            flapping.lost(at(now), "a:1");
            let until = Some(at(now + wait));
            assert_eq!(flapping.joined(at(now), "a:1"), until, "{wait} leases");
            assert_eq!(flapping.joined(at(now), "b:1"), None, "another process");
            now += wait;
        }
        flapping.lost(at(now + STABLE), "a:1");
        assert_eq!(flapping.joined(at(now + STABLE), "a:1"), None);
    }

    #[test]
    fn only_so_many_names_are_remembered() {
        let mut flapping = Flapping::new(LEASE);
        for name in 0..NAMES as u64 + 10 {
            flapping.lost(at(name), &format!("{name}"));
        }
        assert_eq!(flapping.names.len(), NAMES);
        assert!(!flapping.names.contains_key("9") && flapping.names.contains_key("10"));
    }
}
