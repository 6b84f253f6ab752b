use resilin_core::Step;
use resilin_core::job::Document;
use resilin_core::job::JobError;
use resilin_learn::dataset::{Batch, Split};
use resilin_learn::kernel::{SliceKernel, combine_scores, score_range, score_tasks};
use resilin_learn::model::{Model, Score};
use resilin_learn::models::{Softmax, SoftmaxConfig};
use resilin_learn::task::Task;

use crate::support::{registry, task};

fn refusal(text: &str) -> String {
    match registry().task(Document::parse(text).unwrap(), None) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_effective_job_builds_the_same_task() {
    let task = task("batch = 24", "rows = 77", "[optimizer]\nname = \"adam\"");
    let text = task.effective.toml();
    let again = registry()
        .task(Document::parse(&text).unwrap(), None)
        .unwrap();
    assert_eq!(again.effective.run_id(), task.effective.run_id());
    assert_eq!(again.effective.toml(), text);
    assert_eq!(again.data_digest(), task.data_digest());
    assert_eq!(
        task.effective.value("optimizer", "learning_rate"),
        Some("0.001")
    );
    assert_eq!(task.effective.value("optimizer", "beta2"), Some("0.999"));
}

#[test]
fn a_process_without_rows_builds_the_same_slices() {
    let task = task("batch = 24", "rows = 77", "[optimizer]\nname = \"adam\"");
    let split = Split::elsewhere(task.split.described()).expect("it comes from a split");
    let document = Document::parse(&task.effective.toml()).unwrap();
    let other = registry().task_without_rows(document, split).unwrap();
    assert_eq!(other.layout, task.layout);
    assert_eq!(other.data_digest(), task.data_digest());
    assert_eq!(other.total_steps, task.total_steps);
    assert_eq!(other.initial_weights(), task.initial_weights());
    let rules = |task: &Task| {
        let rules = task.rules(3);
        (
            rules.sampling,
            rules.votes,
            rules.evaluate_every,
            rules.evaluation_tasks,
        )
    };
    assert_eq!(rules(&other), rules(&task));
    let read = other.split.train.read(&[0], &mut Batch::default());
    assert_eq!(
        read.unwrap_err().to_string(),
        "the rows of random are not in this process"
    );
    assert!(Split::elsewhere(Vec::new()).is_none());
}

#[test]
fn a_replica_makes_the_same_version_of_the_same_root() {
    let task = task("", "", "[optimizer]\nname = \"adam\"");
    let plan = task.slice_plan(0..task.layout.blocks());
    let weights = task.initial_weights();
    let sum: Vec<f32> = weights.iter().map(|w| w * 3.0 + 1.0).collect();
    let mut primary = SliceKernel::new(plan.clone(), weights.clone());
    let mut backup = SliceKernel::new(plan, weights);
    for step in [Step(0), Step(1)] {
        let with_samples = task.sampling.with_samples(step);
        primary.combine(step, &[(task.tree.root(), &sum)], &with_samples, 5.0);
        backup.load(step, primary.root(step));
        assert_eq!(primary.apply(step, 0.5, 1.5), backup.apply(step, 0.5, 1.5));
    }
    assert_eq!(primary.weights(Step(2)), backup.weights(Step(2)));
}

#[test]
fn other_rows_have_another_digest() {
    let (one, two) = (task("", "rows = 77", ""), task("", "rows = 78", ""));
    assert_ne!(one.data_digest(), two.data_digest());
}

#[test]
fn a_task_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Task>();
}

#[test]
fn mistakes_are_named_with_their_line() {
    let data = "[data]\nname = \"random\"\n";
    assert_eq!(
        refusal(&format!("{data}[model]\nname = \"tinny\"")),
        "job file line 4, [model] name: expected one of cnn, factorization, flaky, linear, mlp, softmax, tiny, transformer, vae, found \"tinny\"; did you mean \"tiny\"?"
    );
    let tiny = format!("{data}[model]\nname = \"tiny\"\n");
    assert_eq!(
        refusal(&format!(
            "{tiny}[optimizer]\nname = \"sgd\"\nmomentum = 0.9"
        )),
        "job file line 7, [optimizer] momentum: unknown key; the keys here are name, \
         learning_rate, l2"
    );
    assert_eq!(
        refusal(&format!("{tiny}[schedule]\nname = \"step\"\ndecay = 2.0")),
        "job file line 7, [schedule] decay: expected a number (0 to 1), found 2.0"
    );
}

