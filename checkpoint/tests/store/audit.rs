//! The audit: what a whole run proves, and how each thing that is not as promised is named.

use std::path::{Path, PathBuf};

use resilin_checkpoint::testing::Disk;
use resilin_checkpoint::{Counts, LEDGER, Run, Verdict, audit, open_ledger};
use resilin_core::ledger::{Part, Record, StepRecord};
use resilin_core::tree::{Node, Tree};
use resilin_core::{Incarnation, PartitionId, Step, Timeline};

use crate::fixture::{NOW, RUN, chain, disk, job, open_disk, open_run, root, save, step_record};

/// Rows of the training set: with the default batch of 64 over 16 partitions, epochs of 4 steps, of
/// which the last is short.
const ROWS: u64 = 200;

struct Scene {
    disk: Disk,
    run: Run,
    /// Keeps the state open.
    _state: resilin_checkpoint::StateDir,
}

fn first() -> Timeline {
    Timeline::first(NOW)
}

fn branch(timeline: Timeline, base: u64) -> Record {
    let base = Step(base);
    Record::Rollback { timeline, base }
}

impl Scene {
    fn new() -> Self {
        let disk = disk(1);
        let state = open_disk(&disk).unwrap();
        let run = open_run(&state).unwrap();
        let (timeline, chain) = (first(), chain(0));
        let began = [
            Record::Start { reign: NOW },
            Record::Job {
                rows: ROWS,
                job: job("60"),
            },
            branch(timeline, 0),
            Record::Initial { timeline, chain },
        ];
        run.append(&began).unwrap();
        Self {
            disk,
            run,
            _state: state,
        }
    }

    fn with_steps(steps: u64) -> Self {
        let scene = Self::new();
        (0..steps).for_each(|step| scene.append(scene.step(step)));
        scene
    }

    fn append(&self, record: StepRecord) {
        self.run.append(&[Record::Step(record)]).unwrap();
    }

    /// What the step's record should be: two nodes, of all partitions.
    fn step(&self, step: u64) -> StepRecord {
        let Record::Step(record) = step_record(first(), step) else {
            unreachable!("the fixture makes steps")
        };
        let (_, plan) = open_ledger(self.disk.files().as_ref(), &directory()).unwrap();
        let root = Tree::new(plan.sampling.partitions()).root();
        let (left, right) = root.children().unwrap();
        let part = |node: Node| Part {
            node,
            contributor: Incarnation::first(NOW),
            samples: (node.first()..node.end())
                .map(|p| plan.sampling.positions(Step(step), PartitionId(p)))
                .map(|positions| positions.end - positions.start)
                .sum(),
        };
        let nodes = vec![part(left), part(right)];
        StepRecord {
            samples: nodes.iter().map(|part| part.samples).sum(),
            nodes: nodes.into_iter().filter(|part| part.samples > 0).collect(),
            ..record
        }
    }

    fn verdict(&self) -> Verdict {
        self.run.sync_ledger().unwrap();
        audit(self.disk.files().as_ref(), &directory()).unwrap()
    }

    fn broken(&self) -> Vec<String> {
        self.verdict().broken
    }

    /// The error of an audit of the first `bytes` of the ledger, with a bit of `flip` turned.
    fn refusal(&self, bytes: usize, flip: Option<usize>) -> String {
        let copy = disk(2);
        let files = copy.files();
        let text = ledger(&self.disk);
        resilin_checkpoint::Files::create_dir(files.as_ref(), &directory()).unwrap();
        let path = directory().join(LEDGER);
        let mut file = resilin_checkpoint::Files::create(files.as_ref(), &path).unwrap();
        file.write_all(&text[..bytes]).unwrap();
        if let Some(byte) = flip {
            copy.flip(&path, byte, 3).unwrap();
        }
        let before = ledger(&copy);
        let error = audit(files.as_ref(), &directory()).unwrap_err().to_string();
        assert_eq!(ledger(&copy), before, "an audit changes nothing");
        error
    }
}

fn directory() -> PathBuf {
    root().join(RUN)
}

fn ledger(disk: &Disk) -> Vec<u8> {
    let mut text = Vec::new();
    let path = directory().join(LEDGER);
    let mut file = resilin_checkpoint::Files::open(disk.files().as_ref(), &path).unwrap();
    std::io::Read::read_to_end(&mut file, &mut text).unwrap();
    text
}

#[test]
fn a_whole_run_is_counted_row_by_row() {
    let scene = Scene::with_steps(9);
    save(&scene.run, first(), 9, 2).unwrap();
    scene.run.append(&[branch(first().next(), 7)]).unwrap();
    for step in 7..9 {
        scene.append(StepRecord {
            timeline: first().next(),
            ..scene.step(step)
        });
    }
    let counts = Counts {
        records: 16,
        torn: false,
        steps: 9,
        total_steps: 60,
        skipped: 0,
        samples: 2 * ROWS + scene.step(8).samples,
        whole_epochs: 2,
        branches: 2,
        remade: 2,
        differing: 0,
        checkpoints: 1,
        damaged_checkpoints: 0,
    };
    let (broken, unnamed) = (Vec::new(), 0);
    assert_eq!(
        scene.verdict(),
        Verdict {
            counts,
            broken,
            unnamed
        }
    );
}

