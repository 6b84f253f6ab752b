//! Membership: joining, draining and losing workers.

use super::speed::Speed;
use super::suspect::Found;
use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::{Generation, Incarnation};
use crate::ledger::Record;
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
    pub(super) speed: Speed,
    /// Whether it has contributed to a step.
    pub(super) proven: bool,
    /// Steps in a row in which a later copy of its work was sooner.
    pub(super) strikes: u32,
    reach: Reach,
    /// Until when it gets no work for having been lost again and again.
    pub(super) held_back: Option<Time>,
}

/// Whether the member is linked to all slices; leases are held only then (PROTOCOL 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Full,
    /// It has leases and lacks a link since then.
    Lacking(Time),
    /// Its leases were taken away until it has all links.
    Withdrawn,
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
        let reaches = self.reach != Reach::Withdrawn;
        self.stage == Stage::Active && reaches && self.held_back.is_none()
    }

    /// Whether it lacks no link, as far as is known.
    pub(super) fn reaches(&self) -> bool {
        self.reach == Reach::Full
    }

    fn new(name: String) -> Self {
        Self {
            name,
            stage: Stage::Joining,
            seen: None,
            step: None,
            speed: Speed::default(),
            proven: false,
            strikes: 0,
            reach: Reach::Full,
            held_back: None,
        }
    }
}

impl Job {
    pub(super) fn member(&mut self, now: Time, member: Member, effects: &mut Vec<Effect>) {
        match member {
            Member::Up { incarnation, name } => {
                self.members.insert(incarnation, State::new(name));
                if self.is_told() {
                    effects.push(Effect::Say(incarnation, CoordinatorSays::Finished));
                }
            }
            Member::Said(incarnation, says) => self.said(now, incarnation, says, effects),
            Member::HeldBack(incarnation, until) => {
                if let Some(state) = self.members.get_mut(&incarnation) {
                    state.held_back = Some(until);
                }
            }
            Member::Down(incarnation, cause) => self.down(incarnation, cause, effects),
        }
    }

    /// Whether members are told that the run is over.
    pub(super) fn is_told(&self) -> bool {
        let ending = self.ending.as_ref();
        ending.is_some_and(super::finish::Ending::told)
    }

