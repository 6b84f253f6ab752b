//! `resilin train`: a supervisor over a coordinator and workers, which it starts as a stranger
//! would; it owns the terminal and the report.

mod watch;

use std::path::{Path, PathBuf};

use resilin_actors::Exit;
use resilin_actors::coordinator::Report;
use resilin_actors::supervisor::{self, Children, Ended, Options, When};
use resilin_checkpoint::{History, LEDGER, RealFiles};
use resilin_core::job::{Document, Job};
use resilin_foreign::COMMAND;
use resilin_learn::kernel::{Digest, hex};
use resilin_learn::registry::Registry;

use crate::address;
use crate::client::{STATE, secret};
use crate::commands::exit;
use crate::face::{Face, FaceArgs};
use crate::job_file::{JobArgs, utf8};
use crate::print;
use crate::results::ResultArgs;
use watch::Watch;

/// Train a job on worker processes of this host, and of any other that joins
#[derive(Debug, clap::Args)]
pub(crate) struct Train {
    #[command(flatten)]
    job: JobArgs,
    /// Workers to keep running on this host, instead of [cluster] workers
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Directory where runs, their ledgers and checkpoints are kept
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Start the run over: removes its checkpoints and its ledger
    #[arg(long)]
    fresh: bool,
    /// Address for workers, HOST:PORT, instead of [cluster] listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", value_parser = address::listened)]
    listen: Option<String>,
    /// Address that workers are told to dial, HOST:PORT, where they do not reach the one listened on
    #[arg(long, value_name = "ADDR", value_parser = address::dialled)]
    advertise: Option<String>,
    /// Address of the HTTP interface, HOST:PORT, instead of [cluster] api
    #[arg(long, value_name = "ADDR", value_parser = address::listened)]
    api: Option<String>,
    /// File with the token that workers and tools must show; needed beyond loopback addresses
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    results: ResultArgs,
    #[command(flatten)]
    face: FaceArgs,
    /// Print the job with every key and its meaning, which is itself a job file, and end
    #[arg(long)]
    print_job: bool,
}

impl Train {
    pub(crate) fn run(&self, registry: &Registry) -> Result<(), Exit> {
        self.results.check()?;
        if self.print_job {
            let task = self.job.task(self.document()?, registry)?;
            return print::line(task.effective.toml().trim_end());
        }
        let options = self.supervisor()?;
        let mut watch = Watch::new(Face::new(self.face));
        if let Some(command) = model_command(&mut self.document()?) {
            watch.notice(format!(
                "starting the model command `{command}` and trying it; its libraries may take a \
                 minute to load"
            ));
        }
        let ended = supervisor::run(options, |happening| watch.take(happening));
        let shown = self.show(&ended, &mut watch);
        watch.face.clear();
        exit(ended.exit).and(shown)
    }

    /// The job with the overrides that the coordinator is given, too.
    fn document(&self) -> Result<Document, Exit> {
        let mut document = self.job.document()?;
        if let Some(workers) = self.workers {
            document.set("cluster", "workers", workers);
        }
        Ok(document)
    }

    fn supervisor(&self) -> Result<Options, Exit> {
        let job = Job::read(&mut self.document()?).map_err(|error| self.job.refused(&error))?;
        let program = std::env::current_exe().map_err(|error| {
            Exit::Fault(format!(
                "cannot find this program to start it again: {error}"
            ))
        })?;
        let failure = job.failure;
        Ok(Options {
            program,
            coordinator: self.coordinator_arguments()?,
            first_start: self.fresh.then(|| "--fresh".into()).into_iter().collect(),
            worker: self.worker_arguments()?,
            cpus_each: job.cluster.cpus_each(),
            shards: vec![self.shard_arguments()?; job.cluster.shard_processes.into()],
            token: self.token_file.as_deref().map(secret).transpose()?,
            restarts: failure.restarts,
            window: failure.restart_window,
            grace: failure.drain_grace,
            children: Children::default(),
        })
    }

