//! Small jobs whose bits tell every mistake: not convex, with dropout, label noise, clipping and an
//! uneven last microbatch. Noise matters: on clean convex data rounding differences die out.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use resilin_core::job::{Document, JobError, Key, Section};
use resilin_core::random;
use resilin_learn::dataset::{Batch, DataError, Dataset, Manifest, Split, TargetKind, Targets};
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;

/// The most that a job may have.
const MOST_PARTITIONS: u32 = 4096;

/// The model of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// A hidden layer of `hidden` units, with dropout.
    Mlp,
    /// Batch normalization and a residual block, over the rows as 4 x 4 pixels.
    Cnn,
    /// One block, over the rows as text.
    Transformer,
    /// Vectors of length 4, over the rows as ids.
    Factorization,
    /// Draws in the middle, over rows of zeros and ones.
    Vae,
}

impl Net {
    fn toml(self, spec: &Spec) -> String {
        match self {
            Self::Mlp => format!(
                "name = \"mlp\"\nhidden = [{}]\nactivation = \"tanh\"\ndropout = 0.25\n",
                spec.hidden
            ),
            Self::Cnn => "name = \"cnn\"\nimage = [4, 4, 1]\nactivation = \"tanh\"\n\
                 layers = [\"conv 4 3 pad 1 norm\", \"residual 6 stride 2\", \"dropout 0.25\"]\n"
                .into(),
            Self::Transformer => {
                "name = \"transformer\"\nblocks = 1\nheads = 2\nwidth = 8\ndropout = 0.1\n".into()
            }
            Self::Factorization => {
                let fields = vec![BELOW; spec.width as usize];
                format!("name = \"factorization\"\nfields = {fields:?}\nrank = 4\n")
            }
            Self::Vae => "name = \"vae\"\nhidden = [10]\nlatent = 3\nkl_weight = 0.5\n".into(),
        }
    }

    /// What the rows' values stay below, where they are whole numbers; else 0.
    fn below(self) -> u32 {
        match self {
            Self::Mlp | Self::Cnn => 0,
            Self::Transformer | Self::Factorization => BELOW,
            Self::Vae => 2,
        }
    }

    fn classes(self) -> u32 {
        match self {
            Self::Mlp | Self::Cnn | Self::Vae => CLASSES,
            Self::Transformer => BELOW,
            Self::Factorization => 2,
        }
    }
}

/// What differs between the jobs of the tests.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The update rule's name.
    pub optimizer: &'static str,
    /// Partitions.
    pub partitions: u32,
    /// Samples of a step.
    pub batch: u32,
    /// Steps of the run.
    pub steps: u64,
    /// Training rows.
    pub rows: u32,
    /// Test rows; 0 for none.
    pub test_rows: u32,
    /// Values in a row.
    pub width: u32,
    /// The model.
    pub net: Net,
    /// Units of the one hidden layer of [`Net::Mlp`].
    pub hidden: u32,
    /// The shape of the learning rate: a name and its keys, as in the job file.
    pub schedule: &'static str,
    /// Parameters of a block.
    pub block: u32,
    /// Steps between checkpoints.
    pub cut_every: Option<u64>,
    /// `halt` or `skip`.
    pub non_finite: &'static str,
    /// A training row with a NaN.
    pub poison: Option<u32>,
    /// Share of leaves that a second worker evaluates.
    pub audit_rate: f64,
    /// Seconds of the lease.
    pub lease: f64,
    /// Seconds of the grace.
    pub grace: f64,
    /// No more than these hold leases, where that is not left open.
    pub max_workers: Option<u32>,
}

