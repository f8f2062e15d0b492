//! One direction of a path between two hosts.

use std::fmt;

use crate::faults::{FaultMemory, Rule};
use crate::{Faults, Packet, Rng, US};

/// Ethernet, IPv4 and UDP headers, in bytes: what a datagram takes on the wire beside itself.
const HEADERS: u64 = 42;

/// Delay, rate, queue and MTU of one direction of a path, and its faults.
pub struct Link {
    /// Time on the way, in nanoseconds. Default 25 µs.
    pub delay_ns: u64,
    /// Bits per second, headers included; zero: no limit. Default 10 Gb/s.
    pub bits_per_second: u64,
    /// Largest datagram that passes, in bytes of UDP payload. Default 1,472.
    pub mtu: usize,
    /// Bytes that may wait for the wire; more are dropped. Default: no limit.
    pub queue_bytes: u64,
    /// What goes wrong. Default: nothing.
    pub faults: Faults,
    /// What has happened on it.
    pub counters: LinkCounters,
    /// When the wire is free again.
    busy_until_ns: u64,
    rule: Option<Rule>,
    memory: FaultMemory,
}

/// What has happened on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Datagrams that entered it.
    pub entered: u64,
    /// Bytes of those.
    pub entered_bytes: u64,
    /// Datagrams lost to faults.
    pub lost: u64,
    /// Datagrams too large for the path.
    pub too_large: u64,
    /// Datagrams that found the queue full.
    pub queue_full: u64,
}

impl Default for Link {
    fn default() -> Self {
        Link {
            delay_ns: 25 * US,
            bits_per_second: 10_000_000_000,
            mtu: 1_472,
            queue_bytes: u64::MAX,
            faults: Faults::default(),
            counters: LinkCounters::default(),
            busy_until_ns: 0,
            rule: None,
            memory: FaultMemory::default(),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("delay_ns", &self.delay_ns)
            .field("bits_per_second", &self.bits_per_second)
            .field("mtu", &self.mtu)
            .field("faults", &self.faults)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Loses datagrams that `rule` says yes to, beside what the faults take.
    pub fn drop_if(&mut self, rule: impl FnMut(&Packet<'_>) -> bool + 'static) {
        self.rule = Some(Box::new(rule));
    }

    /// Loses the first `count` datagrams from now on that `which` says yes to.
    pub fn drop_first(&mut self, mut count: u64, which: impl Fn(&Packet<'_>) -> bool + 'static) {
        self.drop_if(move |packet| {
            let hit = count > 0 && which(packet);
            count -= u64::from(hit);
            hit
        });
    }

    /// Takes in a datagram; passes what comes out at the other end, and when, to `arrive`.
    pub(crate) fn carry(
        &mut self,
        packet: &Packet<'_>,
        rng: &mut Rng,
        arrive: &mut impl FnMut(u64, Vec<u8>),
    ) {
        let size = packet.bytes.len();
        self.counters.entered += 1;
        self.counters.entered_bytes += size as u64;
        if size > self.mtu {
            self.counters.too_large += 1;
            return;
        }
        let Some(sent_ns) = self.through_queue(size as u64, packet.at_ns) else {
            self.counters.queue_full += 1;
            return;
        };
        let at_ns = sent_ns + self.delay_ns;
        if let Some((old, late_ns)) = self.memory.echo(&self.faults, packet.bytes, rng) {
            arrive(at_ns + late_ns, old);
        }
        let chosen = self.rule.as_mut().is_some_and(|rule| rule(packet));
        if self.memory.swallows(&self.faults, rng) || chosen {
            self.counters.lost += 1;
            return;
        }
        if let Some(late_ns) = self.faults.copy(rng) {
            arrive(at_ns + late_ns, packet.bytes.to_vec());
        }
        let mut bytes = packet.bytes.to_vec();
        self.faults.damage(&mut bytes, rng);
        arrive(at_ns + self.faults.lateness(rng), bytes);
    }

    /// When the last bit has left, unless the queue is full.
    fn through_queue(&mut self, size: u64, now_ns: u64) -> Option<u64> {
        if self.bits_per_second == 0 {
            return Some(now_ns);
        }
        let starts_ns = self.busy_until_ns.max(now_ns);
        let waiting = u128::from(starts_ns - now_ns) * u128::from(self.bits_per_second);
        let waiting_bytes = (waiting / 8_000_000_000) as u64;
        if waiting_bytes > self.queue_bytes {
            return None;
        }
        self.busy_until_ns = starts_ns + (size + HEADERS) * 8_000_000_000 / self.bits_per_second;
        Some(self.busy_until_ns)
    }
}
