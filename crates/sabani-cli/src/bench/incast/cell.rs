//! From rounds to figures.

use std::time::Duration;

use super::protocol::{Pattern, Times};
use crate::{
    bench::{
        cpu::{CpuTime, MAX_BUSY_RATIO},
        transport::Transport,
    },
    lab::Rate,
};

/// What was measured of one transport.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Which transport.
    pub transport: Transport,
    /// All turns together; completion times ascend once [`Cell::finish`] was called.
    pub times: Times,
    /// Packets that the senders have sent, those sent again included.
    pub packets: u64,
    /// Packets that they have sent again.
    pub resent: u64,
    /// Packets that the switch has dropped before the receiver.
    pub dropped: u64,
    /// Time of the machine's processors.
    pub cpu: CpuTime,
}

impl Cell {
    /// Nothing yet.
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            times: Times::default(),
            packets: 0,
            resent: 0,
            dropped: 0,
            cpu: CpuTime::default(),
        }
    }

    /// Adds a turn.
    pub fn add(&mut self, turn: Cell) {
        self.times.completion_ns.extend(turn.times.completion_ns);
        self.times.unloaded_ns.extend(turn.times.unloaded_ns);
        self.times.bytes += turn.times.bytes;
        self.times.elapsed_ns += turn.times.elapsed_ns;
        self.packets += turn.packets;
        self.resent += turn.resent;
        self.dropped += turn.dropped;
        self.cpu = self.cpu.plus(turn.cpu);
    }

    /// After the last turn. A token bucket lets a packet out when its time on the wire begins, a wire does when it ends: to all times
    /// that of the last packet is added.
    pub fn finish(&mut self, link: &Link, pattern: Pattern) {
        let wire_ns = link.wire(pattern).as_nanos() as u64;
        let times = &mut self.times;
        if let Pattern::Incast { .. } = pattern {
            times.elapsed_ns += times.completion_ns.len() as u64 * wire_ns;
        }
        for times in [&mut times.completion_ns, &mut times.unloaded_ns] {
            times.iter_mut().for_each(|ns| *ns += wire_ns);
            times.sort_unstable();
        }
    }

    /// The completion time that `quantile` of all rounds do not exceed.
    pub fn completion_ms(&self, quantile: f64) -> f64 {
        quantile_ms(&self.times.completion_ns, quantile)
    }

    /// The median completion time while nobody else sends.
    pub fn unloaded_ms(&self) -> f64 {
        quantile_ms(&self.times.unloaded_ns, 0.5)
    }

    /// What arrived, relative to what the link could carry meanwhile.
    pub fn goodput_ratio(&self, link: &Link) -> f64 {
        let seconds = self.times.elapsed_ns as f64 / 1e9;
        self.times.bytes as f64 / seconds / link.rate.payload_bytes_per_s()
    }

    /// Packets sent again, relative to those sent for the first time.
    pub fn extra_packets_ratio(&self) -> f64 {
        self.resent as f64 / self.packets.saturating_sub(self.resent).max(1) as f64
    }

    /// Whether the processors had time enough.
    pub fn is_valid(&self) -> bool {
        self.cpu.busy_ratio() <= MAX_BUSY_RATIO
    }
}

/// The link to the receiver.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Its rate, with Ethernet headers.
    pub rate: Rate,
    /// From a packet to its answer when nobody else sends.
    pub round_trip: Duration,
}

impl Link {
    /// How long the last packet of a round is on the wire, or one with as much in it.
    pub fn wire(&self, pattern: Pattern) -> Duration {
        self.rate.wire(pattern.size_bytes())
    }

    /// What a round would take at best.
    pub fn ideal_ms(&self, senders: u16, pattern: Pattern) -> f64 {
        let bytes = match pattern {
            Pattern::Incast { bytes } => bytes * usize::from(senders),
            Pattern::Mix { short, .. } => short,
        };
        (bytes as f64 / self.rate.payload_bytes_per_s() + self.round_trip.as_secs_f64()) * 1e3
    }
}

/// NaN of nothing.
fn quantile_ms(ascending_ns: &[u64], quantile: f64) -> f64 {
    let rank = (quantile * ascending_ns.len() as f64).ceil().max(1.0) as usize;
    ascending_ns
        .get(rank - 1)
        .map_or(f64::NAN, |&ns| ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        Link {
            rate: Rate(1_000_000_000),
            round_trip: Duration::from_micros(100),
        }
    }

    #[test]
    fn the_ideal_round_fills_the_link() {
        let payload = link().rate.payload_bytes_per_s();
        assert!((payload - 121.53e6).abs() < 1e4, "{payload}");
        let ideal = link().ideal_ms(8, Pattern::Incast { bytes: 64 << 10 });
        assert!((ideal - 4.414).abs() < 1e-3, "{ideal}");
    }

    #[test]
    fn figures_of_two_turns() {
        let mut cell = Cell::new(Transport::Sabani);
        for completion_ns in [vec![5_000_000, 4_000_000], vec![9_000_000]] {
            let times = Times {
                elapsed_ns: completion_ns.iter().sum(),
                bytes: completion_ns.len() as u64 * (512 << 10),
                completion_ns,
                unloaded_ns: Vec::new(),
            };
            cell.add(Cell {
                times,
                packets: 55,
                resent: 5,
                ..Cell::new(Transport::Sabani)
            });
        }
        cell.finish(&link(), Pattern::Incast { bytes: 64 << 10 });
        // A full packet has 1,514 bytes.
        assert_eq!(cell.completion_ms(0.5), 5.012_112);
        assert_eq!(cell.completion_ms(0.99), 9.012_112);
        assert!(cell.unloaded_ms().is_nan());
        assert_eq!(cell.extra_packets_ratio(), 0.1);
        let goodput = cell.goodput_ratio(&link());
        assert!((goodput - 0.7175).abs() < 1e-4, "{goodput}");
    }
}
