//! In which order what waits at a port leaves.

use std::collections::{BTreeMap, VecDeque};

use crate::HostId;
use crate::datagram::Datagram;

/// The order of a port's queue.
#[derive(Debug)]
pub(crate) enum Order {
    /// As it came: switches, and hosts with Linux's `pfifo`.
    Came,
    /// What is express first, of which so many wait, then the rest, each as it came: hosts, as with Linux's `pfifo_fast`.
    Bands(usize),
    /// Peer by peer: hosts, as with Linux's `fq_codel` or `fq`.
    Turns(Box<Turns>),
}

impl Order {
    /// The place of a datagram that comes where `waiting` wait.
    pub fn enter(&mut self, datagram: &Datagram, waiting: usize) -> usize {
        match self {
            Order::Bands(express) if datagram.class.express => {
                *express += 1;
                *express - 1
            }
            Order::Came | Order::Bands(_) => waiting,
            Order::Turns(turns) => turns.enter(datagram.to, datagram.wire_bytes()),
        }
    }

    /// The first one leaves.
    pub fn leave(&mut self) {
        match self {
            Order::Came => {}
            Order::Bands(express) => *express = express.saturating_sub(1),
            Order::Turns(turns) => turns.leave(),
        }
    }
}

/// Peers in turn, byte by byte (self-clocked fair queueing; Linux's `fq_codel` and `fq` do the same with rounds): whoever has
/// nothing waiting comes before most of what waits for others already.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Of all that waits, in its order: the turn at which its last byte leaves.
    ends: VecDeque<u64>,
    /// The turn at which what left last ended.
    now: u64,
    /// Of each peer for which something waits: the last one's end.
    last: BTreeMap<HostId, u64>,
}

impl Turns {
    /// The place among all that waits of a datagram that comes.
    pub fn enter(&mut self, to: HostId, bytes: u64) -> usize {
        let begins = self
            .last
            .get(&to)
            .map_or(self.now, |last| self.now.max(*last));
        let end = begins + bytes;
        self.last.insert(to, end);
        let place = self.ends.partition_point(|other| *other <= end);
        self.ends.insert(place, end);
        place
    }

    /// The first one leaves.
    pub fn leave(&mut self) {
        self.now = self.ends.pop_front().unwrap_or(self.now);
        if self.ends.is_empty() {
            self.last.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What leaves, of datagrams to these hosts of so many bytes that came in this order.
    fn order(came: &[(u32, u64)]) -> Vec<usize> {
        let (mut turns, mut waits) = (Turns::default(), Vec::new());
        for (index, (to, bytes)) in came.iter().enumerate() {
            waits.insert(turns.enter(HostId(*to), *bytes), index);
        }
        waits.iter().for_each(|_| turns.leave());
        assert!(turns.ends.is_empty() && turns.last.is_empty());
        waits
    }

    #[test]
    fn peers_take_turns_and_each_ones_datagrams_stay_in_order() {
        let came = [(1, 1_500), (1, 1_500), (1, 1_500), (2, 1_500), (2, 1_500)];
        assert_eq!(order(&came), [0, 3, 1, 4, 2]);
    }

    #[test]
    fn a_word_overtakes_data_for_others_and_not_for_its_own_peer() {
        let came = [(1, 1_500), (1, 1_500), (1, 1_500), (1, 90), (2, 90)];
        assert_eq!(order(&came), [4, 0, 1, 2, 3]);
    }

    #[test]
    fn who_was_silent_has_saved_up_nothing() {
        let mut turns = Turns::default();
        for _ in 0..10 {
            turns.enter(HostId(1), 1_500);
        }
        (0..9).for_each(|_| turns.leave());
        let places: Vec<_> = (0..3).map(|_| turns.enter(HostId(2), 1_500)).collect();
        assert_eq!(places, [1, 2, 3], "one waits that came before");
    }
}
