//! Membership: joining, draining and losing workers.

use super::crew::{Reach, Stage, Standing, State};
use super::leases::Held;
use super::suspect::Found;
use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::Incarnation;
use crate::ledger::Record;
use crate::machine::fleet::{Cause, Member};
use crate::message::{CoordinatorSays, LEAVES, WorkerSays};
use crate::time::Time;

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
                let held_back = Some(until);
                let change = |standing: &mut Standing| standing.held_back = held_back;
                self.members.change(incarnation, change);
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
        let Some(state) = self.members.get_mut(incarnation) else {
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
                if generation != Some(self.generation) && state.stage() != Stage::Joining {
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
                if state.stage() == Stage::Joining {
                    self.take_claim(incarnation, &claim);
                }
            }
            WorkerSays::Audited(opinions) => {
                for opinion in opinions.into_iter().take(LEAVES) {
                    self.opinion(now, incarnation, opinion, effects);
                }
            }
            WorkerSays::Drain => self.drain(incarnation, effects),
            WorkerSays::Leave => unreachable!("the fleet turns it into `Down`"),
        }
    }

    /// It gets leases again if they were taken away.
    fn reaches_all(&mut self, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        match self.members.get(incarnation).map(State::reach) {
            None | Some(Reach::Full) => {}
            Some(Reach::Lacking(_)) => self.set_reach(incarnation, Reach::Full),
            Some(Reach::Withdrawn) => {
                self.set_reach(incarnation, Reach::Full);
                self.admit(incarnation, effects);
                self.hand_out(effects);
            }
        }
    }

    fn set_reach(&mut self, incarnation: Incarnation, reach: Reach) {
        let change = |standing: &mut Standing| standing.reach = reach;
        self.members.change(incarnation, change);
    }

    /// After a lease others are asked for what it holds, if there are others.
    fn lacks_a_link(&mut self, now: Time, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        let holds = self.leases.has(incarnation);
        let able = |other: &Incarnation| {
            let reach = self.members.get(*other).map(State::reach);
            *other != incarnation && reach == Some(Reach::Full)
        };
        let replaceable = || self.members.accepting().iter().any(able);
        let Some(reach) = self.members.get(incarnation).map(State::reach) else {
            return;
        };
        match reach {
            Reach::Withdrawn => {}
            Reach::Full => {
                if holds {
                    self.set_reach(incarnation, Reach::Lacking(now));
                }
            }
            Reach::Lacking(_) if !holds => self.set_reach(incarnation, Reach::Full),
            Reach::Lacking(since) if since + self.rules.lease <= now && replaceable() => {
                self.set_reach(incarnation, Reach::Withdrawn);
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
            .get(incarnation)
            .expect("looked up by the caller");
        if state.stage() != Stage::Joining {
            return;
        }
        if data != self.settings.data {
            let cause = format!(
                "this worker's rows differ from the run's, or its model's fingerprint does (digest \
                 {data}, the run has {}); give it the same files, and the same model with the same \
                 libraries",
                self.settings.data
            );
            effects.push(Effect::Say(incarnation, CoordinatorSays::Refuse { cause }));
            return;
        }
        let name = state.name.clone();
        self.set_stage(incarnation, Stage::Active);
        self.counters.members.joined += 1;
        effects.push(Effect::Tell(Fact::Joined {
            member: incarnation,
            name,
        }));
        self.readmit(effects);
        self.tell_held_back(incarnation, effects);
        self.admit(incarnation, effects);
        self.hand_out(effects);
    }

    fn set_stage(&mut self, incarnation: Incarnation, stage: Stage) {
        let change = |standing: &mut Standing| standing.stage = stage;
        self.members.change(incarnation, change);
    }

    pub(super) fn drain(&mut self, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        let Some(stage) = self.members.get(incarnation).map(State::stage) else {
            return;
        };
        match stage {
            Stage::Draining => {}
            Stage::Active => {
                self.set_stage(incarnation, Stage::Draining);
                if self.leases.has(incarnation) || self.is_missed(incarnation) {
                    self.replan(effects);
                }
            }
            Stage::Joining => self.set_stage(incarnation, Stage::Draining),
        }
        self.release_if_free(incarnation, effects);
    }

    /// One fewer is wanted when an operator drains a member, unless it is leaving already or more
    /// than wanted are here.
    pub(super) fn lower_wanted(&mut self, incarnation: Incarnation) {
        let state = self.members.get(incarnation);
        let stays = |state: &State| state.stage() != Stage::Draining;
        let staying = self.members.len() - self.members.draining().len();
        if state.is_some_and(stays) && staying <= self.wanted as usize {
            self.wanted = self.wanted.saturating_sub(1);
        }
    }

    /// Lets go every draining member whose leases have all ended (PROTOCOL 19), or never will be
    /// asked for since the slices rest.
    pub(super) fn release(&mut self, effects: &mut Vec<Effect>) {
        let low = self.low();
        let over = |lease: &Held| lease.until.is_some_and(|until| until <= low);
        let any_over = |held: &[Held]| held.iter().any(over);
        self.leases
            .alter_where(any_over, |held| held.retain(|lease| !over(lease)));
        let draining: Vec<Incarnation> = self.members.draining().iter().copied().collect();
        for incarnation in draining {
            self.release_if_free(incarnation, effects);
        }
    }

    fn release_if_free(&mut self, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        let held = self.leases.has(incarnation);
        let drains = self.members.draining().contains(&incarnation);
        if !drains || (held && self.resting_at().is_none()) {
            return;
        }
        self.orphan(incarnation);
        self.members.remove(incarnation);
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

    fn down(&mut self, incarnation: Incarnation, cause: Cause, effects: &mut Vec<Effect>) {
        let Some(state) = self.members.remove(incarnation) else {
            return;
        };
        self.pace.lost();
        // Whoever was told of the end leaves by closing its links.
        let cause = if self.is_told() { Cause::Left } else { cause };
        match (state.stage(), cause) {
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
        // After a restart a member may hold what it claimed before it has joined again.
        if state.stage() != Stage::Joining || self.leases.has(incarnation) {
            self.dismiss(incarnation, effects);
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
            .filter(|(_, state)| state.stage() != Stage::Draining)
            .map(|(incarnation, _)| incarnation)
            .collect();
        for incarnation in staying.into_iter().skip(self.wanted as usize) {
            effects.push(Effect::Say(incarnation, CoordinatorSays::Drain));
            self.drain(incarnation, effects);
        }
    }

    pub(super) fn active(&self) -> impl Iterator<Item = Incarnation> {
        self.members.accepting().iter().copied()
    }
}