#[test]
fn a_name_can_be_replaced() {
    let registry = registry().model("tiny", |section, _| -> Result<Box<dyn Model>, JobError> {
        Err(section.error("name", "replaced"))
    });
    let text = "[data]\nname = \"random\"\n[model]\nname = \"tiny\"";
    let error = registry
        .task(Document::parse(text).unwrap(), None)
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "job file line 4, [model] name: replaced");
}

/// `?` on what a model says against its settings is an error of the section with its line.
#[test]
fn a_model_that_refuses_its_settings_is_an_error_of_the_job() {
    let registry = registry().model("tiny", |_, _| {
        let config = SoftmaxConfig {
            inputs: 0,
            classes: 2,
            bias: true,
        };
        Ok(Box::new(Softmax::new(config)?))
    });
    let why = Softmax::new(SoftmaxConfig {
        inputs: 0,
        classes: 2,
        bias: true,
    })
    .map(drop)
    .expect_err("no inputs");
    let text = "[data]\nname = \"random\"\n[model]\nname = \"tiny\"";
    let task = registry.task(Document::parse(text).unwrap(), None);
    let error = task.map(drop).expect_err("it is refused");
    assert_eq!(
        error.to_string(),
        format!("job file line 3, [model]: {why}")
    );
}

#[test]
fn versions_are_scored_as_the_job_says() {
    let scored = |every: u64| -> Vec<u64> {
        let rules = task(
            &format!("batch = 24\nepochs = 4\nevaluate_every = {every}"),
            "",
            "",
        )
        .rules(2);
        let versions = 0..=rules.last().0;
        versions.filter(|v| rules.evaluated(Step(*v))).collect()
    };
    assert_eq!(scored(1), [5, 10, 15, 20]);
    assert_eq!(scored(3), [15, 20]);
    assert_eq!(scored(0), [20]);
}

#[test]
fn scores_count_every_row_once_in_ranges_of_256() {
    assert_eq!(
        (score_tasks(0), score_tasks(256), score_tasks(600)),
        (0, 1, 3)
    );
    assert_eq!(
        (score_range(600, 0), score_range(600, 2)),
        (0..256, 512..600)
    );
    let score = |rows, loss_sum| Score {
        rows,
        correct: Some(rows / 2),
        loss_sum,
        parts: [0.0, 0.0, loss_sum, 1.0],
    };
    // 1 + 1e-16 is 1: in tree order both small losses are lost, from the right neither were.
    let scores = [score(256, 1.0), score(256, 1e-16), score(88, 1e-16)];
    let expected = Score {
        rows: 600,
        correct: Some(300),
        loss_sum: 1.0,
        parts: [0.0, 0.0, 1.0, 3.0],
    };
    assert_eq!(combine_scores(&scores), Some(expected));
    assert_eq!(combine_scores(&[]), None);
    let values = Score {
        correct: None,
        ..scores[0]
    };
    assert_eq!(combine_scores(&[values]), Some(values));
}

#[test]
fn a_model_that_no_memory_holds_is_refused() {
    // Three layers' weights and biases: 60 features, 1 target.
    let wide = 1_u64 << 20;
    let count = (60 * wide + wide) + (wide * wide + wide) + (wide + 1);
    let model = "[model]\nname = \"mlp\"\nhidden = [1048576, 1048576]";
    assert_eq!(
        refusal(&format!("[data]\nname = \"random\"\n{model}")),
        format!(
            "job file line 4, [model] name: the model has {count} parameters, more than 2147483648 \
             (8 GiB as f32); use smaller layers or fewer features"
        )
    );
}
