//! A run of the laboratory, and who stands beside it: measures while it goes on, and stops it then.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use resilin_actors::Exit;
use resilin_actors::coordinator::{Location, RunStatus};
use resilin_actors::supervisor::{Children, Ended, Happening, Role};
use resilin_actors::worker::Milestone;
use resilin_chaos::process::proxy::Proxy;
use serde_json::json;

use super::lab::Lab;
use crate::client::Client;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the job of the laboratory and stops it when `measure` is through; what it measured, and how
/// the run ended.
pub(super) fn beside<T: Send>(
    lab: &Lab,
    workers: u32,
    measure: impl FnOnce(&Bystander<'_>) -> Result<T, Exit> + Send,
) -> Result<(T, Ended), Exit> {
    let heard = Mutex::new(Heard::default());
    let (measured, ended) = thread::scope(|scope| {
        let stand = scope.spawn(|| {
            let bystander = Bystander::new(lab, workers, &heard)?;
            let measured = measure(&bystander);
            // The run has no end of its own.
            bystander.client.post("stop", &json!({}))?;
            measured
        });
        let ended = lab.train(workers, |happening| lock(&heard).hear(&happening));
        lock(&heard).over = true;
        (stand.join(), ended)
    });
    let ended = ended?;
    let measured = measured.map_err(|_| Exit::Fault("the measuring thread ended".into()))?;
    // A run that failed is the cause of whatever was missed.
    match (measured, &ended.exit) {
        (Ok(measured), _) => Ok((measured, ended)),
        (Err(_), exit @ (Exit::Fault(_) | Exit::Refused(_) | Exit::Usage(_))) => Err(exit.clone()),
        (Err(error), _) => Err(error),
    }
}

/// What the supervisor told.
#[derive(Default)]
pub(super) struct Heard {
    /// When the coordinator began to listen, each time.
    pub(super) listening: Vec<Instant>,
    /// When each worker was started.
    pub(super) started: Vec<(u32, Instant)>,
    /// Workers that ended by themselves.
    pub(super) exited: usize,
    /// What workers said that they had reached: by whom, in milliseconds of its own, and when it was
    /// heard. Only where their log has it.
    pub(super) reached: Vec<(u32, Milestone, f64, Instant)>,
    /// Whether the run has ended, with whatever.
    over: bool,
}

impl Heard {
    fn hear(&mut self, happening: &Happening) {
        match happening {
            Happening::Ready(_) => self.listening.push(Instant::now()),
            Happening::Started {
                role: Role::Worker,
                pid,
            } => self.started.push((*pid, Instant::now())),
            Happening::Failed {
                role: Role::Worker, ..
            } => self.exited += 1,
            Happening::Line {
                role: Role::Worker,
                pid,
                text,
            } => {
                let reached = Milestone::read(text);
                let reached = reached.map(|(milestone, ms)| (*pid, milestone, ms, Instant::now()));
                self.reached.extend(reached);
            }
            Happening::Started { .. }
            | Happening::Failed { .. }
            | Happening::Killed { .. }
            | Happening::Line { .. }
            | Happening::Status(_)
            | Happening::Stopping => {}
        }
    }
}

fn lock(heard: &Mutex<Heard>) -> std::sync::MutexGuard<'_, Heard> {
    heard
        .lock()
        .expect("nothing panics while what was heard is held")
}

/// Looks at the run and makes its processes fail.
pub(super) struct Bystander<'a> {
    pub(super) client: Client,
    pub(super) children: Children,
    pub(super) proxy: Option<&'a Proxy>,
    pub(super) workers: usize,
    heard: &'a Mutex<Heard>,
}

impl<'a> Bystander<'a> {
    fn new(lab: &'a Lab, workers: u32, heard: &'a Mutex<Heard>) -> Result<Self, Exit> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Ok(Some(location)) = Location::read(&lab.path("state")) {
                return Ok(Self {
                    client: Client::new(&location.api, None)?,
                    children: lab.children(),
                    proxy: lab.proxy(),
                    workers: workers as usize,
                    heard,
                });
            }
            thread::yield_now();
        }
        Err(Exit::Fault("no coordinator came up".into()))
    }

    /// What the supervisor has told so far.
    pub(super) fn heard(&self) -> std::sync::MutexGuard<'a, Heard> {
        lock(self.heard)
    }

    /// Looks again and again until the run is as wanted; a coordinator may be gone meanwhile.
    pub(super) fn until(&self, wanted: impl Fn(&RunStatus) -> bool) -> Result<RunStatus, Exit> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let looked = self.client.status();
            if let Ok(status) = &looked
                && wanted(status)
            {
                return looked;
            }
            if Instant::now() >= deadline || self.heard().over {
                let job = looked?.job;
                let waiting = job.waiting.unwrap_or_else(|| "it waits for nobody".into());
                let (step, of) = (job.step, job.total_steps);
                let text = format!("the run stands at step {step} of {of}: {waiting}");
                return Err(Exit::Fault(text));
            }
        }
    }

    /// Waits until as many workers have work, and have committed some steps together.
    pub(super) fn settle(&self, workers: usize, steps: u64) -> Result<RunStatus, Exit> {
        let at_work = |status: &RunStatus| {
            let members = status.job.workers.iter();
            let busy = members.filter(|worker| worker.state == "active" && worker.partitions > 0);
            busy.count()
        };
        let settled = self.until(|status| at_work(status) == workers)?;
        let (timeline, step) = (settled.job.timeline, settled.job.step.0 + steps);
        self.until(|status| status.job.timeline > timeline || status.job.step.0 >= step)
    }

    /// Waits for the first step that is committed after a look from now on, and says when it was.
    pub(super) fn next_step(&self) -> Result<Instant, Exit> {
        let mark = self.until(|_| true)?.job;
        self.until(|status| status.job.timeline > mark.timeline || status.job.step > mark.step)?;
        Ok(Instant::now())
    }

    /// The oldest worker that lives.
    pub(super) fn oldest(&self) -> Result<u32, Exit> {
        let workers = self.children.living(Role::Worker);
        let oldest = workers.first().copied();
        oldest.ok_or_else(|| Exit::Fault("no worker is left".into()))
    }
}

/// How many workers compute.
pub(super) fn active(status: &RunStatus) -> usize {
    let workers = status.job.workers.iter();
    workers.filter(|worker| worker.state == "active").count()
}
