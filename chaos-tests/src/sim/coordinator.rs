//! The coordinator's process: how it begins from what is durable, its timer, and what happens
//! inside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use resilin_core::layout::SliceMap;
use resilin_core::ledger::Record;
use resilin_core::machine::fleet::{self, Fleet};
use resilin_core::machine::job::{self, Job, Settings};
use resilin_core::machine::saver::{self, Saver};
use resilin_core::machine::shard::{self, Origin, Shard};
use resilin_core::message::{Branch, SliceView};
use resilin_core::time::Time;
use resilin_core::{MapNumber, SliceId, Step, Timeline, View};
use resilin_learn::kernel::{Digest, SliceKernel, WEIGHTS, chain_line, hex};

use super::events::{Happening, Local};
use super::plant::Plant;
use super::shards::SliceHost;
use super::store::{Tensors, digests};
use super::{Checked, Sim};
use crate::invariants::Fact;

/// One life of the coordinator.
pub(super) struct Coordinator {
    pub(super) fleet: Fleet,
    pub(super) job: Job,
    pub(super) saver: Saver,
    pub(super) slices: Vec<SliceHost>,
    pub(super) timeline: Timeline,
    armed: Option<Time>,
}

impl Coordinator {
    pub(super) fn describe(&self, now: Time) -> String {
        let slices: Vec<Step> = self.slices.iter().map(|s| s.machine.version()).collect();
        let status = self.job.status(now);
        format!(
            "slices {slices:?} durable {:?} waiting {:?} workers {:?}",
            status.durable_step, status.waiting, status.workers
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

    /// Takes up the run from the newest checkpoint that can be read, on a branch of its own.
    pub(super) fn start_coordinator(&mut self) -> Checked {
        if self.coordinator.is_some() || self.outcome.is_some() {
            return Ok(());
        }
        self.life += 1;
        self.store.reign += 1;
        let (reign, map) = (self.store.reign, self.store.map_for(&self.rules));
        let timeline = Timeline::first(reign);
        let newest = self.store.newest();
        let (durable, base) = match &newest {
            Some((step, _)) => (Some(*step), *step),
            None => (None, Step(0)),
        };
        let views: Vec<SliceView> = self
            .rules
            .slices
            .ids()
            .map(|slice| SliceView {
                slice,
                view: View::first(reign),
                address: "coordinator:1".into(),
                primary: None,
                backup: None,
            })
            .collect();
        let tensors = newest.map(|(_, tensors)| tensors);
        let blocks = self.first_blocks(tensors.as_ref());
        self.checker.see(&Fact::Began {
            reign,
            timeline,
            base,
            damaged: !std::mem::take(&mut self.store.damaged).is_empty(),
            blocks: &blocks,
            rules: &self.rules,
        })?;
        let settings = self.settings((timeline, map, views), base, durable);
        self.open_ledger(timeline, base, &blocks);
        let mut opening = Vec::new();
        let slices = self.open_slices((timeline, map), base, tensors.as_ref(), &mut opening);
        let patience = self.oracle.task.job.failure.drain_grace;
        let lease = self.rules.lease;
        self.coordinator = Some(Coordinator {
            fleet: Fleet::new(reign, lease),
            job: Job::new(self.rules.clone(), settings),
            saver: Saver::new(
                self.rules.slices.slices(),
                durable,
                self.rules.cut_interval,
                patience,
            ),
            slices,
            timeline,
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

    fn settings(
        &self,
        (timeline, map, views): (Timeline, MapNumber, Vec<SliceView>),
        base: Step,
        durable: Option<Step>,
    ) -> Settings {
        let mut superseded = self.store.chain();
        superseded.retain(|version, _| *version > base);
        Settings {
            reign: timeline.reign,
            branch: Branch {
                timeline,
                map,
                shards: self.rules.slices.slices(),
                base,
            },
            views,
            hosts: None,
            recorded: base,
            chain: BTreeMap::new(),
            superseded,
            bits: true,
            metrics: self.store.metrics(),
            data: hex(&self.oracle.task.data_digest()),
            workers: 100,
            max_workers: 100,
            wait_below_min: None,
            min_workers: 1,
            durable,
            members: self.store.members(),
        }
    }

    fn open_ledger(&mut self, timeline: Timeline, base: Step, blocks: &[Digest]) {
        let reign = timeline.reign;
        let fresh = self.store.ledger.is_empty();
        self.store.ledger.push(Record::Start { reign });
        let begun = Record::Rollback { timeline, base };
        self.store.ledger.push(begun);
        if fresh {
            let chain = chain_line(blocks);
            self.store.ledger.push(Record::Initial { timeline, chain });
        }
        self.store.synced = self.store.ledger.len();
    }

    fn first_blocks(&self, tensors: Option<&Tensors>) -> Vec<Digest> {
        match tensors {
            Some(tensors) => digests(tensors, self.oracle),
            None => {
                let initial = self.oracle.task.initial_weights();
                let whole = Tensors::from([(WEIGHTS.into(), initial)]);
                digests(&whole, self.oracle)
            }
        }
    }

    fn open_slices(
        &self,
        (timeline, map): (Timeline, MapNumber),
        step: Step,
        tensors: Option<&Tensors>,
        opening: &mut Vec<(SliceId, Vec<shard::Effect>)>,
    ) -> Vec<SliceHost> {
        let slices: SliceMap = self.rules.slices;
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
                    tensors: BTreeMap::new(),
                    next_tensor: 0,
                    pinned: None,
                    stored: BTreeMap::new(),
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
            Local::Begun(slice, step) => self.saver(saver::Event::Begun(slice, step)),
            Local::Written(slice, step) => self.written(slice, step),
            Local::Durable(step) => self.store_commit(step),
            Local::Committed(step) => self.saver(saver::Event::Committed(step)),
            Local::Closed => self.job(job::Event::Closed),
            Local::Append(record) => {
                self.store.ledger.push(*record);
                Ok(())
            }
        }
    }

    fn wake_coordinator(&mut self) -> Checked {
        let now = self.now;
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
            let at = deadline.max(Time(self.now.0 + 1));
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
