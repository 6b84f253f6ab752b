//! The supervisor's loop: news of children, signals, and a look at the run now and then.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use resilin_core::Step;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::budget::Budget;
use super::child::{Child, News};
use super::look::Look;
use super::{Ended, Happening, Options, Role, When};
use crate::clock::duration;
use crate::coordinator::{Announcement, Location, RunStatus};
use crate::exit::Exit;
use crate::process::Signals;

/// Time between two looks at the run.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// News that may wait; children that write more than is read wait.
const NEWS: usize = 1024;

/// Runs coordinator and workers until the run is over; `on` hears of everything.
#[must_use]
pub fn run(options: Options, on: impl FnMut(Happening)) -> Ended {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    match builder.enable_all().build() {
        Ok(runtime) => runtime.block_on(Supervisor::new(options, on).drive()),
        Err(error) => Ended {
            exit: Exit::Fault(format!("cannot start a runtime: {error}")),
            report: None,
            directory: None,
            done: When::Now,
        },
    }
}

struct Supervisor<F> {
    options: Options,
    on: F,
    budget: Budget,
    news: mpsc::Sender<News>,
    coordinator: Option<Child>,
    workers: BTreeMap<u32, Child>,
    location: Option<Location>,
    wanted: u32,
    /// Workers that left in peace although they were wanted: an operator drained them.
    released: u32,
    last_lines: BTreeMap<u32, String>,
    stopping: bool,
    /// Why everything ends, once it does.
    verdict: Option<Exit>,
    report: Option<serde_json::Value>,
    directory: Option<PathBuf>,
    done: When,
}

impl<F: FnMut(Happening)> Supervisor<F> {
    fn new(options: Options, on: F) -> Self {
        let budget = Budget::new(options.restarts, duration(options.window));
        let (news, _) = mpsc::channel(1);
        Self {
            options,
            on,
            budget,
            news,
            coordinator: None,
            workers: BTreeMap::new(),
            location: None,
            wanted: 0,
            released: 0,
            last_lines: BTreeMap::new(),
            stopping: false,
            verdict: None,
            report: None,
            directory: None,
            done: When::Now,
        }
    }

    async fn drive(mut self) -> Ended {
        let (news, mut heard) = mpsc::channel(NEWS);
        self.news = news;
        let exit = match self.supervise(&mut heard).await {
            Ok(()) => self.verdict.take().unwrap_or(Exit::Done),
            Err(exit) => exit,
        };
        self.wind_down(&mut heard).await;
        Ended {
            exit,
            report: self.report,
            directory: self.directory,
            done: self.done,
        }
    }

    /// Returns once the coordinator is gone for good, or with an error that ends all at once.
    async fn supervise(&mut self, heard: &mut mpsc::Receiver<News>) -> Result<(), Exit> {
        let mut signals = Signals::take()?;
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look = Look::new(self.options.token.clone());
        self.start_coordinator()?;
        while self.coordinator.is_some() {
            tokio::select! {
                Some(news) = heard.recv() => self.hear(news)?,
                () = signals.next() => self.stop()?,
                status = look.next() => self.saw(status),
                _ = ticks.tick() => look.begin(self.location.as_ref()),
            }
            self.start_missing()?;
        }
        Ok(())
    }

    fn start_coordinator(&mut self) -> Result<(), Exit> {
        let mut arguments = self.options.coordinator.clone();
        match &self.location {
            None => arguments.append(&mut self.options.first_start),
            Some(location) => {
                let Location { join, api, .. } = location.clone();
                arguments.extend(["--listen".into(), join, "--api".into(), api]);
            }
        }
        self.coordinator = Some(self.start(Role::Coordinator, arguments)?);
        Ok(())
    }

    fn start_missing(&mut self) -> Result<(), Exit> {
        let Some(location) = &self.location else {
            return Ok(());
        };
        let join = location.join.clone();
        let target = self.wanted.saturating_sub(self.released) as usize;
        while self.verdict.is_none() && !self.stopping && self.workers.len() < target {
            let mut arguments = self.options.worker.clone();
            arguments.extend(["--join".into(), join.clone()]);
            let child = self.start(Role::Worker, arguments)?;
            self.workers.insert(child.pid, child);
        }
        Ok(())
    }

    fn start(&mut self, role: Role, mut arguments: Vec<String>) -> Result<Child, Exit> {
        arguments.push("--end-with-parent".into());
        let child = Child::start(&self.options, role, &arguments, self.news.clone());
        let child = child.map_err(|error| {
            let program = self.options.program.display();
            Exit::Fault(format!("cannot start {program}: {error}"))
        })?;
        (self.on)(Happening::Started {
            role,
            pid: child.pid,
        });
        Ok(child)
    }

