//! Running schedules so that every failure, a broken invariant or a panic, says how to see it again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use resilin_core::sorted::SortedMap;

use crate::invariants::Violation;
use crate::jobs::Spec;
use crate::oracle::Oracle;
use crate::schedule::Schedule;
use crate::sim::{Ended, Plant, Sim};

/// Runs a schedule that must keep every invariant.
///
/// # Panics
/// If one is broken; `what` says which test and which case it was.
pub fn check(oracle: &Oracle, schedule: &Schedule, what: &str) -> Ended {
    let _named = Named(format!("{what}, seed {}", schedule.seed));
    match Sim::new(oracle, schedule).run() {
        Ok(ended) => ended,
        Err(violation) => panic!("{violation}"),
    }
}

/// Where slices live in random schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// In the coordinator.
    #[default]
    Coordinator,
    /// In shard processes.
    Hosts,
}

impl Home {
    /// The random schedule of a seed.
    #[must_use]
    pub fn schedule(self, seed: u64) -> Schedule {
        match self {
            Self::Coordinator => Schedule::random(seed),
            Self::Hosts => Schedule::random_hosted(seed),
        }
    }

    /// The command that shows a seed again.
    #[must_use]
    pub fn replay(self, seed: u64) -> String {
        let hosts = match self {
            Self::Coordinator => "",
            Self::Hosts => " --hosts",
        };
        format!("seed {seed}; again: cargo run -p resilin-chaos --bin fuzz --{hosts} --seed {seed}")
    }
}

/// Random schedules by seed, with the serial runs of their jobs made once each.
#[derive(Default)]
pub struct Seeds {
    home: Home,
    oracles: SortedMap<String, Oracle>,
}

impl Seeds {
    /// Those of schedules with slices there.
    #[must_use]
    pub fn of(home: Home) -> Self {
        Self {
            home,
            ..Self::default()
        }
    }

    /// The serial run of a seed's job.
    pub fn oracle(&mut self, seed: u64) -> &Oracle {
        let spec = Spec::of_seed(seed);
        let of_spec = || Oracle::of(&spec.task());
        self.oracles.entry(spec.toml()).or_insert_with(of_spec)
    }

    /// Runs a seed.
    ///
    /// # Errors
    /// The invariant that it breaks.
    ///
    /// # Panics
    /// If a machine's own check fails; the line before names the seed.
    pub fn run(&mut self, seed: u64) -> Result<Ended, Violation> {
        let _named = Named(self.home.replay(seed));
        let schedule = self.home.schedule(seed);
        Sim::new(self.oracle(seed), &schedule).run()
    }

    /// Runs a seed with a bug in it.
    ///
    /// # Errors
    /// The invariant that it breaks.
    pub fn planted(&mut self, seed: u64, plant: Plant) -> Result<Ended, Violation> {
        let schedule = self.home.schedule(seed);
        Sim::new(self.oracle(seed), &schedule).planted(plant).run()
    }

    /// Runs a schedule on its seed's job and tells all that happens on standard error.
    ///
    /// # Errors
    /// The invariant that it breaks.
    pub fn trace(&mut self, schedule: &Schedule) -> Result<Ended, Violation> {
        Sim::new(self.oracle(schedule.seed), schedule)
            .traced()
            .run()
    }

    /// Runs a schedule on its seed's job; a panic is a broken invariant of a machine.
    ///
    /// # Errors
    /// The invariant that it breaks.
    pub fn verdict(&mut self, schedule: &Schedule) -> Result<Ended, Violation> {
        let oracle = self.oracle(schedule.seed);
        let run = || Sim::new(oracle, schedule).run();
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
            Err(Violation {
                id: "machine",
                what: text.unwrap_or_else(|| "a panic".into()),
            })
        })
    }
}

/// The command that shows a random seed again.
#[must_use]
pub fn replay(seed: u64) -> String {
    Home::Coordinator.replay(seed)
}

/// Says what was running when a panic passes.
struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
