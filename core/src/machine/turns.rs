//! Turns: looking at everybody once in so many events that each event pays for a few only.

/// Those who look at everybody do so once in as many events as this part of all.
const PART: usize = 16;

/// Counts events. Of few, every event looks at all, so that nothing is seen late where it matters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns(usize);

impl Turns {
    /// Counts an event; whether it is one that looks at all `of` them.
    pub fn take(&mut self, of: usize) -> bool {
        self.0 += 1;
        let due = self.0 * PART >= of;
        if due {
            self.0 = 0;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_few_every_event_looks_and_of_many_one_in_a_sixteenth() {
        for (all, looks) in [(0, 1000), (16, 1000), (17, 500), (160, 100), (16_000, 1)] {
            let mut turns = Turns::default();
            let taken = (0..1000).filter(|_| turns.take(all)).count();
            assert_eq!(taken, looks, "of {all}");
        }
    }
}
