//! The coordinator's process: how it begins from what is durable, its timer, and what happens
//! inside it.

use std::sync::Arc;

use resilin_core::layout::SliceMap;
use resilin_core::machine::fleet::{self, Fleet};
use resilin_core::machine::job::{self, HostSettings, Job, Outcome, Settings};
use resilin_core::machine::saver::{self, Saver};
use resilin_core::machine::shard::{self, Origin, Shard};
use resilin_core::message::{Branch, SliceView};
use resilin_core::sorted::SortedMap;
use resilin_core::time::Time;
use resilin_core::{LinkId, SliceId, Step, Timeline, View};
use resilin_learn::kernel::{SliceKernel, WEIGHTS, hex};

use super::clock::Clock;
use super::events::{Happening, Local};
use super::faults::Death;
use super::keeping::Coming;
use super::lineage::Home;
use super::plant::Plant;
use super::shards::SliceHost;
use super::store::{self, Found, Store, Tensors, blocks_of};
use super::{Checked, Sim};
use crate::invariants::Fact;

/// One life of the coordinator.
pub(super) struct Coordinator {
    pub(super) fleet: Fleet,
    pub(super) job: Job,
    pub(super) saver: Saver,
    pub(super) slices: Vec<SliceHost>,
    pub(super) store: Store,
    /// When the store has done what it was asked for.
    pub(super) store_free: Time,
    /// Cuts whose tensors are on their way from shard processes.
    pub(super) coming: SortedMap<LinkId, Coming>,
    /// Shard processes that wait for the cut of a version to be over.
    pub(super) waiting: SortedMap<LinkId, Step>,
    pub(super) timeline: Timeline,
    pub(super) clock: Clock,
    armed: Option<Time>,
}

impl Coordinator {
    pub(super) fn describe(&self, now: Time) -> String {
        let now = self.clock.read(now);
        let slices: Vec<Step> = self.slices.iter().map(|s| s.machine.version()).collect();
        let status = self.job.status(now);
        format!(
            "slices {slices:?} durable {:?} waiting {:?} workers {:?} served {:?} hosts {:?}",
            status.durable_step, status.waiting, status.workers, status.slices, status.hosts
        )
    }

    fn deadline(&self) -> Option<Time> {
        let slices = self.slices.iter().filter_map(|s| s.machine.deadline());
        [
            self.fleet.deadline(),
            self.job.deadline(),
            self.saver.deadline(),
        ]
        .into_iter()
        .flatten()
        .chain(slices)
        .min()
    }
}

