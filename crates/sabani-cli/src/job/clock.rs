//! A clock that all ranks read alike.

use std::{thread, time::Duration};

use anyhow::Result;
use nix::sys::prctl;
use rustix::time::{ClockId, clock_gettime};
use sabani::Comm;

/// The quickest of so many round trips tells how another host's clock differs.
const ROUND_TRIPS: usize = 20;
const TAG: u32 = 0;
/// Where there is a core for each rank of a host, a sleep ends so much early and the rest is spun away: a core
/// that has slept takes some time to wake up.
const SPIN_NS: i64 = 50_000;
/// A bit for each core that a rank may use.
const MASK_WORDS: usize = 16;
type Mask = [u64; MASK_WORDS];

/// Rank 0's clock, as far as another rank can know.
pub struct Clock {
    /// To be added to this host's.
    ahead_ns: i64,
    spins: bool,
}

impl Clock {
    /// Compares the clocks of all ranks with that of rank 0. Those of one host are the same. `may_spin`: hosts do not
    /// share cores.
    ///
    /// # Errors
    /// If ranks can't be reached.
    pub fn agree(comm: &Comm, may_spin: bool) -> Result<Self> {
        // Sleeps end when they should, and not up to 50 µs later.
        prctl::set_timerslack(1)?;
        let hosts = comm.hosts();
        let mut ahead_ns = 0;
        for rank in 0..comm.size() {
            let is_remote = hosts[rank] != hosts[0];
            if is_remote && comm.rank() == 0 {
                compare(comm, rank)?;
            } else if is_remote && comm.rank() == rank {
                ahead_ns = be_compared(comm)?;
            }
        }
        let own = sabani_ring::allowed();
        let at_once = thread::available_parallelism()?.get();
        // Where that is less than its cores, a container's processes together get no more of their time.
        let at_once = if at_once < own.len() {
            at_once
        } else {
            usize::MAX
        };
        let mut masks = vec![0; MASK_WORDS * comm.size()];
        comm.allgather(&mask(own), &mut masks)?;
        let masks = masks.as_chunks().0.iter().zip(&hosts);
        let beside = masks.filter(|(_, host)| **host == hosts[comm.rank()]);
        let beside: Vec<Mask> = beside.map(|(mask, _)| *mask).collect();
        Ok(Self {
            ahead_ns,
            spins: may_spin && beside.len() <= at_once && have_a_core_each(&beside),
        })
    }

    /// Nanoseconds.
    pub fn now_ns(&self) -> i64 {
        monotonic_ns() + self.ahead_ns
    }

    /// Sleeps until then.
    pub fn sleep_until(&self, at_ns: i64) {
        let early_ns = if self.spins { SPIN_NS } else { 0 };
        let left_ns = at_ns - early_ns - self.now_ns();
        if let Ok(left_ns @ 1..) = u64::try_from(left_ns) {
            thread::sleep(Duration::from_nanos(left_ns));
        }
        while self.now_ns() < at_ns {
            std::hint::spin_loop();
        }
    }
}

/// Rank 0's part.
fn compare(comm: &Comm, rank: usize) -> Result<()> {
    let mut quickest_ns = i64::MAX;
    let mut ahead_ns = 0;
    for _ in 0..ROUND_TRIPS {
        let asked = monotonic_ns();
        comm.send::<i64>(rank, TAG, &[])?;
        let mut there = [0];
        comm.recv(rank, TAG, &mut there)?;
        let round_trip_ns = monotonic_ns() - asked;
        if round_trip_ns < quickest_ns {
            quickest_ns = round_trip_ns;
            ahead_ns = asked + round_trip_ns / 2 - there[0];
        }
    }
    Ok(comm.send(rank, TAG, &[ahead_ns])?)
}

/// The other rank's part: how far rank 0's clock is ahead of its own.
fn be_compared(comm: &Comm) -> Result<i64> {
    for _ in 0..ROUND_TRIPS {
        comm.recv::<i64>(0, TAG, &mut [])?;
        comm.send(0, TAG, &[monotonic_ns()])?;
    }
    let mut ahead_ns = [0];
    comm.recv(0, TAG, &mut ahead_ns)?;
    Ok(ahead_ns[0])
}

fn mask(cores: Vec<usize>) -> Mask {
    let mut mask = Mask::default();
    for core in cores {
        // More cores than that have room for each rank.
        if let Some(word) = mask.get_mut(core / 64) {
            *word |= 1 << (core % 64);
        }
    }
    mask
}

/// Whether those with these masks have a core each: all together, and those that are bound to the same ones among them.
fn have_a_core_each(masks: &[Mask]) -> bool {
    let mut all = Mask::default();
    for mask in masks {
        all.iter_mut()
            .zip(mask)
            .for_each(|(all, word)| *all |= word);
    }
    let is_within =
        |mask: &Mask, cores: &Mask| mask.iter().zip(cores).all(|(one, of)| one & !of == 0);
    let has_room = |cores: &Mask| {
        let ranks = masks.iter().filter(|mask| is_within(mask, cores)).count();
        ranks <= cores.iter().map(|word| word.count_ones() as usize).sum()
    };
    masks.iter().chain([&all]).all(has_room)
}

fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_are_bound_have_a_core_each_and_those_that_share_one_have_not() {
        let have = |masks: &[&[usize]]| {
            let masks: Vec<_> = masks.iter().map(|cores| mask(cores.to_vec())).collect();
            have_a_core_each(&masks)
        };
        assert!(have(&[&[0], &[1]]), "each is bound to one");
        assert!(have(&[&[0, 65], &[0, 65]]), "the system decides");
        assert!(have(&[&[0, 1], &[2, 3], &[0, 1]]));
        assert!(!have(&[&[0, 1], &[0, 1], &[0, 1]]));
        assert!(!have(&[&[7], &[7]]), "both have one, but it is the same");
        assert!(!have(&[&[7], &[7], &[0, 1, 2]]), "the third one has room");
    }
}
