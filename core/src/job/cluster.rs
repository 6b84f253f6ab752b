//! `[cluster]`: on how many processes, where, with how much memory. Nothing here decides bits.

use super::error::JobError;
use super::key::Key;
use super::section::Section;

const WORKERS: Key = Key::free(
    "workers",
    "processes",
    "Workers that train starts on this host and keeps running; resilin scale changes it later.",
);
const MIN_WORKERS: Key = Key::free(
    "min_workers",
    "processes",
    "Workers without which nothing is leased: the run waits and says who is missing.",
);
const MAX_WORKERS: Key = Key::free(
    "max_workers",
    "processes",
    "Workers that hold leases at once; further ones are members that wait.",
);
const SHARDS: Key = Key::free(
    "shards",
    "",
    "Parts of the parameters, each with its own actor; a model with fewer blocks has fewer.",
);
const REPLICAS: Key = Key::free(
    "replicas",
    "",
    "Copies of each shard in another process, beside the one that serves.",
);
const SHARD_PROCESSES: Key = Key::free(
    "shard_processes",
    "processes",
    "Processes that train keeps running for the shards; 0: the coordinator serves them.",
);
const COMPUTE_THREADS: Key = Key::free(
    "compute_threads",
    "threads",
    "Threads of one worker that evaluate microbatches.",
);
const BIND: Key = Key::free(
    "bind",
    "",
    "Whether train gives each worker CPUs of its own, as many as compute_threads, while there are \
     enough for all.",
);
const LISTEN: Key = Key::free(
    "listen",
    "",
    "Address for workers and shards; port 0 takes a free one.",
)
.range("host:port");
const API: Key = Key::free(
    "api",
    "",
    "Address of the HTTP API; port 0 takes a free one.",
)
.range("host:port");
const IN_FLIGHT: Key = Key::free(
    "in_flight",
    "bytes",
    "Bytes that a link holds unanswered before the sender waits.",
);
const MAILBOX: Key = Key::free(
    "mailbox",
    "messages",
    "Messages that an actor holds before senders wait.",
);

/// The most workers of one run.
const MOST_WORKERS: i64 = 4096;

/// The section `[cluster]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Workers that `train` keeps running.
    pub workers: u32,
    /// Workers without which nothing is leased.
    pub min_workers: u32,
    /// Members that hold leases at once.
    pub max_workers: u32,
    /// Parts of the parameters.
    pub shards: u16,
    /// Copies of each shard.
    pub replicas: u8,
    /// Processes that serve shards; 0: the coordinator does.
    pub shard_processes: u16,
    /// Compute threads of one worker.
    pub compute_threads: u16,
    /// Whether `train` gives each worker CPUs of its own.
    pub bind: bool,
    /// Where workers and shards dial.
    pub listen: String,
    /// Where the HTTP API listens.
    pub api: String,
    /// Bytes in flight on a link.
    pub in_flight: usize,
    /// Messages in a mailbox.
    pub mailbox: usize,
}

impl Cluster {
    /// Reads the section.
    ///
    /// # Errors
    /// If a key is not what it may be, or the worker counts contradict each other.
    pub fn read(section: &mut Section<'_>) -> Result<Self, JobError> {
        const SMALL: &str = "its range is narrower";
        let count = |n: i64| u32::try_from(n).expect(SMALL);
        let cluster = Self {
            workers: count(section.integer(&WORKERS, Some(4), 0..=MOST_WORKERS)?),
            min_workers: count(section.integer(&MIN_WORKERS, Some(1), 1..=MOST_WORKERS)?),
            max_workers: count(section.integer(&MAX_WORKERS, Some(1024), 1..=MOST_WORKERS)?),
            shards: u16::try_from(section.integer(&SHARDS, Some(2), 1..=256)?).expect(SMALL),
            replicas: u8::try_from(section.integer(&REPLICAS, Some(0), 0..=1)?).expect(SMALL),
            shard_processes: u16::try_from(section.integer(&SHARD_PROCESSES, Some(0), 0..=256)?)
                .expect(SMALL),
            compute_threads: u16::try_from(section.integer(&COMPUTE_THREADS, Some(1), 1..=1024)?)
                .expect(SMALL),
            bind: section.boolean(&BIND, Some(true))?,
            listen: address(section, &LISTEN)?,
            api: address(section, &API)?,
            in_flight: usize::try_from(section.integer(
                &IN_FLIGHT,
                Some(32 << 20),
                64 << 10..=1 << 30,
            )?)
            .expect(SMALL),
            mailbox: usize::try_from(section.integer(&MAILBOX, Some(256), 16..=65_536)?)
                .expect(SMALL),
        };
        cluster.validate(section)?;
        Ok(cluster)
    }

    /// CPUs that a worker of `train` has for itself while there are enough for all; `None` where
    /// workers run anywhere.
    #[must_use]
    pub fn cpus_each(&self) -> Option<u16> {
        self.bind.then_some(self.compute_threads)
    }

    fn validate(&self, section: &Section<'_>) -> Result<(), JobError> {
        let Self {
            workers,
            min_workers,
            max_workers,
            ..
        } = self;
        if min_workers > max_workers {
            let message = format!("{min_workers} is more than max_workers {max_workers}; lower it");
            return Err(section.error(MIN_WORKERS.name, message));
        }
        if workers > max_workers {
            let message = format!("{workers} is more than max_workers {max_workers}; lower it");
            return Err(section.error(WORKERS.name, message));
        }
        if self.replicas > 0 && self.shard_processes < 2 {
            let message = format!(
                "a copy of each shard needs shard_processes of at least 2, not {}; raise it or set \
                 replicas to 0",
                self.shard_processes
            );
            return Err(section.error(REPLICAS.name, message));
        }
        Ok(())
    }
}

fn address(section: &mut Section<'_>, key: &Key) -> Result<String, JobError> {
    let address = section.text(key, Some("127.0.0.1:0"))?;
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(address),
        Some(_) | None => {
            let message = format!("\"{address}\" is no address; write host:port, as 127.0.0.1:0");
            Err(section.error(key.name, message))
        }
    }
}
