//! The compute threads: gradients of nodes first, scores of test rows when there is nothing else.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use actix::Addr;
use resilin_core::machine::worker::Regrouped;
use resilin_core::message::TaskScore;
use resilin_core::tree::Node;
use resilin_core::{PartitionId, Step, Tensor, Timeline};
use resilin_learn::kernel::{Early, EvaluateError, Evaluator, NodeResult, Which, score_range};
use resilin_learn::task::Task;

use super::actor::{Audited, Coming, Evaluated, Failed, Scored, WorkerActor};
use super::parts::Parts;
use super::tensors::Whole;
use crate::link::{BufferPool, OutValues};

/// Compute time after which older measurements count half, in seconds.
const MEMORY: f64 = 2.0;

/// The threads' common desk.
#[derive(Clone)]
pub(super) struct Crew(Arc<Desk>);

struct Desk {
    queue: Mutex<Queue>,
    more: Condvar,
    speed: Mutex<Speed>,
    pool: BufferPool,
    sums: AtomicU64,
}

#[derive(Default)]
struct Queue {
    /// What steps ask for, in the order in which they asked.
    steps: VecDeque<Work>,
    scores: VecDeque<(Arc<Scoring>, u32)>,
    /// The newest step whose sums every slice has.
    stored: Option<Step>,
}

impl Queue {
    fn take(&mut self) -> Option<Work> {
        let step = self.steps.pop_front();
        step.or_else(|| {
            let (scoring, task) = self.scores.pop_front()?;
            Some(Work::Score(scoring, task))
        })
    }
}

/// Nodes of one step.
struct Batch {
    timeline: Timeline,
    step: Step,
    weights: Arc<Whole>,
    left: Mutex<usize>,
}

/// Leaves of one step, for comparison.
struct Auditing {
    timeline: Timeline,
    step: Step,
    weights: Arc<Whole>,
}

/// Tasks on one version.
struct Scoring {
    timeline: Timeline,
    version: Step,
    weights: Arc<Whole>,
}

enum Work {
    Prepare,
    Regroup(Regrouped),
    Evaluate(Arc<Batch>, Node),
    Audit(Arc<Auditing>, PartitionId),
    Score(Arc<Scoring>, u32),
}

#[derive(Clone, Copy, Default)]
struct Speed {
    samples: f64,
    seconds: f64,
}

/// One node's sum.
pub(super) struct Sum {
    pub(super) node: Node,
    pub(super) tensor: Tensor,
    pub(super) values: OutValues,
    pub(super) result: NodeResult,
}

impl Crew {
    /// Threads are started by [`Self::start`].
    pub(super) fn new(pool: BufferPool) -> Self {
        Self(Arc::new(Desk {
            queue: Mutex::default(),
            more: Condvar::new(),
            speed: Mutex::default(),
            pool,
            sums: AtomicU64::new(0),
        }))
    }

    /// Starts `[cluster] compute_threads` threads; they live as long as the process.
    pub(super) fn start(&self, task: &Arc<Task>, worker: &Addr<WorkerActor>) -> io::Result<()> {
        for number in 0..task.job.cluster.compute_threads {
            let (desk, worker) = (Arc::clone(&self.0), worker.clone());
            let evaluator = Evaluator::new(Arc::clone(task));
            let task = Arc::clone(task);
            thread::Builder::new()
                .name(format!("compute-{number}"))
                .spawn(move || desk.work(&task, evaluator, &worker))?;
        }
        Ok(())
    }

    /// Has memory ready before the first weights are here: what they land in, and a sum.
    pub(super) fn prepare(&self) {
        self.0.queue().steps.push_back(Work::Prepare);
        self.0.more.notify_one();
    }

    /// Queues nodes of a step.
    pub(super) fn evaluate(
        &self,
        timeline: Timeline,
        step: Step,
        nodes: Vec<Node>,
        weights: Arc<Whole>,
    ) {
        let left = Mutex::new(nodes.len());
        let batch = Arc::new(Batch {
            timeline,
            step,
            weights,
            left,
        });
        let work = nodes.into_iter();
        let work = work.map(|node| Work::Evaluate(Arc::clone(&batch), node));
        self.0.queue().steps.extend(work);
        self.0.more.notify_all();
    }

    /// Says that every slice has a sum of the step.
    pub(super) fn stored(&self, step: Step) {
        self.0.queue().stored = Some(step);
        self.0.more.notify_all();
    }

    /// Queues what the model is told, before what is queued after it.
    pub(super) fn regroup(&self, regrouped: Regrouped) {
        self.0.queue().steps.push_back(Work::Regroup(regrouped));
        self.0.more.notify_all();
    }

    /// Queues leaves of a step, after what was queued before.
    pub(super) fn audit(
        &self,
        timeline: Timeline,
        step: Step,
        leaves: Vec<PartitionId>,
        weights: Arc<Whole>,
    ) {
        let auditing = Arc::new(Auditing {
            timeline,
            step,
            weights,
        });
        let work = leaves.into_iter();
        let work = work.map(|leaf| Work::Audit(Arc::clone(&auditing), leaf));
        self.0.queue().steps.extend(work);
        self.0.more.notify_all();
    }

    /// Queues tasks on a version.
    pub(super) fn score(
        &self,
        timeline: Timeline,
        version: Step,
        tasks: Vec<u32>,
        weights: Arc<Whole>,
    ) {
        let scoring = Arc::new(Scoring {
            timeline,
            version,
            weights,
        });
        let work = tasks.into_iter().map(|task| (Arc::clone(&scoring), task));
        self.0.queue().scores.extend(work);
        self.0.more.notify_all();
    }

