//! When to dial again: doubling pauses with a cap, spread so that many processes that lost one
//! coordinator do not return in the same instant.

use resilin_core::Span;

/// The pauses between attempts.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Span,
    cap: Span,
    seed: u64,
    attempt: u32,
}

impl Backoff {
    /// Pauses of about `first`, 2 `first`, 4 `first` ... up to `cap`; each is between half and the
    /// whole of that, drawn by `seed` (such as the process id).
    #[must_use]
    pub fn new(first: Span, cap: Span, seed: u64) -> Self {
        Self {
            first,
            cap,
            seed,
            attempt: 0,
        }
    }

    /// The pause before the next attempt.
    #[must_use]
    pub fn next_pause(&mut self) -> Span {
        // 2^32 times a pause is past every cap; the shift stays defined.
        let full = self.first.times(1 << self.attempt.min(32)).min(self.cap);
        let draw = scramble(self.seed ^ u64::from(self.attempt));
        self.attempt = self.attempt.saturating_add(1);
        let half = full.0 / 2;
        Span(full.0 - half + draw % (half + 1))
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood 2014): neighbours give unrelated values.
fn scramble(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_cap_and_seeds_differ() {
        let pauses = |seed| {
            let mut backoff = Backoff::new(Span::from_millis(10), Span::from_millis(100), seed);
            (0..40).map(|_| backoff.next_pause()).collect::<Vec<_>>()
        };
        for seed in 0..50 {
            let full = [10, 20, 40, 80].into_iter().chain(std::iter::repeat(100));
            for (pause, full) in pauses(seed).into_iter().zip(full.map(Span::from_millis)) {
                assert!(
                    full.part(2) <= pause && pause <= full,
                    "seed {seed}: {pause} of {full}"
                );
            }
        }
        assert_ne!(pauses(1), pauses(2));
        assert_eq!(pauses(1), pauses(1));
    }

    #[test]
    fn a_success_starts_over() {
        let mut backoff = Backoff::new(Span::from_millis(10), Span::from_millis(100), 3);
        let first = backoff.next_pause();
        let second = backoff.next_pause();
        assert!(second > first);
        backoff.reset();
        assert_eq!(backoff.next_pause(), first);
    }
}
