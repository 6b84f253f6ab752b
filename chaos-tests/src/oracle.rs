//! What must come out: the serial run of the same job, with the digest of every block of every
//! version, so that a slice can be judged the moment it has applied a step.

use std::sync::Arc;

use resilin_core::Step;
use resilin_core::sorted::{SortedMap, SortedSet};
use resilin_learn::kernel::{BlockHasher, Digest};
use resilin_learn::model::Score;
use resilin_learn::reference::{Fate, Progress, Reference, run};
use resilin_learn::task::Task;

/// The serial run of a job.
pub struct Oracle {
    /// The job.
    pub task: Arc<Task>,
    /// Chain lines by version, from the initial weights on.
    pub chain: Vec<Digest>,
    /// Block digests by version.
    pub blocks: Vec<Vec<Digest>>,
    /// Steps left out because of non-finite values.
    pub skipped: SortedSet<Step>,
    /// Why the run ends early, if it does.
    pub halt: Option<String>,
    /// Scores on the test rows, by the pass over the data that had ended, from 1.
    pub scores: SortedMap<u64, Score>,
}

impl Oracle {
    /// Runs the job to its end or to the step at which it halts.
    #[must_use]
    pub fn of(task: &Arc<Task>) -> Self {
        let mut oracle = Self {
            task: Arc::clone(task),
            chain: Vec::new(),
            blocks: Vec::new(),
            skipped: SortedSet::new(),
            halt: None,
            scores: SortedMap::new(),
        };
        let mut serial = Reference::new(task);
        oracle.keep(&serial);
        for step in (0..task.total_steps).map(Step) {
            match serial.step(step) {
                Ok(report) => {
                    if report.fate == Fate::Skipped {
                        oracle.skipped.insert(step);
                    }
                    oracle.keep(&serial);
                }
                Err(error) => {
                    oracle.halt = Some(error.to_string());
                    return oracle;
                }
            }
        }
        let scores = &mut oracle.scores;
        let watch = |progress: Progress| match progress {
            Progress::Start { .. } | Progress::Step(_) => {}
            Progress::Epoch { epoch, test } => scores.extend(test.map(|test| (epoch + 1, test))),
        };
        let whole = run(task, watch).expect("it just went through");
        assert_eq!(Some(&whole.chain), oracle.chain.last());
        oracle
    }

    fn keep(&mut self, serial: &Reference) {
        let (layout, weights) = (&self.task.layout, serial.weights());
        let mut hasher = BlockHasher::default();
        let digests = (0..layout.blocks())
            .map(|block| hasher.digest(&weights[layout.values(block..block + 1)]))
            .collect();
        self.blocks.push(digests);
        self.chain.push(serial.chain());
    }
}