#[test]
fn each_thing_that_is_not_as_promised_is_named() {
    type Spoil = fn(&mut StepRecord);
    let cases: [(Spoil, &str); 5] = [
        (
            |record| record.nodes.truncate(1),
            "step 5: partition 8 was not summed",
        ),
        (
            |record| record.nodes.push(record.nodes[0]),
            "step 5: partition 0 was summed twice",
        ),
        (
            |record| record.nodes[0].samples += 1,
            "step 5: node 3/0 has 32 samples, the record says 33",
        ),
        (
            |record| record.samples -= 1,
            "step 5 has 64 samples, the record says 63",
        ),
        (
            |record| record.step = Step(6),
            "line 10: step 6 follows where step 5 is due",
        ),
    ];
    for (spoil, expected) in cases {
        let scene = Scene::with_steps(5);
        let mut record = scene.step(5);
        spoil(&mut record);
        scene.append(record);
        assert_eq!(scene.broken()[0], expected);
    }
}

#[test]
fn a_row_that_is_left_out_shows_when_its_epoch_is_over() {
    let scene = Scene::with_steps(3);
    let mut record = scene.step(3);
    let (samples, nodes) = (record.samples, record.nodes.clone());
    (record.nodes, record.samples, record.skipped) = (Vec::new(), 0, true);
    scene.append(record.clone());
    assert_eq!(scene.broken(), [""; 0], "skipped by policy, and said so");
    let scene = Scene::with_steps(3);
    record.skipped = false;
    scene.append(record);
    let broken = scene.broken();
    assert_eq!(broken[0], "step 3: partition 0 was not summed");
    assert!(broken[1].starts_with("epoch 1: row "), "{broken:?}");
    assert!(broken[1].ends_with(" was applied 0 times"), "{broken:?}");
    assert_eq!(nodes.iter().map(|part| part.samples).sum::<u64>(), samples);
}

#[test]
fn replays_and_checkpoints_must_have_the_ledgers_lines() {
    let scene = Scene::with_steps(4);
    save(&scene.run, first(), 3, 1).unwrap();
    let timeline = first().next();
    scene.run.append(&[branch(timeline, 2)]).unwrap();
    let chain = [7; 32];
    scene.append(StepRecord {
        timeline,
        chain,
        ..scene.step(2)
    });
    let verdict = scene.verdict();
    assert_eq!(
        (verdict.counts.differing, verdict.counts.checkpoints),
        (1, 0)
    );
    assert_eq!(
        verdict.broken,
        [
            format!(
                "the chain line of step 3 differs from that of branch {}",
                first()
            ),
            "the checkpoint of step 3 has another chain line than the ledger".into(),
        ]
    );
}

#[test]
fn branches_begin_where_the_ledger_is() {
    let scene = Scene::with_steps(2);
    scene.run.append(&[branch(first().next(), 5)]).unwrap();
    scene.append(StepRecord {
        timeline: Timeline::first(NOW + 9),
        ..scene.step(5)
    });
    let (one, two) = (first().next(), Timeline::first(NOW + 9));
    let mut broken = scene.broken();
    let uncounted = broken.pop().unwrap();
    assert!(uncounted.starts_with("epoch 1: row "), "{uncounted}");
    assert_eq!(
        broken,
        [
            format!("line 7: branch {one} begins on step 5, but the ledger ends at step 2"),
            format!("line 8: step 5 is of branch {two}, which never began"),
            "step 2 is missing before step 5".into(),
        ]
    );
}

#[test]
fn a_ledger_that_was_cut_or_exchanged_is_not_that_of_its_checkpoints() {
    let scene = Scene::with_steps(6);
    save(&scene.run, first(), 6, 1).unwrap();
    let whole = ledger(&scene.disk);
    let lines: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    let files = scene.disk.files();
    let path = directory().join(LEDGER);
    resilin_checkpoint::Files::remove_file(files.as_ref(), &path).unwrap();
    let mut file = resilin_checkpoint::Files::create(files.as_ref(), &path).unwrap();
    file.write_all(&whole[..=lines[7]]).unwrap();
    let verdict = audit(files.as_ref(), &directory()).unwrap();
    assert_eq!(
        verdict.broken,
        ["the ledger ends before step 6, of which there is a checkpoint"]
    );
    // A torn last line is what a crash leaves: no fault, and told.
    file.write_all(&whole[lines[7] + 1..lines[8] - 4]).unwrap();
    assert!(audit(files.as_ref(), &directory()).unwrap().counts.torn);
}

#[test]
fn a_flipped_bit_or_a_cut_is_one_line_with_its_place() {
    let scene = Scene::with_steps(3);
    scene.run.sync_ledger().unwrap();
    let whole = ledger(&scene.disk);
    let path = directory().join(LEDGER);
    let lines: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    let at = Path::display(&path);
    for flip in [0, 30, lines[4] - 1, lines[4] + 20] {
        let number = lines.iter().filter(|end| **end < flip).count();
        let byte = number.checked_sub(1).map_or(0, |line| lines[line] + 1);
        let error = scene.refusal(whole.len(), Some(flip));
        assert!(error.contains(&at.to_string()), "{error}");
        let place = format!("line {} (byte {byte}) is not as it was written", number + 1);
        assert!(error.contains(&place), "{flip}: {error}");
        assert_eq!(error.lines().count(), 1);
    }
    for bytes in [0, 10] {
        let error = scene.refusal(bytes, None);
        assert!(error.contains("it has no record"), "{error}");
    }
}
