//! One replica of a slice in a shard process: its machine, its tensors, its kernel.

use std::sync::Arc;

use resilin_core::machine::shard::{Assigned, Event, Origin, Shard};
use resilin_core::message::{Branch, ReplicaSays};
use resilin_core::sorted::SortedMap;
use resilin_core::time::Time;
use resilin_core::tree::Node;
use resilin_core::{LinkId, SliceId, Step, Tensor, View};
use resilin_learn::kernel::{BlockStats, SliceKernel, SlicePlan};

use super::{Deed, Parcel, State};
use crate::sim::events::{End, Packet, Party, Role};
use crate::sim::{Checked, Sim};

/// One replica.
pub(in crate::sim) struct Replica {
    /// No other replica of the run has it.
    pub(super) serial: u64,
    pub(super) branch: Branch,
    pub(in crate::sim) machine: Shard,
    /// `None` for a backup that was not copied yet.
    pub(super) kernel: Option<SliceKernel>,
    pub(super) tensors: SortedMap<Tensor, Arc<Vec<f32>>>,
    next_tensor: u64,
    /// The newest version and the one before.
    pub(super) versions: SortedMap<Step, Arc<Vec<f32>>>,
    /// A version kept for evaluation.
    pub(super) pinned: Option<(Step, Arc<Vec<f32>>)>,
    /// Roots that the backup may ask for again.
    pub(super) roots: SortedMap<Step, Arc<Vec<f32>>>,
    /// The open link to the other replica.
    pub(super) mirror: Option<LinkId>,
    /// The copy that is waited for.
    pub(super) taking: Option<Step>,
    /// What the process knows that it has.
    has: Option<Step>,
    /// When the kernel has done all that it was given.
    pub(super) free_at: Time,
}

impl Replica {
    pub(super) fn hold(&mut self, values: Arc<Vec<f32>>) -> Tensor {
        self.next_tensor += 1;
        let tensor = Tensor(self.next_tensor);
        self.tensors.insert(tensor, values);
        tensor
    }

    pub(super) fn weights(&self, version: Step) -> Arc<Vec<f32>> {
        let pinned = self.pinned.iter().find(|(step, _)| *step == version);
        let pinned = pinned.map(|(_, weights)| weights);
        let live = self.versions.get(&version).or(pinned);
        Arc::clone(live.expect("a shard sends only what it retains"))
    }

    pub(super) fn kernel(&mut self) -> &mut SliceKernel {
        let kernel = self.kernel.as_mut();
        kernel.expect("a backup takes a copy before it is given anything else")
    }

    pub(super) fn combine(
        &mut self,
        step: Step,
        nodes: &[(Node, Tensor)],
        weight: f64,
        rules: &resilin_core::machine::Rules,
    ) -> BlockStats {
        let parts: Vec<(Node, &[f32])> = nodes
            .iter()
            .map(|(node, tensor)| (*node, self.tensors[tensor].as_slice()))
            .collect();
        let with_samples = rules.sampling.with_samples(step);
        let kernel = self.kernel.as_mut().expect("a primary has its tensors");
        kernel.combine(step, &parts, &with_samples, weight)
    }

    /// Becomes what the other replica was at a version.
    fn install(&mut self, plan: SlicePlan, step: Step, state: &State) {
        let count = plan.tensors().len();
        let kernel = kernel_of(plan, step, state);
        let newest = kernel.weights(step).expect("the newest version is live");
        let before = state.get(count).zip(step.0.checked_sub(1));
        let before = before.map(|(weights, step)| (Step(step), Arc::new(weights.clone())));
        self.versions = before.into_iter().collect();
        self.versions.insert(step, Arc::clone(newest));
        self.kernel = Some(kernel);
    }
}

