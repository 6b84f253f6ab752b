//! Random schedules.

use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::time::Span;

use super::{Fault, KINDS, Leg, Schedule, When};

impl Schedule {
    /// Anything may go wrong.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut stream = Key::new(seed, Purpose::User).stream();
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
            faults.push((When::At(Span::from_millis(at)), fault(&mut stream)));
            at += 1 + u64::from(stream.below(gap));
        }
        Self {
            seed,
            legs,
            faults,
            quiet_at,
            codec: seed.is_multiple_of(8),
        }
    }
}

fn fault(stream: &mut Stream) -> Fault {
    let all: u32 = KINDS.iter().map(|kind| kind.weight).sum();
    let mut draw = stream.below(all);
    for kind in KINDS {
        match draw.checked_sub(kind.weight) {
            Some(rest) => draw = rest,
            None => return (kind.make)(stream),
        }
    }
    unreachable!("the draw is below the sum of the weights")
}
