//! Workers as threads of this process: each evaluates nodes of the tree, and one sums and updates.
//! The loop is the serial reference's, so the bits are.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use resilin_core::Step;
use resilin_core::tree::{Node, PartitionSet};
use resilin_learn::kernel::{EvaluateError, Evaluator, NodeResult};
use resilin_learn::look::check_rows;
use resilin_learn::reference::{Part, Reference, StepReport};
use resilin_learn::rehearsal::rehearse_all;
use resilin_learn::task::Task;

use super::trained::Trained;
use super::{Moment, Observer, TrainError, epoch};

/// What a thread evaluates.
struct Order {
    step: Step,
    weights: Arc<Vec<f32>>,
    /// Nodes with a vector for the gradient of each.
    parts: Vec<(Node, Vec<f32>)>,
}

/// A node, its gradient, and what comes with it.
type Evaluated = (Node, Vec<f32>, NodeResult);

type Answer = Result<Vec<Evaluated>, EvaluateError>;

/// Trains on `workers` threads.
pub(super) fn train(
    task: &Arc<Task>,
    workers: u32,
    mut observer: Observer<'_>,
) -> Result<Trained, TrainError> {
    check_rows(task)?;
    rehearse_all(task)?;
    let mut reference = Reference::new(task);
    let rules = task.rules(1);
    let flow = thread::scope(|scope| {
        let team: Vec<Member> = (0..workers).map(|_| Member::start(scope, task)).collect();
        let mut spare = Vec::new();
        for step in (0..task.total_steps).map(Step) {
            let done = advance(task, &mut reference, &team, step, &mut spare)?;
            let version = done.version.0;
            let mut flow = observer(&Moment::Step {
                step: version,
                total_steps: task.total_steps,
                loss: Some(done.loss),
            });
            if rules.evaluated(done.version)
                && let Some(score) = reference.test()?
            {
                let scored = observer(&Moment::Scored {
                    step: version,
                    epoch: epoch(task, version),
                    score,
                });
                flow = if flow.is_break() { flow } else { scored };
            }
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok::<_, TrainError>(ControlFlow::Continue(()))
    })?;
    let weights = reference.weights().as_ref().clone();
    Ok(Trained::new(
        Arc::clone(task),
        weights,
        reference.open_step().0,
        flow.is_break(),
    ))
}

/// One step: dealt to the team, summed, applied.
fn advance(
    task: &Task,
    reference: &mut Reference,
    team: &[Member],
    step: Step,
    spare: &mut Vec<Vec<f32>>,
) -> Result<StepReport, TrainError> {
    if team.len() == 1 {
        return Ok(reference.step(step)?);
    }
    let mut busy = Vec::new();
    for (member, nodes) in team.iter().zip(deal(task, step, team.len())) {
        let mut vector = || spare.pop().unwrap_or_else(|| vec![0.0; task.layout.len()]);
        let order = Order {
            step,
            weights: Arc::clone(reference.weights()),
            parts: nodes.into_iter().map(|node| (node, vector())).collect(),
        };
        if member.orders.send(order).is_ok() {
            busy.push(member);
        }
    }
    let mut evaluated = Vec::new();
    for member in busy {
        // A thread that panics has said why; the scope panics with it.
        let answer = member.answers.recv().expect("a member answers each order");
        evaluated.extend(answer?);
    }
    let parts: Vec<Part<'_>> = evaluated
        .iter()
        .map(|(node, gradient, result)| Part {
            node: *node,
            gradient,
            result,
        })
        .collect();
    let report = reference.apply(step, &parts)?;
    spare.extend(evaluated.into_iter().map(|(_, gradient, _)| gradient));
    Ok(report)
}

/// The nodes of each member: as many partitions for each as for the others, or one fewer.
fn deal(task: &Task, step: Step, members: usize) -> Vec<Vec<Node>> {
    let with_samples = task.sampling.with_samples(step);
    let all: Vec<_> = with_samples.iter().collect();
    let cut = |member: usize| all.len() * member / members;
    let held = |member: usize| -> PartitionSet {
        all[cut(member)..cut(member + 1)].iter().copied().collect()
    };
    (0..members)
        .map(|member| task.tree.maximal_nodes(&held(member), &with_samples))
        .collect()
}

/// A thread that evaluates.
struct Member {
    orders: Sender<Order>,
    answers: Receiver<Answer>,
}

impl Member {
    /// It ends when its orders do.
    fn start<'scope>(scope: &'scope thread::Scope<'scope, '_>, task: &Arc<Task>) -> Self {
        let (orders, ordered) = channel::<Order>();
        let (answer, answers) = channel();
        let task = Arc::clone(task);
        scope.spawn(move || {
            let mut evaluator = Evaluator::new(task);
            for order in ordered {
                // Nobody listens any more after an error of another.
                let _ = answer.send(evaluate(&mut evaluator, order));
            }
        });
        Self { orders, answers }
    }
}

fn evaluate(evaluator: &mut Evaluator, order: Order) -> Answer {
    let Order {
        step,
        weights,
        parts,
    } = order;
    let each = parts.into_iter().map(|(node, mut gradient)| {
        let result = evaluator.evaluate(&weights, step, node, &mut gradient)?;
        Ok((node, gradient, result))
    });
    each.collect()
}
