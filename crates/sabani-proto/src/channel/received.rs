//! The receiving half: what has come, and when it must be acknowledged (H5, U5).

use super::{AckPolicy, Arrival, PacketSet, datagram_cost};
use crate::wire::{Ack, Prelude};

/// Packets received and the acknowledgement owed for them.
#[derive(Debug)]
pub(crate) struct Received {
    pub packets: PacketSet,
    policy: AckPolicy,
    delay_ns: u64,
    largest_at_ns: u64,
    answers: u32,
    /// Packets, and their cost, that no acknowledgement has told of.
    owed_packets: u32,
    owed_cost: u32,
    deadline: Option<u64>,
}

/// Packets that came in a row, all of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owed {
    pub packets: u32,
    /// Bytes of each.
    pub bytes: usize,
    /// Flags of any of them.
    pub flags: u8,
    /// How the first one fitted in.
    pub arrival: Arrival,
}

impl Received {
    pub fn new(policy: AckPolicy, delay_ns: u64) -> Self {
        Received {
            packets: PacketSet::default(),
            policy,
            delay_ns,
            largest_at_ns: 0,
            answers: 0,
            owed_packets: 0,
            owed_cost: 0,
            deadline: None,
        }
    }

    /// Records an authenticated packet of `bytes` that [`PacketSet::contains`] did not know; returns
    /// what [`Received::owe`] wants to know if it must be acknowledged.
    #[inline]
    pub fn on_packet(&mut self, prelude: &Prelude, bytes: usize, now_ns: u64) -> Owed {
        let arrival = self.packets.insert(prelude.packet_number);
        if arrival != Arrival::Late {
            self.largest_at_ns = now_ns;
            if prelude.flags & Prelude::ASK != 0 {
                self.answers = prelude.packet_number as u32;
            }
        }
        Owed {
            packets: 1,
            bytes,
            flags: prelude.flags,
            arrival,
        }
    }

    /// Settles when packets must be acknowledged, once they are known to carry something that
    /// must arrive. `window` is what the sender may have on its way.
    #[inline]
    pub fn owe(&mut self, owed: &Owed, window: u32, now_ns: u64) {
        self.owed_packets += owed.packets;
        let cost = datagram_cost(owed.bytes) * owed.packets;
        self.owed_cost = self.owed_cost.saturating_add(cost);
        let asked = owed.flags & Prelude::ASK != 0;
        let urgent = owed.flags & Prelude::URGENT != 0;
        let due = match self.policy {
            AckPolicy::WhenAsked => self.owed_cost >= window / 3,
            AckPolicy::EveryPackets(n) => self.owed_packets >= n,
        };
        if due || owed.arrival != Arrival::Next || (asked && urgent) {
            self.deadline = Some(now_ns);
        } else if asked && self.deadline.is_none() {
            self.deadline = Some(now_ns + self.delay_ns);
        }
    }

    /// When an acknowledgement must leave, if one is owed that nothing else would carry.
    pub fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    /// Whether anything has come that no acknowledgement has told of.
    #[inline]
    pub fn owes(&self) -> bool {
        self.owed_packets > 0
    }

    /// The acknowledgement, to be sent now.
    pub fn take_ack(&mut self, window: u32, now_ns: u64) -> Ack {
        self.owed_packets = 0;
        self.owed_cost = 0;
        self.deadline = None;
        let (first_len, ranges) = self.packets.report();
        let delay = now_ns.saturating_sub(self.largest_at_ns);
        Ack {
            largest: self.packets.largest().unwrap_or(0),
            first_len,
            delay_ns: delay.min(u64::from(u32::MAX)) as u32,
            answers: self.answers,
            window,
            ranges,
        }
    }
}
