//! The restart budget: so many failures within a window, and no more.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Counts failures.
pub(super) struct Budget {
    restarts: usize,
    window: Duration,
    spent: VecDeque<Instant>,
}

impl Budget {
    /// A budget of `restarts` within `window`.
    pub(super) fn new(restarts: u32, window: Duration) -> Self {
        Self {
            restarts: restarts as usize,
            window,
            spent: VecDeque::new(),
        }
    }

    /// Takes one restart; false if none is left.
    pub(super) fn spend(&mut self, now: Instant) -> bool {
        while let Some(first) = self.spent.front()
            && now.duration_since(*first) >= self.window
        {
            self.spent.pop_front();
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
        let spent: Vec<bool> = [0, 1, 2, 10, 11, 12]
            .map(|at| budget.spend(start + second * at))
            .into();
        assert_eq!(spent, [true, true, false, true, true, false]);
    }
}
