//! A plan from a seed: the same seed and wishes, the same plan, on any machine.
//!
//! Each fault is drawn from a stream of its own, keyed by its number, so a longer plan begins with
//! the shorter one.

use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::time::Span;

use super::plan::{Fault, Kind, MOST_FAULTS, Plan, Planned, Role, Way};

/// Slowest and fastest throttled connection, in bytes a second.
const BYTES_PER_S: (u32, u32) = (64 << 10, 4 << 20);

/// What a plan is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// The seed.
    pub seed: u64,
    /// Length of the plan.
    pub duration: Span,
    /// Mean time from fault to fault; gaps are between half of it and one and a half.
    pub every: Span,
    /// What may happen, each as often; not empty.
    pub kinds: Vec<Kind>,
    /// The lease of the run: what stands still or says nothing does so for 0.5 to 2.5 of it, so
    /// some of it comes back in time and some of it does not.
    pub lease: Span,
}

/// Draws a plan.
///
/// # Panics
/// Without kinds, or if nothing comes between two faults: the caller asks for neither.
#[must_use]
pub fn draw(wishes: &Wishes) -> Plan {
    assert!(!wishes.kinds.is_empty(), "something may go wrong");
    assert!(wishes.every > Span::ZERO, "time passes between faults");
    let mut faults = Vec::new();
    let mut at = Span::ZERO;
    for number in 0..MOST_FAULTS as u64 {
        let mut stream = Key {
            clock: number,
            ..Key::new(wishes.seed, Purpose::User)
        }
        .stream();
        at = Span(at.0.saturating_add(share(wishes.every, 0.5, 1.5, &mut stream).0));
        if at >= wishes.duration {
            break;
        }
        let among = u32::try_from(wishes.kinds.len()).expect("there are few kinds");
        let kind = wishes.kinds[stream.below(among) as usize];
        let choice = stream.next_u32();
        let fault = fault(kind, wishes.lease, &mut stream);
        faults.push(Planned { at, choice, fault });
    }
    Plan {
        seed: wishes.seed,
        duration: wishes.duration,
        faults,
    }
}

fn fault(kind: Kind, lease: Span, stream: &mut Stream) -> Fault {
    let mut lasts = || share(lease, 0.5, 2.5, stream);
    match kind {
        Kind::Kill(role) => Fault::Kill(role),
        // A coordinator that stands still expires nobody; a long stop of it shows no more.
        Kind::Freeze(Role::Coordinator) => {
            Fault::Freeze(Role::Coordinator, share(lease, 0.2, 1.5, stream))
        }
        Kind::Freeze(role) => Fault::Freeze(role, lasts()),
        Kind::Cut => Fault::Cut,
        Kind::Silence => {
            let lasts = lasts();
            let way = [Way::Up, Way::Down, Way::Both][stream.below(3) as usize];
            Fault::Silence(way, lasts)
        }
        Kind::Throttle => {
            let (least, most) = BYTES_PER_S;
            let lasts = lasts();
            Fault::Throttle((least + stream.below(most - least)).into(), lasts)
        }
        Kind::Delay => {
            let lasts = lasts();
            Fault::Delay(share(lease, 0.02, 0.4, stream), lasts)
        }
    }
}

/// Between `least` and `most` times a span, in whole milliseconds, at least one.
fn share(of: Span, least: f64, most: f64, stream: &mut Stream) -> Span {
    let factor = least + (most - least) * stream.unit_f64();
    let millis = (of.as_secs_f64() * factor * 1e3) as u64;
    Span::from_millis(millis.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(seed: u64, seconds: u64) -> Wishes {
        Wishes {
            seed,
            duration: Span::from_millis(seconds * 1000),
            every: Span::from_millis(500),
            kinds: vec![
                Kind::Kill(Role::Worker),
                Kind::Freeze(Role::Worker),
                Kind::Silence,
                Kind::Throttle,
                Kind::Delay,
                Kind::Cut,
            ],
            lease: Span::from_millis(1000),
        }
    }

    #[test]
    fn a_seed_is_one_plan_and_a_longer_one_begins_with_it() {
        let (short, long) = (draw(&wishes(7, 20)), draw(&wishes(7, 60)));
        assert_eq!(short, draw(&wishes(7, 20)));
        assert_eq!(long.faults[..short.faults.len()], short.faults[..]);
        assert_ne!(short.faults, draw(&wishes(8, 20)).faults);
    }

    #[test]
    fn faults_come_as_often_as_wished_and_each_kind_does() {
        let plan = draw(&wishes(3, 600));
        // 1200 gaps of 0.5 s have a standard deviation of 5 s together, or 10 faults.
        assert!(
            (1150..1250).contains(&plan.faults.len()),
            "{}",
            plan.faults.len()
        );
        for kind in wishes(3, 1).kinds {
            let count = plan.faults.iter().filter(|p| p.fault.kind() == kind);
            assert!((130..270).contains(&count.count()), "{kind}");
        }
        let gaps = plan.faults.windows(2).map(|two| two[1].at.0 - two[0].at.0);
        assert!(
            gaps.into_iter()
                .all(|gap| (250_000_000..=750_000_000).contains(&gap))
        );
    }

    /// The first faults of seed 1, so that a plan means the same in every version.
    #[test]
    fn the_first_faults_of_a_seed_are_these() {
        let plan = draw(&wishes(1, 3));
        let shown: Vec<String> = (plan.faults.iter())
            .map(|planned| format!("{} {}", planned.at, planned.fault))
            .collect();
        let expected = [
            "0.736 s cut link",
            "0.996 s kill worker",
            "1.413 s silence link down for 1.074 s",
            "1.801 s delay link by 0.380 s for 1.034 s",
            "2.392 s silence link both ways for 1.005 s",
            "2.846 s delay link by 0.116 s for 2.402 s",
        ];
        assert_eq!(shown, expected);
    }
}
