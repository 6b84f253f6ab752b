//! The supervisor's loop: news of children, signals, and a look at the run now and then.

mod ends;

use std::path::PathBuf;
use std::time::Duration;

use resilin_core::Step;
use resilin_core::sorted::{SortedMap, SortedSet};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::budget::Budget;
use super::child::{Child, News};
use super::children::Fate;
use super::look::Look;
use super::seats::Seats;
use super::words;
use super::{Ended, Happening, Options, Role, When};
use crate::clock::duration;
use crate::coordinator::{Announcement, Location, RunStatus};
use crate::exit::Exit;
use crate::process::Signals;

/// Time between two looks at the run.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Workers started at most between two looks, so that a number taken back stops the rest.
const STARTS_PER_LOOK: usize = 8;

/// Longest time that members get to end once they were told that the run is over. One that was not
/// told dials a coordinator that is gone.
const FAREWELL: Duration = Duration::from_secs(2);

/// News that may wait; children that write more than is read wait.
const NEWS: usize = 1024;

/// Runs coordinator and workers until the run is over; `on` hears of everything.
#[must_use]
pub fn run(options: Options, mut on: impl FnMut(Happening)) -> Ended {
    // Not generic, so that it is compiled here and not for each caller.
    run_with(options, &mut on)
}

fn run_with(options: Options, on: &mut dyn FnMut(Happening)) -> Ended {
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

struct Supervisor<'a> {
    options: Options,
    on: &'a mut dyn FnMut(Happening),
    budget: Budget,
    news: mpsc::Sender<News>,
    coordinator: Option<Child>,
    workers: SortedMap<u32, Child>,
    seats: Seats,
    /// Shard processes, each with its number among those that shall run.
    shards: SortedMap<u32, (usize, Child)>,
    /// No shard is started until a look says that the run goes on.
    shards_held: bool,
    location: Option<Location>,
    look: Look,
    wanted: u32,
    /// Steps that the last look saw committed.
    committed: Step,
    /// Workers that may be started until the next look.
    room: usize,
    /// Workers that were told to go before they had joined.
    dismissed: SortedSet<u32>,
    /// What children said of their own end.
    causes: SortedMap<u32, String>,
    stopping: bool,
    /// Why everything ends, once it does.
    verdict: Option<Exit>,
    report: Option<serde_json::Value>,
    directory: Option<PathBuf>,
    done: When,
}

