//! The members of a job, and who of them may work: kept as sets, so that no event has to look at
//! everybody to know.

use super::speed::Speed;
use super::stuck::Lateness;
use crate::id::{Generation, Incarnation, Step};
use crate::sorted::{SortedMap, SortedSet};
use crate::time::Time;

/// One member of the job.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) name: String,
    /// The newest assignment it is known to have.
    pub(super) seen: Option<Generation>,
    pub(super) step: Option<Step>,
    pub(super) speed: Speed,
    /// Whether it has contributed to a step.
    pub(super) proven: bool,
    /// Steps in a row in which a later copy of its work was sooner.
    pub(super) strikes: u32,
    pub(super) lateness: Lateness,
    standing: Standing,
}

/// What decides whether a member may be given leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) stage: Stage,
    pub(super) reach: Reach,
    /// Until when it gets no work for having been lost again and again.
    pub(super) held_back: Option<Time>,
}

/// Whether the member is linked to all slices; leases are held only then (PROTOCOL 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
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

impl Standing {
    fn accepts(&self) -> bool {
        let reaches = self.reach != Reach::Withdrawn;
        self.stage == Stage::Active && reaches && self.held_back.is_none()
    }
}

/// What processes of one machine have in common: their names are `machine:pid`.
pub(super) fn machine(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(machine, _)| machine)
}

impl State {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            seen: None,
            step: None,
            speed: Speed::default(),
            proven: false,
            strikes: 0,
            lateness: Lateness::default(),
            standing: Standing {
                stage: Stage::Joining,
                reach: Reach::Full,
                held_back: None,
            },
        }
    }

    /// Where it runs.
    pub(super) fn machine(&self) -> &str {
        machine(&self.name)
    }

    /// How far in its life it is.
    pub(super) fn stage(&self) -> Stage {
        self.standing.stage
    }

    /// Whether it may be given leases.
    pub(super) fn accepts(&self) -> bool {
        self.standing.accepts()
    }

    /// Whether it lacks no link, as far as is known.
    pub(super) fn reach(&self) -> Reach {
        self.standing.reach
    }

    /// Until when it gets no work, if it was lost again and again.
    pub(super) fn held_back(&self) -> Option<Time> {
        self.standing.held_back
    }
}

/// All members.
#[derive(Clone, Debug, Default)]
pub(super) struct Crew {
    members: SortedMap<Incarnation, State>,
    accepting: SortedSet<Incarnation>,
    draining: SortedSet<Incarnation>,
    /// Those who are ready and held back, by the end of their wait.
    waiting: SortedSet<(Time, Incarnation)>,
}

impl Crew {
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn has(&self, member: Incarnation) -> bool {
        self.members.contains_key(&member)
    }

    pub(super) fn get(&self, member: Incarnation) -> Option<&State> {
        self.members.get(&member)
    }

    pub(super) fn get_mut(&mut self, member: Incarnation) -> Option<&mut State> {
        self.members.get_mut(&member)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = Incarnation> {
        self.members.keys().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Incarnation, &State)> {
        self.members.iter().map(|(member, state)| (*member, state))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Incarnation, &mut State)> {
        let members = self.members.iter_mut();
        members.map(|(member, state)| (*member, state))
    }

    /// Who may be given leases.
    pub(super) fn accepting(&self) -> &SortedSet<Incarnation> {
        &self.accepting
    }

    /// Who finishes what it holds.
    pub(super) fn draining(&self) -> &SortedSet<Incarnation> {
        &self.draining
    }

    /// Who of the ready is held back, and until when; the first to be let in comes first.
    pub(super) fn waiting(&self) -> &SortedSet<(Time, Incarnation)> {
        &self.waiting
    }

    pub(super) fn insert(&mut self, member: Incarnation, state: State) {
        self.remove(member);
        self.enter(member, state.standing);
        self.members.insert(member, state);
    }

    pub(super) fn remove(&mut self, member: Incarnation) -> Option<State> {
        let state = self.members.remove(&member)?;
        self.erase(member, state.standing);
        Some(state)
    }

    /// Changes what decides whether a member may work, if there is such a member.
    pub(super) fn change(&mut self, member: Incarnation, change: impl FnOnce(&mut Standing)) {
        let Some(state) = self.members.get_mut(&member) else {
            return;
        };
        let before = state.standing;
        change(&mut state.standing);
        let after = state.standing;
        self.erase(member, before);
        self.enter(member, after);
    }

    fn enter(&mut self, member: Incarnation, standing: Standing) {
        if standing.accepts() {
            self.accepting.insert(member);
        }
        match (standing.stage, standing.held_back) {
            (Stage::Draining, _) => drop(self.draining.insert(member)),
            (Stage::Active, Some(until)) => drop(self.waiting.insert((until, member))),
            (Stage::Active, None) | (Stage::Joining, _) => {}
        }
    }

    fn erase(&mut self, member: Incarnation, standing: Standing) {
        self.accepting.remove(&member);
        self.draining.remove(&member);
        if let Some(until) = standing.held_back {
            self.waiting.remove(&(until, member));
        }
    }

    /// What must hold after every change.
    pub(super) fn check(&self) {
        let of = |wanted: fn(&State) -> bool| {
            let members = self.iter().filter(|(_, state)| wanted(state));
            members.map(|(member, _)| member).collect::<SortedSet<_>>()
        };
        assert_eq!(of(State::accepts), self.accepting);
        assert_eq!(of(|s| s.stage() == Stage::Draining), self.draining);
        let waits = of(|s| s.stage() == Stage::Active && s.held_back().is_some());
        let waiting = self.waiting.iter().map(|(_, member)| *member);
        assert_eq!(waits, waiting.collect());
    }
}
