//! What is measured: models and batches that `bench/outside/compute.py` has, too.

use std::sync::Arc;

use resilin_actors::Exit;
use resilin_core::job::Document;
use resilin_core::random::{Key, Purpose};
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;

/// Random bytes that the transformer reads.
const BYTES: usize = 1 << 16;

/// A model and a batch.
pub(super) struct Case {
    /// What the other program knows it by.
    pub(super) name: &'static str,
    /// In words.
    pub(super) about: &'static str,
    /// Rows of a step.
    pub(super) batch: u32,
    /// Partitions, beside one.
    pub(super) parts: u32,
    /// Steps of one measurement: some tenths of a second.
    pub(super) steps: u32,
    model: &'static str,
    rows: Source,
}

/// Where rows come from.
#[derive(Clone, Copy)]
enum Source {
    /// 784 values and 10 classes.
    Images,
    /// Runs of 128 bytes.
    Text,
}

const MLP: &str = "name = \"mlp\"\nhidden = [512, 256]\n";
const CNN: &str = "name = \"cnn\"\nimage = [28, 28, 1]\n\
    layers = [\"conv 20 5\", \"pool 2\", \"conv 50 5\", \"pool 2\", \"dense 500\"]\n";
const TRANSFORMER: &str = "name = \"transformer\"\nblocks = 1\nheads = 4\nwidth = 128\n";

/// All of them.
pub(super) const CASES: [Case; 4] = [
    Case {
        name: "mlp-64",
        about: "MLP 784-512-256-10, batch 64",
        batch: 64,
        parts: 16,
        steps: 100,
        model: MLP,
        rows: Source::Images,
    },
    Case {
        name: "mlp-512",
        about: "MLP 784-512-256-10, batch 512",
        batch: 512,
        parts: 16,
        steps: 20,
        model: MLP,
        rows: Source::Images,
    },
    Case {
        name: "cnn-64",
        about: "the network of examples/s2-convolutions.toml, batch 64",
        batch: 64,
        parts: 16,
        steps: 10,
        model: CNN,
        rows: Source::Images,
    },
    Case {
        name: "transformer-8",
        about: "one block of width 128 with 4 heads between embedding and logits, 8 rows of 128 bytes",
        batch: 8,
        parts: 8,
        steps: 10,
        model: TRANSFORMER,
        rows: Source::Text,
    },
];

/// A directory with the rows that are read from files.
pub(super) struct Rows(tempfile::TempDir);

impl Rows {
    pub(super) fn new() -> Result<Self, Exit> {
        let write = || {
            let directory = tempfile::Builder::new().prefix("resilin-bench").tempdir()?;
            let mut draws = Key::new(1, Purpose::Synthetic).stream();
            let bytes: Vec<u8> = (0..BYTES)
                .map(|_| u8::try_from(draws.below(256)).expect("below 256"))
                .collect();
            std::fs::write(directory.path().join("text"), bytes)?;
            Ok(Self(directory))
        };
        write().map_err(|error: std::io::Error| {
            Exit::Fault(format!(
                "cannot make a temporary directory: {error}; set TMPDIR"
            ))
        })
    }
}

impl Case {
    /// The job of the case, built.
    pub(super) fn task(
        &self,
        registry: &Registry,
        rows: &Rows,
        partitions: u32,
    ) -> Result<Arc<Task>, Exit> {
        let Self {
            name, batch, model, ..
        } = self;
        let data = match self.rows {
            Source::Images => "name = \"synthetic\"\nwidth = 784\nrows = 2048\ntest_rows = 1\n",
            Source::Text => "name = \"text\"\npath = \"text\"\ncontext = 128\n",
        };
        let text = format!(
            "[run]\nname = \"bench-{name}\"\nsteps = 1\nbatch = {batch}\npartitions = {partitions}\n\
             [model]\n{model}\n[data]\n{data}\n\
             [optimizer]\nname = \"momentum\"\nlearning_rate = 0.001\n"
        );
        let document = Document::parse(&text).map_err(|error| Exit::Fault(error.to_string()))?;
        let task = registry.task(document, Some(rows.0.path()));
        Ok(Arc::new(
            task.map_err(|error| Exit::Fault(error.to_string()))?,
        ))
    }
}
