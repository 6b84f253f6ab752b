//! Exact plans for the cases that people reason about, and every goal on random problems.

use crate::id::{Incarnation, PartitionId};
use crate::plan::{MemberLoad, Move, Plan, Problem};
use crate::random::{Key, Purpose, Stream};
use crate::sorted::{SortedMap, SortedSet};
use crate::tree::Tree;

fn member(number: u32) -> Incarnation {
    Incarnation { reign: 1, number }
}

/// Members 1, 2, ... with these speeds; `current` has a letter a partition: `a` is member 1, `.`
/// nobody.
fn problem(speeds: &[f64], current: &str) -> Problem {
    let members = speeds.iter().zip(1..).map(|(speed, number)| {
        let load = MemberLoad {
            speed: *speed,
            accepts: true,
        };
        (member(number), load)
    });
    let held = current.chars().zip(0..).filter(|(c, _)| *c != '.');
    Problem {
        partitions: u32::try_from(current.len()).unwrap(),
        members: members.collect(),
        current: held.map(|(c, p)| (PartitionId(p), of_letter(c))).collect(),
    }
}

fn of_letter(letter: char) -> Incarnation {
    member(u32::from(letter) - u32::from('a') + 1)
}

fn letters(plan: &Plan) -> String {
    let letter = |holder: &Incarnation| char::from_u32(u32::from('a') + holder.number - 1);
    plan.0
        .values()
        .map(|holder| letter(holder).unwrap())
        .collect()
}

/// The plan of a problem, in letters.
fn planned(speeds: &[f64], current: &str) -> String {
    letters(&problem(speeds, current).solve())
}

const FRESH_12: &str = "............";
const FRESH_16: &str = "................";

#[test]
fn speeds_one_two_four() {
    assert_eq!(planned(&[1.0, 2.0, 4.0], FRESH_12), "ccccbbccaabc");
    assert_eq!(planned(&[1.0, 2.0, 4.0], FRESH_16), "ccccccccbbbbaabc");
}

#[test]
fn one_of_four_that_is_ten_times_slower_costs_nothing_beside_its_own_share() {
    // The levels that the job machine makes of such speeds.
    for slow in [0.125, 0.0625] {
        let loads = problem(&[1.0, 1.0, 1.0, slow], FRESH_16).loads();
        let ends = loads.iter().map(|(id, load)| match id.number {
            4 => f64::from(*load) * 10.0,
            _ => f64::from(*load),
        });
        let three = problem(&[1.0; 3], FRESH_16).loads();
        let healthy = three.values().copied().max().map(f64::from).unwrap();
        assert_eq!(ends.fold(0.0, f64::max), healthy, "{slow}: {loads:?}");
    }
}

#[test]
fn equal_speeds() {
    assert_eq!(planned(&[1.0], FRESH_12), "aaaaaaaaaaaa");
    assert_eq!(planned(&[1.0; 2], FRESH_16), "aaaaaaaabbbbbbbb");
    assert_eq!(planned(&[1.0; 3], FRESH_12), "aaaabbbbcccc");
    assert_eq!(planned(&[1.0; 4], FRESH_16), "aaaabbbbccccdddd");
    assert_eq!(planned(&[0.3; 5], FRESH_12), "aabbccddeeab");
    assert_eq!(planned(&[1.0; 8], FRESH_16), "aabbccddeeffgghh");
}

#[test]
fn more_members_than_partitions() {
    assert_eq!(planned(&[1.0; 5], "..."), "abc");
    assert_eq!(planned(&[1.0, 1.0, 9.0], "."), "c");
}

#[test]
fn a_join_takes_only_what_is_too_much() {
    assert_eq!(planned(&[1.0; 2], "aaaaaaaaaaaaaaaa"), "aaaaaaaabbbbbbbb");
    assert_eq!(planned(&[1.0; 3], "aaaaaabbbbbb"), "aaaaccccbbbb");
    assert_eq!(planned(&[1.0; 3], "aaaaaaaabbbbbbbb"), "aaaaaaccbbbbbccc");
    assert_eq!(planned(&[1.0; 5], "aaaabbbbccccdddd"), "aaaabbbeccceddde");
}

#[test]
fn what_is_given_up_is_aligned_too() {
    assert_eq!(planned(&[1.0, 1.0, 2.0], "aaab"), "ccab");
}

