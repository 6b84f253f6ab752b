//! Names in a job file and what builds the things they name. Users add their own models,
//! optimizers, schedules and data sources here; nothing else has to know of them.

use std::collections::BTreeMap;
use std::path::Path;

use resilin_core::job::{Document, JobError, Key, Section};

use crate::builtin;
use crate::dataset::{Manifest, Split};
use crate::model::Model;
use crate::models::Averaged;
use crate::optimizer::Optimizer;
use crate::schedule::Schedule;
use crate::task::{Rows, Task};

/// The model that is an outside program, and its first key.
const COMMAND: &str = "command";

const AVERAGE: Key = Key::bits(
    "average",
    "",
    "What a moving average of the weights keeps of itself at each step; scores and predictions then use the average.",
)
.range("0 to below 1");

type Build<T, C> = Box<dyn Fn(&mut Section<'_>, &C) -> Result<T, JobError> + Send + Sync>;
type BuildData =
    Box<dyn Fn(&mut Section<'_>, Option<&Path>) -> Result<Split, JobError> + Send + Sync>;
type Builders<T, C> = BTreeMap<String, Build<T, C>>;

/// Builders by name. `Registry::default()` has the built-in models, optimizers and schedules; data
/// sources are added by the program.
pub struct Registry {
    models: Builders<Box<dyn Model>, Manifest>,
    optimizers: Builders<Box<dyn Optimizer>, ()>,
    /// The context is the number of steps after the warm-up.
    schedules: Builders<Box<dyn Schedule>, u64>,
    sources: BTreeMap<String, BuildData>,
}

impl Default for Registry {
    fn default() -> Self {
        builtin::register(Self {
            models: BTreeMap::new(),
            optimizers: BTreeMap::new(),
            schedules: BTreeMap::new(),
            sources: BTreeMap::new(),
        })
    }
}

impl Registry {
    /// Adds a model: `[model] name = "..."`. The builder reads the other keys of the section; the
    /// manifest tells the width of rows and the kind of targets. A name that exists is replaced.
    ///
    /// ```
    /// use resilin_learn::models::{Softmax, SoftmaxConfig};
    /// use resilin_learn::registry::Registry;
    ///
    /// let registry = Registry::default().model("own", |_section, data| {
    ///     let (inputs, classes) = (data.width as usize, 2);
    ///     // What a model says against its settings is an error of the job's [model].
    ///     Ok(Box::new(Softmax::new(SoftmaxConfig { inputs, classes, bias: true })?))
    /// });
    /// ```
    #[must_use]
    pub fn model(
        mut self,
        name: &str,
        build: impl Fn(&mut Section<'_>, &Manifest) -> Result<Box<dyn Model>, JobError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.models
            .insert(name.into(), Box::new(move |s, c| build(s, c)));
        self
    }

    /// Adds an update rule: `[optimizer] name = "..."`. `learning_rate` and `l2` are read for it.
    #[must_use]
    pub fn optimizer(
        mut self,
        name: &str,
        build: impl Fn(&mut Section<'_>) -> Result<Box<dyn Optimizer>, JobError> + Send + Sync + 'static,
    ) -> Self {
        self.optimizers
            .insert(name.into(), Box::new(move |s, ()| build(s)));
        self
    }

    /// Adds a shape of learning rates: `[schedule] name = "..."`. The builder gets the number of
    /// steps after the warm-up; `warmup_steps` is read for it.
    #[must_use]
    pub fn schedule(
        mut self,
        name: &str,
        build: impl Fn(&mut Section<'_>, u64) -> Result<Box<dyn Schedule>, JobError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.schedules
            .insert(name.into(), Box::new(move |s, n| build(s, *n)));
        self
    }

    /// Adds a data source: `[data] name = "..."`. The builder reads the other keys of the section
    /// and the rows; relative paths start at the directory that it is given, or at the working
    /// directory. Every process of a run must get the same rows.
    #[must_use]
    pub fn data(
        mut self,
        name: &str,
        build: impl Fn(&mut Section<'_>, Option<&Path>) -> Result<Split, JobError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.sources
            .insert(name.into(), Box::new(move |s, c| build(s, c)));
        self
    }

    /// Adds everything of another registry; where a name is in both, the other's counts.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.models.extend(other.models);
        self.optimizers.extend(other.optimizers);
        self.schedules.extend(other.schedules);
        self.sources.extend(other.sources);
        self
    }

    /// Reads a whole job and builds all that it names. `directory` is where relative paths of
    /// `[data]` start. The text of the task's effective job gives the same task elsewhere.
    ///
    /// # Errors
    /// A job file that is not understood, or rows that cannot be read.
    pub fn task(&self, document: Document, directory: Option<&Path>) -> Result<Task, JobError> {
        Task::read(self, document, Rows::Read(directory))
    }

    /// The task of an effective job in a process without rows, which `split` describes
    /// ([`Split::elsewhere`]). Its effective job lacks `[data]`, and so its run has another id.
    ///
    /// # Errors
    /// A job that is not understood.
    pub fn task_without_rows(&self, document: Document, split: Split) -> Result<Task, JobError> {
        Task::read(self, document, Rows::Known(split))
    }

    pub(crate) fn build_data(
        &self,
        section: &mut Section<'_>,
        directory: Option<&Path>,
    ) -> Result<Split, JobError> {
        const NAME: Key = Key::bits("name", "", "The data source.");
        choose(&self.sources, &NAME, "digits", section)?(section, directory)
    }

    pub(crate) fn build_model(
        &self,
        section: &mut Section<'_>,
        manifest: &Manifest,
    ) -> Result<Box<dyn Model>, JobError> {
        const NAME: Key = Key::bits("name", "", "The model.");
        // Who writes a command means the model of that name, where the program has it.
        let commanded = section.has(COMMAND) && self.models.contains_key(COMMAND);
        let default = if commanded { COMMAND } else { "mlp" };
        let build = choose(&self.models, &NAME, default, section)?;
        let average = section.optional_float(&AVERAGE, 0.0..=0.999_999)?;
        let model = build(section, manifest).map_err(|error| section.placed(error))?;
        Ok(match average {
            Some(keep) => Box::new(Averaged::new(model, keep)),
            None => model,
        })
    }

    pub(crate) fn build_optimizer(
        &self,
        section: &mut Section<'_>,
    ) -> Result<Box<dyn Optimizer>, JobError> {
        const NAME: Key = Key::bits("name", "", "The update rule.");
        choose(&self.optimizers, &NAME, "momentum", section)?(section, &())
    }

    pub(crate) fn build_schedule(
        &self,
        section: &mut Section<'_>,
        steps: u64,
    ) -> Result<Box<dyn Schedule>, JobError> {
        const NAME: Key = Key::bits(
            "name",
            "",
            "The shape of the learning rate after its warm-up.",
        );
        choose(&self.schedules, &NAME, "constant", section)?(section, &steps)
    }
}

/// Reads `name` and finds its builder.
fn choose<'b, B>(
    builders: &'b BTreeMap<String, B>,
    key: &Key,
    default: &str,
    section: &mut Section<'_>,
) -> Result<&'b B, JobError> {
    let names: Vec<&str> = builders.keys().map(String::as_str).collect();
    let name = section.choice(key, Some(default), &names)?;
    builders.get(&name).ok_or_else(|| {
        let known = names.join(", ");
        section.error(
            key.name,
            format!("nothing is called \"{name}\"; set one of: {known}"),
        )
    })
}
