//! One run of an asynchronous job from a seed: who pushes what, what the links do to it, and who is
//! replaced meanwhile.

use std::collections::BTreeMap;

use resilin_core::random::{Key, Purpose, Stream};

use super::{Broken, Push, Slice, Slot, start};

const SLICES: usize = 3;
const SLOTS: Slot = 4;

/// Clocks of every slot.
const CLOCKS: u64 = 12;

/// Turns with faults; later ones are calm, and the run ends in them.
const FAULTY: u64 = 400;

/// Turns at most.
const TURNS: u64 = 4_000;

/// What a run applied: how often, by slice, slot and clock.
pub type Applied = BTreeMap<(usize, Slot, u64), u32>;

/// A process that holds a slot, or thinks that it does.
#[derive(Clone, Copy)]
struct Holder {
    slot: Slot,
    incarnation: u64,
    clock: u64,
    fenced: bool,
}

struct World {
    stream: Stream,
    broken: Option<Broken>,
    slices: Vec<Slice>,
    holders: Vec<Holder>,
    lives: u64,
    /// What is under way, by when it comes.
    links: Vec<(u64, usize, Push)>,
}

/// Runs a seed.
///
/// # Errors
/// A clock that was applied twice, left out, or never came.
pub fn run(seed: u64, broken: Option<Broken>) -> Result<Applied, String> {
    let mut world = World {
        stream: Key::new(seed, Purpose::User).stream(),
        broken,
        slices: vec![Slice::default(); SLICES],
        holders: Vec::new(),
        lives: 0,
        links: Vec::new(),
    };
    for slot in 0..SLOTS {
        world.hold(slot);
    }
    for turn in 0..TURNS {
        if turn < FAULTY {
            world.fault();
        } else {
            world.holders.retain(|holder| !holder.fenced);
        }
        world.turn(turn);
        world.once()?;
        if turn >= FAULTY && world.done() {
            return Ok(world.applied());
        }
    }
    let next: Vec<Vec<u64>> = world.slices.iter().map(clocks).collect();
    Err(format!("no end; next clocks {next:?}"))
}

fn clocks(slice: &Slice) -> Vec<u64> {
    (0..SLOTS).map(|slot| slice.next(slot)).collect()
}

impl World {
    /// A new holder takes a slot. The one before is dead, or does not know.
    fn hold(&mut self, slot: Slot) {
        self.lives += 1;
        let killed = self.stream.below(2) == 0;
        self.holders
            .retain(|holder| holder.slot != slot || holder.fenced || !killed);
        let before = self.holders.iter_mut().filter(|holder| holder.slot == slot);
        before.for_each(|holder| holder.fenced = true);
        self.holders.push(Holder {
            slot,
            incarnation: self.lives,
            clock: start(&self.slices, slot, self.broken),
            fenced: false,
        });
    }

    fn fault(&mut self) {
        match self.stream.below(100) {
            0 | 1 => {
                let slot = self.stream.below(SLOTS);
                self.hold(slot);
            }
            2 => {
                let slice = self.stream.below(SLICES as u32) as usize;
                self.slices[slice] = self.slices[slice].restored(self.broken);
            }
            // What is under way to one slice is lost.
            3 | 4 => {
                let slice = self.stream.below(SLICES as u32) as usize;
                self.links.retain(|(_, to, _)| *to != slice);
            }
            // Zombies learn that they are fenced.
            5 | 6 => self.holders.retain(|holder| !holder.fenced),
            _ => {}
        }
    }

    /// Every holder pushes its clock where it is not applied yet, and goes on once it is everywhere.
    fn turn(&mut self, turn: u64) {
        for index in 0..self.holders.len() {
            let holder = self.holders[index];
            let applied = |slice: &Slice| slice.next(holder.slot) > holder.clock;
            if self.slices.iter().all(applied) {
                self.holders[index].clock += 1;
            }
            let Holder {
                slot,
                incarnation,
                clock,
                ..
            } = self.holders[index];
            for slice in 0..SLICES {
                if clock < CLOCKS && self.stream.below(4) == 0 {
                    self.send(
                        turn,
                        slice,
                        Push {
                            slot,
                            clock,
                            incarnation,
                        },
                    );
                }
            }
        }
        let due = |(at, ..): &mut (u64, usize, Push)| *at <= turn;
        for (_, slice, push) in self.links.extract_if(.., due) {
            self.slices[slice].push(push, self.broken);
        }
    }

    /// A message may be lost, come late, or come twice.
    fn send(&mut self, turn: u64, slice: usize, push: Push) {
        let copies = [0, 1, 1, 2][self.stream.below(4) as usize];
        for _ in 0..copies {
            let late = if self.stream.below(8) == 0 { 60 } else { 4 };
            let at = turn + 1 + u64::from(self.stream.below(late));
            self.links.push((at, slice, push));
        }
    }

    fn done(&self) -> bool {
        let finished = |slice: &Slice| clocks(slice).iter().all(|clock| *clock >= CLOCKS);
        self.slices.iter().all(finished)
    }

    fn applied(&self) -> Applied {
        let mut counts = Applied::new();
        for (slice, state) in self.slices.iter().enumerate() {
            for (slot, clock) in &state.applied {
                *counts.entry((slice, *slot, *clock)).or_default() += 1;
            }
        }
        counts
    }

    /// Every clock once and in order, in each slice.
    fn once(&self) -> Result<(), String> {
        for (index, slice) in self.slices.iter().enumerate() {
            let mut expected = BTreeMap::new();
            for (slot, clock) in &slice.applied {
                let next: &mut u64 = expected.entry(*slot).or_default();
                if clock < next {
                    return Err(format!(
                        "slice {index} applied slot {slot} clock {clock} twice"
                    ));
                }
                if clock > next {
                    return Err(format!("slice {index} left out slot {slot} clock {next}"));
                }
                *next += 1;
            }
        }
        Ok(())
    }
}
