//! The children of one model: one for each thread that evaluates, started when it is needed, and
//! kept for the next one when a thread is done with it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use resilin_learn::model::ModelError;

use crate::child::Child;
use crate::command::CommandLine;
use crate::fault::Fault;
use crate::message::{Answer, Ask, Data, PROTOCOL, Tensor};

/// What a child says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// In flatten order.
    pub(crate) tensors: Vec<Tensor>,
    /// The command's own word for what must not differ.
    pub(crate) fingerprint: String,
    /// Whether it can be asked for predictions.
    pub(crate) predicts: bool,
}

/// How children are started, and those that nobody uses now.
pub(crate) struct Pool {
    command: Arc<CommandLine>,
    deadline: Duration,
    data: Data,
    idle: Mutex<Vec<Child>>,
}

impl Pool {
    /// A pool without children.
    pub(crate) fn new(command: Arc<CommandLine>, deadline: Duration, data: Data) -> Self {
        Self {
            command,
            deadline,
            data,
            idle: Mutex::default(),
        }
    }

    /// The command, as people know it.
    pub(crate) fn command(&self) -> &CommandLine {
        &self.command
    }

    /// The data set, as children are told of it.
    pub(crate) fn data(&self) -> Data {
        self.data
    }

    /// An error of a child, as the model's.
    pub(crate) fn error(&self, fault: Fault) -> ModelError {
        fault.of(&self.command)
    }

    /// Starts a child and asks what it is.
    pub(crate) fn start(&self, seed: u64) -> Result<(Child, Description), Fault> {
        let mut child = Child::start(&self.command, self.deadline)?;
        let describe = Ask::Describe {
            protocol: PROTOCOL,
            memory: child.memory.number(),
            seed,
            data: self.data,
        };
        match child.ask(&describe)? {
            Answer::Description {
                protocol: PROTOCOL,
                tensors,
                fingerprint,
                predicts,
            } => {
                let description = Description {
                    tensors,
                    fingerprint,
                    predicts,
                };
                Ok((child, description))
            }
            Answer::Description { protocol, .. } => Err(Fault::Protocol(protocol)),
            Answer::Initial { .. }
            | Answer::Gradient { .. }
            | Answer::Score { .. }
            | Answer::Prediction { .. }
            | Answer::Failed { .. } => Err(Fault::Unexpected),
        }
    }

    /// A child that nobody uses, if there is one.
    pub(crate) fn take(&self) -> Option<Child> {
        self.idle().pop()
    }

    /// Keeps a child that is well.
    pub(crate) fn keep(&self, child: Child) {
        self.idle().push(child);
    }

    /// Ends the children that nobody uses.
    pub(crate) fn end_idle(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Child>> {
        self.idle.lock().expect("nothing panics with it")
    }
}