    fn coordinator_arguments(&self) -> Result<Vec<String>, Exit> {
        let mut arguments = vec!["coordinator".to_owned()];
        arguments.extend(self.job.arguments()?);
        option(&mut arguments, "--state", Some(utf8(&self.state)?));
        let workers = self.workers.map(|workers| workers.to_string());
        option(&mut arguments, "--workers", workers);
        option(&mut arguments, "--listen", self.listen.clone());
        option(&mut arguments, "--advertise", self.advertise.clone());
        option(&mut arguments, "--api", self.api.clone());
        self.token_argument(&mut arguments)?;
        Ok(arguments)
    }

    fn worker_arguments(&self) -> Result<Vec<String>, Exit> {
        let mut arguments = vec!["worker".to_owned()];
        let data = self.job.data.as_deref().map(utf8).transpose()?;
        option(&mut arguments, "--data", data);
        self.token_argument(&mut arguments)?;
        Ok(arguments)
    }

    fn shard_arguments(&self) -> Result<Vec<String>, Exit> {
        let mut arguments = vec!["shard".to_owned()];
        self.token_argument(&mut arguments)?;
        Ok(arguments)
    }

    fn token_argument(&self, arguments: &mut Vec<String>) -> Result<(), Exit> {
        let token = self.token_file.as_deref().map(utf8).transpose()?;
        option(arguments, "--token-file", token);
        Ok(())
    }

    /// Writes and shows what came out, also of a run that stopped or failed.
    fn show(&self, ended: &Ended, watch: &mut Watch) -> Result<(), Exit> {
        let Some(report) = &ended.report else {
            return Ok(());
        };
        let report: Report = serde_json::from_value(report.clone()).map_err(|error| {
            Exit::Fault(format!("the run's report is of another version: {error}"))
        })?;
        let directory = ended.directory.as_deref();
        match ended.done {
            When::Before => watch
                .notice("the run is finished: this is its result; --fresh starts it over".into()),
            When::Now => watch.last_epochs(directory, &report),
        }
        self.results.write_report(&report)?;
        let written = self.results.write_chain(|| chain(directory, &report));
        // The exit code is the run's, whoever reads.
        if let Err(unwritten) = watch.face.end(&report) {
            print::log(&format!("the result is not shown: {unwritten}"));
        }
        written
    }
}

/// The newest timeline's chain of a run, from step 0 to the line that the report names.
pub(super) fn chain(directory: Option<&Path>, report: &Report) -> Result<Vec<Digest>, Exit> {
    let Some(directory) = directory else {
        return Ok(Vec::new());
    };
    let path = directory.join(LEDGER);
    let damaged = |why: String| {
        Exit::Fault(format!(
            "no hash chain is written: {} is damaged: {why}; --fresh trains the run again",
            path.display()
        ))
    };
    let lines = History::read(&RealFiles, &path)?.chain();
    let lines = lines.map_err(|error| damaged(error.to_string()))?;
    let newest = lines.last();
    let ends_early = newest.is_none_or(|(version, _)| version.0 < report.steps);
    if ends_early || newest.map(|(_, line)| hex(line)) != report.chain {
        return Err(damaged("its newest lines are missing".into()));
    }
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

/// Adds an option with its value, if it has one.
pub(super) fn option(arguments: &mut Vec<String>, name: &str, value: Option<String>) {
    if let Some(value) = value {
        arguments.extend([name.to_owned(), value]);
    }
}

/// The program that is the model, where the job has one. What is wrong with it is the coordinator's
/// to say.
fn model_command(document: &mut Document) -> Option<String> {
    let command = document.section("model").optional_text(&COMMAND);
    command.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_job_is_known_before_anything_is_started() {
        let of = |text: &str| model_command(&mut Document::parse(text).expect("a job file"));
        let named = of("[model]\ncommand = \"python3 model.py\"\n");
        assert_eq!(named.as_deref(), Some("python3 model.py"));
        assert_eq!(of("[model]\nname = \"softmax\"\n"), None);
        assert_eq!(of(""), None);
    }
}
