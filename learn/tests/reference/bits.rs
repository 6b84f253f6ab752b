use resilin_core::Step;
use resilin_core::job::Document;
use resilin_learn::kernel::{Digest, Evaluator, hex};
use resilin_learn::reference::{self, Progress, Trained};
use resilin_learn::task::Task;
use std::sync::Arc;

use crate::elastic::Elastic;
use crate::support::{registry, task};

/// 12 partitions, batch 24: the last microbatches of an epoch are short or empty.
const RUN: &str = "batch = 24\npartitions = 12\nclip_norm = 0.5\nepochs = 2";
const OPTIMIZERS: [&str; 4] = ["sgd", "momentum", "nesterov", "adam"];

fn rest(optimizer: &str) -> String {
    format!(
        "[optimizer]\nname = \"{optimizer}\"\nlearning_rate = 0.02\nl2 = 0.001\n\
         [schedule]\nname = \"cosine\"\nwarmup_steps = 3"
    )
}

fn serial(task: &Arc<Task>) -> (Vec<Digest>, Trained) {
    let mut chain = Vec::new();
    let trained = reference::run(task, |progress| match progress {
        Progress::Start { chain: line } => chain.push(line),
        Progress::Step(report) => {
            assert_eq!(report.version.0 as usize, chain.len());
            chain.push(report.chain);
        }
        Progress::Epoch { .. } => {}
    });
    (chain, trained.unwrap())
}

#[test]
fn neither_slices_nor_the_nodes_that_arrive_show_in_the_bits() {
    for optimizer in OPTIMIZERS {
        let task = task(RUN, "", &rest(optimizer));
        assert_eq!((task.total_steps, task.layout.blocks()), (10, 6));
        let (chain, trained) = serial(&task);
        for (shards, seed) in [(1, 0), (3, 1), (3, 2), (5, 3)] {
            let mut elastic = Elastic::new(&task, shards, seed);
            assert_eq!(elastic.chain(), chain[0]);
            for step in 0..task.total_steps {
                elastic.step(Step(step));
                assert_eq!(
                    hex(&elastic.chain()),
                    hex(&chain[step as usize + 1]),
                    "{optimizer}, {shards} slices, seed {seed}, step {step}"
                );
            }
            assert_eq!(elastic.weights(), trained.weights);
        }
    }
}

#[test]
fn a_restore_at_any_step_on_any_number_of_slices_goes_on_with_the_same_bits() {
    for optimizer in OPTIMIZERS {
        let task = task(RUN, "", &rest(optimizer));
        let (chain, _) = serial(&task);
        let mut elastic = Elastic::new(&task, 2, 7);
        for step in 0..task.total_steps {
            elastic.reshard([1, 3, 5, 2][step as usize % 4]);
            assert_eq!(
                elastic.chain(),
                chain[step as usize],
                "{optimizer}, restored {step}"
            );
            elastic.step(Step(step));
            assert_eq!(
                elastic.chain(),
                chain[step as usize + 1],
                "{optimizer}, step {step}"
            );
        }
    }
}

#[test]
fn every_choice_that_decides_bits_does() {
    let base = serial(&task(RUN, "", &rest("adam"))).0;
    let others = [
        task(
            "batch = 24\npartitions = 12\nclip_norm = 0.05\nepochs = 2",
            "",
            &rest("adam"),
        ),
        task(
            "batch = 24\npartitions = 12\nclip_norm = 0.5\nclip_value = 0.001\nepochs = 2",
            "",
            &rest("adam"),
        ),
        task(
            "batch = 24\npartitions = 8\nclip_norm = 0.5\nepochs = 2",
            "",
            &rest("adam"),
        ),
        task(
            "batch = 24\npartitions = 12\nclip_norm = 0.5\nseed = 2\nepochs = 2",
            "",
            &rest("adam"),
        ),
        task(RUN, "", &rest("adam").replace("0.001", "0.002")),
        task(RUN, "", &rest("momentum")),
    ];
    for other in &others {
        let chain = serial(other).0;
        assert_ne!(chain.last(), base.last(), "{}", other.effective.toml());
    }
    let finer = serial(&task(
        &format!("{RUN}\nevaluate_every = 0"),
        "",
        &rest("adam"),
    ))
    .0;
    assert_eq!(finer, base);
}

#[test]
fn the_report_counts_every_row_once_an_epoch_and_scores_all_test_rows() {
    let task = task(RUN, "", &rest("momentum"));
    let (mut samples, mut epochs, mut losses) = (0, Vec::new(), Vec::new());
    let trained = reference::run(&task, |progress| match progress {
        Progress::Start { .. } => {}
        Progress::Step(report) => {
            samples += report.samples;
            losses.push(report.loss);
        }
        Progress::Epoch { epoch, test } => epochs.push((epoch, samples, test.unwrap().rows)),
    })
    .unwrap();
    assert_eq!(epochs, [(0, 100, 600), (1, 200, 600)]);
    assert_eq!(trained.samples, 200);
    assert_eq!(trained.test.unwrap().rows, 600);
    assert!(losses.iter().all(|l| *l > 0.0 && *l < 1.0), "{losses:?}");
}

#[test]
fn a_buffer_becomes_the_weighted_mean() {
    let task = task("batch = 100\npartitions = 4\nsteps = 1", "", "");
    let (_, trained) = serial(&task);
    let mut batch = Default::default();
    task.split
        .train
        .read(&(0..100).collect::<Vec<_>>(), &mut batch)
        .unwrap();
    let mean: f32 = batch.features.chunks(60).map(|row| row[0]).sum::<f32>() / 100.0;
    let buffer = *trained.weights.last().unwrap();
    assert!((buffer - mean).abs() < 1e-6, "{buffer} is not {mean}");
    assert_ne!(buffer, 0.0);
}

#[test]
fn a_model_that_gives_two_results_is_found() {
    let steady = task(RUN, "", "");
    let text = steady.effective.toml().replace("\"tiny\"", "\"flaky\"");
    let flaky = Arc::new(
        registry()
            .task(Document::parse(&text).unwrap(), None)
            .unwrap(),
    );
    for (task, repeats) in [(steady, true), (flaky, false)] {
        let weights = task.initial_weights();
        assert_eq!(Evaluator::new(task).repeats(&weights).unwrap(), repeats);
    }
}
