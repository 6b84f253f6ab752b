//! How long an actor works on one event. Everything else that it is told waits meanwhile, so what
//! takes long belongs on a thread of its own: kernels, the store, rows, models.

use std::fmt::{self, Debug, Write};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The longest that is fine: a twentieth of the usual lease.
const LONGEST: Duration = Duration::from_millis(50);

/// An actor's work on one event: dropped at its end, it warns if that took long. Time of the
/// processor, since an actor of a busy machine is not to blame for a thread that stands still.
pub(crate) struct Stint {
    actor: &'static str,
    event: Word,
    began: Duration,
}

impl Stint {
    /// The work begins.
    pub(crate) fn begin(actor: &'static str, event: &impl Debug) -> Self {
        Self {
            actor,
            event: Word::first_of(event),
            began: used(),
        }
    }
}

impl Drop for Stint {
    fn drop(&mut self) {
        let took = used().saturating_sub(self.began);
        if took > LONGEST {
            let (actor, event, ms) = (self.actor, self.event.text(), took.as_millis());
            tracing::warn!(actor, event, ms, "an event held up all others of its actor");
        }
    }
}

/// What this thread has used of its processor.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let rest = u64::try_from(time.tv_nsec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(rest)
}

/// The name of an enum's variant: what is written of it ends there, however much it holds.
#[derive(Default)]
struct Word {
    letters: [u8; 24],
    length: usize,
}

impl Word {
    fn first_of(value: &impl Debug) -> Self {
        let mut word = Self::default();
        // It ends with an error on purpose.
        let _ = write!(word, "{value:?}");
        word
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.letters[..self.length]).expect("only letters are taken")
    }
}

impl Write for Word {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.bytes() {
            let place = self.letters.get_mut(self.length);
            let place = place.filter(|_| letter.is_ascii_alphabetic());
            *place.ok_or(fmt::Error)? = letter;
            self.length += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use resilin_core::machine::worker::Event;
    use resilin_core::{Incarnation, SliceId};

    use super::*;

    #[test]
    fn an_event_is_called_by_its_variant() {
        for (event, name) in [
            (Event::Terminate, "Terminate"),
            (Event::SliceUp(SliceId(3)), "SliceUp"),
            (Event::Welcomed(Incarnation::first(1)), "Welcomed"),
            (Event::Tick { samples_per_s: 1.0 }, "Tick"),
        ] {
            assert_eq!(Word::first_of(&event).text(), name);
        }
        assert_eq!(Word::first_of(&vec![1; 1 << 20]).text(), "");
    }
}