impl Spec {
    /// At most 100 parameters in 5 blocks, 4 steps an epoch, the last with one partition only.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            optimizer: "momentum",
            partitions: 8,
            batch: 16,
            steps: 24,
            rows: 49,
            test_rows: 300,
            width: 3,
            net: Net::Mlp,
            hidden: 5,
            schedule: "name = \"constant\"",
            block: 8,
            cut_every: Some(5),
            non_finite: "halt",
            poison: None,
            audit_rate: 0.0,
            lease: 0.1,
            grace: 0.4,
            max_workers: None,
        }
    }

    /// Three blocks of 256 parameters, 3 steps an epoch with an uneven last microbatch.
    #[must_use]
    pub fn matrix(optimizer: &'static str, partitions: u32) -> Self {
        Self {
            optimizer,
            partitions,
            batch: 96,
            steps: 14,
            rows: 250,
            test_rows: 0,
            width: 16,
            hidden: 24,
            block: 256,
            cut_every: Some(5),
            ..Self::tiny()
        }
    }

    /// A partition of one row for each of very many workers, as far as a run may have so many, over a
    /// few steps. So many heartbeats want a longer lease.
    #[must_use]
    pub fn crowd(workers: u32) -> Self {
        let partitions = workers.min(MOST_PARTITIONS);
        Self {
            partitions,
            batch: partitions,
            rows: 3 * partitions,
            steps: 6,
            test_rows: 0,
            cut_every: Some(3),
            lease: 4.0,
            grace: 8.0,
            max_workers: Some(partitions),
            ..Self::tiny()
        }
    }

    /// The job of a random seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let poisoned = seed % 4 == 3;
        let (partitions, batch, test_rows, cut_every) = match seed / 12 % 4 {
            0 => (8, 16, 300, Some(5)),
            // Fewer partitions than workers, at times.
            1 => (2, 12, 0, Some(3)),
            // Wants a checkpoint while the one before is being written.
            2 => (12, 24, 700, Some(1)),
            _ => (5, 15, 300, None),
        };
        Self {
            partitions,
            batch,
            test_rows,
            cut_every,
            optimizer: ["sgd", "momentum", "adam"][(seed % 3) as usize],
            audit_rate: [0.0, 0.3, 1.0][(seed / 5 % 3) as usize],
            poison: poisoned.then_some(7),
            non_finite: if poisoned { "skip" } else { "halt" },
            ..Self::tiny()
        }
    }

    /// The job file.
    #[must_use]
    pub fn toml(&self) -> String {
        let mut text = format!(
            "[run]\nname = \"chaos\"\nseed = 11\nsteps = {}\nbatch = {}\npartitions = {}\nblock = {}\n\
             clip_norm = 0.4\nnon_finite = \"{}\"\n\
             [data]\nname = \"noise\"\nrows = {}\ntest_rows = {}\nwidth = {}\npoison = {}\n\
             classes = {}\nbelow = {}\n[model]\n{}\
             [optimizer]\nname = \"{}\"\n[schedule]\n{}\n[failure]\naudit_rate = {:?}\nlease = {}\ndrain_grace = {}\n\
             [checkpoint]\nevery_seconds = 0.0\n",
            self.steps,
            self.batch,
            self.partitions,
            self.block,
            self.non_finite,
            self.rows,
            self.test_rows,
            self.width,
            self.poison.unwrap_or(u32::MAX),
            self.net.classes(),
            self.net.below(),
            self.net.toml(self),
            self.optimizer,
            self.schedule,
            self.audit_rate,
            self.lease,
            self.grace,
        );
        if let Some(every) = self.cut_every {
            writeln!(text, "every_steps = {every}").expect("a string takes everything");
        }
        if let Some(most) = self.max_workers {
            writeln!(text, "[cluster]\nmax_workers = {most}").expect("a string takes everything");
        }
        text
    }

    /// The job with all that it names.
    ///
    /// # Panics
    /// If the specification makes no job.
    #[must_use]
    pub fn task(&self) -> Arc<Task> {
        let document = Document::parse(&self.toml()).expect("the text above is TOML");
        let registry = Registry::default().data("noise", noise);
        Arc::new(registry.task(document, None).expect("a job of the tests"))
    }
}

const CLASSES: u32 = 5;
/// What whole numbers in rows stay below.
const BELOW: u32 = 7;
const SEED: u64 = 11;

const ROWS: Key = Key::bits("rows", "", "Training rows.");
const TEST_ROWS: Key = Key::bits("test_rows", "", "Test rows.");
const WIDTH: Key = Key::bits("width", "", "Values in a row.");
const POISON: Key = Key::bits(
    "poison",
    "",
    "A training row with a NaN; 2^32 - 1 for none.",
);

const COUNT: Key = Key::bits("classes", "", "Number of classes.");
const WHOLE: Key = Key::bits("below", "", "What whole values stay below; 0 for others.");

fn noise(section: &mut Section<'_>, _: Option<&Path>) -> Result<Split, JobError> {
    let mut number = |key: &Key| {
        let value = section.integer(key, None, 0..=i64::from(u32::MAX))?;
        Ok::<u32, JobError>(u32::try_from(value).expect("in range"))
    };
    let (rows, test_rows) = (number(&ROWS)?, number(&TEST_ROWS)?);
    let (width, poison) = (number(&WIDTH)?, number(&POISON)?);
    let classes = number(&COUNT)?;
    let below = number(&WHOLE)?;
    let made = |seed, rows, poison| -> Arc<dyn Dataset> {
        let draw = |stream: &mut random::Stream| match below {
            0 => stream.unit_f32() * 4.0 - 2.0,
            below => stream.below(below) as f32,
        };
        Arc::new(Noise::new(seed, (rows, width, classes), draw, poison))
    };
    Ok(Split {
        train: made(SEED, rows, Some(poison)),
        test: (test_rows > 0).then(|| made(SEED + 1, test_rows, None)),
    })
}

/// Rows without any structure: classes drawn beside the values.
struct Noise {
    manifest: Manifest,
    values: Vec<f32>,
    classes: Vec<u32>,
}

impl Noise {
    fn new(
        seed: u64,
        (rows, width, classes): (u32, u32, u32),
        draw: impl Fn(&mut random::Stream) -> f32,
        poison: Option<u32>,
    ) -> Self {
        let mut stream = random::Key::new(seed, random::Purpose::Synthetic).stream();
        let mut values: Vec<f32> = (0..rows * width).map(|_| draw(&mut stream)).collect();
        if let Some(row) = poison.filter(|row| *row < rows) {
            values[(row * width) as usize] = f32::NAN;
        }
        let drawn = (0..rows).map(|_| stream.below(classes)).collect();
        let manifest = Manifest {
            source: "noise".into(),
            files: Vec::new(),
            rows: rows.into(),
            width,
            targets: TargetKind::Classes(classes),
            missing: "refuse".into(),
            digest: format!("{seed}-{rows}-{width}-{poison:?}"),
        };
        Self {
            manifest,
            values,
            classes: drawn,
        }
    }
}

impl Dataset for Noise {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError> {
        let width = self.manifest.width as usize;
        batch.rows = rows.len();
        batch.width = width;
        batch.features.clear();
        for row in rows {
            let start = *row as usize * width;
            batch
                .features
                .extend_from_slice(&self.values[start..start + width]);
        }
        let classes = rows.iter().map(|row| self.classes[*row as usize]);
        batch.targets = Targets::Classes(classes.collect());
        Ok(())
    }
}
