//! Membership: joining, draining and losing workers.

use super::suspect::Found;
use super::{Effect, Job, Note};
use crate::id::{Generation, Incarnation};
use crate::machine::fleet::{Cause, Member};
use crate::message::{CoordinatorSays, WorkerSays};
use crate::time::Time;

/// One member of the job.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) stage: Stage,
    /// The newest assignment it is known to have.
    pub(super) seen: Option<Generation>,
    pub(super) step: Option<crate::id::Step>,
    /// Samples a second of compute; 0 when unknown.
    pub(super) speed: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Building the job and reading its rows.
    Joining,
    /// Holds leases.
    Active,
    /// Finishes what it holds.
    Draining,
}

impl State {
    /// Whether it may be given leases.
    pub(super) fn accepts(&self) -> bool {
        self.stage == Stage::Active
    }
}

impl Job {
    pub(super) fn member(&mut self, member: Member, effects: &mut Vec<Effect>) {
        match member {
            Member::Up { incarnation, name } => {
                let (stage, seen, step, speed) = (Stage::Joining, None, None, 0.0);
                self.members.insert(
                    incarnation,
                    State {
                        name,
                        stage,
                        seen,
                        step,
                        speed,
                    },
                );
                if self
                    .ending
                    .as_ref()
                    .is_some_and(super::finish::Ending::told)
                {
                    effects.push(Effect::Say(incarnation, CoordinatorSays::Finished));
                }
            }
            Member::Said(incarnation, says) => self.said(incarnation, says, effects),
            Member::Down(incarnation, cause) => self.down(incarnation, cause, effects),
        }
    }

    fn said(&mut self, incarnation: Incarnation, says: WorkerSays, effects: &mut Vec<Effect>) {
        let Some(state) = self.members.get_mut(&incarnation) else {
            return;
        };
        match says {
            WorkerSays::Ready { data } => self.ready(incarnation, &data, effects),
            WorkerSays::Heartbeat {
                generation,
                step,
                samples_per_s,
            } => {
                (state.seen, state.step) = (generation, step);
                if samples_per_s > 0.0 {
                    state.speed = samples_per_s;
                }
                if generation != Some(self.generation) && state.stage != Stage::Joining {
                    self.assign(incarnation, effects);
                }
            }
            WorkerSays::NonFinite {
                timeline,
                step,
                partition,
                digest,
                evaluations,
            } => {
                if timeline == self.settings.timeline {
                    let found = Found {
                        step,
                        digest,
                        by: incarnation,
                        evaluations,
                    };
                    self.non_finite(partition, found, effects);
                }
            }
            WorkerSays::Evaluated {
                timeline,
                version,
                task,
                score,
            } => {
                if timeline == self.settings.timeline {
                    self.evaluated(version, task, score, effects);
                }
            }
            WorkerSays::Drain => self.drain(incarnation, effects),
            WorkerSays::Leave => unreachable!("the fleet turns it into `Down`"),
        }
    }

    fn ready(&mut self, incarnation: Incarnation, data: &str, effects: &mut Vec<Effect>) {
        let state = self
            .members
            .get_mut(&incarnation)
            .expect("looked up by the caller");
        if state.stage != Stage::Joining {
            return;
        }
        if data != self.settings.data {
            let cause = format!(
                "this worker's rows differ from the run's (digest {data}, the run has {}); give it \
                 the same files",
                self.settings.data
            );
            effects.push(Effect::Say(incarnation, CoordinatorSays::Refuse { cause }));
            return;
        }
        state.stage = Stage::Active;
        let name = state.name.clone();
        self.counters.joined += 1;
        effects.push(Effect::Note(Note::Joined(incarnation, name)));
        self.replan(effects);
        self.hand_out(effects);
    }

    pub(super) fn drain(&mut self, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        let Some(state) = self.members.get_mut(&incarnation) else {
            return;
        };
        match state.stage {
            Stage::Draining => {}
            Stage::Active => {
                state.stage = Stage::Draining;
                self.replan(effects);
            }
            Stage::Joining => state.stage = Stage::Draining,
        }
        self.release(effects);
    }

    /// Lets go every draining member whose leases have all ended (PROTOCOL 19).
    pub(super) fn release(&mut self, effects: &mut Vec<Effect>) {
        let low = self.low();
        for held in self.leases.values_mut() {
            held.retain(|lease| lease.until.is_none_or(|until| until > low));
        }
        let free: Vec<Incarnation> = self
            .members
            .iter()
            .filter(|(_, state)| state.stage == Stage::Draining)
            .map(|(incarnation, _)| *incarnation)
            .filter(|incarnation| !self.holds_any(*incarnation))
            .collect();
        for incarnation in free {
            self.members.remove(&incarnation);
            self.counters.drained += 1;
            effects.push(Effect::Say(incarnation, CoordinatorSays::Release));
            effects.push(Effect::Note(Note::Drained(incarnation)));
            self.evaluation_lost(incarnation, effects);
        }
    }

    fn down(&mut self, incarnation: Incarnation, cause: Cause, effects: &mut Vec<Effect>) {
        let Some(state) = self.members.remove(&incarnation) else {
            return;
        };
        // Whoever was told of the end leaves by closing its links.
        let over = self
            .ending
            .as_ref()
            .is_some_and(super::finish::Ending::told);
        let cause = if over { Cause::Left } else { cause };
        match (state.stage, cause) {
            (Stage::Draining, _) | (Stage::Active | Stage::Joining, Cause::Left) => {
                self.counters.drained += 1;
                effects.push(Effect::Note(Note::Drained(incarnation)));
            }
            (Stage::Active, Cause::LinkReset | Cause::LeaseExpired) => {
                self.counters.lost += 1;
                effects.push(Effect::Note(Note::Lost(incarnation, cause.word())));
            }
            (Stage::Joining, Cause::LinkReset | Cause::LeaseExpired) => {
                effects.push(Effect::Note(Note::Lost(incarnation, cause.word())));
            }
        }
        if state.stage != Stage::Joining {
            self.orphan(incarnation);
            self.replan(effects);
        }
        self.evaluation_lost(incarnation, effects);
        self.suspect_lost(incarnation, effects);
    }

    /// Drains the youngest members beyond the number wanted.
    pub(super) fn drain_surplus(&mut self, effects: &mut Vec<Effect>) {
        let staying: Vec<Incarnation> = self
            .members
            .iter()
            .filter(|(_, state)| state.stage != Stage::Draining)
            .map(|(incarnation, _)| *incarnation)
            .collect();
        for incarnation in staying.into_iter().skip(self.wanted as usize) {
            effects.push(Effect::Say(incarnation, CoordinatorSays::Drain));
            self.drain(incarnation, effects);
        }
    }

    pub(super) fn active(&self) -> impl Iterator<Item = Incarnation> {
        self.members
            .iter()
            .filter(|(_, state)| state.accepts())
            .map(|(i, _)| *i)
    }

    /// Gives up when there were too few workers for too long.
    pub(super) fn below_min(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.active().count() >= self.settings.min_workers as usize {
            self.below_min = None;
            return;
        }
        let since = *self.below_min.get_or_insert(now);
        if self
            .settings
            .wait_below_min
            .is_some_and(|wait| since + wait <= now)
        {
            self.end(super::Outcome::WaitedTooLong, effects);
        }
    }
}
