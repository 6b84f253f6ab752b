//! What a host makes of new views: which replicas it keeps, drops and begins.

use super::{Assigned, Effect, Follower, Host, Place, Replica, Routes, Stage, Sync};
use crate::id::{Incarnation, SliceId, Timeline};
use crate::message::{Branch, HostSays, Peer, SliceView};
use crate::sorted::SortedMap;

impl Host {
    pub(super) fn serve(&mut self, branch: Branch, views: &[SliceView], effects: &mut Vec<Effect>) {
        let Some(me) = self.incarnation else {
            return;
        };
        self.failed.clear();
        let wanted: SortedMap<SliceId, Replica> = views
            .iter()
            .filter_map(|view| Some((view.slice, replica(branch, view, me)?)))
            .collect();
        let dropped: Vec<SliceId> = self
            .replicas
            .iter()
            .filter(|(slice, held)| !wanted.get(slice).is_some_and(|new| continues(held, new)))
            .map(|(slice, _)| *slice)
            .collect();
        for slice in dropped {
            self.replicas.remove(&slice);
            effects.push(Effect::Drop(slice));
        }
        let routes = routes(views, me);
        if routes != self.routes {
            self.routes.clone_from(&routes);
            effects.push(Effect::Routes(routes));
        }
        for (slice, new) in wanted {
            match self.replicas.get_mut(&slice) {
                Some(held) => update(slice, held, new, effects),
                None => self.make(slice, new, effects),
            }
        }
    }

    fn make(&mut self, slice: SliceId, mut new: Replica, effects: &mut Vec<Effect>) {
        let Replica {
            branch, view, duty, ..
        } = new;
        match duty {
            Assigned::Primary { .. } if self.begun.get(&slice) == Some(&branch.timeline) => {
                let cause = format!(
                    "slice {slice} of timeline {} was here and is gone; it must be rolled back",
                    branch.timeline
                );
                return self.say_failed(slice, branch, cause, effects);
            }
            Assigned::Primary { .. } => effects.push(Effect::Restore { slice, branch }),
            Assigned::Backup => {
                new.stage = Stage::Begun(None);
                self.begun.insert(slice, branch.timeline);
                effects.push(Effect::Begin {
                    slice,
                    branch,
                    view,
                    duty,
                });
            }
        }
        self.replicas.insert(slice, new);
    }

    pub(super) fn restored(&mut self, slice: SliceId, branch: Branch, effects: &mut Vec<Effect>) {
        let Some(replica) = self.restoring(slice, branch) else {
            return;
        };
        replica.stage = Stage::Begun(Some(branch.base));
        let (view, duty) = (replica.view, replica.duty);
        self.begun.insert(slice, branch.timeline);
        effects.push(Effect::Begin {
            slice,
            branch,
            view,
            duty,
        });
    }

    pub(super) fn restore_failed(
        &mut self,
        slice: SliceId,
        branch: Branch,
        cause: String,
        effects: &mut Vec<Effect>,
    ) {
        if self.restoring(slice, branch).is_some() {
            self.replicas.remove(&slice);
            self.say_failed(slice, branch, cause, effects);
        }
    }

    fn restoring(&mut self, slice: SliceId, branch: Branch) -> Option<&mut Replica> {
        self.replicas
            .get_mut(&slice)
            .filter(|replica| replica.branch == branch && replica.stage == Stage::Restoring)
    }

    fn say_failed(
        &mut self,
        slice: SliceId,
        branch: Branch,
        cause: String,
        effects: &mut Vec<Effect>,
    ) {
        self.failed.insert(slice, (branch.timeline, cause.clone()));
        effects.push(failed(slice, branch.timeline, cause));
    }

    /// Says again what it cannot serve: it may have been lost on the way.
    pub(super) fn repeat_failed(&self, effects: &mut Vec<Effect>) {
        let told = self.failed.iter();
        effects.extend(
            told.map(|(slice, (timeline, cause))| failed(*slice, *timeline, cause.clone())),
        );
    }
}

fn failed(slice: SliceId, timeline: Timeline, cause: String) -> Effect {
    Effect::Say(HostSays::Failed {
        slice,
        timeline,
        cause,
    })
}

/// What this process is to the slice under the view, if anything.
fn replica(branch: Branch, view: &SliceView, me: Incarnation) -> Option<Replica> {
    let backup = view.backup.as_ref();
    let (duty, primary) = if view.primary == Some(me) {
        let follower = backup.map(|backup| Follower {
            incarnation: backup.peer.incarnation,
            sync: if backup.in_sync {
                Sync::InSync
            } else {
                Sync::Copying
            },
        });
        (Assigned::Primary { backup: follower }, None)
    } else if backup.is_some_and(|backup| backup.peer.incarnation == me) {
        (Assigned::Backup, view.primary)
    } else {
        return None;
    };
    Some(Replica {
        branch,
        view: view.view,
        duty,
        primary,
        stage: Stage::Restoring,
    })
}

/// Whether what is held is what is wanted, or becomes it by a view: a backup may be promoted once it
/// has something. A primary that was replaced and a backup of another primary begin anew, since what
/// they have beyond what was published is worth nothing.
fn continues(held: &Replica, new: &Replica) -> bool {
    held.branch == new.branch
        && match (held.duty, new.duty) {
            (Assigned::Primary { .. }, Assigned::Primary { .. }) => true,
            (Assigned::Backup, Assigned::Backup) => held.primary == new.primary,
            (Assigned::Backup, Assigned::Primary { .. }) => {
                matches!(held.stage, Stage::Begun(Some(_)))
            }
            (Assigned::Primary { .. }, Assigned::Backup) => false,
        }
}

fn update(slice: SliceId, held: &mut Replica, new: Replica, effects: &mut Vec<Effect>) {
    if new.view <= held.view {
        return;
    }
    (held.view, held.duty, held.primary) = (new.view, new.duty, new.primary);
    // One that is being restored begins under the newest view.
    if held.stage != Stage::Restoring {
        effects.push(Effect::View {
            slice,
            view: new.view,
            duty: new.duty,
        });
    }
}

fn routes(views: &[SliceView], me: Incarnation) -> Routes {
    let mut routes = Routes::default();
    for view in views {
        let here = view.primary == Some(me);
        let place = if here {
            Place::Here
        } else {
            Place::At {
                incarnation: view.primary,
                address: view.address.clone(),
            }
        };
        routes.primaries.insert(view.slice, place);
        let Some(backup) = &view.backup else {
            continue;
        };
        let mirror = match view.primary {
            Some(_) if here => Some(backup.peer.clone()),
            Some(incarnation) if backup.peer.incarnation == me => Some(Peer {
                incarnation,
                address: view.address.clone(),
            }),
            Some(_) | None => None,
        };
        if let Some(mirror) = mirror {
            routes.mirrors.insert(view.slice, mirror);
        }
    }
    routes
}
