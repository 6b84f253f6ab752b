//! A process's clock: it may run a little fast or slow, and leap ahead when its machine was paused.

use resilin_core::time::{Span, Time};

const MILLION: i128 = 1_000_000;

/// What a process takes for the time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// At this moment ...
    since: Time,
    /// ... it said this.
    said: Time,
    /// Nanoseconds that it gains in a millisecond; negative if it is slow.
    gain: i32,
}

impl Clock {
    /// What it says at a moment.
    pub(super) fn read(&self, now: Time) -> Time {
        let passed = i128::from(now.since(self.since).0) * (MILLION + i128::from(self.gain));
        self.said + Span((passed / MILLION) as u64)
    }

    /// The first moment at which it says `local` or later.
    pub(super) fn when(&self, local: Time) -> Time {
        let left = i128::from(local.since(self.said).0) * MILLION;
        let rate = MILLION + i128::from(self.gain);
        self.since + Span(((left + rate - 1) / rate) as u64)
    }

    /// It leaps ahead.
    pub(super) fn leap(&mut self, now: Time, span: Span) {
        (self.said, self.since) = (self.read(now) + span, now);
    }

    /// From now on it gains so many nanoseconds in a millisecond.
    pub(super) fn drift(&mut self, now: Time, gain: i32) {
        (self.said, self.since, self.gain) = (self.read(now), now, gain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_and_when_it_says_it_fit_together() {
        let mut clock = Clock::default();
        clock.drift(Time(1_000), -30_000);
        clock.leap(Time(5_000_000), Span(77));
        for local in [4_850_108, 5_000_000, 123_456_789] {
            let when = clock.when(Time(local));
            assert!(clock.read(when) >= Time(local), "{local}");
            assert!(clock.read(Time(when.0 - 1)) < Time(local), "{local}");
        }
        assert_eq!(clock.read(Time(5_000_000)), Time(4_850_030 + 77));
    }
}