    fn said(
        &mut self,
        now: Time,
        incarnation: Incarnation,
        says: WorkerSays,
        effects: &mut Vec<Effect>,
    ) {
        let told = self.is_told();
        let Some(state) = self.members.get_mut(&incarnation) else {
            // It was let go and did not hear it.
            let says = if told {
                CoordinatorSays::Finished
            } else {
                CoordinatorSays::Release
            };
            return effects.push(Effect::Say(incarnation, says));
        };
        match says {
            WorkerSays::Ready { data } => self.ready(incarnation, &data, effects),
            WorkerSays::Heartbeat {
                generation,
                step,
                samples_per_s,
                linked,
            } => {
                (state.seen, state.step) = (generation, step);
                if generation != Some(self.generation) && state.stage != Stage::Joining {
                    self.assign(incarnation, effects);
                }
                self.hear_speed(incarnation, samples_per_s, effects);
                if linked {
                    self.reaches_all(incarnation, effects);
                } else {
                    self.lacks_a_link(now, incarnation, effects);
                }
            }
            WorkerSays::NonFinite {
                timeline,
                step,
                partition,
                digest,
                evaluations,
            } => {
                if timeline == self.branch.timeline {
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
                if timeline == self.branch.timeline {
                    self.evaluated(version, task, score, effects);
                }
            }
            WorkerSays::Claim(claim) => {
                if state.stage == Stage::Joining {
                    self.take_claim(incarnation, &claim);
                }
            }
            WorkerSays::Audited(opinion) => self.opinion(now, incarnation, opinion, effects),
            WorkerSays::Drain => self.drain(incarnation, effects),
            WorkerSays::Leave => unreachable!("the fleet turns it into `Down`"),
        }
    }

    /// It gets leases again if they were taken away.
    fn reaches_all(&mut self, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        let Some(state) = self.members.get_mut(&incarnation) else {
            return;
        };
        let before = std::mem::replace(&mut state.reach, Reach::Full);
        if before == Reach::Withdrawn {
            self.replan(effects);
            self.hand_out(effects);
        }
    }

    /// After a lease others are asked for what it holds, if there are others.
    fn lacks_a_link(&mut self, now: Time, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        let holds = self.holds_any(incarnation);
        let able = |(other, state): (&Incarnation, &State)| {
            *other != incarnation && state.accepts() && state.reach == Reach::Full
        };
        let replaceable = self.members.iter().any(able);
        let Some(state) = self.members.get_mut(&incarnation) else {
            return;
        };
        match state.reach {
            Reach::Withdrawn => {}
            Reach::Full | Reach::Lacking(_) if !holds => state.reach = Reach::Full,
            Reach::Full => state.reach = Reach::Lacking(now),
            Reach::Lacking(since) if replaceable && since + self.rules.lease <= now => {
                state.reach = Reach::Withdrawn;
                self.orphan(incarnation);
                self.replan(effects);
                self.release(effects);
                self.evaluation_lost(incarnation, effects);
                self.suspect_lost(incarnation, effects);
                self.audit_lost(incarnation, effects);
            }
            Reach::Lacking(_) => {}
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
        self.counters.members.joined += 1;
        effects.push(Effect::Tell(Fact::Joined {
            member: incarnation,
            name,
        }));
        self.readmit(effects);
        self.tell_held_back(incarnation, effects);
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

    /// One fewer is wanted when an operator drains a member, unless it is leaving already or more
    /// than wanted are here.
    pub(super) fn lower_wanted(&mut self, incarnation: Incarnation) {
        let state = self.members.get(&incarnation);
        let stays = |state: &State| state.stage != Stage::Draining;
        let staying = self.members.values().filter(|state| stays(state)).count();
        if state.is_some_and(stays) && staying <= self.wanted as usize {
            self.wanted = self.wanted.saturating_sub(1);
        }
    }

    /// Lets go every draining member whose leases have all ended (PROTOCOL 19), or never will be
    /// asked for since the slices rest.
    pub(super) fn release(&mut self, effects: &mut Vec<Effect>) {
        let (low, rests) = (self.low(), self.resting_at().is_some());
        for held in self.leases.values_mut() {
            held.retain(|lease| lease.until.is_none_or(|until| until > low));
        }
        let free: Vec<Incarnation> = self
            .members
            .iter()
            .filter(|(_, state)| state.stage == Stage::Draining)
            .map(|(incarnation, _)| *incarnation)
            .filter(|incarnation| rests || !self.holds_any(*incarnation))
            .collect();
        for incarnation in free {
            let held = self.holds_any(incarnation);
            self.orphan(incarnation);
            self.members.remove(&incarnation);
            if held {
                self.replan(effects);
            }
            self.counters.members.drained += 1;
            effects.push(Effect::Say(incarnation, CoordinatorSays::Release));
            effects.push(Effect::Tell(Fact::Drained {
                member: incarnation,
            }));
            self.evaluation_lost(incarnation, effects);
        }
    }

    fn down(&mut self, incarnation: Incarnation, cause: Cause, effects: &mut Vec<Effect>) {
        let Some(state) = self.members.remove(&incarnation) else {
            return;
        };
        self.pace.lost();
        // Whoever was told of the end leaves by closing its links.
        let cause = if self.is_told() { Cause::Left } else { cause };
        match (state.stage, cause) {
            (Stage::Draining, _) | (Stage::Active | Stage::Joining, Cause::Left) => {
                self.counters.members.drained += 1;
                effects.push(Effect::Tell(Fact::Drained {
                    member: incarnation,
                }));
            }
            (
                Stage::Active,
                Cause::LinkReset | Cause::LeaseExpired | Cause::Fenced | Cause::Replaced,
            ) => {
                self.counters.members.lost += 1;
                effects.push(Effect::Tell(Fact::Lost {
                    member: incarnation,
                    cause: cause.word().into(),
                }));
            }
            (
                Stage::Joining,
                Cause::LinkReset | Cause::LeaseExpired | Cause::Fenced | Cause::Replaced,
            ) => {
                effects.push(Effect::Tell(Fact::Lost {
                    member: incarnation,
                    cause: cause.word().into(),
                }));
            }
        }
        match cause {
            Cause::Left => {}
            Cause::LinkReset | Cause::LeaseExpired | Cause::Fenced | Cause::Replaced => {
                self.miss(&state.name, cause.word());
            }
        }
        if state.stage != Stage::Joining {
            self.orphan(incarnation);
            self.replan(effects);
        }
        self.evaluation_lost(incarnation, effects);
        self.suspect_lost(incarnation, effects);
        self.backup_lost(incarnation);
        self.audit_lost(incarnation, effects);
    }

    /// Keeps who came and went beyond this life of the coordinator.
    pub(super) fn record_members(&mut self, effects: &mut Vec<Effect>) {
        if self.members_recorded != self.counters.members {
            self.members_recorded = self.counters.members;
            effects.push(Effect::Append(Record::Members(self.members_recorded)));
        }
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
}
