//! The kinds of faults: a name, how often it is drawn, and how one is made.

use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::time::Span;

use super::{Fault, Weather};

/// One kind of fault.
pub struct Kind {
    /// Its name in README.md.
    pub name: &'static str,
    /// How often it is drawn, beside the others' weights.
    pub weight: u32,
    /// One of it.
    pub make: fn(&mut Stream) -> Fault,
}

/// A span of up to so many milliseconds.
pub(super) fn span(stream: &mut Stream, most: u32) -> Span {
    Span::from_millis(1 + u64::from(stream.below(most)))
}

/// Up to three leases of the small jobs.
pub(super) fn long(stream: &mut Stream) -> Span {
    span(stream, 300)
}

pub(super) fn short(stream: &mut Stream) -> Span {
    span(stream, 120)
}

pub(super) fn pick(stream: &mut Stream) -> u32 {
    stream.next_u32()
}

fn weather(stream: &mut Stream, worst: Weather) -> Fault {
    let mut some = |most: u32| if most > 0 { stream.below(most) } else { 0 };
    let weather = Weather {
        loss: some(worst.loss),
        twice: some(worst.twice),
        reorder: some(worst.reorder),
        spike: some(worst.spike),
    };
    Fault::Weather(long(stream), weather)
}

const CLEAR: Weather = Weather {
    loss: 0,
    twice: 0,
    reorder: 0,
    spike: 0,
};

macro_rules! kinds {
    ($($name:literal $weight:literal |$stream:ident| $make:expr;)*) => {
        /// Every kind.
        pub const KINDS: &[Kind] = &[$(Kind {
            name: $name,
            weight: $weight,
            make: |$stream| $make,
        }),*];
    };
}

kinds! {
    "worker killed" 140 |s| Fault::Kill(pick(s));
    "worker vanished" 40 |s| Fault::Vanish(pick(s));
    "worker restarted" 40 |s| Fault::Restart(pick(s), short(s));
    "worker joins" 160 |s| Fault::Join([1, 1, 1, 2, 8][s.below(5) as usize]);
    "join storm" 10 |s| Fault::JoinStorm(4 + s.below(8));
    "duplicate identity" 20 |s| Fault::Twin(pick(s));
    "worker terminated" 40 |s| Fault::Terminate(pick(s));
    "worker drained" 50 |s| Fault::Drain(pick(s));
    "drain storm" 5 |_s| Fault::DrainStorm;
    "scale" 10 |s| Fault::Scale(1 + s.below(6));
    "stop and resume" 15 |_s| Fault::Stop;
    "coordinator killed" 40 |s| Fault::KillCoordinator(short(s));
    "coordinator on a new address" 20 |s| Fault::MoveCoordinator(short(s));
    "power lost" 30 |s| Fault::LosePower(short(s));
    "torn write" 30 |s| Fault::TornWrite(s.below(40), short(s));
    "lost sync" 15 |s| Fault::LostSync(s.below(40), short(s));
    "failed write" 15 |s| Fault::FailedWrite(s.below(40));
    "bit rot" 10 |s| Fault::BitRot(pick(s));
    "newest checkpoint damaged" 15 |s| Fault::DamageNewest(pick(s));
    "records lost" 5 |s| Fault::LoseRecords(short(s));
    "disk full" 15 |s| Fault::DiskFull(short(s));
    "disk read-only" 10 |s| Fault::ReadOnly(short(s));
    "link reset" 90 |s| Fault::ResetLink(pick(s));
    "corrupt frame" 30 |s| Fault::CorruptFrame(pick(s));
    "one-way cut to a worker" 15 |s| Fault::CutTo(pick(s), long(s));
    "one-way cut from a worker" 15 |s| Fault::CutFrom(pick(s), long(s));
    "two-way cut" 20 |s| Fault::Cut(pick(s), long(s));
    "slow link" 25 |s| Fault::SlowLink(pick(s), span(s, 20), long(s));
    "loss" 20 |s| weather(s, Weather { loss: 300, ..CLEAR });
    "duplication" 20 |s| weather(s, Weather { twice: 500, ..CLEAR });
    "reordering" 20 |s| weather(s, Weather { reorder: 500, ..CLEAR });
    "delay spikes" 20 |s| weather(s, Weather { spike: 200, ..CLEAR });
    "bad weather" 40 |s| weather(s, Weather { loss: 150, twice: 150, reorder: 150, spike: 60 });
    "zombie" 30 |s| Fault::Zombie(pick(s), long(s));
    "worker frozen" 60 |s| Fault::Freeze(pick(s), long(s));
    "coordinator frozen" 30 |s| Fault::FreezeCoordinator(long(s));
    "slow worker" 40 |s| Fault::Slow(pick(s), 1 + s.below(8));
    "stuck worker" 20 |s| Fault::Stuck(pick(s), long(s));
    "NaN" 20 |s| Fault::NotFinite(pick(s), 1 + s.below(3));
    "worker's clock jumps" 15 |s| Fault::ClockJump(pick(s), span(s, 2_000));
    "coordinator's clock jumps" 10 |s| Fault::CoordinatorClockJump(span(s, 2_000));
    "worker's clock drifts" 15 |s| Fault::ClockDrift(pick(s), s.below(100_000) as i32 - 50_000);
    "coordinator's clock drifts" 10 |s| Fault::CoordinatorClockDrift(s.below(100_000) as i32 - 50_000);
    "calendar goes back" 5 |s| Fault::CalendarBack(span(s, 100_000));
    "everything at once" 5 |s| Fault::Everything(pick(s));
}

impl Fault {
    /// One of each kind, but those that are many themselves and those that end a sitting.
    #[must_use]
    pub fn one_of_each(seed: u32) -> Vec<Self> {
        let mut stream = Key::new(seed.into(), Purpose::User).stream();
        let mut all: Vec<Self> = KINDS.iter().map(|kind| (kind.make)(&mut stream)).collect();
        all.retain(|fault| !matches!(fault, Self::Everything(_) | Self::Stop | Self::DrainStorm));
        all
    }
}

#[cfg(test)]
mod tests {
    use resilin_core::sorted::SortedSet;

    use super::*;

    #[test]
    fn every_kind_is_listed_in_the_readme() {
        let readme = std::fs::read_to_string("README.md").expect("tests run beside it");
        let all = || KINDS.iter().chain(super::super::HOST_KINDS);
        let names: SortedSet<&str> = all().map(|kind| kind.name).collect();
        assert!(names.len() >= 25 && names.len() == all().count());
        for name in names {
            assert!(
                readme.contains(&format!("| {name} |")),
                "{name} is not in README.md"
            );
        }
    }
}
