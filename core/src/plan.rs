//! Who evaluates which partitions: a pure function from a [`Problem`] to a [`Plan`].
//!
//! The problem has nothing but numbers: how many partitions there are, the members with their
//! measured speeds, and who holds what now. It knows no step, lease or message; the job machine
//! states a problem when its membership changes and turns the difference between the plan and the
//! present into leases. Bits never depend on a plan, so it may be as clever as it likes.
//!
//! Goals, each subordinate to the ones before it:
//!
//! - **A. Complete.** Every partition has one holder, and it accepts work.
//! - **B. Balanced.** A step is as slow as its slowest holder, so loads are those that end it
//!   soonest: a member's load is its share `P x speed / total`, rounded down, and each partition
//!   left over goes to whoever has finished it first, load / speed. So loads of equal speeds differ
//!   by at most one, and whoever is much slower than the others holds nothing.
//! - **C. Steady.** As few partitions as possible change their holder: those of members that are
//!   gone or do not accept, and what a member has above its load. A plan solved again is itself.
//! - **D. Aligned.** What a member holds should be few complete subtrees: it sums inside them and
//!   sends one contribution each.
//!
//! Ties go to the lower id. Three phases, each one walk over the tree from the root to the leaves:
//! *loads* settles B, *keep* takes from the present the largest subtrees that fit the loads, *deal*
//! gives what is free away in the largest subtrees that fit what is missing. C is exact; D is greedy.
//!
//! What the planner does not do: smooth speeds, or decide when to plan. A caller that feeds it raw
//! measurements moves partitions with every jitter.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::id::{Incarnation, PartitionId};
use crate::sorted::SortedMap;
use crate::tree::{Node, PartitionSet, Tree};

#[cfg(test)]
#[path = "plan_test.rs"]
mod tests;

/// What the planner knows of a member.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberLoad {
    /// Samples a second relative to the others, 1.0 where unknown; only ratios count. Taken in
    /// steps of 2^-16, at least one and at most 2^40 of them; NaN counts as 1.0.
    pub speed: f64,
    /// Whether it takes work; a draining member does not.
    pub accepts: bool,
}

impl Default for MemberLoad {
    fn default() -> Self {
        Self {
            speed: 1.0,
            accepts: true,
        }
    }
}

/// The state of a job that asks for a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Number of partitions, 1 to 2^24.
    pub partitions: u32,
    /// Everyone who is a member.
    pub members: SortedMap<Incarnation, MemberLoad>,
    /// Who holds what now. Holders that are no members count as lost.
    pub current: SortedMap<PartitionId, Incarnation>,
}

/// The holder of each partition; empty if no member accepts work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Plan(pub SortedMap<PartitionId, Incarnation>);

/// A partition that changes its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// What moves.
    pub partition: PartitionId,
    /// Who held it before, if anyone.
    pub from: Option<Incarnation>,
    /// Who holds it in the plan.
    pub to: Incarnation,
}

impl Plan {
    /// The partitions of a member.
    #[must_use]
    pub fn held_by(&self, member: Incarnation) -> PartitionSet {
        let held = self.0.iter().filter(|(_, holder)| **holder == member);
        held.map(|(partition, _)| *partition).collect()
    }

    /// What differs from `current`, in partition order.
    pub fn moves<'a>(
        &'a self,
        current: &'a SortedMap<PartitionId, Incarnation>,
    ) -> impl Iterator<Item = Move> + 'a {
        self.0.iter().filter_map(|(partition, to)| {
            let from = current.get(partition).copied();
            (from != Some(*to)).then_some(Move {
                partition: *partition,
                from,
                to: *to,
            })
        })
    }
}

impl Problem {
    /// The plan for this problem; the same problem has the same plan everywhere.
    #[must_use]
    pub fn solve(&self) -> Plan {
        let loads = self.loads();
        if loads.is_empty() {
            return Plan::default();
        }
        let mut room = loads;
        let kept = self.keep(&mut room);
        let holders = self.deal(kept, &mut room);
        assert!(
            room.values().all(|room| *room == 0),
            "a load was not met: {room:?}"
        );
        let plan: SortedMap<_, _> = holders
            .iter()
            .flat_map(|(partition, holder)| Some((partition, holder?)))
            .collect();
        assert_eq!(
            plan.len(),
            self.partitions as usize,
            "a partition has no holder"
        );
        Plan(plan)
    }

