//! What messages cost over a transport: PlogP's parameters as functions of a message's length, how much
//! they vary, and what repairs a loss.

use serde::{Deserialize, Serialize};

use super::{Estimate, expect, is_positive};

/// PlogP's parameters for messages of one length, measured with traffic in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Length of the message.
    pub bytes: f64,
    /// os(m): how long the sender's processor is busy with it.
    pub send_ns: Estimate,
    /// or(m): how long the receiver's processor is busy with it.
    pub receive_ns: Estimate,
    /// g(m): the least time between it and the next one. Not less than the two above.
    pub gap_ns: Estimate,
}

/// How much messages of one length vary. A host that is late now and then makes short ones many times as long, and
/// hardly changes long ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// The length.
    pub bytes: f64,
    /// Times of single messages as shares of their median: all are cut into so many equal parts, of each of which
    /// this is the middle, ascending. Not the least and the largest of all, which any length of measurement changes.
    pub ratios: Vec<f64>,
}

/// What becomes of packets that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// What a sender has on its way to one receiver at most: a window of TCP. Where receivers grant credit, what all senders
    /// together have on their way to one that has not heard of their messages: Sabani's standing credit.
    pub window_bytes: Estimate,
    /// Whether senders keep what they have learned of how much their paths hold, as connections do that have been used: `window_bytes` is then
    /// what they begin with, which grows by what passes and shrinks by what is lost.
    pub learned: bool,
    /// Whether the receiver divides what may be on its way to it among its senders once it has heard
    /// of them, so that only first windows pile up before it.
    pub granted: bool,
    /// Payload of a full packet.
    pub packet_bytes: f64,
    /// What a message is longer by that acknowledges one from its receiver, as all do by which lengths were
    /// measured.
    pub ack_bytes: usize,
    /// So many packets behind a lost one show that it is lost.
    pub later_packets: u32,
    /// Time to repair a loss that later packets show.
    pub later_ns: Estimate,
    /// Time to repair a loss that a probe of the sender's finds (POLL, tail loss probe); `None` if
    /// there are no probes.
    pub probe_ns: Option<Estimate>,
    /// Time to repair a loss that only a timeout finds.
    pub timeout_ns: Estimate,
    /// Whether lost tails were seen: `probe_ns` over Sabani, `timeout_ns` over TCP. What was not is what the timers are set to.
    #[serde(default)]
    pub seen: bool,
}

/// L, the time from one end to the other besides g(m), of hosts that are equally far from each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Trunks that lie between them.
    pub trunks: usize,
    /// That of an empty message.
    pub empty_ns: Estimate,
    /// That of a full packet, and of all that is longer: each switch passes a packet on when all of it is
    /// there.
    pub packet_ns: Estimate,
}

/// A transport's costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// By trunks, ascending; not empty.
    pub latencies: Vec<Latency>,
    /// By length, ascending.
    pub points: Vec<Point>,
    /// How much messages vary, by length, ascending. Empty if nothing varies.
    pub noise: Vec<Noise>,
    /// What becomes of packets that are lost.
    pub recovery: Recovery,
}

/// A message does not take so many times as long as usual.
pub(crate) const MOST_NOISE: f64 = 1e6;
/// No message is longer, or can be calculated with.
const LONGEST: f64 = 1e15;
/// No datagram is longer.
const MOST_PACKET: usize = 65_535;

impl Recovery {
    fn check(&self) -> Result<(), String> {
        self.window_bytes.check("recovery: window_bytes")?;
        self.later_ns.check("recovery: later_ns")?;
        self.timeout_ns.check("recovery: timeout_ns")?;
        if let Some(probe_ns) = self.probe_ns {
            probe_ns.check("recovery: probe_ns")?;
        }
        expect(
            (1.0..=MOST_PACKET as f64).contains(&self.packet_bytes),
            "recovery: packet_bytes is not from 1 to 65535",
        )?;
        expect(
            self.ack_bytes <= MOST_PACKET,
            "recovery: ack_bytes is above 65535",
        )?;
        expect(
            self.later_packets > 0,
            "recovery: later_packets is 0, but nothing shows a loss by itself",
        )
    }
}

impl Latency {
    /// The same for all lengths.
    pub const fn constant(trunks: usize, latency_ns: Estimate) -> Self {
        Latency {
            trunks,
            empty_ns: latency_ns,
            packet_ns: latency_ns,
        }
    }
}

