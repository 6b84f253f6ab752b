//! The command line.

use resilin_chaos::replay::Home;

pub(crate) const USAGE: &str = "usage: fuzz [--hosts] [--from SEED] [--seeds COUNT]\n       \
     fuzz [--hosts] --seed SEED [--keep I,J,...] [--trace | --shrink]\n       \
     fuzz --workers COUNT [--seed SEED]";

/// What is wanted.
pub(crate) struct Wanted {
    /// Where slices live.
    pub(crate) home: Home,
    pub(crate) task: Task,
}

/// What is to be done.
pub(crate) enum Task {
    Many { from: u64, seeds: u64 },
    One { seed: u64, keep: Option<Vec<usize>> },
    Trace { seed: u64, keep: Option<Vec<usize>> },
    Shrink { seed: u64 },
    Crowd { workers: u32, seed: u64 },
}

/// What was given.
#[derive(Default)]
pub(crate) struct Arguments {
    home: Home,
    from: Option<u64>,
    seeds: Option<u64>,
    seed: Option<u64>,
    workers: Option<u32>,
    keep: Option<Vec<usize>>,
    trace: bool,
    shrink: bool,
}

impl Arguments {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Wanted, String> {
        let mut given = Self::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            match word.as_str() {
                "--from" => given.from = Some(number(&value()?)?),
                "--seeds" => given.seeds = Some(number(&value()?)?),
                "--seed" => given.seed = Some(number(&value()?)?),
                "--workers" => given.workers = Some(count(&value()?)?),
                "--keep" => given.keep = Some(list(&value()?)?),
                "--hosts" => given.home = Home::Hosts,
                "--trace" => given.trace = true,
                "--shrink" => given.shrink = true,
                _ => return Err(format!("`{word}` is unknown")),
            }
        }
        let home = given.home;
        given.task().map(|task| Wanted { home, task })
    }

    fn task(self) -> Result<Task, String> {
        let Self { keep, trace, .. } = self;
        if let Some(workers) = self.workers {
            let seed = self.seed.unwrap_or(1);
            return Ok(Task::Crowd { workers, seed });
        }
        match self.seed {
            None if keep.is_some() || trace || self.shrink => Err("of which --seed?".into()),
            None => Ok(Task::Many {
                from: self.from.unwrap_or(0),
                seeds: self.seeds.unwrap_or(1000),
            }),
            Some(seed) if self.shrink => Ok(Task::Shrink { seed }),
            Some(seed) if trace => Ok(Task::Trace { seed, keep }),
            Some(seed) => Ok(Task::One { seed, keep }),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

/// At most what a run can have partitions for.
fn count(text: &str) -> Result<u32, String> {
    let count = text
        .parse()
        .ok()
        .filter(|count| (1..=100_000).contains(count));
    count.ok_or_else(|| format!("`{text}` is no number from 1 to 100000"))
}

fn list(text: &str) -> Result<Vec<usize>, String> {
    let parse = |part: &str| part.parse().map_err(|_| format!("`{part}` is no number"));
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(parse)
        .collect()
}
