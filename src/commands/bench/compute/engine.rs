//! Gradient steps of a task on one thread, and nothing else: the gradient of all partitions, and the
//! update of the weights. Digests, norms and rows that are read belong to a run, not to these.

use std::sync::Arc;
use std::time::Instant;

use resilin_actors::Exit;
use resilin_core::Step;
use resilin_learn::kernel::Evaluator;
use resilin_learn::optimizer::Update;
use resilin_learn::schedule::Memory;
use resilin_learn::task::Task;
use rustix::time::{ClockId, clock_gettime};

use super::super::outside::Took;

/// Values updated at a time, as a slice does it.
const TILE: usize = 2048;

/// A model in training on the rows of step 0.
pub(super) struct Engine {
    task: Arc<Task>,
    evaluator: Evaluator,
    weights: Vec<f32>,
    next: Vec<f32>,
    gradient: Vec<f32>,
    moments: Vec<Vec<f32>>,
}

impl Engine {
    pub(super) fn new(task: &Arc<Task>) -> Self {
        let weights = task.initial_weights();
        let moments = task.rule.optimizer.moments().iter();
        Self {
            moments: moments.map(|_| vec![0.0; weights.len()]).collect(),
            next: weights.clone(),
            gradient: weights.clone(),
            weights,
            evaluator: Evaluator::new(Arc::clone(task)),
            task: Arc::clone(task),
        }
    }

    /// Makes steps, and says what they took of this thread.
    pub(super) fn steps(&mut self, count: u32) -> Result<Took, Exit> {
        let (begun, used) = (Instant::now(), processor_seconds());
        for _ in 0..count {
            self.step()?;
        }
        Ok(Took {
            wall_s: begun.elapsed().as_secs_f64(),
            cpu_s: processor_seconds() - used,
        })
    }

    fn step(&mut self) -> Result<(), Exit> {
        let (step, root) = (Step(0), self.task.tree.root());
        let result = self
            .evaluator
            .evaluate(&self.weights, step, root, &mut self.gradient)
            .map_err(|error| Exit::Fault(error.to_string()))?;
        let rule = &self.task.rule;
        let length = self.weights.len();
        for start in (0..length).step_by(TILE) {
            let range = start..length.min(start + TILE);
            let weight = result.outcome.weight as f32;
            let sums = &mut self.gradient;
            rule.prepare(weight, &self.weights, sums, range.clone());
            rule.optimizer.apply(Update {
                step,
                learning_rate: rule.rate.lr(step, &Memory::default()),
                scale: 1.0,
                range,
                weights: &self.weights,
                gradient: &self.gradient,
                next: &mut self.next,
                moments: &mut self.moments,
            });
        }
        std::mem::swap(&mut self.weights, &mut self.next);
        Ok(())
    }
}

/// What this thread has had of a processor.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
