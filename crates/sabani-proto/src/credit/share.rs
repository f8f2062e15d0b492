//! What the receiver knows of one peer: its window, its demand, and what it makes of both.

use super::link::ASSUMED_RTT_NS;
use super::narrow::{Common, Narrow};
use super::reach::Reach;
use super::standing::DECAY_NS;
use super::steady::Steady;
use super::{Arrival, BASE_FULL};

/// The smallest round trip is looked for anew this often, for paths change.
const RTT_MEMORY_NS: u64 = 10_000_000_000;

/// Smallest round trip lately, free of what our own credit keeps in the queue.
#[derive(Debug, Default)]
struct SmallestRtt {
    ns: u64,
    recent_ns: u64,
    since_ns: u64,
}

impl SmallestRtt {
    #[inline]
    fn on_arrival(&mut self, arrival: &Arrival, own_queue_ns: impl FnOnce() -> u64, now_ns: u64) {
        let sample_ns = arrival.rtt_ns;
        if sample_ns == 0 {
            return;
        }
        if self.ns == 0 {
            // The peer was known before it had nothing to send for a while.
            let known_ns = match arrival.least_rtt_ns {
                0 => sample_ns,
                least_ns => least_ns.min(sample_ns),
            };
            *self = SmallestRtt {
                ns: known_ns,
                recent_ns: sample_ns,
                since_ns: now_ns,
            };
        }
        self.ns = self.ns.min(sample_ns);
        self.recent_ns = self.recent_ns.min(sample_ns);
        if now_ns.saturating_sub(self.since_ns) > RTT_MEMORY_NS {
            // Believing all of a rise would let our own queue lengthen itself.
            self.ns = self.ns.max(self.recent_ns.saturating_sub(own_queue_ns()));
            self.recent_ns = sample_ns;
            self.since_ns = now_ns;
        }
    }
}

/// What a peer adds to the sums over all peers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Part of the link that its window takes.
    pub claim: u64,
    /// Charge of its window that it has something for.
    pub outstanding: u64,
    /// That of it which is overdue, and keeps nobody else from the link.
    pub overdue: u64,
    /// What of its window it has announced nothing for: standing credit.
    pub promise: u64,
}

/// One peer.
#[derive(Debug)]
pub(super) struct Share {
    pub peer: u32,
    /// Charge of a full datagram on the path from it.
    pub full: u64,
    /// Charge that the peer may send beyond the largest number received.
    pub window: u64,
    /// Charge that it has announced and that has not come.
    pub remaining: u64,
    pub weight: u32,
    /// Window that the program has fixed.
    pub fixed: Option<u32>,
    /// Most that the peer wishes to have on its way, and what it wishes to hold while it wants
    /// nothing (U10).
    pub most: u64,
    pub allowance: Option<u64>,
    /// When it last sent pieces of messages, or wanted to.
    pub heard_ns: u64,
    /// That was within the decay time, and it is counted as such.
    pub recent: bool,
    /// Until then it is expected to send more than a packet at a time, as it has done within the decay time.
    pub ample_until_ns: u64,
    /// It is not, and is counted as such.
    pub is_terse: bool,
    /// Since when it has wanted something.
    pub since_ns: u64,
    /// When it was last granted something, or began to want.
    pub served_ns: u64,
    /// Weighted charge granted (`GrantOrder::Fair`).
    pub virtual_time: u128,
    /// Told that it has nothing and must wait.
    pub told_dry: bool,
    /// A raise has not been told.
    pub raised: bool,
    /// What it adds to the sums over all peers.
    pub account: Account,
    /// Where it stands in the list of those who want something.
    pub place: Option<u32>,
    /// What it has is overdue, and others may have its part of the link.
    pub is_passed_over: bool,
    pub reach: Reach,
    pub narrow: Narrow,
    steady: Steady,
    rtt: SmallestRtt,
}

impl Share {
    pub fn new(peer: u32, now_ns: u64) -> Self {
        Share {
            peer,
            full: BASE_FULL,
            window: 0,
            remaining: 0,
            weight: 1,
            fixed: None,
            most: u64::MAX,
            allowance: None,
            heard_ns: now_ns,
            recent: false,
            ample_until_ns: 0,
            is_terse: false,
            since_ns: now_ns,
            served_ns: now_ns,
            virtual_time: 0,
            told_dry: false,
            raised: false,
            account: Account::default(),
            place: None,
            is_passed_over: false,
            reach: Reach::default(),
            narrow: Narrow::default(),
            steady: Steady::default(),
            rtt: SmallestRtt::default(),
        }
    }

