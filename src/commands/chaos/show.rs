//! What is said of both runs while they go on: progress, and a line for each fault.

use std::sync::{Mutex, PoisonError};

use resilin_actors::coordinator::RunStatus;
use resilin_actors::supervisor::Happening;

use crate::face::{Event, Face, Progress};
use crate::trial::{Shown, Struck};

/// Where both runs are shown, from several threads.
pub(super) struct Show(Option<Mutex<Shower>>);

struct Shower {
    face: Face,
    begun: Option<String>,
}

impl Show {
    /// Shows on this face, or nothing.
    pub(super) fn new(face: Option<Face>) -> Self {
        Self(face.map(|face| Mutex::new(Shower { face, begun: None })))
    }

    /// Shows one line.
    pub(super) fn notice(&self, text: &str) {
        self.with(|shower| shower.face.show(&Event::Notice { text: text.into() }));
    }

    /// Leaves the place to the verdict.
    pub(super) fn clear(&self) {
        self.with(|shower| shower.face.clear());
    }

    pub(super) fn take(&self, shown: &Shown<'_>) {
        self.with(|shower| match shown {
            Shown::Happening(happening) => shower.happening(happening),
            Shown::Fault(struck) => shower.fault(struck),
        });
    }

    fn with(&self, show: impl FnOnce(&mut Shower)) {
        if let Some(shower) = &self.0 {
            // What another thread could not show is no reason to stop.
            show(&mut shower.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Shower {
    fn fault(&mut self, struck: &Struck) {
        let Struck {
            at_s, fault, step, ..
        } = struck;
        let text = match &struck.target {
            Some(whom) => format!("{at_s:7.2} s  step {step:<6} {fault}: {whom}"),
            None => format!("{at_s:7.2} s  step {step:<6} {fault}: nobody is there"),
        };
        self.face.show(&Event::Notice { text });
    }

    fn happening(&mut self, happening: &Happening) {
        match happening {
            Happening::Status(status) => self.status(status),
            Happening::Failed { role, pid, how } => {
                let text = format!("{role} {pid} ended by itself ({how})");
                self.face.show(&Event::Notice { text });
            }
            Happening::Line { role, pid, text } => self.face.log(&format!("{role} {pid}: {text}")),
            Happening::Stopping => {
                let text = "stopping at the next step; again: ends at once".into();
                self.face.show(&Event::Notice { text });
            }
            Happening::Started { .. } | Happening::Ready(_) | Happening::Killed { .. } => {}
        }
    }

    fn status(&mut self, status: &RunStatus) {
        let job = &status.job;
        let state = status.state.file_name();
        let name = state.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if self.begun.as_ref() != Some(&name) {
            self.face.show(&Event::Begin {
                job: format!("{} ({name})", status.name),
                run_id: status.location.run.clone(),
                total_steps: job.total_steps,
                from_step: 0,
            });
            self.begun = Some(name);
        }
        self.face.show(&Event::Step(Progress::of(job)));
    }
}
