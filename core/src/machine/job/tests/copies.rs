//! Two copies of a contribution that differ are told once.

use super::*;

fn differ(bench: &mut Bench, slice: u16, step: u64, node: Node) -> Vec<Fact> {
    let report = ShardReport::Differs {
        slice: SliceId(slice),
        timeline: bench.job.branch.timeline,
        step: Step(step),
        node,
        members: [worker(1), worker(2)],
    };
    let effects = bench.event(Event::Shard(report));
    let told = effects.into_iter().filter_map(|effect| match effect {
        Effect::Tell(fact) => Some(fact),
        _ => None,
    });
    told.collect()
}

fn told(step: u64, first: u32, last: u32) -> Vec<Fact> {
    vec![Fact::CopiesDiffer {
        step: Step(step),
        partitions: [PartitionId(first), PartitionId(last)],
        members: [worker(1), worker(2)],
    }]
}

#[test]
fn a_difference_is_told_once_for_all_slices() {
    let mut bench = Bench::new(settings());
    (1..=2).for_each(|number| drop(bench.join(number)));
    let [left, all, none] = [(1, 0), (2, 0), (9, 9)].map(|(level, index)| Node { level, index });
    assert_eq!(differ(&mut bench, 0, 3, left), told(3, 0, 1));
    assert_eq!(differ(&mut bench, 1, 3, left), []);
    assert_eq!(differ(&mut bench, 1, 3, all), told(3, 0, 3));
    assert_eq!(differ(&mut bench, 0, 4, left), told(4, 0, 1));
    assert_eq!(differ(&mut bench, 1, 3, left), [], "of an earlier step");
    assert_eq!(differ(&mut bench, 0, 5, none), [], "no node of this run");
    let line = told(3, 0, 1)[0].to_string();
    let wanted = "the sum of partitions 0 to 1 at step 3 came out differently at workers 7.1 and \
                  7.2; the first counts, `resilin replay --step 3` tells whether it is right";
    assert_eq!(line, wanted);
}
