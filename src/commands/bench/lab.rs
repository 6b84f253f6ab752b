//! A directory for one measurement: rows, a job, and runs of it that leave nothing behind.

use std::io;
use std::path::{Path, PathBuf};

use resilin_actors::Exit;
use resilin_actors::supervisor::{self, Children, Ended, Happening, Options};
use resilin_chaos::process::proxy::Proxy;
use resilin_core::Span;
use resilin_core::random::{Key, Purpose};

use crate::log::VARIABLE;

/// Rows of the measured data set: a multiple of every batch below.
const ROWS: u32 = 6144;
/// Values in a row: 28 x 28, as in MNIST.
const SIDE: u32 = 28;

/// The directory; removed when dropped.
pub(super) struct Lab {
    dir: tempfile::TempDir,
    children: Children,
    proxy: Option<Proxy>,
    /// Shard processes of its runs; the job says the same.
    pub(super) shard_processes: u16,
    /// What its workers log, if not only warnings.
    pub(super) worker_log: Option<&'static str>,
}

impl Lab {
    /// A directory with random images and this job.
    pub(super) fn new(job: &str) -> Result<Self, Exit> {
        let dir = tempfile::Builder::new().prefix("resilin-bench").tempdir();
        let dir = dir.map_err(|error| {
            Exit::Fault(format!(
                "cannot make a temporary directory: {error}; set TMPDIR"
            ))
        })?;
        let lab = Self {
            dir,
            children: Children::default(),
            proxy: None,
            shard_processes: 0,
            worker_log: None,
        };
        let mut draws = Key::new(1, Purpose::Synthetic).stream();
        let bytes = |count: u32, below: u32, draws: &mut resilin_core::random::Stream| {
            let draw = (0..count).map(|_| draws.below(below));
            draw.map(|value| u8::try_from(value).expect("below 256"))
                .collect::<Vec<u8>>()
        };
        let images = bytes(ROWS * SIDE * SIDE, 256, &mut draws);
        let labels = bytes(ROWS, 10, &mut draws);
        lab.write("images", &idx(&[ROWS, SIDE, SIDE], &images))?;
        lab.write("labels", &idx(&[ROWS], &labels))?;
        let data = "[data]\nname = \"idx\"\ntrain_images = \"images\"\ntrain_labels = \"labels\"\n\
                    test_fraction = 0.0\n";
        lab.write("job.toml", format!("{job}\n{data}").as_bytes())?;
        Ok(lab)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Exit> {
        let path = self.path(name);
        std::fs::write(&path, bytes)
            .map_err(|error| Exit::Fault(format!("cannot write {}: {error}", path.display())))
    }

    pub(super) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The processes of its runs.
    pub(super) fn children(&self) -> Children {
        self.children.clone()
    }

    /// Puts a proxy between the workers and the coordinator of its runs.
    pub(super) fn connect_through(&mut self, proxy: io::Result<Proxy>) -> Result<(), Exit> {
        let proxy = proxy.map_err(|error| Exit::Fault(format!("cannot start a proxy: {error}")))?;
        self.proxy = Some(proxy);
        Ok(())
    }

    /// What lies between workers and coordinator, if anything does.
    pub(super) fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// Runs the job from its beginning with real processes, as `resilin train` does.
    pub(super) fn train(&self, workers: u32, mut on: impl FnMut(Happening)) -> Result<Ended, Exit> {
        let program = std::env::current_exe()
            .map_err(|error| Exit::Fault(format!("cannot find this program: {error}")))?;
        let path = |name: &str| self.path(name).to_string_lossy().into_owned();
        let data = [
            String::from("--data"),
            self.root().to_string_lossy().into_owned(),
        ];
        let coordinator = [
            "coordinator".into(),
            path("job.toml"),
            "--state".into(),
            path("state"),
            "--workers".into(),
            workers.to_string(),
        ];
        let through = self.proxy.as_ref().map(|proxy| {
            let address = proxy.address().to_string();
            ["--advertise".to_owned(), address]
        });
        let through = through.into_iter().flatten();
        let coordinator = coordinator.into_iter().chain(data.clone()).chain(through);
        // A child inherits what this process has in its environment; `env` gives workers more.
        let program = program.to_string_lossy().into_owned();
        let begin = |variable: Option<String>| variable.into_iter().chain([program.clone()]);
        let log = self.worker_log.map(|level| format!("{VARIABLE}={level}"));
        let worker = std::iter::once("worker".to_owned()).chain(data);
        let shard = begin(None).chain(["shard".into()]).collect();
        let options = Options {
            program: "/usr/bin/env".into(),
            coordinator: begin(None).chain(coordinator).collect(),
            first_start: vec!["--fresh".into()],
            worker: begin(log).chain(worker).collect(),
            cpus_each: Some(1),
            shards: vec![shard; self.shard_processes.into()],
            token: None,
            restarts: 10,
            window: Span::from_secs_f64(60.0),
            grace: Span::from_secs_f64(10.0),
            children: self.children.clone(),
        };
        Ok(supervisor::run(options, |happening| {
            if let (Happening::Ready(location), Some(proxy)) = (&happening, &self.proxy) {
                proxy.aim(&location.listen);
            }
            on(happening);
        }))
    }
}

/// A file of unsigned bytes in the IDX format.
fn idx(dimensions: &[u32], bytes: &[u8]) -> Vec<u8> {
    let rank = u8::try_from(dimensions.len()).expect("few dimensions");
    let mut file = vec![0, 0, 8, rank];
    for dimension in dimensions {
        file.extend(dimension.to_be_bytes());
    }
    file.extend(bytes);
    file
}
