//! `plateau`: the learning rate falls when the training loss stops falling, after
//! `ReduceLROnPlateau` of PyTorch.
//!
//! Looked at is the mean loss of the training rows since the last look. Every slice knows the loss of
//! a step when it applies it, and to the bit the same one: so each holds the same state, nobody is
//! waited for, and what a look after step t decides takes effect with step t + 1, whatever died.

use crate::schedule::{Adaptive, Memory, Observed, Schedule};

/// Places of the state: the sum of losses in two parts, the steps in it, the best mean, whether there
/// is one, looks without a better one, falls, and looks that are still waited after a fall.
const SUM: usize = 0;
const REST: usize = 1;
const STEPS: usize = 2;
const BEST: usize = 3;
const LOOKED: usize = 4;
const BAD: usize = 5;
const FALLS: usize = 6;
const WAIT: usize = 7;

/// The most falls and looks that are counted: f32 has all whole numbers up to here.
const MOST: f32 = 1e6;

/// When and by how much the rate falls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// Factor of each fall.
    pub decay: f64,
    /// Steps from one look to the next; `None` for those of an epoch.
    pub every: Option<u64>,
    /// Looks without a better loss that are borne; the next one brings a fall.
    pub patience: u32,
    /// Share by which a loss must be below the best one to be better.
    pub threshold: f64,
    /// Looks after a fall that do not count.
    pub cooldown: u32,
    /// The factor on the rate falls no lower.
    pub floor: f64,
}

impl Schedule for Plateau {
    fn factor(&self, _clock: u64) -> f64 {
        1.0
    }

    fn adaptive(&self) -> Option<&dyn Adaptive> {
        Some(self)
    }
}

impl Adaptive for Plateau {
    fn factor(&self, memory: &Memory) -> f64 {
        libm::pow(self.decay, f64::from(memory[FALLS])).max(self.floor)
    }

    fn observe(&self, observed: Observed, memory: &mut Memory) {
        // A loss that is no number tells nothing; whether the step counts is another's matter.
        if observed.loss.is_finite() {
            // An f64 in two halves: a checkpoint holds f32.
            let sum = f64::from(memory[SUM]) + f64::from(memory[REST]) + observed.loss;
            memory[SUM] = sum as f32;
            memory[REST] = (sum - f64::from(memory[SUM])) as f32;
            memory[STEPS] += 1.0;
        }
        let every = self.every.unwrap_or(observed.epoch);
        if (observed.clock + 1).is_multiple_of(every) && memory[STEPS] > 0.0 {
            let sum = f64::from(memory[SUM]) + f64::from(memory[REST]);
            self.look((sum / f64::from(memory[STEPS])) as f32, memory);
            [memory[SUM], memory[REST], memory[STEPS]] = [0.0; 3];
        }
    }
}

impl Plateau {
    fn look(&self, mean: f32, memory: &mut Memory) {
        let best = f64::from(memory[BEST]);
        let better = memory[LOOKED] == 0.0 || f64::from(mean) < best - self.threshold * best.abs();
        memory[LOOKED] = 1.0;
        if better {
            memory[BEST] = mean;
            memory[BAD] = 0.0;
        } else {
            memory[BAD] += 1.0;
        }
        if memory[WAIT] > 0.0 {
            memory[WAIT] -= 1.0;
            memory[BAD] = 0.0;
        }
        if memory[BAD] > self.patience as f32 {
            memory[FALLS] = (memory[FALLS] + 1.0).min(MOST);
            memory[WAIT] = self.cooldown as f32;
            memory[BAD] = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Plateau = Plateau {
        decay: 0.5,
        every: Some(2),
        patience: 1,
        threshold: 0.1,
        cooldown: 0,
        floor: 0.2,
    };

    /// The factor after each of some losses, one a step.
    fn factors(rule: &Plateau, losses: &[f64]) -> Vec<f64> {
        let mut memory = Memory::default();
        let each = (0..).zip(losses).map(|(clock, loss)| {
            let observed = Observed {
                clock,
                loss: *loss,
                epoch: 3,
            };
            rule.observe(observed, &mut memory);
            Adaptive::factor(rule, &memory)
        });
        each.collect()
    }

    #[test]
    fn it_falls_after_looks_without_a_better_mean() {
        // Means of two: 4, 2, 2 (bad), 1.9 (not a tenth below 2: bad, a fall).
        let losses = [5.0, 3.0, 2.0, 2.0, 1.0, 3.0, 1.9, 1.9, 0.1, 0.1];
        let expected = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5];
        assert_eq!(factors(&RULE, &losses), expected);
    }

    #[test]
    fn it_stops_at_its_floor_and_waits_after_a_fall() {
        let flat = [1.0; 20];
        let each = Plateau {
            every: Some(1),
            patience: 0,
            ..RULE
        };
        assert_eq!(factors(&each, &flat[..5]), [1.0, 0.5, 0.25, 0.2, 0.2]);
        let waits = Plateau {
            cooldown: 2,
            ..each
        };
        let expected = [1.0, 0.5, 0.5, 0.5, 0.25];
        assert_eq!(factors(&waits, &flat[..5]), expected);
        let epochs = Plateau {
            every: None,
            ..each
        };
        let expected = [1.0, 1.0, 1.0, 1.0, 1.0, 0.5];
        assert_eq!(factors(&epochs, &flat[..6]), expected, "an epoch of three");
    }

    #[test]
    fn losses_below_zero_fall_too_and_others_are_no_loss() {
        let each = Plateau {
            every: Some(1),
            patience: 0,
            ..RULE
        };
        let losses = [-1.0, -1.05, -2.0, f64::NAN, f64::INFINITY, -3.0];
        assert_eq!(factors(&each, &losses), [1.0, 0.5, 0.5, 0.5, 0.5, 0.5]);
    }

    #[test]
    fn a_long_sum_keeps_small_losses() {
        let rule = Plateau {
            every: Some(1 << 22),
            ..RULE
        };
        let mut memory = Memory::default();
        for clock in 0..100_000 {
            let loss = if clock == 0 { 1e6 } else { 1e-3 };
            let epoch = 1;
            rule.observe(Observed { clock, loss, epoch }, &mut memory);
        }
        let sum = f64::from(memory[SUM]) + f64::from(memory[REST]);
        assert!((sum - 1_000_099.999).abs() < 1e-2, "{sum}");
    }
}