impl Transport {
    /// L of a message between hosts with so many trunks between them; if there were no such hosts, of those
    /// that are the next farther ones, else of the farthest.
    ///
    /// # Panics
    /// If nothing was measured, which [`Network::from_json`](super::Network::from_json) refuses.
    pub fn latency(&self, trunks: usize, bytes: f64) -> Estimate {
        let mut latencies = self.latencies.iter();
        let known = latencies.find(|latency| latency.trunks >= trunks);
        let latency = known.unwrap_or(&self.latencies[self.latencies.len() - 1]);
        let share = (bytes / self.recovery.packet_bytes).min(1.0);
        latency.empty_ns.towards(&latency.packet_ns, share)
    }

    /// How much longer a message takes than usual, or less long if that is negative, at a quantile of all from 0 to 1: on the line
    /// between the lengths around it. What a host that is late adds is the same for all lengths, and what a link's speed varies by grows
    /// with them.
    pub fn deviation_ns(&self, bytes: f64, quantile: f64) -> f64 {
        let (Some(first), Some(last)) = (self.noise.first(), self.noise.last()) else {
            return 0.0;
        };
        let of_length = |noise: &Noise| (noise.ratio(quantile) - 1.0) * self.usual_ns(noise.bytes);
        if bytes <= first.bytes {
            return of_length(first);
        }
        if bytes >= last.bytes {
            return (last.ratio(quantile) - 1.0) * self.usual_ns(bytes);
        }
        let above = self.noise.partition_point(|noise| noise.bytes < bytes);
        let (left, right) = (&self.noise[above - 1], &self.noise[above]);
        let share = (bytes - left.bytes) / (right.bytes - left.bytes);
        of_length(left) + (of_length(right) - of_length(left)) * share
    }

    /// L + g(m) between hosts that are as near as any.
    fn usual_ns(&self, bytes: f64) -> f64 {
        self.latency(0, bytes).value + self.at(bytes).gap_ns.value
    }

