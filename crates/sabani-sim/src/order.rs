//! In which order what waits at a port leaves.

use std::collections::{BTreeMap, VecDeque};

use crate::HostId;
use crate::datagram::Datagram;

/// The order of a port's queue.
#[derive(Debug)]
pub(crate) enum Order {
    /// As it came: switches, and hosts with Linux's `pfifo`.
    Came,
    /// What is express first, then the rest, each as it came: hosts, as with Linux's `pfifo_fast`.
    Bands(Bands),
    /// Peer by peer: hosts, as with Linux's `fq_codel` or `fq`.
    Turns(Box<Turns>),
}

impl Order {
    /// The place of a datagram that comes where `waiting` wait.
    pub fn enter(&mut self, datagram: &Datagram, waiting: usize) -> usize {
        match self {
            Order::Bands(bands) if datagram.class.express => bands.enter(waiting),
            Order::Came | Order::Bands(_) => waiting,
            Order::Turns(turns) => turns.enter(datagram.to, datagram.wire_bytes()),
        }
    }

    /// The first one leaves, which is this.
    pub fn leave(&mut self, datagram: &Datagram) {
        match self {
            Order::Bands(bands) if datagram.class.express => bands.express -= 1,
            Order::Came | Order::Bands(_) => {}
            Order::Turns(turns) => turns.leave(),
        }
    }

    /// The wire begins with this.
    pub fn begin(&mut self, datagram: &Datagram) {
        if let Order::Bands(bands) = self
            && !bands.cuts_trains
        {
            bands.begun = datagram.class.behind.into();
        }
    }
}

/// A train is one thing, if it is not cut: what is express waits until all of the one is on the wire that has begun.
#[derive(Debug, Default)]
pub(crate) struct Bands {
    /// Express ones that wait.
    express: usize,
    /// Of the train that has begun, so many wait in front of them.
    begun: usize,
    cuts_trains: bool,
}

impl Bands {
    /// Bands that take trains apart.
    pub fn of_packets() -> Self {
        Bands {
            cuts_trains: true,
            ..Bands::default()
        }
    }

    /// The place of an express one where `waiting` wait.
    fn enter(&mut self, waiting: usize) -> usize {
        self.express += 1;
        (self.begun + self.express - 1).min(waiting)
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
    use crate::PortId;
    use crate::datagram::{Class, Stop};

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
    fn what_is_express_waits_for_the_rest_of_a_train_that_has_begun() {
        let packet = |behind, express| Datagram {
            source: ([127, 0, 0, 1], 1).into(),
            from: HostId(0),
            to: HostId(1),
            next: Stop::Host(HostId(1)),
            class: Class {
                behind,
                express,
                ..Class::default()
            },
            came_by: PortId(0),
            nth: 0,
            bytes: Vec::new(),
        };
        for (bands, place) in [(Bands::default(), 2_usize), (Bands::of_packets(), 0)] {
            let mut order = Order::Bands(bands);
            // Two trains of three; the first packet is on the wire.
            order.begin(&packet(2, false));
            assert_eq!(order.enter(&packet(0, true), 5), place);
            assert_eq!(order.enter(&packet(0, true), 6), place + 1);
            assert_eq!(order.enter(&packet(0, false), 7), 7);
            order.leave(&packet(1, false));
            order.begin(&packet(1, false));
            assert_eq!(
                order.enter(&packet(0, true), 7),
                place.saturating_sub(1) + 2
            );
        }
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
