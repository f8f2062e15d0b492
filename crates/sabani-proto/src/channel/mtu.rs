//! How large a datagram the path carries (RFC 8899, datagram packetization layer path MTU
//! discovery): found by probes that the peer acknowledges, lost again when large ones vanish.

use super::datagram_cost;

/// Every path must carry datagrams of this many bytes (RFC 8899's BASE_PLPMTU).
pub const BASE_DATAGRAM: usize = 1_200;
/// What a UDP datagram over IPv4 can carry.
pub const MAX_DATAGRAM: usize = 65_507;
/// What fits into an Ethernet frame of 1,500 bytes over IPv4.
pub const DEFAULT_DATAGRAM: usize = 1_472;

/// Sizes worth trying between the base and the largest: jumbo frames, Ethernet over IPv4 and IPv6,
/// and what common tunnels leave of it.
const STEPS: [usize; 7] = [8_972, 8_952, 4_052, 1_472, 1_452, 1_412, 1_332];
const TRIES_PER_STEP: u8 = 3;
/// RFC 8899's PMTU_RAISE_TIMER.
const RAISE_AFTER_NS: u64 = 600_000_000_000;
/// From the second black hole in a row to the next search; twice that after the third, and so on.
const PAUSE_NS: u64 = 1_000_000_000;
/// Full-size packets lost in a row, none of that size arriving, before the path is suspected.
const SUSPICIOUS_LOSSES: u32 = 12;

/// Search for the path's datagram size.
#[derive(Debug)]
pub(crate) struct MtuSearch {
    current: u16,
    max: u16,
    /// The size being tried; zero when none is.
    trying: u16,
    tries: u8,
    probe_in_flight: bool,
    /// Black holes in a row, none of them long after the one before.
    holes: u8,
    full_lost: u32,
    search_at_ns: u64,
}

impl MtuSearch {
    pub fn new(proven: usize, max: usize) -> Self {
        let mut search = MtuSearch {
            current: proven.clamp(BASE_DATAGRAM, max.max(BASE_DATAGRAM)) as u16,
            max: max.max(BASE_DATAGRAM) as u16,
            trying: 0,
            tries: 0,
            probe_in_flight: false,
            holes: 0,
            full_lost: 0,
            search_at_ns: 0,
        };
        search.start();
        search
    }

    /// Datagram size to send with, in bytes.
    #[inline]
    pub fn current(&self) -> usize {
        usize::from(self.current)
    }

    /// Whether the size in use is the smallest there is.
    pub fn is_base(&self) -> bool {
        self.current() <= BASE_DATAGRAM
    }

    fn start(&mut self) {
        self.trying = if self.max > self.current { self.max } else { 0 };
        self.tries = 0;
    }

    /// The next smaller size worth trying, or the end of the search.
    fn step_down(&mut self, now_ns: u64) {
        let searches = self.trying > self.current;
        let below = STEPS
            .into_iter()
            .map(|step| step as u16)
            .find(|&step| step < self.trying && step > self.current);
        self.trying = below.unwrap_or(0);
        self.tries = 0;
        if self.trying == 0 && searches {
            self.search_at_ns = now_ns + RAISE_AFTER_NS;
        }
    }

    /// Size of the probe to send now, if one is called for; it is on its way then.
    pub fn probe(&mut self, now_ns: u64) -> Option<usize> {
        let bytes = self.wanted(now_ns)?;
        self.probe_in_flight = true;
        Some(bytes)
    }

    /// Whether a probe of the size that is tried was lost before.
    pub fn is_again(&self) -> bool {
        self.tries > 0
    }

    /// Size of the probe that is called for. Probes ride along with traffic: an idle path is not searched.
    pub fn wanted(&mut self, now_ns: u64) -> Option<usize> {
        if self.trying == 0 && self.current < self.max && now_ns >= self.search_at_ns {
            self.start();
        }
        if self.trying == 0 || self.probe_in_flight {
            return None;
        }
        Some(usize::from(self.trying))
    }

    /// A probe of `size` bytes arrived.
    pub fn on_probe_arrived(&mut self, size: usize, now_ns: u64) {
        self.probe_in_flight = false;
        self.trying = 0;
        if size > self.current() {
            self.current = size as u16;
            self.full_lost = 0;
            self.search_at_ns = now_ns + RAISE_AFTER_NS;
        }
    }

    /// A probe of `size` bytes was lost, or the local interface refused it.
    pub fn on_probe_lost(&mut self, size: usize, refused: bool, now_ns: u64) {
        self.probe_in_flight = false;
        if size != usize::from(self.trying) {
            return;
        }
        self.tries += 1;
        if refused || self.tries >= TRIES_PER_STEP {
            self.step_down(now_ns);
        }
    }

    /// Counts full-size packets that arrived or were lost.
    pub fn on_full_size(&mut self, arrived: u32, lost: u32, now_ns: u64) {
        if arrived > 0 {
            self.full_lost = 0;
        } else {
            self.full_lost += lost;
        }
        if self.full_lost >= SUSPICIOUS_LOSSES {
            self.on_black_hole(now_ns);
        }
    }

    /// Large packets vanish: go down to the base and search from there. The size that failed is
    /// tried again like any other, for the cause may have been something else: at once the first time,
    /// then ever later, for a probe may well pass where more of its size do not, and whatever is sent
    /// behind it finds the queue full.
    pub fn on_black_hole(&mut self, now_ns: u64) {
        if self.is_base() {
            self.full_lost = 0;
            return;
        }
        // Found larger, it has been of use for as long as one is tried again at all.
        if now_ns >= self.search_at_ns {
            self.holes = 0;
        }
        self.fall_back(now_ns + self.pause_ns());
        self.holes = self.holes.saturating_add(1);
    }

    /// Datagrams go another way, of which nothing is known yet.
    pub fn on_new_path(&mut self, now_ns: u64) {
        self.holes = 0;
        self.fall_back(now_ns);
    }

    /// Goes down to the base, and searches from there at that time. A probe of the base itself goes first
    /// where it is charged less: by that the peer learns for what it is to give credit.
    fn fall_back(&mut self, search_at_ns: u64) {
        let costs_less = datagram_cost(BASE_DATAGRAM) < datagram_cost(self.current());
        self.trying = if costs_less { BASE_DATAGRAM as u16 } else { 0 };
        self.tries = 0;
        self.current = BASE_DATAGRAM as u16;
        self.full_lost = 0;
        self.search_at_ns = search_at_ns;
    }

    /// From a black hole to the next search.
    fn pause_ns(&self) -> u64 {
        match self.holes.checked_sub(1) {
            None => 0,
            Some(doublings) => (PAUSE_NS << doublings.min(16)).min(RAISE_AFTER_NS),
        }
    }
}