impl<'a> Supervisor<'a> {
    fn new(options: Options, on: &'a mut dyn FnMut(Happening)) -> Self {
        let budget = Budget::new(options.restarts, duration(options.window));
        let (news, _) = mpsc::channel(1);
        let look = Look::new(options.token.clone());
        Self {
            shards: SortedMap::new(),
            shards_held: false,
            seats: Seats::of_this_process(options.cpus_each),
            options,
            on,
            budget,
            news,
            coordinator: None,
            workers: SortedMap::new(),
            location: None,
            look,
            wanted: 0,
            committed: Step(0),
            room: 0,
            dismissed: SortedSet::new(),
            causes: SortedMap::new(),
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
        self.start_coordinator()?;
        while self.coordinator.is_some() {
            tokio::select! {
                Some(news) = heard.recv() => self.hear(news)?,
                () = signals.next() => self.stop()?,
                status = self.look.next() => self.saw(status),
                _ = ticks.tick() => self.look.begin(self.location.as_ref()),
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
                let Location { listen, api, .. } = location.clone();
                arguments.extend(["--listen".into(), listen, "--api".into(), api]);
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
        if self.verdict.is_some() {
            return Ok(());
        }
        // A stop needs them too: without all slices nothing is saved.
        while !self.shards_held
            && let Some(number) = self.missing_shard()
        {
            let mut arguments = self.options.shards[number].clone();
            arguments.extend(["--join".into(), join.clone()]);
            let child = self.start(Role::Shard, arguments)?;
            self.shards.insert(child.pid, (number, child));
        }
        if self.stopping {
            return Ok(());
        }
        while self.room > 0 && self.workers.len() < self.wanted as usize {
            self.room -= 1;
            let mut arguments = self.options.worker.clone();
            arguments.extend(["--join".into(), join.clone()]);
            let seat = self.seats.free(self.wanted);
            let cpus = seat
                .iter()
                .flat_map(|seat| ["--cpus".into(), seat.argument()]);
            arguments.extend(cpus);
            let child = self.start(Role::Worker, arguments)?;
            if let Some(seat) = seat {
                self.seats.take(child.pid, &seat);
            }
            self.workers.insert(child.pid, child);
        }
        Ok(())
    }

    /// The first shard process that shall run and does not.
    fn missing_shard(&self) -> Option<usize> {
        let running: SortedSet<usize> = self.shards.values().map(|(number, _)| *number).collect();
        (0..self.options.shards.len()).find(|number| !running.contains(number))
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
                if let Some(cause) = words::cause(&text) {
                    self.causes.insert(pid, cause.to_owned());
                }
                (self.on)(Happening::Line { role, pid, text });
                Ok(())
            }
            News::Gone {
                role,
                pid,
                fate: Fate::Killed,
                status: _,
            } => self.killed(role, pid),
            News::Gone {
                role,
                pid,
                status,
                fate: Fate::Own,
            } => {
                let cause = self.causes.remove(&pid);
                let end = words::End {
                    role,
                    pid,
                    status,
                    cause,
                };
                match role {
                    Role::Coordinator => self.coordinator_gone(&end),
                    Role::Worker => {
                        self.worker_gone(&end);
                        Ok(())
                    }
                    Role::Shard => {
                        self.shard_gone(&end);
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
                // The one that was asked to stop is gone.
                if let Some(coordinator) = self.coordinator.as_ref().filter(|_| self.stopping) {
                    coordinator.terminate();
                }
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
        // Steps that are made again after a rollback are steps, too.
        if status.job.step > self.committed {
            self.budget.got_on();
        }
        self.committed = status.job.step;
        self.wanted = status.job.wanted;
        self.room = STARTS_PER_LOOK;
        // Nobody is wanted any more once the run is over.
        self.shards_held &= status.job.wanted == 0;
        self.dismiss(&status);
        (self.on)(Happening::Status(Box::new(status)));
    }

    /// Ends surplus children: first who has not joined, then the youngest, which drain. The
    /// coordinator drains only who was a member when the number was taken back.
    fn dismiss(&mut self, status: &RunStatus) {
        let pids = |leaving: bool| -> SortedSet<u32> {
            let members = status.job.workers.iter();
            let found = members.filter(|member| (member.state == "draining") == leaving);
            found
                .filter_map(|member| words::pid(&member.name))
                .collect()
        };
        let (joined, leaving) = (pids(false), pids(true));
        let stays = |pid: &u32| !leaving.contains(pid) && !self.dismissed.contains(pid);
        let mut staying: Vec<u32> = self.workers.keys().copied().filter(stays).collect();
        staying.sort_by_key(|pid| (!joined.contains(pid), *pid));
        for pid in staying.into_iter().skip(self.wanted as usize) {
            self.workers[&pid].terminate();
            self.dismissed.insert(pid);
        }
    }

    /// Waits for members to end, kills those that do not, and returns when no child is left.
    async fn wind_down(&mut self, heard: &mut mpsc::Receiver<News>) {
        let peaceful = async {
            while !self.workers.is_empty() || !self.shards.is_empty() {
                match heard.recv().await {
                    Some(News::Gone { pid, .. }) => {
                        self.workers.remove(&pid);
                        self.shards.remove(&pid);
                    }
                    Some(News::Said { .. } | News::Line { .. }) => {}
                    None => return,
                }
            }
        };
        // Of a run that a coordinator found finished, nobody is told by it that it is over.
        let patience = match (&self.coordinator, &self.done) {
            (None, When::Now) => duration(self.options.grace).min(FAREWELL),
            (None, When::Before) | (Some(_), _) => Duration::ZERO,
        };
        let _ = timeout(patience, peaceful).await;
        self.coordinator = None;
        self.workers.clear();
        self.shards.clear();
        // The last senders are those of children that are being waited for.
        (self.news, _) = mpsc::channel(1);
        while heard.recv().await.is_some() {}
    }
}
