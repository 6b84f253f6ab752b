//! Measured speeds: how the plan follows them, and who is named for being slow.
//!
//! Speeds count in levels of a factor of two below the fastest, and a member keeps its level until
//! it is well outside, so that measurement noise moves no lease.

use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::Incarnation;
use crate::machine::turns::Turns;
use crate::time::Time;

/// A member so many times slower than the others' median is named.
const SLOW: f64 = 4.0;
/// It is not named any more below this.
const FAST_ENOUGH: f64 = 3.0;
/// The slowest level.
const SLOWEST: f64 = 1.0 / 64.0;
/// Leases after which a member that is too slow to hold anything is tried again, the first time.
const TRY_AGAIN: u64 = 30;
/// The longest time between two tries is so many times the first one.
const RAREST: u64 = 64;
/// Leases that a try lasts at most without a new figure.
const TRY: u64 = 8;

/// What is known of a member's speed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Samples a second of compute; 0 when unknown.
    pub(super) measured: f64,
    /// How many times slower than the others' median, while that is worth a word.
    pub(super) slow: Option<f64>,
    /// The level that the plan in force counts with.
    level: f64,
    /// The figure that the last look at everybody counted, if any.
    surveyed: Option<f64>,
    pause: Pause,
    /// Times that it was tried again.
    tries: u32,
}

/// Whoever holds nothing for being slow is not measured either, so it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// It works, or could.
    No,
    /// It has held nothing since then.
    Since(Time),
    /// It is tried: the old figure does not count until then.
    Trying(Time),
}

/// The speeds of all who may work, at the last look at everybody.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    turns: Turns,
    sorted: Vec<f64>,
    fastest: f64,
    /// Whether somebody is at another level than the plan counts with.
    drifted: bool,
}

impl Survey {
    /// The median without one member, whose figure in it is `own`.
    fn median_beside(&self, own: Option<f64>) -> Option<f64> {
        let place = |own: f64| self.sorted.partition_point(|speed| *speed < own);
        let own = own.map(place);
        let middle = (self.sorted.len() - usize::from(own.is_some())) / 2;
        let skips = own.is_some_and(|own| own <= middle);
        self.sorted.get(middle + usize::from(skips)).copied()
    }
}

impl Default for Speed {
    fn default() -> Self {
        Self {
            measured: 0.0,
            slow: None,
            level: 1.0,
            surveyed: None,
            pause: Pause::No,
            tries: 0,
        }
    }
}

impl Speed {
    /// The figure of a heartbeat; the same one again during a try is no new one.
    fn hear(&mut self, now: Time, samples_per_s: f64) {
        // Bits, since a figure that was not measured anew is the very same.
        let same = samples_per_s.to_bits() == self.measured.to_bits();
        match self.pause {
            Pause::Trying(until) if same && now < until => {}
            Pause::Trying(_) => self.pause = Pause::No,
            Pause::No | Pause::Since(_) => {}
        }
        self.measured = samples_per_s;
    }

    /// What the plan counts with: unknown while it is tried.
    fn known(&self) -> f64 {
        match self.pause {
            Pause::Trying(_) => 0.0,
            Pause::No | Pause::Since(_) => self.measured,
        }
    }
}

impl Job {
    /// A heartbeat carries a figure. The plan follows at most once a lease.
    pub(super) fn hear_speed(
        &mut self,
        member: Incarnation,
        samples_per_s: f64,
        effects: &mut Vec<Effect>,
    ) {
        let (now, lease) = (self.now, self.rules.lease);
        let Some(state) = self.members.get_mut(member) else {
            return;
        };
        if samples_per_s.is_finite() && samples_per_s > 0.0 {
            state.speed.hear(now, samples_per_s);
        }
        let speed = &mut state.speed;
        let pause = lease.times(TRY_AGAIN << speed.tries.min(RAREST.ilog2()));
        if let Pause::Since(since) = speed.pause
            && since + pause <= now
        {
            speed.pause = Pause::Trying(now + lease.times(TRY));
            speed.tries += 1;
        }
        if self.survey.turns.take(self.members.len()) {
            self.look_at_speeds();
        }
        self.name_slow(member, effects);
        if self.survey.drifted && self.speeds_at.is_none_or(|at| at + lease <= now) {
            self.speeds_at = Some(now);
            self.replan_if_better(effects);
        }
    }

