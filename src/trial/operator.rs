//! Carries a plan out: strikes when a fault is due, and undoes what lasts when its time is over.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use resilin_actors::supervisor;
use resilin_chaos::process::plan::{Fault, Plan, Planned, Role};
use resilin_chaos::process::proxy::{Proxy, Spoil};
use resilin_core::Span;

use super::Shown;
use super::record::Struck;
use super::stage::Stage;

/// Longest wait in one piece: how late it notices that the workers are there.
const PIECE: Duration = Duration::from_millis(20);

/// Carries the plan out from the moment when all workers compute; returns when everything is undone
/// after the end of the plan, or of the run, which is when `over` has no sender any more.
pub(super) fn act(
    stage: &Stage,
    plan: &Plan,
    proxy: Option<&Proxy>,
    over: &Receiver<()>,
    show: &(dyn Fn(Shown<'_>) + Sync),
) {
    let Some(begun) = assembled(stage, over) else {
        return;
    };
    let mut operator = Operator {
        stage,
        proxy,
        begun,
        lasting: BTreeMap::new(),
    };
    for planned in &plan.faults {
        if !operator.wait_until(begun + duration(planned.at), over) {
            return operator.undo_all();
        }
        let struck = operator.strike(planned);
        show(Shown::Fault(&struck));
    }
    if operator.wait_until(begun + duration(plan.duration), over) {
        let now = stage.now();
        stage.seen().record.calm(now);
    }
    operator.undo_all();
}

/// Waits until all workers compute; `None` if the run ends before.
fn assembled(stage: &Stage, over: &Receiver<()>) -> Option<Duration> {
    while over.recv_timeout(PIECE) == Err(RecvTimeoutError::Timeout) {
        if stage.seen().record.assembled().is_some() {
            return Some(stage.now());
        }
    }
    None
}

struct Operator<'a> {
    stage: &'a Stage,
    proxy: Option<&'a Proxy>,
    begun: Duration,
    /// What has to be undone, by process id; nobody suffers two lasting faults at a time.
    lasting: BTreeMap<u32, Lasting>,
}

#[derive(Clone, Copy)]
struct Lasting {
    until: Duration,
    undo: Undo,
}

#[derive(Clone, Copy)]
enum Undo {
    Thaw,
    Heal,
}

impl Operator<'_> {
    /// Waits, and undoes meanwhile what is over; false once the run is.
    fn wait_until(&mut self, due: Duration, over: &Receiver<()>) -> bool {
        loop {
            let now = self.stage.now();
            self.undo(|lasting| lasting.until <= now);
            if now >= due {
                return true;
            }
            let next = self.lasting.values().map(|lasting| lasting.until);
            let next = next.min().map_or(due, |next| next.min(due));
            if over.recv_timeout(next.saturating_sub(now)) != Err(RecvTimeoutError::Timeout) {
                return false;
            }
        }
    }

    fn undo_all(&mut self) {
        self.undo(|_| true);
    }

    fn undo(&mut self, is_over: impl Fn(&Lasting) -> bool) {
        let (children, proxy) = (&self.stage.children, self.proxy);
        self.lasting.retain(|pid, lasting| {
            if !is_over(lasting) {
                return true;
            }
            match (lasting.undo, proxy) {
                // It may have been killed meanwhile.
                (Undo::Thaw, _) => drop(children.thaw(*pid)),
                (Undo::Heal, Some(proxy)) => drop(proxy.spoil(*pid, Spoil::Heal)),
                (Undo::Heal, None) => {}
            }
            false
        });
    }

    fn strike(&mut self, planned: &Planned) -> Struck {
        let (at, fault) = (self.stage.now(), planned.fault);
        let target = self.meet(planned);
        let mut seen = self.stage.seen();
        let target = target.map(|pid| {
            let own = format!(":{pid}");
            let jobs = seen.newest.iter().map(|status| &status.job);
            let mut members = jobs.flat_map(|job| {
                let workers = job.workers.iter();
                let workers = workers.map(|worker| (&worker.name, worker.incarnation));
                workers.chain(job.hosts.iter().map(|host| (&host.name, host.incarnation)))
            });
            let named = members.find(|(name, _)| name.ends_with(&own));
            let incarnation = named.map(|(_, incarnation)| format!(" ({incarnation})"));
            format!("{pid}{}", incarnation.unwrap_or_default())
        });
        let struck = Struck {
            at_s: (at - self.begun).as_secs_f64(),
            kind: fault.kind(),
            fault: fault.to_string(),
            target,
            step: seen.record.step().0,
            recovery_ms: None,
        };
        seen.record.strike(at, struck.clone());
        struck
    }

    /// Carries one fault out; the process that it met.
    fn meet(&mut self, planned: &Planned) -> Option<u32> {
        let Planned { choice, fault, .. } = *planned;
        let children = &self.stage.children;
        match fault {
            Fault::Kill(role) => {
                let pid = choose(&self.living(role), choice)?;
                children.kill(pid).then_some(pid)
            }
            Fault::Freeze(role, span) => {
                let pid = choose(&self.untroubled(self.living(role)), choice)?;
                let frozen = children.freeze(pid);
                self.lasts(pid, span, Undo::Thaw, frozen)
            }
            Fault::Cut => {
                let pid = choose(&self.linked(), choice)?;
                self.proxy?.spoil(pid, Spoil::Cut).then_some(pid)
            }
            Fault::Silence(way, span) => self.spoil(choice, Spoil::Silence(way), span),
            Fault::Throttle(bytes, span) => self.spoil(choice, Spoil::Throttle(bytes), span),
            Fault::Delay(delay, span) => self.spoil(choice, Spoil::Delay(duration(delay)), span),
        }
    }

    fn spoil(&mut self, choice: u32, spoil: Spoil, span: Span) -> Option<u32> {
        let pid = choose(&self.untroubled(self.linked()), choice)?;
        let spoiled = self.proxy?.spoil(pid, spoil);
        self.lasts(pid, span, Undo::Heal, spoiled)
    }

    fn lasts(&mut self, pid: u32, span: Span, undo: Undo, begun: bool) -> Option<u32> {
        let until = self.stage.now() + duration(span);
        begun.then(|| {
            self.lasting.insert(pid, Lasting { until, undo });
            pid
        })
    }

    fn living(&self, role: Role) -> Vec<u32> {
        match role {
            Role::Worker => self.stage.children.living(supervisor::Role::Worker),
            Role::Coordinator => self.stage.children.living(supervisor::Role::Coordinator),
            // None where shards live in the coordinator's process.
            Role::Shard => self.stage.children.living(supervisor::Role::Shard),
        }
    }

    /// Workers and shard processes that dialled through the proxy.
    fn linked(&self) -> Vec<u32> {
        let peers = self.proxy.map(Proxy::peers).unwrap_or_default();
        let mut linked = self.living(Role::Worker);
        linked.extend(self.living(Role::Shard));
        linked.retain(|pid| peers.contains(pid));
        linked
    }

    fn untroubled(&self, mut pids: Vec<u32>) -> Vec<u32> {
        pids.retain(|pid| !self.lasting.contains_key(pid));
        pids
    }
}

impl Drop for Operator<'_> {
    fn drop(&mut self) {
        self.undo_all();
    }
}

fn choose(among: &[u32], choice: u32) -> Option<u32> {
    let count = among.len().max(1);
    among.get(choice as usize % count).copied()
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0)
}