    /// Samples a second that these threads evaluate when they do; 0 when unknown.
    pub(super) fn samples_per_s(&self, threads: u16) -> f64 {
        let Speed { samples, seconds } = *self.0.speed();
        if seconds > 0.0 {
            samples / seconds * f64::from(threads)
        } else {
            0.0
        }
    }
}

impl Desk {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("a panic ends the process")
    }

    fn speed(&self) -> MutexGuard<'_, Speed> {
        self.speed.lock().expect("a panic ends the process")
    }

    /// The next work; while there is none, the rows of the step that `first` will be followed by are
    /// read, once the sums of `first` are where they are needed: until then a processor has more
    /// urgent things to do.
    fn next_or_read(
        &self,
        evaluator: &mut Evaluator,
        first: &mut Option<(Step, Node)>,
    ) -> Result<Work, EvaluateError> {
        let mut queue = self.queue();
        loop {
            if let Some(work) = queue.take() {
                return Ok(work);
            }
            let stored = queue.stored;
            match first.take_if(|(step, _)| stored >= Some(*step)) {
                Some((step, node)) => {
                    drop(queue);
                    evaluator.read_ahead(step.next(), node)?;
                    queue = self.queue();
                }
                None => queue = self.more.wait(queue).expect("a panic ends the process"),
            }
        }
    }

    fn work(&self, task: &Task, mut evaluator: Evaluator, worker: &Addr<WorkerActor>) {
        // What this thread evaluated first of the newest step: most likely so at the next one too.
        let mut newest = Step(0);
        let mut first = None;
        loop {
            let work = match self.next_or_read(&mut evaluator, &mut first) {
                Ok(work) => work,
                Err(error) => return worker.do_send(Failed(error.to_string())),
            };
            let done = match work {
                Work::Prepare => {
                    self.pool.prepare(task.layout.len(), 2);
                    Ok(())
                }
                Work::Regroup(regrouped) => {
                    tell(task, &regrouped);
                    Ok(())
                }
                Work::Evaluate(batch, node) => {
                    if first.is_none() || batch.step != newest {
                        newest = batch.step;
                        first = Some((newest, node));
                    }
                    self.evaluate(task, &mut evaluator, &batch, node, worker)
                }
                Work::Audit(auditing, leaf) => {
                    self.audit(task, &mut evaluator, &auditing, leaf, worker)
                }
                Work::Score(scoring, number) => {
                    score(task, &mut evaluator, &scoring, number, worker)
                }
            };
            if let Err(error) = done {
                worker.do_send(Failed(error.to_string()));
                return;
            }
        }
    }

    fn evaluate(
        &self,
        task: &Task,
        evaluator: &mut Evaluator,
        batch: &Batch,
        node: Node,
        worker: &Addr<WorkerActor>,
    ) -> Result<(), EvaluateError> {
        let began = Instant::now();
        let mut out = self.pool.take(task.layout.len());
        let weights = batch.weights.get();
        let tensor = Tensor(self.sums.fetch_add(1, Ordering::Relaxed));
        let mut parts = Parts::new(&self.pool, |outcome, values| {
            worker.do_send(Coming {
                timeline: batch.timeline,
                step: batch.step,
                node,
                tensor,
                values,
                outcome,
            });
        });
        let early: Option<&mut dyn Early> = Some(&mut parts);
        let result = evaluator.evaluate_early(&weights, batch.step, node, &mut out, early)?;
        self.measured(result.outcome.samples, began.elapsed().as_secs_f64());
        let values = match parts.end(result.non_finite.is_empty()) {
            Some(coming) => OutValues::Coming(coming),
            None => out.share().into(),
        };
        let sum = Sum {
            node,
            tensor,
            values,
            result,
        };
        // Under the lock, so that the message that says `last` is the last one.
        let mut left = batch.left.lock().expect("a panic ends the process");
        *left -= 1;
        worker.do_send(Evaluated {
            timeline: batch.timeline,
            step: batch.step,
            sum,
            last: *left == 0,
        });
        Ok(())
    }

    fn audit(
        &self,
        task: &Task,
        evaluator: &mut Evaluator,
        auditing: &Auditing,
        partition: PartitionId,
        worker: &Addr<WorkerActor>,
    ) -> Result<(), EvaluateError> {
        let mut values = self.pool.take(task.layout.len());
        let (weights, step) = (auditing.weights.get(), auditing.step);
        let (_, digest) = evaluator.digest_leaf(&weights, step, partition, &mut values)?;
        worker.do_send(Audited {
            timeline: auditing.timeline,
            step,
            partition,
            digest,
        });
        Ok(())
    }

    fn measured(&self, samples: u64, seconds: f64) {
        let mut speed = self.speed();
        speed.samples += samples as f64;
        speed.seconds += seconds;
        if speed.seconds > MEMORY {
            speed.samples /= 2.0;
            speed.seconds /= 2.0;
        }
    }
}

/// Tells the model of another membership.
fn tell(task: &Task, regrouped: &Regrouped) {
    let Regrouped {
        generation,
        begins,
        partitions,
    } = regrouped;
    if let Some(step) = begins {
        task.model.restored(*step);
    }
    task.model.regrouped(*generation, partitions);
}

fn score(
    task: &Task,
    evaluator: &mut Evaluator,
    scoring: &Scoring,
    number: u32,
    worker: &Addr<WorkerActor>,
) -> Result<(), EvaluateError> {
    let range = score_range(Which::Test.rows(task), number);
    let score = evaluator.score(&scoring.weights.get(), Which::Test, range)?;
    worker.do_send(Scored {
        timeline: scoring.timeline,
        version: scoring.version,
        task: number,
        score: TaskScore {
            rows: score.rows,
            correct: score.correct,
            loss_sum: score.loss_sum,
            parts: score.parts,
        },
    });
    Ok(())
}
