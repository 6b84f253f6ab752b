//! Random schedules.

use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::time::Span;

use super::{Fault, HOST_KINDS, Hosting, KINDS, Leg, Schedule, When};

impl Schedule {
    /// Anything may go wrong.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let stream = Key::new(seed, Purpose::User).stream();
        Self::drawn(seed, stream, None)
    }

    /// The same with slices in shard processes, to which anything may happen too.
    #[must_use]
    pub fn random_hosted(seed: u64) -> Self {
        let key = Key {
            clock: 2,
            ..Key::new(seed, Purpose::User)
        };
        let mut stream = key.stream();
        let replicas = stream.below(3).min(1) as u8;
        let processes = 2 + stream.below(4) as u16;
        let hosting = Hosting {
            processes,
            replicas,
        };
        Self::drawn(seed, stream, Some(hosting))
    }

    fn drawn(seed: u64, mut stream: Stream, hosting: Option<Hosting>) -> Self {
        let leg = |stream: &mut Stream| Leg {
            workers: 1 + stream.below(5),
            shards: 1 + stream.below(4) as u16,
        };
        let legs = (0..4).map(|_| leg(&mut stream)).collect();
        let quiet_at = Span::from_millis(300 + u64::from(stream.below(900)));
        let mut faults = Vec::new();
        // From a calm run with a fault or two to one every few milliseconds.
        let gap = [300, 120, 50, 20][stream.below(4) as usize];
        let mut at = u64::from(stream.below(gap));
        while Span::from_millis(at) < quiet_at {
            faults.push((When::At(Span::from_millis(at)), fault(&mut stream, hosting)));
            at += 1 + u64::from(stream.below(gap));
        }
        Self {
            seed,
            legs,
            hosting,
            faults,
            quiet_at,
            codec: seed.is_multiple_of(8),
        }
    }
}

fn fault(stream: &mut Stream, hosting: Option<Hosting>) -> Fault {
    let more = hosting.map_or(&[][..], |_| HOST_KINDS);
    let all = || KINDS.iter().chain(more);
    let mut draw = stream.below(all().map(|kind| kind.weight).sum());
    for kind in all() {
        match draw.checked_sub(kind.weight) {
            Some(rest) => draw = rest,
            None => return (kind.make)(stream),
        }
    }
    unreachable!("the draw is below the sum of the weights")
}
