//! One direction of a path: a wire with a queue in front of it.

use std::fmt;

use crate::datagram::DatagramId;
use crate::engine::Engine;
use crate::faults::{FaultMemory, Rule};
use crate::{Faults, Packet, US};

/// Delay, rate, queue and MTU of one direction of a path, and its faults.
pub struct Link {
    /// Time on the way, in nanoseconds. Default 25 µs.
    pub delay_ns: u64,
    /// Bits per second, headers included; zero: no limit. Default 10 Gb/s.
    pub bits_per_second: u64,
    /// Largest datagram that passes, in bytes of UDP payload. Default 1,472.
    pub mtu: usize,
    /// Bytes that may wait for the wire, headers included; more are dropped. Default: no limit.
    pub queue_bytes: u64,
    /// What goes wrong. Default: nothing.
    pub faults: Faults,
    /// What has happened on it.
    pub counters: LinkCounters,
    /// When the wire is free again.
    pub(crate) busy_until_ns: u64,
    rule: Option<Rule>,
    memory: FaultMemory,
}

/// What has happened on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Datagrams that came to it.
    pub entered: u64,
    /// Bytes of those.
    pub entered_bytes: u64,
    /// Datagrams lost to faults.
    pub lost: u64,
    /// Datagrams too large for the path.
    pub too_large: u64,
    /// Datagrams that found the queue full.
    pub queue_full: u64,
    /// Datagrams marked because the queue was long.
    pub marked: u64,
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
            .field("queue_bytes", &self.queue_bytes)
            .field("faults", &self.faults)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// A link that changes nothing: no delay, no limit.
    pub fn transparent() -> Self {
        Link {
            delay_ns: 0,
            bits_per_second: 0,
            mtu: usize::MAX,
            ..Link::default()
        }
    }

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

    /// When the wire was last busy, or will be free of what it has accepted, in nanoseconds.
    pub fn idle_since_ns(&self) -> u64 {
        self.busy_until_ns
    }

    /// Takes in a datagram, and lets what comes out at the other end arrive.
    pub(crate) fn carry(&mut self, id: DatagramId, engine: &mut Engine) {
        if !self.accept(id, engine) {
            return;
        }
        let size = engine.datagrams[id].wire_bytes();
        if self.waiting_bytes(engine.now_ns) > self.queue_bytes {
            self.counters.queue_full += 1;
            engine.datagrams.remove(id);
            return;
        }
        self.busy_until_ns = self.busy_until_ns.max(engine.now_ns) + self.wire_ns(size);
        let sent_ns = self.busy_until_ns;
        self.cross(id, sent_ns, engine);
    }

    /// Counts a datagram; forgets it, and says no, if it is too large for the path.
    pub(crate) fn accept(&mut self, id: DatagramId, engine: &mut Engine) -> bool {
        let datagram = &mut engine.datagrams[id];
        datagram.nth = self.counters.entered;
        let size = datagram.bytes.len();
        self.counters.entered += 1;
        self.counters.entered_bytes += size as u64;
        let fits = size <= self.mtu;
        if !fits {
            self.counters.too_large += 1;
            engine.datagrams.remove(id);
        }
        fits
    }

    /// How long the wire is busy with so many bytes.
    pub(crate) fn wire_ns(&self, bytes: u64) -> u64 {
        if self.bits_per_second == 0 {
            return 0;
        }
        bytes * 8_000_000_000 / self.bits_per_second
    }

    /// What the wire has still to send of what it has accepted.
    pub(crate) fn waiting_bytes(&self, now_ns: u64) -> u64 {
        let waiting_ns = self.busy_until_ns.saturating_sub(now_ns);
        let bits = u128::from(waiting_ns) * u128::from(self.bits_per_second) / 1_000_000_000;
        (bits / 8) as u64
    }

    /// What becomes of a datagram on the wire, whose last bit leaves at `sent_ns`.
    pub(crate) fn cross(&mut self, id: DatagramId, sent_ns: u64, engine: &mut Engine) {
        let at_ns = sent_ns + self.delay_ns;
        if self.faults == Faults::default() && self.rule.is_none() {
            return engine.arrive(at_ns, id);
        }
        let rng = &mut engine.rng;
        let datagram = &engine.datagrams[id];
        let echo = self.memory.echo(&self.faults, &datagram.bytes, rng);
        let packet = Packet {
            from: datagram.from,
            to: datagram.to,
            nth: datagram.nth,
            at_ns: engine.now_ns,
            bytes: &datagram.bytes,
        };
        let chosen = self.rule.as_mut().is_some_and(|rule| rule(&packet));
        let lost = self.memory.swallows(&self.faults, rng) || chosen;
        if let Some((old, late_ns)) = echo {
            let old = engine.datagrams.insert_like(id, old);
            engine.arrive(at_ns + late_ns, old);
        }
        if lost {
            self.counters.lost += 1;
            return engine.datagrams.remove(id);
        }
        if let Some(late_ns) = self.faults.copy(&mut engine.rng) {
            let bytes = engine.datagrams[id].bytes.clone();
            let copy = engine.datagrams.insert_like(id, bytes);
            engine.arrive(at_ns + late_ns, copy);
        }
        let bytes = &mut engine.datagrams[id].bytes;
        self.faults.damage(bytes, &mut engine.rng);
        let late_ns = self.faults.lateness(&mut engine.rng);
        engine.arrive(at_ns + late_ns, id);
    }
}
