//! What is found wrong with a model before its run.

use std::sync::Arc;

use resilin_core::job::Document;
use resilin_core::layout::Entry;
use resilin_learn::dataset::Batch;
use resilin_learn::model::{Microbatch, Model, ModelError, Outcome, Score, Sink, Workspace};
use resilin_learn::rehearsal::rehearse_all;

use crate::support::{Tiny, registry};

/// `Tiny` with something wrong in what it counts.
struct Wrong {
    outcome: fn(&mut Outcome),
    score: fn(&mut Score),
}

struct Spoilt<'a> {
    sink: &'a mut dyn Sink,
    spoil: fn(&mut Outcome),
}

impl Sink for Spoilt<'_> {
    fn gradient(&mut self, k: usize) -> &mut [f32] {
        self.sink.gradient(k)
    }

    fn done(&mut self, k: usize, mut outcome: Outcome) {
        (self.spoil)(&mut outcome);
        self.sink.done(k, outcome);
    }
}

impl Model for Wrong {
    fn entries(&self) -> Vec<Entry> {
        Tiny.entries()
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        Tiny.initialise(seed, weights);
    }

    fn workspace(&self) -> Workspace {
        Tiny.workspace()
    }

    fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        workspace: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        let mut sink = Spoilt {
            sink,
            spoil: self.outcome,
        };
        Tiny.evaluate(weights, microbatches, workspace, &mut sink)
    }

    fn score(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
    ) -> Result<Score, ModelError> {
        let mut score = Tiny.score(weights, batch, workspace)?;
        (self.score)(&mut score);
        Ok(score)
    }
}

fn tried(outcome: fn(&mut Outcome), score: fn(&mut Score)) -> Result<(), String> {
    let registry = registry().model("wrong", move |_, _| Ok(Box::new(Wrong { outcome, score })));
    let text = "[run]\nbatch = 24\npartitions = 4\n\
                [data]\nname = \"random\"\n[model]\nname = \"wrong\"\n";
    let task = registry.task(Document::parse(text).unwrap(), None).unwrap();
    rehearse_all(&Arc::new(task)).map_err(|error| error.to_string())
}

#[test]
fn sums_that_do_not_count_their_rows_are_refused_by_name() {
    let error = |text: &str| Err(format!("the model \"wrong\" {text}"));
    assert_eq!(tried(|_| {}, |_| {}), Ok(()));
    assert_eq!(
        tried(|outcome| outcome.samples += 1, |_| {}),
        error("counts 7 rows where there are 6; count each once")
    );
    assert_eq!(
        tried(|outcome| outcome.weight = 0.0, |_| {}),
        error("gives 6 rows a weight of 0; a weight is above 0")
    );
    let rows = |wrong: fn(&mut Score)| tried(|_| {}, wrong).expect_err("it is found");
    assert!(rows(|score| score.rows -= 1).ends_with("; count each once"));
    let right = rows(|score| score.correct = Some(score.rows + 1));
    assert!(right.ends_with("rows right; count each once"), "{right}");
}