#[test]
fn a_loss_moves_only_what_was_lost() {
    let survivors = |lost: u32, current: &str| {
        let mut problem = problem(&[1.0; 4], current);
        problem.members.remove(&member(lost));
        letters(&problem.solve())
    };
    assert_eq!(survivors(4, "aaaabbbbccccdddd"), "aaaabbbbccccaabc");
    assert_eq!(survivors(1, "aaaabbbbccccdddd"), "bbcdbbbbccccdddd");
    assert_eq!(survivors(2, "aaabbbcccddd"), "aaaacdcccddd");
}

#[test]
fn a_drain_is_a_loss_that_waits() {
    let mut problem = problem(&[1.0; 3], "aaaabbbbcccc");
    problem.members.get_mut(&member(3)).unwrap().accepts = false;
    assert_eq!(letters(&problem.solve()), "aaaabbbbaabb");
    for load in problem.members.values_mut() {
        load.accepts = false;
    }
    assert_eq!(problem.solve(), Plan::default());
    problem.members.clear();
    assert_eq!(problem.solve(), Plan::default());
}

#[test]
fn a_replacement_takes_the_place_of_the_lost() {
    let mut problem = problem(&[1.0; 5], "aaaabbbbccccdddd");
    problem.members.remove(&member(2));
    let plan = problem.solve();
    assert_eq!(letters(&plan), "aaaaeeeeccccdddd");
    let moves: Vec<Move> = plan.moves(&problem.current).collect();
    let expected = (4..8).map(|p| Move {
        partition: PartitionId(p),
        from: Some(member(2)),
        to: member(5),
    });
    assert_eq!(moves, expected.collect::<Vec<_>>());
    assert_eq!(plan.held_by(member(5)), (4..8).map(PartitionId).collect());
}

#[test]
fn odd_speeds_and_odd_present() {
    let mut odd = problem(&[f64::NAN, f64::INFINITY, -1.0, 0.0], "zzzz");
    odd.current.insert(PartitionId(77), member(1));
    assert_eq!(letters(&odd.solve()), "bbbb");
    assert_eq!(planned(&[f64::NAN, 1.0], "...."), "aabb");
}

#[test]
fn a_big_problem_is_planned_at_once() {
    let problem = Problem {
        partitions: 1 << 14,
        members: (1..=256)
            .map(|n| (member(n), MemberLoad::default()))
            .collect(),
        current: SortedMap::new(),
    };
    let plan = problem.solve();
    let tree = Tree::new(problem.partitions);
    let all = (0..problem.partitions).map(PartitionId).collect();
    for number in [1, 100, 256] {
        let nodes = tree.maximal_nodes(&plan.held_by(member(number)), &all);
        assert_eq!((nodes.len(), nodes[0].level), (1, 6));
    }
}

/// A random problem: some speeds, holders that are lost, partitions without a holder.
fn random_problem(stream: &mut Stream, most_partitions: u32, most_members: u32) -> Problem {
    let partitions = 1 + stream.below(most_partitions);
    let count = stream.below(most_members + 1);
    let equal = stream.below(2) == 0;
    let members = (1..=count)
        .map(|number| {
            let speed = if equal {
                1.0
            } else {
                f64::from(1 + stream.below(8)) * 0.5
            };
            let accepts = stream.below(6) != 0;
            (member(number), MemberLoad { speed, accepts })
        })
        .collect();
    let style = stream.below(3);
    let current = (0..partitions)
        .filter_map(|p| {
            let holder = match style {
                0 => return None,
                1 => stream.below(count + 2),
                _ => p * (count + 1) / partitions + 1,
            };
            (stream.below(9) != 0).then_some((PartitionId(p), member(holder)))
        })
        .collect();
    Problem {
        partitions,
        members,
        current,
    }
}

fn load(plan: &Plan, member: Incarnation) -> u32 {
    u32::try_from(plan.0.values().filter(|holder| **holder == member).count()).unwrap()
}

