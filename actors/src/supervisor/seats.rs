//! Seats: CPUs of this host that a worker has for itself while there are enough for all.
//!
//! Two workers that are woken by the same process are put on its CPU by the system and stay there
//! for much of a step, one behind the other, while another CPU idles. Where as many CPUs as compute
//! threads are there for every worker, each worker keeps to its own.

use resilin_core::sorted::{SortedMap, SortedSet};

use rustix::thread::{CpuSet, sched_getaffinity};

/// The seats of this host, and who has them.
#[derive(Debug)]
pub(super) struct Seats {
    seats: Vec<Vec<usize>>,
    taken: SortedMap<u32, usize>,
}

/// A seat that was free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    number: usize,
    cpus: Vec<usize>,
}

impl Seat {
    /// Its CPUs as the argument of `--cpus`.
    pub(super) fn argument(&self) -> String {
        let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        cpus.join(",")
    }
}

impl Seats {
    /// Seats of `each` CPUs among those that this process may use; none where workers run anywhere.
    pub(super) fn of_this_process(each: Option<u16>) -> Self {
        // Without an answer nobody is bound, which costs speed only.
        let allowed = sched_getaffinity(None).unwrap_or_default();
        let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        Self::new(&allowed.collect::<Vec<_>>(), each.unwrap_or(0).into())
    }

    fn new(cpus: &[usize], each: usize) -> Self {
        let seats = match each {
            0 => Vec::new(),
            _ => cpus.chunks_exact(each).map(<[usize]>::to_vec).collect(),
        };
        let taken = SortedMap::new();
        Self { seats, taken }
    }

    /// The first free seat, if all `wanted` workers have one.
    pub(super) fn free(&self, wanted: u32) -> Option<Seat> {
        if wanted as usize > self.seats.len() {
            return None;
        }
        let taken: SortedSet<&usize> = self.taken.values().collect();
        let number = (0..self.seats.len()).find(|number| !taken.contains(number))?;
        let cpus = self.seats[number].clone();
        Some(Seat { number, cpus })
    }

    /// A worker was started on the seat.
    pub(super) fn take(&mut self, pid: u32, seat: &Seat) {
        self.taken.insert(pid, seat.number);
    }

    /// The worker is gone.
    pub(super) fn leave(&mut self, pid: u32) {
        self.taken.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_one_workers_until_it_leaves() {
        let mut seats = Seats::new(&[0, 2, 3, 5, 7], 2);
        let first = seats.free(2).expect("two seats, one CPU is left over");
        assert_eq!(first.argument(), "0,2");
        seats.take(10, &first);
        let second = seats.free(2).expect("a second seat");
        assert_eq!(second.argument(), "3,5");
        seats.take(11, &second);
        assert_eq!(seats.free(2), None);
        seats.leave(10);
        assert_eq!(seats.free(1), Some(first));
    }

    #[test]
    fn nobody_sits_where_there_are_not_enough_seats() {
        let seats = Seats::new(&[0, 1], 1);
        assert_eq!(seats.free(3), None);
        assert_eq!(Seats::new(&[0, 1], 0).free(1), None);
        assert_eq!(Seats::new(&[0], 2).free(1), None);
    }
}
