//! What the threads of a trial share: the record, the newest look at the run, and its processes.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use resilin_actors::coordinator::RunStatus;
use resilin_actors::supervisor::{Children, Happening};

use super::record::{Look, Record};

/// The shared half of a trial.
pub(super) struct Stage {
    pub(super) children: Children,
    begun: Instant,
    seen: Mutex<Seen>,
}

/// What was seen so far.
pub(super) struct Seen {
    pub(super) record: Record,
    pub(super) newest: Option<RunStatus>,
}

impl Stage {
    pub(super) fn new(children: Children, workers: usize) -> Self {
        Self {
            children,
            begun: Instant::now(),
            seen: Mutex::new(Seen {
                record: Record::new(workers),
                newest: None,
            }),
        }
    }

    /// Time since the beginning of the trial.
    pub(super) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen
            .lock()
            .expect("nothing panics while what was seen is held")
    }

    /// A look that was asked for at `began`.
    pub(super) fn saw(&self, began: Duration, status: RunStatus) {
        let workers = status.job.workers.iter();
        let look = Look {
            began,
            at: self.now(),
            timeline: status.job.timeline,
            step: status.job.step,
            active: workers.filter(|worker| worker.state == "active").count(),
        };
        let mut seen = self.seen();
        seen.record.saw(look);
        seen.newest = Some(status);
    }

    /// Counts what ends by itself.
    pub(super) fn follow(&self, happening: &Happening) {
        match happening {
            Happening::Failed { .. } => self.seen().record.unplanned += 1,
            Happening::Started { .. }
            | Happening::Ready(_)
            | Happening::Line { .. }
            | Happening::Killed { .. }
            | Happening::Status(_)
            | Happening::Stopping => {}
        }
    }

    pub(super) fn into_record(self) -> Record {
        let seen = self.seen.into_inner();
        seen.expect("nothing panics while what was seen is held")
            .record
    }
}
