//! What a worker's process does for its machine: its timer, its arithmetic, its links.

use std::sync::Arc;

use resilin_core::LinkId;
use resilin_core::machine::shard::Push;
use resilin_core::machine::worker::{Effect, Event};
use resilin_core::message::{TaskScore, Use};
use resilin_core::time::{Span, Time};
use resilin_learn::kernel::{Which, score_range};

use super::events::{Chore, End, Happening, Packet, Role};
use super::host::Host;
use super::{Checked, Sim, bugs, processes};

impl Sim<'_> {
    /// A worker's process; `name` is another's if its host was copied.
    pub(super) fn start_worker(&mut self, slowness: u32, name: Option<String>) {
        self.next_host += 1;
        let id = self.next_host;
        let name = name.unwrap_or_else(|| format!("worker{id}"));
        let host = Host::new(&self.oracle.task, self.rules.clone(), name, slowness);
        self.hosts.insert(id, host);
        self.redial_later(id, Role::Control);
    }

    pub(super) fn worker(&mut self, id: u32, event: Event) -> Checked {
        self.tell_of(format_args!("worker{id} <-"), &event);
        let mut effects = Vec::new();
        match self.hosts.get_mut(&id) {
            Some(host) => {
                let now = host.clock.read(self.now);
                host.machine.step(now, event, &mut effects);
            }
            None => return Ok(()),
        }
        for effect in effects {
            self.tell_of(format_args!("worker{id}    ->"), &effect);
            self.worker_effect(id, effect);
        }
        self.arm_worker(id);
        Ok(())
    }

    pub(super) fn arm_worker(&mut self, id: u32) {
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        let Some(deadline) = host.machine.deadline() else {
            return;
        };
        let at = host.clock.when(deadline).max(Time(self.now.0 + 1));
        if host.armed.is_none_or(|armed| at < armed) {
            host.armed = Some(at);
            self.queue.push(at, Happening::Chore(id, Chore::Wake));
        }
    }

    pub(super) fn chore(&mut self, id: u32, chore: Chore) -> Checked {
        let Some(host) = self.hosts.get_mut(&id) else {
            return Ok(());
        };
        let evaluates = matches!(
            chore,
            Chore::Evaluate { .. }
                | Chore::Finish { .. }
                | Chore::Audit { .. }
                | Chore::Score { .. }
        );
        if evaluates && host.stuck > self.now {
            self.queue.push(host.stuck, Happening::Chore(id, chore));
            return Ok(());
        }
        match chore {
            Chore::Wake => {
                host.armed = None;
                let now = host.clock.read(self.now);
                if host.machine.deadline().is_some_and(|at| at <= now) {
                    let samples_per_s = 1000.0 / f64::from(host.slowness);
                    return self.worker(id, Event::Tick { samples_per_s });
                }
                self.arm_worker(id);
                Ok(())
            }
            Chore::Redial(role) => {
                let wanted = match role {
                    Role::Control => host.control.is_none(),
                    Role::Data(slice) => host.data.get(&slice) == Some(&None),
                    Role::Votes(_) | Role::Mirror(_) | Role::Store(_) => false,
                };
                if wanted {
                    self.dial(id, role);
                }
                Ok(())
            }
            Chore::Evaluate {
                timeline,
                step,
                node,
                weights,
                last,
                ends,
            } => {
                let computed = self.evaluate(id, (step, node), &weights)?;
                let finish = Chore::Finish {
                    timeline,
                    step,
                    computed,
                    last,
                };
                match ends.filter(|ends| *ends > self.now) {
                    Some(ends) => self.begin_sum(id, finish, ends),
                    None => self.chore(id, finish),
                }
            }
            Chore::Finish {
                timeline,
                step,
                computed,
                last,
            } => {
                self.send_rest(id, &computed);
                let event = Event::Computed {
                    timeline,
                    step,
                    computed,
                    last,
                };
                self.worker(id, event)
            }
            Chore::Audit {
                timeline,
                step,
                leaf,
                weights,
            } => {
                let mut values = vec![0.0; weights.len()];
                let made = host
                    .evaluator
                    .digest_leaf(&weights, step, leaf, &mut values);
                let (_, digest) = made.expect("rows of the tests can be read");
                let event = Event::Audited {
                    timeline,
                    step,
                    partition: leaf,
                    digest,
                };
                self.worker(id, event)
            }
            Chore::Score {
                timeline,
                version,
                task,
                weights,
            } => {
                let rows = Which::Test.rows(&self.oracle.task);
                let range = bugs::score_rows(self.plant, score_range(rows, task));
                let score = host.evaluator.score(&weights, Which::Test, range);
                let score = score.expect("rows of the tests can be read");
                let score = TaskScore {
                    rows: score.rows,
                    correct: score.correct,
                    loss_sum: score.loss_sum,
                    parts: score.parts,
                };
                let event = Event::Scored {
                    timeline,
                    version,
                    task,
                    score,
                };
                self.worker(id, event)
            }
        }
    }

    /// A link is gone, as the worker sees it.
    pub(super) fn cut_off(&mut self, id: u32, role: Role, link: LinkId) -> Checked {
        let Some(host) = self.hosts.get_mut(&id).filter(|h| h.uses(role, link)) else {
            return Ok(());
        };
        let event = match role {
            Role::Control => {
                host.control = None;
                Event::Orphaned
            }
            Role::Data(slice) => {
                host.data.insert(slice, None);
                Event::SliceDown(slice)
            }
            Role::Votes(_) | Role::Mirror(_) | Role::Store(_) => return Ok(()),
        };
        self.redial_later(id, role);
        self.worker(id, event)
    }

    fn worker_effect(&mut self, id: u32, effect: Effect) {
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        match effect {
            Effect::Say(says) => {
                if let Some(link) = host.control {
                    let again = self.bug_in_report(&says);
                    for says in [Some(says), again].into_iter().flatten() {
                        self.send(link, End::Listener, Packet::Said(says));
                    }
                }
            }
            Effect::Rejoined(_) => {}
            Effect::Rejoin { .. } => {
                if let Some(link) = host.control.take() {
                    self.close(link, End::Dialler);
                }
                self.redial_later(id, Role::Control);
            }
            Effect::Layout(slices) => {
                host.slices = slices;
                host.weights.clear();
                host.asked.clear();
            }
            Effect::Dial(view) => {
                host.servers
                    .insert(view.slice, processes::at(&view.address));
                host.data.insert(view.slice, None);
                self.dial(id, Role::Data(view.slice));
            }
            Effect::Hangup(slice) => {
                if let Some(Some(link)) = host.data.remove(&slice) {
                    self.close(link, End::Dialler);
                }
            }
            Effect::Ask(slice, asks) => {
                host.asks(slice, asks);
                if let Some(Some(link)) = host.data.get(&slice).copied() {
                    self.send(link, End::Listener, Packet::Asked(asks));
                }
            }
            Effect::Push {
                view,
                timeline,
                map,
                step,
                computed,
            } => {
                let push = Push {
                    timeline,
                    map,
                    view: view.view,
                    step,
                    node: computed.node,
                    incarnation: host.incarnation,
                    tensor: computed.tensor,
                    samples: computed.samples,
                    weight: computed.weight,
                    loss_sum: computed.loss_sum,
                };
                self.send_push(id, view.slice, push);
            }
            Effect::Compute {
                timeline,
                step,
                nodes,
            } => self.compute(id, timeline, step, &nodes),
            Effect::Score {
                timeline,
                version,
                tasks,
            } => {
                let weights = host.whole(Use::Evaluate, version);
                let slowness = u64::from(host.slowness);
                for (task, turn) in tasks.into_iter().zip(1..) {
                    let at = self.now + Span::from_millis(slowness).times(turn);
                    let weights = Arc::clone(&weights);
                    let chore = Chore::Score {
                        timeline,
                        version,
                        task,
                        weights,
                    };
                    self.queue.push(at, Happening::Chore(id, chore));
                }
            }
            // The models here are pure.
            Effect::Regroup(_) => {}
            Effect::Retain(step) => {
                let weights = host.whole(Use::Train, step);
                host.retained.insert(step, weights);
            }
            Effect::Release(below) => host.retained.retain(|step, _| *step >= below),
            Effect::Audit {
                timeline,
                step,
                leaves,
            } => {
                let weights = Arc::clone(&host.retained[&step]);
                let slowness = u64::from(host.slowness);
                for (leaf, turn) in leaves.into_iter().zip(2..) {
                    let at = self.now + Span::from_millis(slowness).times(turn);
                    let weights = Arc::clone(&weights);
                    let chore = Chore::Audit {
                        timeline,
                        step,
                        leaf,
                        weights,
                    };
                    self.queue.push(at, Happening::Chore(id, chore));
                }
            }
            Effect::Forget(purpose, below) => host.forget(purpose, below),
            Effect::Free(tensor) => {
                let freed = host.tensors.remove(&tensor);
                assert!(freed.is_some(), "{tensor} is freed once");
            }
            Effect::Exit(_) => self.end_worker(id),
        }
    }

    /// The process is gone; the kernel closes its links.
    pub(super) fn end_worker(&mut self, id: u32) {
        if let Some(host) = self.hosts.remove(&id) {
            for link in host.links() {
                self.close(link, End::Dialler);
            }
        }
        // A supervisor keeps the wanted workers: the last two may be let go at once, one by an
        // operator and one as the other's surplus.
        let supervised = self.quiet && self.schedule.quiet_at > Span::ZERO;
        if supervised && self.hosts.is_empty() && self.outcome.is_none() {
            self.start_worker(1, None);
        }
    }
}