    /// The number of partitions that each accepting member is to hold (goal B).
    #[must_use]
    pub fn loads(&self) -> SortedMap<Incarnation, u32> {
        let accepting = self.members.iter().filter(|(_, load)| load.accepts);
        let speeds: SortedMap<Incarnation, u64> = accepting
            .map(|(member, load)| (*member, quantised(load.speed)))
            .collect();
        if speeds.is_empty() {
            return SortedMap::new();
        }
        let total: u128 = speeds.values().map(|speed| u128::from(*speed)).sum();
        let mut held: SortedMap<Incarnation, u32> = SortedMap::new();
        for (_, holder) in self.present() {
            *held.entry(holder).or_default() += 1;
        }
        let mut loads = SortedMap::new();
        for (member, speed) in &speeds {
            let share = u128::from(self.partitions) * u128::from(*speed);
            let load = u32::try_from(share / total).expect("at most all partitions");
            loads.insert(*member, load);
        }
        let next = |member: Incarnation, load: u32| {
            // Of equals those take more that hold more already: less moves (goal C).
            let holds_more = held.get(&member).is_some_and(|held| *held > load);
            Reverse((
                finished(load + 1, speeds[&member]),
                Reverse(holds_more),
                member,
            ))
        };
        let mut soonest: BinaryHeap<_> = loads.iter().map(|(m, load)| next(*m, *load)).collect();
        for _ in loads.values().sum::<u32>()..self.partitions {
            let Reverse((_, _, member)) = soonest.pop().expect("as many as there are members");
            let load = loads.get_mut(&member).expect("it was just inserted");
            *load += 1;
            soonest.push(next(member, *load));
        }
        loads
    }

    /// What of the present stays: the largest subtrees that fit the loads, and of equals those that
    /// are no part of a larger one, so that what is given up is aligned as well.
    fn keep(&self, room: &mut SortedMap<Incarnation, u32>) -> Holders {
        let mut kept = Holders::none(self.partitions);
        let mut offered = Holders::none(self.partitions);
        for (partition, holder) in self.present() {
            if room.contains_key(&holder) {
                offered.set(Node::leaf(partition), Some(holder));
            }
        }
        for level in levels(self.partitions) {
            let (paired, alone): (Vec<Node>, Vec<Node>) =
                nodes(self.partitions, level).partition(|node| {
                    offered.only_holder(*node) == offered.only_holder(offered.other_half(*node))
                });
            for node in alone.into_iter().chain(paired) {
                let Some(holder) = offered.only_holder(node) else {
                    continue;
                };
                if take(room, holder, offered.leaves(node)) {
                    offered.set(node, None);
                    kept.set(node, Some(holder));
                }
            }
        }
        kept
    }

    /// Gives away what has no holder: at each level first to whoever holds the other half of the
    /// parent, then to whoever lacks most.
    fn deal(&self, mut holders: Holders, room: &mut SortedMap<Incarnation, u32>) -> Holders {
        let mut lacking = Lacking::of(room);
        for level in levels(self.partitions) {
            for node in nodes(self.partitions, level) {
                let other = holders.only_holder(holders.other_half(node));
                if let Some(holder) = other.filter(|_| holders.is_free(node))
                    && take(room, holder, holders.leaves(node))
                {
                    holders.set(node, Some(holder));
                    lacking.note(holder, room);
                }
            }
            for node in nodes(self.partitions, level) {
                if !holders.is_free(node) {
                    continue;
                }
                let member = lacking.most(room);
                if take(room, member, holders.leaves(node)) {
                    holders.set(node, Some(member));
                    lacking.note(member, room);
                }
            }
        }
        holders
    }

    /// The present without partitions that do not exist.
    fn present(&self) -> impl Iterator<Item = (PartitionId, Incarnation)> + '_ {
        let present = self.current.range(..PartitionId(self.partitions));
        present.map(|(partition, holder)| (*partition, *holder))
    }
}