    /// Whether somebody has said something of this peer, so that the entry stays.
    pub fn is_steered(&self) -> bool {
        self.weight != 1
            || self.fixed.is_some()
            || self.most != u64::MAX
            || self.allowance.is_some()
    }

    /// Nothing is known of the path from it any more.
    pub fn forget_rtt(&mut self) {
        self.rtt = SmallestRtt::default();
    }

    /// Smallest round trip; zero before it is known.
    pub fn known_rtt_ns(&self) -> u64 {
        self.rtt.ns
    }

    pub fn rtt_ns(&self) -> u64 {
        if self.rtt.ns == 0 {
            ASSUMED_RTT_NS
        } else {
            self.rtt.ns
        }
    }

    /// Takes in a batch of packets.
    #[inline]
    pub fn on_arrival(
        &mut self,
        arrival: &Arrival,
        own_queue_ns: impl FnOnce() -> u64,
        now_ns: u64,
    ) {
        self.rtt.on_arrival(arrival, own_queue_ns, now_ns);
        self.narrow.on_arrival(arrival, self.window);
        let advanced = u64::from(arrival.advanced);
        self.window = self.window.saturating_sub(advanced);
        self.reach.on_arrival(advanced, self.full, now_ns);
        if self.remaining == 0 && arrival.remaining > 0 {
            self.since_ns = now_ns;
            self.served_ns = now_ns;
        }
        self.remaining = arrival.remaining;
        let rtt_ns = self.rtt_ns();
        self.steady.on_arrival(arrival, rtt_ns, now_ns);
        if self.remaining == 0 {
            self.reach.forget();
        }
        self.is_passed_over &= self.reach.is_waited_for();
    }

    /// Takes in whether it sends more than a packet at a time.
    #[inline]
    pub fn note_demand(&mut self, arrival: &Arrival, now_ns: u64) {
        let charge = u64::from(arrival.advanced) + arrival.remaining;
        if charge > self.full {
            self.ample_until_ns = now_ns + DECAY_NS;
        }
        self.is_terse = now_ns >= self.ample_until_ns;
    }

    /// Whether it loses more than all peers together do.
    #[inline]
    pub fn look_at_loss(&mut self, common: Common, now_ns: u64) {
        let rtt_ns = self.rtt_ns();
        self.narrow.tick(self.full, common, rtt_ns, now_ns);
    }

    /// The most that it wishes to have on its way, and that its path can hold.
    #[inline]
    pub fn most_on_way(&self) -> u64 {
        self.most.min(self.narrow.most())
    }

    /// The peer holds no credit any more.
    pub fn clear(&mut self) {
        self.window = 0;
        self.steady = Steady::default();
        self.reach.forget();
        self.is_passed_over = false;
    }

    /// It was silent for so long that it has forgotten its credit. If it had some to use, it has
    /// stalled, and is granted no more before it is heard, as long as others wait.
    pub fn decay(&mut self) {
        let stalled = self.reach.is_waited_for() || self.is_passed_over;
        self.clear();
        self.is_passed_over = stalled;
    }

    /// The window that what it has announced calls for: whole packets, for what is announced is
    /// an estimate, and the rest of one must go as well.
    #[inline]
    pub fn announced(&self) -> u64 {
        self.whole(self.remaining)
    }

    /// The same with what a steady sender will announce before it hears of this.
    #[inline]
    pub fn target(&self) -> u64 {
        self.whole(self.remaining.saturating_add(self.foreseen()))
    }

    /// What it may hold because it sends steadily: half as much again as a round trip brings, for it varies.
    #[inline]
    pub fn foreseen(&self) -> u64 {
        self.steady.per_trip() / 2 * 3
    }

    fn whole(&self, charge: u64) -> u64 {
        charge.div_ceil(self.full).saturating_mul(self.full)
    }

    /// What of its window it is likely to use within a round trip, although nothing is announced.
    #[inline]
    pub fn likely(&self) -> u64 {
        self.window.min(self.steady.per_trip())
    }

    /// Whether it wants more than it has.
    #[inline]
    pub fn wants(&self) -> bool {
        self.window < self.target()
    }

    /// What of its window it can use: while more waits than that, the rest of a packet is of no use to it.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        let uses = self.remaining.saturating_add(self.steady.per_trip());
        match uses > self.window {
            true => self.window - self.window % self.full,
            false => uses,
        }
    }
}
