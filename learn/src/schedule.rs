//! Learning rates, computed in f64 through `libm`: a function of the step alone, or of it and of the
//! training losses before it.
//!
//! `lr(t) = base * (t + 1) / warmup` for `t < warmup`, then `base * factor(t - warmup)` with the
//! factor of the shape, times what an adaptive shape makes of what it remembers.

use resilin_core::Step;

/// The shape of a learning rate after its warm-up.
pub trait Schedule: Send + Sync {
    /// The factor on the base rate, `clock` steps after the warm-up.
    fn factor(&self, clock: u64) -> f64;

    /// What else the rate depends on, for a shape that looks at losses.
    fn adaptive(&self) -> Option<&dyn Adaptive> {
        None
    }
}

/// Values that a shape may remember.
pub const MEMORY: usize = 8;

/// What a shape remembers of the steps before: all 0 at the start, in every checkpoint.
pub type Memory = [f32; MEMORY];

/// A step that was applied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// Steps since the warm-up before it.
    pub clock: u64,
    /// Mean loss of its rows.
    pub loss: f64,
    /// Steps of an epoch.
    pub epoch: u64,
}

/// A shape that looks at training losses. Each slice keeps its own memory, and all have the same:
/// both functions must be pure.
pub trait Adaptive: Send + Sync {
    /// The factor on the rate of the step that follows.
    fn factor(&self, memory: &Memory) -> f64;

    /// Takes in a step after the warm-up; called once for each, in order, skipped ones left out.
    fn observe(&self, observed: Observed, memory: &mut Memory);
}

/// Always 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant;

impl Schedule for Constant {
    fn factor(&self, _clock: u64) -> f64 {
        1.0
    }
}

/// `decay^floor(clock / every)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepDecay {
    /// Factor of each fall.
    pub decay: f64,
    /// Steps from fall to fall, at least 1.
    pub every: u64,
}

impl Schedule for StepDecay {
    fn factor(&self, clock: u64) -> f64 {
        libm::pow(self.decay, (clock / self.every) as f64)
    }
}

/// `floor + (1 - floor) * (1 + cos(pi * clock / total)) / 2`, and `floor` from `total` on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cosine {
    /// Factor at the end.
    pub floor: f64,
    /// Steps from the end of the warm-up to the end of the run.
    pub total: u64,
}

impl Schedule for Cosine {
    fn factor(&self, clock: u64) -> f64 {
        if clock >= self.total {
            return self.floor;
        }
        let phase = std::f64::consts::PI * (clock as f64 / self.total as f64);
        self.floor + (1.0 - self.floor) * (0.5 * (1.0 + libm::cos(phase)))
    }
}

/// A base rate with a linear warm-up and a shape.
pub struct LearningRate {
    base: f64,
    warmup: u64,
    /// Steps of an epoch.
    epoch: u64,
    shape: Box<dyn Schedule>,
}

impl LearningRate {
    /// `base` per step, reached after `warmup` steps (0 for none), then shaped.
    #[must_use]
    pub fn new(base: f64, warmup: u64, shape: Box<dyn Schedule>) -> Self {
        Self {
            base,
            warmup,
            epoch: 1,
            shape,
        }
    }

    /// With epochs of so many steps, at least 1.
    #[must_use]
    pub fn with_epochs_of(mut self, steps: u64) -> Self {
        self.epoch = steps.max(1);
        self
    }

    /// Whether the rate depends on losses.
    #[must_use]
    pub fn is_adaptive(&self) -> bool {
        self.shape.adaptive().is_some()
    }

    /// Takes in the mean loss of a step that was applied.
    pub fn observe(&self, step: Step, loss: f64, memory: &mut Memory) {
        if let Some(adaptive) = self.shape.adaptive()
            && let Some(clock) = step.0.checked_sub(self.warmup)
        {
            let epoch = self.epoch;
            adaptive.observe(Observed { clock, loss, epoch }, memory);
        }
    }

    /// The rate of a step after those that `memory` has seen.
    #[must_use]
    pub fn lr(&self, step: Step, memory: &Memory) -> f32 {
        let factor = match step.0.checked_sub(self.warmup) {
            Some(clock) => self.shape.factor(clock),
            None => (step.0 + 1) as f64 / self.warmup as f64,
        };
        let adapted = self.shape.adaptive();
        let factor = factor * adapted.map_or(1.0, |adaptive| adaptive.factor(memory));
        (self.base * factor) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(rate: &LearningRate, steps: &[u64]) -> Vec<f32> {
        steps
            .iter()
            .map(|s| rate.lr(Step(*s), &Memory::default()))
            .collect()
    }

    #[test]
    fn constant_after_linear_warmup() {
        let rate = LearningRate::new(0.5, 4, Box::new(Constant));
        assert_eq!(
            rates(&rate, &[0, 1, 2, 3, 4, 99]),
            [0.125, 0.25, 0.375, 0.5, 0.5, 0.5]
        );
        let rate = LearningRate::new(0.5, 0, Box::new(Constant));
        assert_eq!(rates(&rate, &[0, 1]), [0.5, 0.5]);
    }

    #[test]
    fn step_decay_falls_every_n_steps_after_the_warmup() {
        let rate = LearningRate::new(
            8.0,
            1,
            Box::new(StepDecay {
                decay: 0.5,
                every: 3,
            }),
        );
        assert_eq!(
            rates(&rate, &[0, 1, 3, 4, 6, 7, 31]),
            [8.0, 8.0, 8.0, 4.0, 4.0, 2.0, 8.0 / 1024.0]
        );
    }

    #[test]
    fn cosine_ends_at_its_floor() {
        let rate = LearningRate::new(
            2.0,
            0,
            Box::new(Cosine {
                floor: 0.25,
                total: 4,
            }),
        );
        let quarter = 0.25 + 0.75 * 0.5 * (1.0 + std::f64::consts::FRAC_1_SQRT_2);
        assert_eq!(
            rates(&rate, &[0, 1, 2, 4, 9]),
            [2.0, (2.0 * quarter) as f32, 1.25, 0.5, 0.5]
        );
    }
}
