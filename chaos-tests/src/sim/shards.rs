//! The slices in the coordinator's process: each machine with its tensors and its arithmetic.

use std::sync::Arc;

use resilin_core::machine::shard::{Effect, Event, Push, Shard};
use resilin_core::message::{SliceSays, WorkerAsks};
use resilin_core::sorted::SortedMap;
use resilin_core::time::{Span, Time};
use resilin_core::tree::Node;
use resilin_core::vote::Action;
use resilin_core::{LinkId, SliceId, Step, Tensor};
use resilin_learn::kernel::{self, BlockStats, PinnedSlice, SliceKernel};

use super::events::{End, Local, Mailbox, Packet, Request};
use super::plant::Plant;
use super::store::Part;
use super::{Checked, Sim, bugs, codec};
use crate::invariants::Fact;

/// One slice.
pub(super) struct SliceHost {
    pub(super) machine: Shard,
    pub(super) kernel: SliceKernel,
    pub(super) tensors: SortedMap<Tensor, Arc<Vec<f32>>>,
    pub(super) next_tensor: u64,
    /// A version kept for evaluation.
    pub(super) pinned: Option<(Step, Arc<Vec<f32>>)>,
    /// What is in, for plants that add it twice.
    pub(super) stored: SortedMap<(Step, Node), Tensor>,
}

impl SliceHost {
    fn weights(&self, version: Step) -> Arc<Vec<f32>> {
        let pinned = self.pinned.iter().find(|(step, _)| *step == version);
        let pinned = pinned.map(|(_, weights)| weights);
        let live = self.kernel.weights(version).or(pinned);
        Arc::clone(live.expect("a shard sends only what it retains"))
    }

    fn combine(
        &mut self,
        step: Step,
        nodes: &[(Node, Tensor)],
        weight: f64,
        arrival_order: bool,
        rules: &resilin_core::machine::Rules,
    ) -> BlockStats {
        let with_samples = rules.sampling.with_samples(step);
        let sum;
        let mut parts: Vec<(Node, &[f32])> = nodes
            .iter()
            .map(|(node, tensor)| (*node, self.tensors[tensor].as_slice()))
            .collect();
        if arrival_order {
            sum = bugs::arrival_order(self, nodes);
            parts = vec![(rules.tree.root(), &sum)];
        }
        self.kernel.combine(step, &parts, &with_samples, weight)
    }
}

/// What a comparison takes, in nanoseconds. It is not drawn: nothing else in a run depends on it.
pub(super) const COMPARISON: Span = Span(500_000);

