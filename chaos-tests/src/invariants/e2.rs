//! E2: no score is missing in silence: of a finished run, every version that was due was scored, or
//! said not to be.

use resilin_core::sorted::SortedSet;

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Missed {
    /// Epochs of which people were told.
    told: SortedSet<u64>,
}

impl Invariant for Missed {
    fn id(&self) -> &'static str {
        "E2"
    }

    fn see(&mut self, fact: &Fact<'_>, world: &World<'_>) -> Result<(), String> {
        match fact {
            Fact::Scored(metrics) => drop(self.told.insert(metrics.epoch)),
            Fact::NotScored { epoch } => drop(self.told.insert(*epoch)),
            Fact::Finished => {
                let due = world.oracle.scores.keys();
                let silent: Vec<&u64> = due.filter(|epoch| !self.told.contains(epoch)).collect();
                let what = || format!("nothing was said of epochs {silent:?}");
                return ensure(silent.is_empty(), what);
            }
            _ => {}
        }
        Ok(())
    }
}