fn kernel_of(plan: SlicePlan, step: Step, state: &State) -> SliceKernel {
    let names = plan.tensors();
    let restored = SliceKernel::restore(plan, step, |name, _, out| {
        let index = names.iter().position(|tensor| *tensor == name);
        out.copy_from_slice(&state[index.expect("a tensor of a slice")]);
        Ok::<(), std::convert::Infallible>(())
    });
    match restored {
        Ok(kernel) => kernel,
        Err(never) => match never {},
    }
}

impl Sim<'_> {
    fn plan(&self, slice: SliceId, branch: Branch) -> SlicePlan {
        self.oracle
            .task
            .slice_plan(self.layout_of(branch).range(slice))
    }

    pub(super) fn begin_replica(
        &mut self,
        id: u32,
        slice: SliceId,
        branch: Branch,
        view: View,
        duty: Assigned,
    ) -> Checked {
        self.next_replica += 1;
        let plan = self.plan(slice, branch);
        let rules = self.oracle.task.rules(branch.shards);
        let origin = Origin {
            slice,
            timeline: branch.timeline,
            map: branch.map,
            view,
            step: branch.base,
        };
        let mut effects = Vec::new();
        let machine = Shard::begin(rules, origin, duty, &mut effects);
        let mut replica = Replica {
            serial: self.next_replica,
            branch,
            machine,
            kernel: None,
            tensors: SortedMap::new(),
            next_tensor: 0,
            versions: SortedMap::new(),
            pinned: None,
            roots: SortedMap::new(),
            mirror: None,
            taking: None,
            has: None,
            free_at: self.now,
        };
        let process = self.processes.get_mut(&id).expect("it acts");
        if let Some((of, state)) = process.restored.remove(&slice)
            && of == branch
        {
            replica.install(plan, branch.base, &state);
        }
        process.replicas.insert(slice, replica);
        self.replica_effects(id, slice, effects)?;
        self.route(id, slice);
        self.redial(id, Role::Mirror(slice));
        self.replica(id, slice, Event::Tick)
    }

    pub(super) fn drop_replica(&mut self, id: u32, slice: SliceId) {
        self.give_up_restore(id, slice);
        let process = self.processes.get_mut(&id).expect("it acts");
        if process.replicas.remove(&slice).is_none() {
            return;
        }
        for (link, end) in self.links_of(Party::Shard(id)) {
            let state = &self.links[&link];
            let of_replica = match state.role {
                Role::Data(of) | Role::Mirror(of) => of == slice,
                Role::Votes(of) => of == slice && end == End::Listener,
                Role::Control | Role::Store(_) => false,
            };
            if of_replica {
                self.close(link, end);
            }
        }
    }

    pub(in crate::sim) fn replica(&mut self, id: u32, slice: SliceId, event: Event) -> Checked {
        let Some(process) = self.processes.get_mut(&id) else {
            return Ok(());
        };
        let Some(replica) = process.replicas.get_mut(&slice) else {
            return Ok(());
        };
        let now = process.clock.read(self.now);
        let mut effects = Vec::new();
        if self.trace {
            eprintln!(
                "{:9.3} ms host{id}/{slice} <- {event:?}",
                self.now.0 as f64 / 1e6
            );
        }
        replica.machine.step(now, event, &mut effects);
        self.replica_effects(id, slice, effects)?;
        self.tell_held(id, slice);
        self.arm_process(id);
        Ok(())
    }

    fn replica_effects(
        &mut self,
        id: u32,
        slice: SliceId,
        effects: Vec<resilin_core::machine::shard::Effect>,
    ) -> Checked {
        let mut heard = Vec::new();
        for effect in effects {
            self.tell_of(format_args!("host{id}/{slice}    ->"), &effect);
            let linked = self.replica_at(id, slice).mirror.is_some();
            heard.extend(self.bug_in_mirror(linked, &effect));
            let more = self.bug_in_replica(linked, &effect);
            for effect in [Some(effect), more].into_iter().flatten() {
                self.replica_effect(id, slice, effect)?;
            }
        }
        for says in heard {
            self.replica(id, slice, Event::Replica(says))?;
        }
        Ok(())
    }

    fn tell_held(&mut self, id: u32, slice: SliceId) {
        let process = self.processes.get_mut(&id);
        let Some(replica) = process.and_then(|process| process.replicas.get_mut(&slice)) else {
            return;
        };
        let holds = replica.machine.holds();
        if let Some(step) = holds
            && replica.has != holds
        {
            replica.has = holds;
            let timeline = replica.branch.timeline;
            self.soon_at(id, Deed::Has(slice, timeline, step));
        }
    }

    /// A word or a tensor of the other replica.
    pub(super) fn heard_mirror(&mut self, id: u32, slice: SliceId, parcel: Parcel) -> Checked {
        let event = match parcel {
            Parcel::Replica(says) => Event::Replica(says),
            Parcel::Root {
                view,
                timeline,
                step,
                values,
            } => {
                let replica = self.replica_at(id, slice);
                if replica.branch.timeline != timeline {
                    return Ok(());
                }
                let tensor = replica.hold(values);
                Event::Root { view, step, tensor }
            }
            Parcel::Copy {
                timeline,
                step,
                state,
            } => {
                let branch = self.replica_at(id, slice).branch;
                let plan = self.plan(slice, branch);
                let replica = self.replica_at(id, slice);
                if replica.taking != Some(step) || branch.timeline != timeline {
                    return Ok(());
                }
                replica.taking = None;
                replica.install(plan, step, &state);
                self.work(id, slice, Event::Copied { step });
                return Ok(());
            }
            other => unreachable!("{other:?} from the other replica"),
        };
        self.replica(id, slice, event)
    }

    /// A replica that is known to be there.
    pub(super) fn replica_at(&mut self, id: u32, slice: SliceId) -> &mut Replica {
        let process = self.processes.get_mut(&id).expect("it acts");
        process.replicas.get_mut(&slice).expect("it acts")
    }

    /// To the other replica, at once; lost without a link.
    pub(super) fn say_to_mirror(&mut self, id: u32, slice: SliceId, parcel: Parcel) {
        let Some(link) = self.replica_at(id, slice).mirror else {
            return;
        };
        let state = self.links.get(&link);
        let Some(dialler) = state.map(|state| state.dialler) else {
            return;
        };
        let to = match dialler == Party::Shard(id) {
            true => End::Listener,
            false => End::Dialler,
        };
        self.send(link, to, Packet::Parcel(parcel));
    }

    pub(super) fn post_to_mirror(&mut self, id: u32, slice: SliceId, serial: u64, parcel: Parcel) {
        let process = &self.processes[&id];
        let replica = process.replicas.get(&slice);
        if replica.is_some_and(|replica| replica.serial == serial) {
            self.say_to_mirror(id, slice, parcel);
        }
    }

    pub(super) fn offer_copy(
        &mut self,
        id: u32,
        slice: SliceId,
        (view, step): (View, Step),
        votes: Vec<resilin_core::vote::Vote>,
    ) {
        let replica = self.replica_at(id, slice);
        let mut pinned = resilin_learn::kernel::PinnedSlice::default();
        replica.kernel().pin(&mut pinned);
        assert_eq!(pinned.version(), step, "the newest version is copied");
        let mut state = super::errands::state_of(&pinned);
        let before = step.0.checked_sub(1).filter(|_| !votes.is_empty());
        let before = before.and_then(|before| replica.versions.get(&Step(before)));
        state.extend(before.map(|weights| weights.to_vec()));
        let timeline = replica.branch.timeline;
        let says = ReplicaSays::Copy {
            view,
            step,
            tensors: u32::try_from(state.len()).expect("few moments"),
            votes,
        };
        self.say_to_mirror(id, slice, Parcel::Replica(says));
        let state = Arc::new(state);
        let copy = Parcel::Copy {
            timeline,
            step,
            state,
        };
        self.work_out(id, slice, copy);
    }
}
