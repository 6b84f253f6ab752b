//! The restart budget: so many failures within a window, and no more. What failed since the run last got
//! on counts however long ago: where a start takes longer than the window has room for, an error that
//! comes at every try would be tried for ever.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Counts failures.
pub(super) struct Budget {
    restarts: usize,
    window: Duration,
    spent: VecDeque<Instant>,
    /// Of these, how many were spent before the run last got on.
    outlived: usize,
}

impl Budget {
    /// A budget of `restarts` within `window`.
    pub(super) fn new(restarts: u32, window: Duration) -> Self {
        Self {
            restarts: restarts as usize,
            window,
            spent: VecDeque::new(),
            outlived: 0,
        }
    }

    /// A step was committed.
    pub(super) fn got_on(&mut self) {
        self.outlived = self.spent.len();
    }

    /// Takes one restart; false if none is left.
    pub(super) fn spend(&mut self, now: Instant) -> bool {
        while let Some(first) = self.spent.front()
            && self.outlived > 0
            && now.duration_since(*first) >= self.window
        {
            self.spent.pop_front();
            self.outlived -= 1;
        }
        if self.spent.len() >= self.restarts {
            return false;
        }
        self.spent.push_back(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_comes_back_after_the_window() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut budget = Budget::new(2, second * 10);
        let spent = [0, 1, 2, 10, 11, 12].map(|at| {
            budget.got_on();
            budget.spend(start + second * at)
        });
        assert_eq!(spent, [true, true, false, true, true, false]);
    }

    #[test]
    fn what_was_spent_does_not_come_back_while_nothing_gets_on() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut budget = Budget::new(3, second * 10);
        assert!(budget.spend(start));
        budget.got_on();
        let spent = [20, 40, 60, 80].map(|at| budget.spend(start + second * at));
        assert_eq!(spent, [true, true, true, false]);
    }
}