    /// os(m), or(m) and g(m) for a length: linear between the lengths that were measured, and beyond the
    /// last one on the line through the last two.
    ///
    /// # Panics
    /// If nothing was measured, which [`Network::from_json`](super::Network::from_json) refuses.
    pub fn at(&self, bytes: f64) -> Point {
        let behind = self.points.partition_point(|point| point.bytes < bytes);
        let last = self.points.len() - 1;
        let (left, right) = match behind {
            0 => {
                return Point {
                    bytes,
                    ..self.points[0]
                };
            }
            _ if last == 0 => return self.points[0].stretched(bytes),
            _ => (
                self.points[behind.min(last) - 1],
                self.points[behind.min(last)],
            ),
        };
        let share = (bytes - left.bytes) / (right.bytes - left.bytes);
        let between =
            |quantity: fn(&Point) -> Estimate| quantity(&left).towards(&quantity(&right), share);
        Point {
            bytes,
            send_ns: between(|point| point.send_ns),
            receive_ns: between(|point| point.receive_ns),
            gap_ns: between(|point| point.gap_ns),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.check_latencies()?;
        self.check_points()?;
        self.check_noise()?;
        self.recovery.check()
    }

    fn check_latencies(&self) -> Result<(), String> {
        expect(
            !self.latencies.is_empty(),
            "no latency is known: latencies is empty",
        )?;
        let trunks = self.latencies.iter().map(|latency| latency.trunks);
        expect(ascends(trunks), "latencies: trunks do not ascend")?;
        for latency in &self.latencies {
            latency.empty_ns.check("latencies: empty_ns")?;
            latency.packet_ns.check("latencies: packet_ns")?;
        }
        Ok(())
    }

    fn check_points(&self) -> Result<(), String> {
        expect(
            !self.points.is_empty(),
            "there are no measurements: points is empty",
        )?;
        check_lengths("points", self.points.iter().map(|point| point.bytes))?;
        for point in &self.points {
            point.send_ns.check("points: send_ns")?;
            point.receive_ns.check("points: receive_ns")?;
            point.gap_ns.check("points: gap_ns")?;
            expect(
                point.gap_ns.value > 0.0,
                "points: gap_ns, which is g(m), is not positive",
            )?;
        }
        Ok(())
    }

    fn check_noise(&self) -> Result<(), String> {
        check_lengths("noise", self.noise.iter().map(|noise| noise.bytes))?;
        for Noise { ratios, .. } in &self.noise {
            expect(!ratios.is_empty(), "noise: ratios is empty")?;
            let is_ratio = |ratio: &f64| is_positive(*ratio) && *ratio <= MOST_NOISE;
            expect(
                ratios.iter().all(is_ratio),
                "noise: ratios are not positive, or not possible",
            )?;
            expect(ratios.is_sorted(), "noise: ratios do not ascend")?;
        }
        Ok(())
    }
}

/// Refuses lengths of messages that are none, or not in order.
fn check_lengths(field: &str, lengths: impl Iterator<Item = f64> + Clone) -> Result<(), String> {
    let are_lengths = lengths
        .clone()
        .all(|bytes| (0.0..=LONGEST).contains(&bytes));
    expect(
        are_lengths && ascends(lengths),
        format_args!("{field}: bytes do not ascend, or are not from 0 to {LONGEST:e}"),
    )
}

/// Whether each one is greater than the one before.
fn ascends<T: PartialOrd>(values: impl Iterator<Item = T>) -> bool {
    values.is_sorted_by(|one, next| one < next)
}

impl Noise {
    /// The ratio at a quantile: between the middles of equal parts, and not beyond them.
    fn ratio(&self, quantile: f64) -> f64 {
        let Some(last) = self.ratios.len().checked_sub(1) else {
            return 1.0;
        };
        let place = (quantile * self.ratios.len() as f64 - 0.5).clamp(0.0, last as f64);
        let at = (place as usize).min(last.saturating_sub(1));
        let (left, right) = (self.ratios[at], self.ratios[(at + 1).min(last)]);
        left + (right - left) * (place - at as f64)
    }
}

impl Point {
    /// For a longer message, where only one length was measured: in proportion.
    fn stretched(&self, bytes: f64) -> Point {
        let factor = if self.bytes > 0.0 {
            bytes / self.bytes
        } else {
            1.0
        };
        let times = |estimate: Estimate| Estimate {
            value: estimate.value * factor,
            low: estimate.low * factor,
            high: estimate.high * factor,
        };
        Point {
            bytes,
            send_ns: times(self.send_ns),
            receive_ns: times(self.receive_ns),
            gap_ns: times(self.gap_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(bytes: f64, ns: f64) -> Point {
        Point {
            bytes,
            send_ns: Estimate::exact(ns / 2.0),
            receive_ns: Estimate::exact(ns / 4.0),
            gap_ns: Estimate::exact(ns),
        }
    }

    #[test]
    fn curves_are_linear_between_points_and_go_on_behind_the_last() {
        let mut network = crate::testing::switched(2);
        let tcp = network.transports.get_mut("tcp").unwrap();
        tcp.points = vec![gap(0.0, 10.0), gap(100.0, 20.0), gap(1000.0, 200.0)];
        let at = |bytes| tcp.at(bytes).gap_ns.value;
        let expected = [
            (0.0, 10.0),
            (50.0, 15.0),
            (100.0, 20.0),
            (550.0, 110.0),
            (2000.0, 400.0),
        ];
        for (bytes, ns) in expected {
            assert!((at(bytes) - ns).abs() < 1e-9, "{bytes}: {}", at(bytes));
        }
        assert_eq!(tcp.at(50.0).send_ns.value, 7.5);
    }

    #[test]
    fn what_varies_by_as_much_for_all_lengths_does_so_between_them_too() {
        let mut network = crate::testing::switched(2);
        let tcp = network.transports.get_mut("tcp").unwrap();
        tcp.latencies = vec![Latency::constant(0, Estimate::exact(0.0))];
        tcp.points = vec![gap(0.0, 100.0), gap(1000.0, 1100.0)];
        let noise = |bytes, ratios: [f64; 3]| Noise {
            bytes,
            ratios: ratios.to_vec(),
        };
        // One of three takes 50 ns longer, whatever its length, or half as long again.
        tcp.noise = vec![noise(0.0, [1.0, 1.0, 1.5]), noise(900.0, [1.0, 1.0, 1.05])];
        for bytes in [0.0, 300.0, 900.0] {
            let late_ns = tcp.deviation_ns(bytes, 0.9);
            assert!((late_ns - 50.0).abs() < 1e-9, "{bytes}: {late_ns}");
        }
        assert!((tcp.deviation_ns(1900.0, 0.9) - 100.0).abs() < 1e-9);
        assert_eq!(tcp.deviation_ns(300.0, 0.5), 0.0);
        assert!((tcp.deviation_ns(300.0, 0.75) - 37.5).abs() < 1e-9);
        tcp.noise.clear();
        assert_eq!(tcp.deviation_ns(300.0, 0.9), 0.0);
    }

    #[test]
    fn ratios_lie_between_the_middles_of_parts() {
        let of_three = Noise {
            bytes: 0.0,
            ratios: vec![1.0, 2.0, 4.0],
        };
        let ratios = [0.0, 1.0 / 6.0, 1.0 / 3.0, 0.5, 5.0 / 6.0, 1.0]
            .map(|quantile| of_three.ratio(quantile));
        for (ratio, expected) in ratios.into_iter().zip([1.0, 1.0, 1.5, 2.0, 4.0, 4.0]) {
            assert!((ratio - expected).abs() < 1e-9, "{ratios:?}");
        }
        let alone = Noise {
            bytes: 0.0,
            ratios: vec![3.0],
        };
        assert_eq!(alone.ratio(0.3), 3.0);
    }
}