impl Sim<'_> {
    pub(super) fn shard(&mut self, slice: SliceId, event: Event) -> Checked {
        self.tell_of(format_args!("slice{slice} <-"), &event);
        let mut effects = Vec::new();
        let now = self.local_time();
        let Some(host) = self.slice_mut(slice) else {
            return Ok(());
        };
        host.machine.step(now, event, &mut effects);
        self.shard_effects(slice, effects)
    }

    fn slice_mut(&mut self, slice: SliceId) -> Option<&mut SliceHost> {
        let coordinator = self.coordinator.as_mut()?;
        coordinator.slices.get_mut(usize::from(slice.0))
    }

    pub(super) fn shard_effects(&mut self, slice: SliceId, effects: Vec<Effect>) -> Checked {
        for effect in effects {
            self.tell_of(format_args!("slice{slice}    ->"), &effect);
            self.shard_effect(slice, effect)?;
        }
        Ok(())
    }

    pub(super) fn asked(&mut self, slice: SliceId, link: LinkId, asks: WorkerAsks) -> Checked {
        if self.bug_in_pull(slice, link, asks) {
            return Ok(());
        }
        self.shard(slice, Event::Asked(link, asks))
    }

    pub(super) fn pushed(
        &mut self,
        slice: SliceId,
        link: LinkId,
        mut push: Push,
        mut values: Arc<Vec<f32>>,
    ) -> Checked {
        let plant = self.plant;
        let rules = self.rules.clone();
        let Some(host) = self.slice_mut(slice) else {
            return Ok(());
        };
        let open = host.machine.version();
        let same = rules.samples(open, push.node) == push.samples;
        if plant.is_some_and(|plant| plant.bug_in_push(host, same, &mut push, &mut values)) {
            return Ok(());
        }
        host.next_tensor += 1;
        push.tensor = Tensor(host.next_tensor);
        host.tensors.insert(push.tensor, values);
        if matches!(plant, Some(Plant::DuplicateTwice | Plant::ParentBeside)) {
            host.stored.insert((push.step, push.node), push.tensor);
        }
        self.shard(slice, Event::Pushed(link, push))
    }

    /// A vote, or a question for one, arrives at a slice.
    pub(super) fn slice_says(&mut self, slice: SliceId, says: SliceSays) -> Checked {
        let mut says = codec::pass(&says);
        let plant = self.plant;
        let Some(host) = self.slice_mut(slice) else {
            return Ok(());
        };
        match &mut says {
            SliceSays::Vote(vote) => {
                if plant == Some(Plant::VotesIgnored) {
                    vote.squares.fill(0.0);
                    vote.non_finite.clear();
                }
            }
            SliceSays::AskVote { step, .. } => {
                let closed = *step < host.machine.version();
                if plant == Some(Plant::VotesForgotten) && closed {
                    return Ok(());
                }
            }
        }
        self.shard(slice, Event::Slice(says))
    }

    fn shard_effect(&mut self, slice: SliceId, effect: Effect) -> Checked {
        let arrival_order = self.plant == Some(Plant::ArrivalOrder);
        let rules = self.rules.clone();
        let Some(host) = self.slice_mut(slice) else {
            return Ok(());
        };
        match effect {
            Effect::Free(tensor) => {
                let freed = host.tensors.remove(&tensor);
                assert!(freed.is_some(), "{tensor} is freed once");
            }
            Effect::Say(link, mut says) => {
                self.bug_in_coverage(&mut says);
                self.send(link, End::Dialler, Packet::Heard(says));
            }
            Effect::SendWeights {
                link,
                step,
                purpose,
                based_on,
            } => {
                let values = host.weights(step);
                let based_on = based_on.map(|version| host.weights(version));
                let timeline = self.timeline();
                let packet = Packet::Weights {
                    timeline,
                    step,
                    purpose,
                    values,
                    based_on,
                };
                self.send(link, End::Dialler, packet);
            }
            Effect::Combine {
                step,
                nodes,
                weight,
            } => {
                let stats = host.combine(step, &nodes, weight, arrival_order, &rules);
                let event = Event::Combined {
                    step,
                    squares: stats.squares,
                    non_finite: stats.non_finite,
                };
                self.soon(100, 1_000, Local::Shard(slice, event));
            }
            Effect::Compare([first, second]) => {
                let same = kernel::same(&host.tensors[&first], &host.tensors[&second]);
                let compared = Local::Shard(slice, Event::Compared { same });
                let happening = super::events::Happening::Local(self.life, compared);
                self.queue.push(self.now + COMPARISON, happening);
            }
            Effect::Apply { step, action, loss } => {
                return self.apply(slice, step, (action, loss));
            }
            Effect::Pin(step) => host.pinned = Some((step, host.weights(step))),
            Effect::Unpin(step) => {
                let unpinned = host.pinned.take().map(|(step, _)| step);
                assert_eq!(unpinned, Some(step), "one version is pinned at a time");
            }
            Effect::Cut(step) => {
                let mut pinned = PinnedSlice::default();
                host.kernel.pin(&mut pinned);
                assert_eq!(pinned.version(), step, "the newest version is cut");
                let mut part = Part::new(slice, &pinned, host.kernel.digests());
                let host = &self
                    .coordinator
                    .as_ref()
                    .expect("a slice of it cuts")
                    .slices;
                self.bug_in_cut(&host[usize::from(slice.0)].kernel, &mut part);
                let takes = self.micros(3_000, 20_000);
                self.ask_store(Request::Write(Box::new(part)), takes);
            }
            Effect::Tell(to, says) => self.tell(to, &says),
            Effect::Report(report) => {
                if let resilin_core::message::ShardReport::Committed(record) = &report {
                    self.checker.see(&Fact::Committed(record))?;
                }
                let report = if self.schedule.codec {
                    codec::pass(&report)
                } else {
                    report
                };
                self.post(Mailbox::Reports(slice), Local::Report(report));
            }
            Effect::Mirror(_)
            | Effect::SendRoot(_)
            | Effect::DropRoots { .. }
            | Effect::SendCopy { .. }
            | Effect::TakeCopy(_)
            | Effect::Load { .. }
            | Effect::InSync(_) => unreachable!("slices in the coordinator have no replica"),
        }
        Ok(())
    }

    fn apply(&mut self, slice: SliceId, step: Step, (action, loss): (Action, f64)) -> Checked {
        let timeline = self.timeline();
        let moves = self.plant == Some(Plant::SkipMoves);
        let rules = self.rules.clone();
        let with_samples = rules.sampling.with_samples(step);
        let first = rules.slices.range(slice).start;
        let host = self.slice_mut(slice).expect("seen by the caller");
        let applied = match action {
            Action::Apply { scale } => host.kernel.apply(step, scale, loss),
            Action::Skip if moves => {
                bugs::skip_by_moments(&mut host.kernel, step, rules.tree.root(), &with_samples)
            }
            Action::Skip => host.kernel.skip(step),
            Action::Halt => unreachable!("a halt is not applied"),
        };
        if applied.finite {
            self.checker.see(&Fact::Applied {
                slice,
                timeline,
                replica: 0,
                step,
                first,
                digests: &applied.digests,
            })?;
        }
        let event = Event::Applied {
            step,
            digests: applied.digests,
            finite: applied.finite,
        };
        self.soon(100, 1_000, Local::Shard(slice, event));
        Ok(())
    }

    /// Slice to slice; the weather is between them too, as they may live on different hosts.
    fn tell(&mut self, to: SliceId, says: &SliceSays) {
        let weather = self.weather();
        if self.odds(weather.loss) {
            self.stats.lost += 1;
            return;
        }
        for _ in 0..1 + u32::from(self.odds(weather.twice)) {
            let late = if self.odds(weather.spike) {
                100_000
            } else {
                500
            };
            self.soon(20, late, Local::Slice(to, says.clone()));
        }
    }

    /// Into a mailbox of the coordinator's process: in order, but not at once.
    pub(super) fn post(&mut self, mailbox: Mailbox, local: Local) {
        // Most find the other idle.
        let wait = if self.odds(900) {
            Span(20_000)
        } else {
            self.micros(50, 3_000)
        };
        let last = self.mailboxes.entry(mailbox).or_default();
        *last = (self.now + wait).max(Time(last.0 + 1));
        let at = *last;
        let happening = super::events::Happening::Local(self.life, local);
        self.queue.push(at, happening);
    }

    /// Something inside the coordinator's process, a number of microseconds from now.
    pub(super) fn soon(&mut self, from: u32, to: u32, local: Local) {
        let at: Time = self.now + self.micros(from, to);
        let happening = super::events::Happening::Local(self.life, local);
        self.queue.push(at, happening);
    }
}