    fn hear(&mut self, news: News) -> Result<(), Exit> {
        match news {
            News::Said { pid, text } => {
                let own = self
                    .coordinator
                    .as_ref()
                    .is_some_and(|child| child.pid == pid);
                if let Ok(announcement) = serde_json::from_str(&text)
                    && own
                {
                    self.announced(announcement);
                }
                Ok(())
            }
            News::Line { role, pid, text } => {
                if !text.trim().is_empty() {
                    let said = text.strip_prefix("error: ").unwrap_or(&text);
                    self.last_lines.insert(pid, said.to_owned());
                }
                (self.on)(Happening::Line { role, pid, text });
                Ok(())
            }
            News::Gone { role, pid, status } => {
                let last_line = self.last_lines.remove(&pid).unwrap_or_default();
                match role {
                    Role::Coordinator => self.coordinator_gone(pid, status, &last_line),
                    Role::Worker => {
                        self.worker_gone(pid, status, &last_line);
                        Ok(())
                    }
                }
            }
        }
    }

    fn announced(&mut self, announcement: Announcement) {
        match announcement {
            Announcement::Ready(location) => {
                self.directory = Some(location.directory.clone());
                self.location = Some(location.clone());
                (self.on)(Happening::Ready(location));
            }
            Announcement::Finished { directory, report } => {
                (self.directory, self.report) = (Some(directory), Some(report));
                self.done = When::Before;
            }
            Announcement::Over { directory, report } => {
                self.directory = Some(directory);
                self.report = serde_json::to_value(report).ok();
            }
        }
    }

    /// A coordinator that ended by itself had a reason; one that crashed is started again.
    fn coordinator_gone(
        &mut self,
        pid: u32,
        status: ExitStatus,
        last_line: &str,
    ) -> Result<(), Exit> {
        self.coordinator = None;
        let Some(code) = status.code() else {
            self.failed(Role::Coordinator, pid, status);
            if self.stopping || self.verdict.is_some() || !self.budget.spend(Instant::now()) {
                let text = format!("the coordinator ended by {status}: {last_line}");
                self.verdict.get_or_insert(Exit::Fault(text));
                return Ok(());
            }
            return self.start_coordinator();
        };
        let line = || last_line.to_owned();
        let exit = match code {
            0 => Exit::Done,
            2 => Exit::Usage(line()),
            3 => Exit::Refused(line()),
            4 => Exit::Damaged(line()),
            5 => Exit::WaitedTooLong(line()),
            6 => Exit::Stopped(Step(self.reported_steps())),
            _ => Exit::Fault(line()),
        };
        self.verdict.get_or_insert(exit);
        Ok(())
    }

    fn reported_steps(&self) -> u64 {
        let steps = self
            .report
            .as_ref()
            .and_then(|report| report["steps"].as_u64());
        steps.unwrap_or_default()
    }

    fn worker_gone(&mut self, pid: u32, status: ExitStatus, last_line: &str) {
        self.workers.remove(&pid);
        match status.code() {
            Some(0) => {
                let target = self.wanted.saturating_sub(self.released) as usize;
                self.released += u32::from(self.workers.len() < target);
            }
            // What is refused once is refused again.
            Some(2 | 3) => {
                self.failed(Role::Worker, pid, status);
                self.give_up(Exit::Refused(format!("a worker was refused: {last_line}")));
            }
            Some(_) | None => {
                self.failed(Role::Worker, pid, status);
                if !self.budget.spend(Instant::now()) {
                    let (restarts, window) = (self.options.restarts, self.options.window);
                    self.give_up(Exit::Fault(format!(
                        "children failed more than {restarts} times within {window}; the last, \
                         worker {pid}, ended by {status}: {last_line}"
                    )));
                }
            }
        }
    }

    fn failed(&mut self, role: Role, pid: u32, status: ExitStatus) {
        let how = status.to_string();
        (self.on)(Happening::Failed { role, pid, how });
    }

    /// Ends the run in peace: what was reached stays durable.
    fn give_up(&mut self, exit: Exit) {
        if self.verdict.is_none() {
            self.verdict = Some(exit);
            if let Some(coordinator) = &self.coordinator {
                coordinator.terminate();
            }
        }
    }

    /// The first signal asks for a stop, a second one ends all at once.
    fn stop(&mut self) -> Result<(), Exit> {
        if self.stopping {
            let text = "ended by a second signal; the same command line goes on";
            return Err(Exit::Fault(text.into()));
        }
        self.stopping = true;
        (self.on)(Happening::Stopping);
        if let Some(coordinator) = &self.coordinator {
            coordinator.terminate();
        }
        Ok(())
    }

    fn saw(&mut self, status: RunStatus) {
        if status.job.wanted != self.wanted {
            (self.wanted, self.released) = (status.job.wanted, 0);
        }
        (self.on)(Happening::Status(Box::new(status)));
    }

    /// Waits for workers to end, kills those that do not, and returns when no child is left.
    async fn wind_down(&mut self, heard: &mut mpsc::Receiver<News>) {
        let peaceful = async {
            while !self.workers.is_empty() {
                match heard.recv().await {
                    Some(News::Gone { pid, .. }) => drop(self.workers.remove(&pid)),
                    Some(News::Said { .. } | News::Line { .. }) => {}
                    None => return,
                }
            }
        };
        let patience = match self.coordinator {
            None => duration(self.options.grace),
            Some(_) => Duration::ZERO,
        };
        let _ = timeout(patience, peaceful).await;
        self.coordinator = None;
        self.workers.clear();
        // The last senders are those of children that are being waited for.
        (self.news, _) = mpsc::channel(1);
        while heard.recv().await.is_some() {}
    }
}