/// Speeds as whole numbers, so that shares and remainders are exact on every machine.
fn quantised(speed: f64) -> u64 {
    const ONE: f64 = 65_536.0;
    let speed = if speed.is_nan() { 1.0 } else { speed };
    (speed * ONE).clamp(1.0, (1_u64 << 40) as f64) as u64
}

/// When a load is done, in units fine enough that equal quotients are equal and others differ.
fn finished(load: u32, speed: u64) -> u128 {
    (u128::from(load) << 96) / u128::from(speed)
}

/// Takes `leaves` out of a member's room, if there is so much.
fn take(room: &mut SortedMap<Incarnation, u32>, member: Incarnation, leaves: u32) -> bool {
    let Some(room) = room.get_mut(&member).filter(|room| **room >= leaves) else {
        return false;
    };
    *room -= leaves;
    true
}

fn levels(partitions: u32) -> impl Iterator<Item = u8> {
    (0..=Tree::new(partitions).root().level).rev()
}

/// The nodes of a level, without those whose right half lies beyond the last partition: they are
/// their left half under another name.
fn nodes(partitions: u32, level: u8) -> impl Iterator<Item = Node> {
    let full = move |node: &Node| match node.children() {
        Some((_, right)) => right.first() < partitions,
        None => true,
    };
    (0..partitions.div_ceil(1 << level))
        .map(move |index| Node { level, index })
        .filter(full)
}

/// Who lacks most, of equals the lowest id; entries that are no longer true are skipped.
struct Lacking(BinaryHeap<(u32, Reverse<Incarnation>)>);

impl Lacking {
    fn of(room: &SortedMap<Incarnation, u32>) -> Self {
        let all = room.iter().map(|(member, room)| (*room, Reverse(*member)));
        Self(all.collect())
    }

    /// The room of a member has changed.
    fn note(&mut self, member: Incarnation, room: &SortedMap<Incarnation, u32>) {
        self.0.push((room[&member], Reverse(member)));
    }

    fn most(&mut self, room: &SortedMap<Incarnation, u32>) -> Incarnation {
        loop {
            let (known, Reverse(member)) = *self.0.peek().expect("some member accepts");
            if room[&member] == known {
                return member;
            }
            self.0.pop();
        }
    }
}

/// The holder of each partition, by number.
struct Holders(Vec<Option<Incarnation>>);

impl Holders {
    fn none(partitions: u32) -> Self {
        Self(vec![None; partitions as usize])
    }

    fn iter(&self) -> impl Iterator<Item = (PartitionId, Option<Incarnation>)> + '_ {
        (0..).map(PartitionId).zip(self.0.iter().copied())
    }

    /// The partitions below a node; none if it lies beyond the last one.
    fn below(&self, node: Node) -> &[Option<Incarnation>] {
        let (first, end) = (node.first() as usize, node.end() as usize);
        self.0.get(first..end.min(self.0.len())).unwrap_or(&[])
    }

    fn leaves(&self, node: Node) -> u32 {
        u32::try_from(self.below(node).len()).expect("partitions are u32")
    }

    fn is_free(&self, node: Node) -> bool {
        self.below(node).iter().all(Option::is_none)
    }

    /// The one who holds everything below a node.
    fn only_holder(&self, node: Node) -> Option<Incarnation> {
        let (first, rest) = self.below(node).split_first()?;
        first.filter(|_| rest.iter().all(|holder| holder == first))
    }

    /// The other child of the lowest node above that covers more; has no leaves for the root.
    fn other_half(&self, mut node: Node) -> Node {
        loop {
            let other = Node {
                level: node.level,
                index: node.index ^ 1,
            };
            let at_root = node.end() as usize >= self.0.len() && node.index == 0;
            if at_root || self.leaves(other) > 0 {
                return other;
            }
            node = node.parent();
        }
    }

    fn set(&mut self, node: Node, holder: Option<Incarnation>) {
        let end = (node.end() as usize).min(self.0.len());
        self.0[node.first() as usize..end].fill(holder);
    }
}
