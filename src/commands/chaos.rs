//! `resilin chaos`: a job of one's own under a seeded schedule of faults, with real processes, held
//! against a quiet run of it.

mod course;
mod schedule;
mod show;
mod verdict;

use std::path::{Path, PathBuf};

use resilin_actors::Exit;
use resilin_chaos::process::plan::{Kind, Plan, Role};
use resilin_chaos::process::proxy::Proxy;
use resilin_core::job::{Bits, Job};
use resilin_learn::registry::Registry;

use crate::commands::duration::ms;
use crate::commands::exit;
use crate::face::{Face, FaceArgs};
use crate::job_file::JobArgs;
use crate::print;
use course::Course;
use schedule::ScheduleArgs;
use show::Show;
use verdict::Verdict;

/// Train a job twice, quiet and under seeded faults, and compare the weights of every step
#[derive(Debug, clap::Args)]
pub(crate) struct Chaos {
    /// Job file; without it the embedded digits are trained
    #[arg(value_name = "JOB.toml")]
    job: Option<PathBuf>,
    /// Directory where relative paths of [data] begin [default: the working directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    schedule: ScheduleArgs,
    /// Workers of either run, instead of [cluster] workers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    /// Directory that keeps both runs [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print one JSON object at the end, and nothing else
    #[arg(long)]
    json: bool,
}

impl Chaos {
    pub(crate) fn run(&self, registry: &Registry) -> Result<(), Exit> {
        self.schedule.check()?;
        let (job, workers) = self.job(registry)?;
        let plan = self.schedule.plan(&job)?;
        check(&job, &plan)?;
        let home = Home::new(self.state.as_deref())?;
        self.schedule.save(&plan)?;
        let proxy = plan
            .faults
            .iter()
            .any(|planned| planned.fault.kind().is_link());
        let proxy = proxy.then(Proxy::start).transpose();
        let proxy = proxy.map_err(|error| Exit::Fault(format!("cannot start a proxy: {error}")))?;
        let show = Show::new((!self.json).then(|| Face::new(FaceArgs::default())));
        let course = |name: &str| Course {
            job: self.job_args(),
            state: home.path().join(name),
            workers,
            failure: job.failure.clone(),
            shard_processes: job.cluster.shard_processes,
            cpus_each: job.cluster.cpus_each(),
            proxy: proxy.as_ref(),
        };
        show.notice(&format!(
            "a quiet run first, then one with {} faults in {}",
            plan.faults.len(),
            plan.duration
        ));
        let quiet = course("quiet").run(None, &show)?;
        let long = self.long_enough(&plan, quiet.seconds())?;
        if long < plan.duration.as_secs_f64() {
            show.notice(&format!(
                "the quiet run took {long:.1} s, less than {}: faults stop when the job ends",
                plan.duration
            ));
        }
        let tried = course("chaos").run(Some(&plan), &show)?;
        show.clear();
        let verdict = Verdict::new(&plan, &quiet, &tried);
        match self.json {
            true => print::json(&verdict)?,
            false => print::line(&verdict.lines().join("\n"))?,
        }
        exit(verdict.exit(home.kept()))
    }

    fn job_args(&self) -> JobArgs {
        JobArgs {
            job: self.job.clone(),
            seed: None,
            data: self.data.clone(),
        }
    }

    /// Reads the whole job, so that what is wrong with it is said before a process is started.
    fn job(&self, registry: &Registry) -> Result<(Job, u32), Exit> {
        let args = self.job_args();
        let job = args.task(args.document()?, registry)?.job.clone();
        let workers = self.workers.unwrap_or_else(|| job.cluster.workers.max(1));
        let (least, most) = (job.cluster.min_workers, job.cluster.max_workers);
        if !(least..=most).contains(&workers) {
            return Err(Exit::Usage(format!(
                "--workers {workers}: the job takes {least} to {most} ([cluster] min_workers, \
                 max_workers)"
            )));
        }
        Ok((job, workers))
    }

    /// The seconds that a quiet run gives faults; refuses one that is over before the first.
    fn long_enough(&self, plan: &Plan, quiet_s: Option<f64>) -> Result<f64, Exit> {
        let first = plan
            .faults
            .first()
            .map_or(0.0, |first| first.at.as_secs_f64());
        match quiet_s {
            Some(long) if long > first => Ok(long),
            Some(long) => Err(Exit::Usage(format!(
                "the quiet run took {long:.2} s once all workers computed, and the first fault \
                 comes after {first:.2} s: give the job more steps, or a shorter --every"
            ))),
            None => Err(Exit::Usage(
                "the quiet run was over before all workers computed: give the job more steps, or \
                 fewer --workers"
                    .into(),
            )),
        }
    }
}

/// Refuses what cannot come out of any schedule.
fn check(job: &Job, plan: &Plan) -> Result<(), Exit> {
    if job.run.bits == Bits::Off {
        return Err(Exit::Usage(
            "bits = \"off\" promises no weights that could be compared; set [run] bits = \"on\""
                .into(),
        ));
    }
    let shards = plan
        .faults
        .iter()
        .find(|planned| match planned.fault.kind() {
            Kind::Kill(role) | Kind::Freeze(role) => role == Role::Shard,
            Kind::Cut | Kind::Silence | Kind::Throttle | Kind::Delay => false,
        });
    match shards.filter(|_| job.cluster.shard_processes == 0) {
        None => Ok(()),
        Some(planned) => Err(Exit::Usage(format!(
            "{} after {} ms: the shards of this job live in the coordinator's process; set \
             [cluster] shard_processes, or name coordinator instead",
            planned.fault,
            ms(planned.at)
        ))),
    }
}

/// Where both runs are kept.
enum Home {
    Temporary(tempfile::TempDir),
    Given(PathBuf),
}

impl Home {
    fn new(given: Option<&Path>) -> Result<Self, Exit> {
        if let Some(path) = given {
            let made = std::fs::create_dir_all(path);
            made.map_err(|error| {
                Exit::Usage(format!(
                    "--state {}: cannot keep runs there: {error}; name a directory",
                    path.display()
                ))
            })?;
            return Ok(Self::Given(path.into()));
        }
        let made = tempfile::Builder::new().prefix("resilin-chaos").tempdir();
        made.map(Self::Temporary).map_err(|error| {
            Exit::Fault(format!(
                "cannot make a temporary directory: {error}; set TMPDIR, or name one with --state"
            ))
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Given(path) => path,
        }
    }

    /// The directory, if it is still there afterwards.
    fn kept(&self) -> Option<&Path> {
        match self {
            Self::Temporary(_) => None,
            Self::Given(path) => Some(path),
        }
    }
}