    fn name_slow(&mut self, member: Incarnation, effects: &mut Vec<Effect>) {
        let state = self.members.get_mut(member).expect("seen by the caller");
        let own = state.speed.measured;
        let others = self.survey.median_beside(state.speed.surveyed);
        let Some(median) = others.filter(|_| own > 0.0) else {
            state.speed.slow = None;
            return;
        };
        let times = median / own;
        match state.speed.slow {
            None if times >= SLOW => {
                state.speed.slow = Some(times);
                effects.push(Effect::Tell(Fact::Slow { member, times }));
            }
            Some(_) if times >= FAST_ENOUGH => state.speed.slow = Some(times),
            None | Some(_) => state.speed.slow = None,
        }
    }

    /// Looks at everybody.
    fn look_at_speeds(&mut self) {
        let Self {
            members, survey, ..
        } = self;
        survey.sorted.clear();
        survey.fastest = 0.0;
        for (_, state) in members.iter_mut() {
            let (accepts, speed) = (state.accepts(), &mut state.speed);
            speed.surveyed = Some(speed.measured).filter(|speed| accepts && *speed > 0.0);
            survey.sorted.extend(speed.surveyed);
            if accepts {
                survey.fastest = survey.fastest.max(speed.known());
            }
        }
        survey.sorted.sort_unstable_by(f64::total_cmp);
        let mut accepting = members.iter().filter(|(_, state)| state.accepts());
        survey.drifted = accepting.any(|(_, s)| level(&s.speed, survey.fastest) != s.speed.level);
    }

    /// Takes the levels of this moment over into the next plan.
    pub(super) fn take_levels(&mut self) {
        self.look_at_speeds();
        for (_, state) in self.members.iter_mut() {
            if state.accepts() {
                state.speed.level = level(&state.speed, self.survey.fastest);
            }
        }
        self.survey.drifted = false;
    }

    /// Whether the plan counts with no member that is slower than others.
    pub(super) fn all_are_fast(&self) -> bool {
        let accepting = self.members.iter().filter(|(_, state)| state.accepts());
        accepting.fold(true, |all, (_, state)| all && state.speed.level >= 1.0)
    }

    /// The level that the plan counts with.
    pub(super) fn planned_level(&self, member: Incarnation) -> f64 {
        let state = self.members.get(member);
        state.map_or(1.0, |state| state.speed.level)
    }

    /// Remembers since when members hold nothing for being slow.
    pub(super) fn note_pauses(&mut self) {
        let now = self.now;
        let holders = self.leases.standing_holders();
        for (member, state) in self.members.iter_mut() {
            let accepts = state.accepts();
            let speed = &mut state.speed;
            let paused = accepts && !holders.contains(&member) && speed.level < 1.0;
            speed.pause = match (speed.pause, paused) {
                (Pause::Since(since), true) => Pause::Since(since),
                (Pause::No | Pause::Trying(_), true) => Pause::Since(now),
                (Pause::Trying(until), false) => Pause::Trying(until),
                (Pause::No | Pause::Since(_), false) => Pause::No,
            };
        }
    }
}

/// Unknown counts as fastest, so that a joiner is tried at once.
fn level(speed: &Speed, fastest: f64) -> f64 {
    let known = speed.known();
    if known <= 0.0 || fastest <= 0.0 {
        return 1.0;
    }
    let ratio = known / fastest;
    let stays = ratio >= speed.level * 0.6 && ratio <= speed.level * 1.7;
    if stays {
        return speed.level;
    }
    let mut level = 1.0;
    while level > SLOWEST && ratio < level * 0.71 {
        level /= 2.0;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(measured: f64, level: f64) -> Speed {
        Speed {
            measured,
            level,
            ..Speed::default()
        }
    }

    #[test]
    fn speeds_are_coarse_and_a_level_is_kept_until_it_is_well_outside() {
        let fresh = [100.0, 80.0, 59.0, 40.0, 12.0, 0.0, 0.001];
        assert_eq!(
            fresh.map(|measured| level(&at(measured, 1.0), 100.0)),
            [1.0, 1.0, 0.5, 0.5, 0.125, 1.0, 1.0 / 64.0]
        );
        let half = [29.0, 31.0, 50.0, 84.0, 86.0];
        assert_eq!(
            half.map(|measured| level(&at(measured, 0.5), 100.0)),
            [0.25, 0.5, 0.5, 0.5, 1.0]
        );
    }
}
