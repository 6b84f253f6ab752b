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
        if let Fact::Began {
            reign,
            timeline,
            resumed,
            ..
        } = fact
        {
            let new = *timeline > self.timeline || (*resumed && *timeline == self.timeline);
            ensure(*reign > self.reign && new, || {
                format!("reign {reign} and timeline {timeline} are not new")
            })?;
            (self.reign, self.timeline) = (*reign, *timeline);
        }
        if let Fact::Branched(branch) = fact {
            ensure(branch.timeline > self.timeline, || {
                format!("timeline {} is not new", branch.timeline)
            })?;
            self.timeline = branch.timeline;
        }
        if let Fact::Welcomed(member) = fact {
            ensure(*member > self.incarnation, || {
                format!("incarnation {member} after {}", self.incarnation)
            })?;
            self.incarnation = *member;
        }
        let Fact::Assigned(_, assignment) = fact else {
            return Ok(());
        };
        let new = assignment.generation;
        ensure(new >= self.generation, || {
            format!("generation {new} after {}", self.generation)
        })?;
        self.generation = new;
        ensure(assignment.timeline == self.timeline, || {
            format!("an assignment of timeline {}", assignment.timeline)
        })
    }
}
