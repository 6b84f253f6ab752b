//! M2: reigns, timelines, incarnations and generations never go back, over every restart.

use resilin_core::{Generation, Incarnation, Timeline};

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Numbers {
    reign: u64,
    timeline: Timeline,
    incarnation: Incarnation,
    generation: Generation,
}

impl Invariant for Numbers {
    fn id(&self) -> &'static str {
        "M2"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        match fact {
            Fact::Began {
                reign, timeline, ..
            } => {
                ensure(*reign > self.reign && *timeline > self.timeline, || {
                    format!("reign {reign} and timeline {timeline} are not new")
                })?;
                (self.reign, self.timeline) = (*reign, *timeline);
            }
            Fact::Welcomed(member) => {
                ensure(*member > self.incarnation, || {
                    format!("incarnation {member} after {}", self.incarnation)
                })?;
                self.incarnation = *member;
            }
            Fact::Assigned(_, assignment) => {
                let new = assignment.generation;
                ensure(new >= self.generation, || {
                    format!("generation {new} after {}", self.generation)
                })?;
                ensure(assignment.timeline == self.timeline, || {
                    format!("an assignment of timeline {}", assignment.timeline)
                })?;
                self.generation = new;
            }
            Fact::Down(_)
            | Fact::Settled
            | Fact::Applied { .. }
            | Fact::Committed(_)
            | Fact::Recorded(_)
            | Fact::Announced { .. }
            | Fact::Stored(..)
            | Fact::Scored(_)
            | Fact::Damaged
            | Fact::Quiet(_)
            | Fact::Now(_)
            | Fact::Over => {}
        }
        Ok(())
    }
}