impl Sim<'_> {
    pub(super) fn timeline(&self) -> Timeline {
        let coordinator = self.coordinator.as_ref();
        coordinator.expect("only a live slice speaks").timeline
    }

    /// Takes up the run from the newest checkpoint that can be read, on a branch of its own. While
    /// the state cannot be opened, whoever watches over the coordinator tries again.
    pub(super) fn start_coordinator(&mut self) -> Checked {
        if self.coordinator.is_some() || self.outcome.is_some() {
            return Ok(());
        }
        self.life += 1;
        self.drive.tune(self.now);
        let unix_seconds = self.calendar();
        let shards = self.rules.slices.slices();
        let home = match self.schedule.hosting {
            None => Home::Coordinator(self.drive.map_for(&self.rules)),
            Some(_) => Home::Processes,
        };
        match store::open(&mut self.drive, self.oracle, (home, shards), unix_seconds) {
            Ok(mut found) => {
                self.bug_in_start(&mut found);
                self.begin(found)
            }
            Err(error) => {
                self.tell_of("the state cannot be opened", &error);
                self.stats.refused += 1;
                self.end_coordinator(self.death());
                let at = self.now + self.micros(5_000, 30_000);
                self.queue.push(at, Happening::Restart);
                Ok(())
            }
        }
    }

    fn begin(&mut self, found: Found) -> Checked {
        let (branch, base) = (found.lineage.branch, found.base);
        self.rules = self.oracle.task.rules(branch.shards);
        let timeline = branch.timeline;
        let blocks = blocks_of(found.tensors.as_ref(), self.oracle);
        let damage = self.drive.damage();
        self.checker.see(&Fact::Began {
            reign: found.reign,
            timeline,
            resumed: !found.lineage.views.is_empty(),
            base,
            damaged: damage.checkpoints && (found.skipped > 0 || damage.records),
            lines: found.lines,
            ledger_damaged: damage.ledger,
            blocks: &blocks,
            rules: &self.rules,
        })?;
        if found.finished {
            self.end_coordinator(Death::Killed);
            self.outcome = Some(Outcome::Finished);
            return Ok(());
        }
        let settings = self.settings(&found);
        let mut opening = Vec::new();
        let tensors = found.tensors.as_ref();
        let slices = match self.schedule.hosting {
            None => self.open_slices(branch, tensors, &mut opening),
            Some(_) => Vec::new(),
        };
        let patience = self.oracle.task.job.failure.drain_grace;
        let saved = (settings.durable, settings.recorded);
        self.coordinator = Some(Coordinator {
            fleet: Fleet::new(found.reign, self.rules.lease),
            job: Job::new(self.rules.clone(), settings),
            saver: Saver::new(
                self.rules.slices.slices(),
                saved,
                self.rules.cut_interval,
                patience,
            ),
            slices,
            store: found.store,
            store_free: self.now,
            coming: SortedMap::new(),
            waiting: SortedMap::new(),
            timeline,
            clock: Clock::default(),
            armed: None,
        });
        for (slice, effects) in opening {
            self.shard_effects(slice, effects)?;
        }
        self.fleet(fleet::Event::Tick)?;
        self.job(job::Event::Tick)?;
        self.saver(saver::Event::Tick)?;
        self.settled()
    }

    /// The coordinator's time.
    pub(super) fn local_time(&self) -> Time {
        let clock = self.coordinator.as_ref().map(|c| c.clock);
        clock.unwrap_or_default().read(self.now)
    }

    fn settings(&self, found: &Found) -> Settings {
        let (reign, lineage) = (found.reign, &found.lineage);
        let view = |slice| SliceView {
            slice,
            view: View::first(reign),
            address: "coordinator:1".into(),
            primary: None,
            backup: None,
        };
        let hosts = self.schedule.hosting.map(|hosting| HostSettings {
            processes: hosting.processes,
            replicas: hosting.replicas,
        });
        Settings {
            reign,
            branch: lineage.branch,
            views: match hosts {
                None => self.rules.slices.ids().map(view).collect(),
                Some(_) => lineage.views.clone(),
            },
            hosts,
            recorded: lineage.recorded,
            chain: lineage.chain.clone(),
            superseded: lineage.superseded.clone(),
            metrics: found.metrics.clone(),
            data: hex(&self.oracle.task.data_digest()),
            workers: 100,
            max_workers: self.oracle.task.job.cluster.max_workers,
            wait_below_min: None,
            min_workers: 1,
            durable: found.tensors.as_ref().map(|_| found.base),
            members: found.members,
            wishes: found.wishes,
        }
    }

    fn open_slices(
        &self,
        branch: Branch,
        tensors: Option<&Tensors>,
        opening: &mut Vec<(SliceId, Vec<shard::Effect>)>,
    ) -> Vec<SliceHost> {
        let slices: SliceMap = self.rules.slices;
        let Branch {
            timeline,
            map,
            base: step,
            ..
        } = branch;
        let view = View::first(timeline.reign);
        slices
            .ids()
            .map(|slice| {
                let origin = Origin {
                    slice,
                    timeline,
                    map,
                    view,
                    step,
                };
                let mut effects = Vec::new();
                let machine = Shard::new(self.rules.clone(), origin, &mut effects);
                opening.push((slice, effects));
                SliceHost {
                    machine,
                    kernel: self.kernel(slice, step, tensors),
                    tensors: SortedMap::new(),
                    next_tensor: 0,
                    pinned: None,
                    stored: SortedMap::new(),
                }
            })
            .collect()
    }

    fn kernel(&self, slice: SliceId, step: Step, tensors: Option<&Tensors>) -> SliceKernel {
        let task = Arc::clone(&self.oracle.task);
        let plan = task.slice_plan(self.rules.slices.range(slice));
        match tensors {
            None => {
                let initial = task.initial_weights();
                SliceKernel::new(plan.clone(), initial[plan.values()].to_vec())
            }
            Some(tensors) => SliceKernel::restore(plan, step, |name, range, out| {
                if self.plant == Some(Plant::MomentsLost) && name != WEIGHTS {
                    return Ok(());
                }
                let whole = tensors.get(name).ok_or("a tensor is missing")?;
                out.copy_from_slice(&whole[range]);
                Ok::<(), &str>(())
            })
            .expect("checkpoints have all tensors"),
        }
    }

    pub(super) fn local(&mut self, local: Local) -> Checked {
        match local {
            Local::Wake => self.wake_coordinator(),
            Local::Shard(slice, event) => self.shard(slice, event),
            Local::Slice(slice, says) => self.slice_says(slice, says),
            Local::Order(slice, order) => self.shard(slice, shard::Event::Order(order)),
            Local::Command(command) => self.job(job::Event::Command(command)),
            Local::Report(report) => self.job(job::Event::Shard(report)),
            Local::Store(request, done) => self.store(request, done),
            Local::Saver(event) => self.saver(event),
            Local::Kept(event) => self.kept(event),
            Local::Over(link) => {
                self.say_over(link);
                Ok(())
            }
            Local::Answer(link, branch, read) => {
                self.answer_read(link, branch, read);
                Ok(())
            }
            Local::Closed => self.job(job::Event::Closed),
        }
    }

    fn wake_coordinator(&mut self) -> Checked {
        let now = self.local_time();
        let Some(coordinator) = self.coordinator.as_mut() else {
            return Ok(());
        };
        coordinator.armed = None;
        let due = |deadline: Option<Time>| deadline.is_some_and(|at| at <= now);
        let (fleet, job, saver) = (
            due(coordinator.fleet.deadline()),
            due(coordinator.job.deadline()),
            due(coordinator.saver.deadline()),
        );
        let slices: Vec<SliceId> = (0..)
            .map(SliceId)
            .zip(&coordinator.slices)
            .filter(|(_, host)| due(host.machine.deadline()))
            .map(|(slice, _)| slice)
            .collect();
        if fleet {
            self.fleet(fleet::Event::Tick)?;
        }
        if job {
            self.job(job::Event::Tick)?;
        }
        if saver {
            self.saver(saver::Event::Tick)?;
        }
        for slice in slices {
            self.shard(slice, shard::Event::Tick)?;
        }
        Ok(())
    }

    /// After every event: the timer, and faults that wait for a step.
    pub(super) fn settled(&mut self) -> Checked {
        self.checker.see(&Fact::Settled)?;
        let Some(coordinator) = self.coordinator.as_mut() else {
            return Ok(());
        };
        if let Some(deadline) = coordinator.deadline() {
            let at = coordinator.clock.when(deadline).max(Time(self.now.0 + 1));
            if coordinator.armed.is_none_or(|armed| at < armed) {
                coordinator.armed = Some(at);
                let wake = Happening::Local(self.life, Local::Wake);
                self.queue.push(at, wake);
            }
        }
        let low = coordinator.job.low();
        self.reached(low);
        Ok(())
    }
}