fn check(problem: &Problem, plan: &Plan, seed: u64) {
    let accepting = problem.members.iter().filter(|(_, load)| load.accepts);
    let accepting: SortedMap<_, _> = accepting.collect();
    if accepting.is_empty() {
        assert_eq!(*plan, Plan::default(), "seed {seed}");
        return;
    }
    // A: everyone has one holder that accepts.
    let planned: Vec<u32> = plan.0.keys().map(|p| p.0).collect();
    assert_eq!(
        planned,
        (0..problem.partitions).collect::<Vec<_>>(),
        "seed {seed}"
    );
    assert!(
        plan.0.values().all(|holder| accepting.contains_key(holder)),
        "seed {seed}"
    );

    // B: nobody is below its share rounded down, and what is above ends no later than one more
    // would end elsewhere. The speeds are multiples of a half, so twice a speed is a whole number.
    let weight = |id: &Incarnation| (accepting[id].speed * 2.0) as u32;
    let total: u32 = accepting.keys().map(|id| weight(id)).sum();
    let held = |id: &Incarnation| {
        let holders = problem.current.values();
        u32::try_from(holders.filter(|holder| *holder == id).count()).unwrap()
    };
    for id in accepting.keys() {
        let (own, floor) = (load(plan, **id), problem.partitions * weight(id) / total);
        assert!(own >= floor, "seed {seed}: {id} has {own} of {floor}");
        for other in accepting.keys().filter(|_| own > floor) {
            let one_more = (load(plan, **other) + 1) * weight(id);
            assert!(
                own * weight(other) <= one_more,
                "seed {seed}: {id} ends later than {other} would with one more"
            );
        }
    }

    // C: only what is lost or too much has moved.
    let lost = problem.partitions - accepting.keys().map(|id| held(id)).sum::<u32>();
    let too_much = accepting
        .keys()
        .map(|id| held(id).saturating_sub(load(plan, **id)));
    let moves = u32::try_from(plan.moves(&problem.current).count()).unwrap();
    assert_eq!(moves, lost + too_much.sum::<u32>(), "seed {seed}");
    let again = Problem {
        current: plan.0.clone(),
        ..problem.clone()
    };
    assert_eq!(again.solve(), *plan, "seed {seed}: solved again it differs");
}

#[test]
fn random_problems_meet_the_goals() {
    let mut moved = 0;
    for seed in 0..3000 {
        let mut stream = Key::new(seed, Purpose::Synthetic).stream();
        let problem = random_problem(&mut stream, 40, 9);
        let plan = problem.solve();
        check(&problem, &plan, seed);
        moved += plan.moves(&problem.current).count();
    }
    assert!(moved > 3000, "{moved}");
}

/// Contributions a step: the fewest nodes of every holder.
fn nodes(partitions: u32, plan: &Plan) -> usize {
    let tree = Tree::new(partitions);
    let all = (0..partitions).map(PartitionId).collect();
    let holders: SortedSet<Incarnation> = plan.0.values().copied().collect();
    holders
        .into_iter()
        .map(|h| tree.maximal_nodes(&plan.held_by(h), &all).len())
        .sum()
}

/// The fewest nodes of any plan with these loads and as few moves.
fn fewest_nodes(problem: &Problem, plan: &Plan) -> usize {
    let holders: Vec<Incarnation> = plan
        .0
        .values()
        .copied()
        .collect::<SortedSet<_>>()
        .into_iter()
        .collect();
    let moves = plan.moves(&problem.current).count();
    let count = holders.len().pow(problem.partitions);
    let candidates = (0..count).map(|mut number| {
        let digits = (0..problem.partitions).map(|p| {
            let holder = holders[number % holders.len()];
            number /= holders.len();
            (PartitionId(p), holder)
        });
        Plan(digits.collect())
    });
    candidates
        .filter(|other| holders.iter().all(|h| load(other, *h) == load(plan, *h)))
        .filter(|other| other.moves(&problem.current).count() == moves)
        .map(|other| nodes(problem.partitions, &other))
        .min()
        .expect("the plan itself is one of them")
}

#[test]
fn small_plans_are_nearly_always_as_aligned_as_can_be() {
    let (mut tried, mut worse) = (0, 0);
    for seed in 0..300 {
        let mut stream = Key::new(seed, Purpose::Synthetic).stream();
        let problem = random_problem(&mut stream, 7, 3);
        let plan = problem.solve();
        if plan == Plan::default() {
            continue;
        }
        tried += 1;
        let (ours, fewest) = (
            nodes(problem.partitions, &plan),
            fewest_nodes(&problem, &plan),
        );
        assert!(
            ours <= fewest + 1,
            "seed {seed}: {ours} nodes instead of {fewest}"
        );
        worse += usize::from(ours > fewest);
    }
    assert!(tried > 200 && worse * 50 < tried, "{worse} of {tried}");
}
