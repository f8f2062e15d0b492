//! What the receiver knows of one peer: its window, its demand, and what it makes of both.

use super::Arrival;
use super::link::ASSUMED_RTT_NS;

/// The smallest round trip is looked for anew this often, for paths change.
const RTT_MEMORY_NS: u64 = 10_000_000_000;
/// How much later than the path takes a host may answer, in nanoseconds, at both ends together.
const HOST_DELAY_NS: u64 = 200_000;
/// A round of a peer's own rate, in nanoseconds, if two round trips are shorter.
pub(super) const ROUND_NS: u64 = 1_000_000;
/// Room to grow that a peer's own rate leaves.
const HEADROOM: f64 = 1.25;

/// Smallest round trip lately, free of what our own credit keeps in the queue.
#[derive(Debug, Default)]
struct SmallestRtt {
    ns: u64,
    recent_ns: u64,
    since_ns: u64,
}

impl SmallestRtt {
    #[inline]
    fn on_sample(&mut self, sample_ns: u64, own_queue_ns: impl FnOnce() -> u64, now_ns: u64) {
        if sample_ns == 0 {
            return;
        }
        if self.ns == 0 {
            *self = SmallestRtt {
                ns: sample_ns,
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

/// What a peer can use, from what it has used: more would lie idle while others could use it.
#[derive(Debug)]
struct Use {
    /// `None` until the peer was once seen busy.
    limit: Option<u64>,
    since_ns: u64,
    charge: u64,
    /// It has used up all it had.
    dried: bool,
}

/// What a peer adds to the sums over all peers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Part of the link that its window takes.
    pub claim: u64,
    /// Charge of its window that it has something for.
    pub outstanding: u64,
    /// Its window, if it wants nothing: standing credit.
    pub promise: u64,
}

/// One peer.
#[derive(Debug)]
pub(super) struct Share {
    pub peer: u32,
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
    pub heard_ns: u64,
    /// Heard within the decay time, and counted as such.
    pub recent: bool,
    /// Since when it has wanted something.
    pub since_ns: u64,
    /// When it was last granted something, or began to want.
    pub served_ns: u64,
    /// Weighted charge granted (`Order::Fair`).
    pub virtual_time: u64,
    /// Told that it has nothing and must wait.
    pub told_dry: bool,
    /// A raise has not been told.
    pub raised: bool,
    /// What it adds to the sums over all peers.
    pub account: Account,
    /// Where it stands in the list of those who want something.
    pub place: Option<u32>,
    rtt: SmallestRtt,
    usage: Use,
}

impl Share {
    pub fn new(peer: u32, now_ns: u64) -> Self {
        Share {
            peer,
            window: 0,
            remaining: 0,
            weight: 1,
            fixed: None,
            most: u64::MAX,
            allowance: None,
            heard_ns: now_ns,
            recent: false,
            since_ns: now_ns,
            served_ns: now_ns,
            virtual_time: 0,
            told_dry: false,
            raised: false,
            account: Account::default(),
            place: None,
            rtt: SmallestRtt::default(),
            usage: Use {
                limit: None,
                since_ns: now_ns,
                charge: 0,
                dried: false,
            },
        }
    }

    /// Whether somebody has said something of this peer, so that the entry stays.
    pub fn is_steered(&self) -> bool {
        self.weight != 1
            || self.fixed.is_some()
            || self.most != u64::MAX
            || self.allowance.is_some()
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
        full: u64,
        own_queue_ns: impl FnOnce() -> u64,
        now_ns: u64,
    ) {
        self.heard_ns = now_ns;
        self.rtt.on_sample(arrival.rtt_ns, own_queue_ns, now_ns);
        self.window = self.window.saturating_sub(u64::from(arrival.advanced));
        if self.remaining == 0 && arrival.remaining > 0 {
            self.since_ns = now_ns;
            self.served_ns = now_ns;
            self.start_round(full, now_ns);
        }
        self.remaining = arrival.remaining;
        self.usage.charge += arrival.charge;
        self.usage.dried |= self.window < full;
    }

    /// The window that what it has announced calls for: whole packets, for what is announced is
    /// an estimate, and the rest of one must go as well.
    #[inline]
    pub fn target(&self, full: u64) -> u64 {
        self.remaining.div_ceil(full).saturating_mul(full)
    }

    /// Whether it wants more than it has.
    #[inline]
    pub fn wants(&self, full: u64) -> bool {
        self.window < self.target(full)
    }

    /// Most that it can use, as far as is known.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.usage.limit.unwrap_or(u64::MAX)
    }

    /// What of its window counts as on its way. A stalled peer must not keep the link from others.
    #[inline]
    pub fn claimed(&self, alone: bool) -> u64 {
        let claimed = self.window.min(self.remaining);
        if alone {
            claimed
        } else {
            claimed.min(self.limit())
        }
    }

    fn start_round(&mut self, full: u64, now_ns: u64) {
        self.usage.since_ns = now_ns;
        self.usage.charge = 0;
        self.usage.dried = self.window < full;
    }

    /// Ends a round if it is over: the peer's own rate tells what it can use.
    pub fn tick(&mut self, full: u64, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(self.usage.since_ns);
        if took_ns <= ROUND_NS.max(2 * self.rtt_ns()) {
            return;
        }
        if self.usage.dried {
            self.usage.limit = self.usage.limit.map(|limit| limit.saturating_mul(2));
        } else if self.wants(full) {
            let rate = self.usage.charge as f64 / took_ns as f64;
            let used = HEADROOM * rate * (self.rtt_ns() + HOST_DELAY_NS) as f64;
            self.usage.limit = Some(used as u64 + 2 * full);
        }
        self.start_round(full, now_ns);
    }
}
