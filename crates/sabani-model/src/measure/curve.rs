//! PlogP's parameters by the length of a message, between two hosts with traffic both ways.
//!
//! Both hosts send a message and answer the other's with one of the same length, so that each message
//! meets one that goes the other way. A round takes 2 (L + g(m)). g of an empty message and of a full
//! packet are known from elsewhere ([`Gaps`]), and so L of both follows from their rounds.

use std::collections::BTreeMap;

use super::probe::Trip;
use super::statistics::{median, middles, width};
use crate::network::{Estimate, MOST_NOISE, Noise, Point};

/// Lengths to begin with: powers of four, and the largest that fits into one packet of Ethernet.
const FIRST: [usize; 9] = [0, 64, 256, 1_024, PACKET, 4_096, 16_384, 65_536, 1 << 20];
/// The length of a message that fills one packet of Ethernet.
pub const PACKET: usize = 1_400;
/// A curve is bent if a point is off the line between its neighbours by this part of it.
const BENT: f64 = 0.05;
/// Most lengths.
const MOST: usize = 18;
/// An interval is narrow enough if it is this part of the value.
const PRECISE: f64 = 0.05;
/// A round of all lengths is worth nothing if its sentinel is off the others by this part.
const DRIFT: f64 = 0.25;

/// A length's losses are more than the network's if they are so many times what shorter messages would have lost in as many
/// packets.
const OWN_LOSSES: f64 = 5.0;

/// All trips of one round, by length; the sentinel's are those of empty messages.
pub type Round = BTreeMap<usize, Tries>;

/// Trips of one length, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Tries {
    /// All of them.
    pub trips: Vec<Trip>,
    /// Packets that were lost meanwhile.
    pub lost_packets: u64,
}

/// g of messages that are not longer than a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaps {
    /// g(0).
    pub empty_ns: f64,
    /// g of [`PACKET`] bytes.
    pub packet_ns: f64,
}

/// What was seen of messages of all lengths.
#[derive(Debug, Default)]
pub struct Curve {
    rounds: Vec<Round>,
}

impl Curve {
    /// Lengths to try in the next round: those tried so far, and some between where the curve bends.
    pub fn lengths(&self) -> Vec<usize> {
        let times = self.round_times();
        if times.is_empty() {
            return FIRST.to_vec();
        }
        let mut lengths: Vec<usize> = times.iter().map(|(bytes, _)| *bytes).collect();
        for around in times.windows(3) {
            let [(left, before), (middle, time), (right, behind)] = around else {
                continue;
            };
            let share = (middle - left) as f64 / (right - left) as f64;
            let line = before.value + (behind.value - before.value) * share;
            let chance = (time.low..=time.high).contains(&line);
            let bent = (time.value - line).abs() > BENT * line && !chance;
            if bent && lengths.len() + 2 <= MOST {
                lengths.extend([left + middle, middle + right].map(|sum| sum / 2));
            }
        }
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }

    /// Adds a round.
    pub fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// Whether all intervals are narrow.
    pub fn is_precise(&self) -> bool {
        let times = self.round_times();
        !times.is_empty() && times.iter().all(|(_, time)| width(*time) <= PRECISE)
    }

    /// Rounds that count: in which empty messages took about as long as in the others.
    fn steady(&self) -> impl Iterator<Item = &Round> {
        let sentinel = |round: &Round| {
            let empty = round.get(&0).map_or(&[][..], |tries| &tries.trips);
            median(&of(empty, |trip| trip.round_ns)).value
        };
        let mut all: Vec<f64> = self.rounds.iter().map(sentinel).collect();
        all.sort_by(f64::total_cmp);
        // Of an even number the lower of the two in the middle: a round of its own, where between two
        // speeds of the machine there is none.
        let usual = all.get(all.len().saturating_sub(1) / 2).copied();
        let usual = usual.unwrap_or_default();
        let steady = move |round: &&Round| (sentinel(round) - usual).abs() <= DRIFT * usual;
        self.rounds.iter().filter(steady)
    }

    /// Rounds that were left out because something had changed meanwhile.
    pub fn unsteady(&self) -> usize {
        self.rounds.len() - self.steady().count()
    }

    /// All that was seen of each length.
    fn tries(&self) -> BTreeMap<usize, Vec<&Tries>> {
        let mut tries: BTreeMap<usize, Vec<&Tries>> = BTreeMap::new();
        for (bytes, more) in self.steady().flatten() {
            tries.entry(*bytes).or_default().push(more);
        }
        tries
    }

    /// All trips of each length.
    fn trips(&self) -> BTreeMap<usize, Vec<Trip>> {
        let tries = self.tries().into_iter();
        tries.map(|(bytes, tries)| (bytes, all(&tries))).collect()
    }

    fn round_times(&self) -> Vec<(usize, Estimate)> {
        let trips = self.trips().into_iter();
        trips
            .map(|(bytes, trips)| (bytes, median(&of(&trips, |trip| trip.round_ns))))
            .collect()
    }

    /// L + g(m) between the two hosts, for one of the lengths tried, or the next longer one; zero if there is none.
    pub fn time_ns(&self, bytes: usize) -> f64 {
        let times = self.round_times();
        let found = times.iter().find(|(tried, _)| *tried >= bytes);
        found.map_or(0.0, |(_, round)| round.value / 2.0)
    }

    /// The gaps if L does not depend on the length and g(0) is this.
    pub fn gaps(&self, empty_ns: f64) -> Gaps {
        Gaps {
            empty_ns,
            packet_ns: empty_ns + self.time_ns(PACKET) - self.time_ns(0),
        }
    }

    /// os(m), or(m), g(m).
    pub fn points(&self, gaps: Gaps) -> Vec<Point> {
        let latency_ns = |bytes: usize| {
            let share = (bytes as f64 / PACKET as f64).min(1.0);
            let empty_ns = self.time_ns(0) - gaps.empty_ns;
            let packet_ns = self.time_ns(PACKET) - gaps.packet_ns;
            (empty_ns + (packet_ns - empty_ns) * share).max(0.0)
        };
        let point = |(bytes, trips): (usize, Vec<Trip>)| {
            let round = median(&of(&trips, |trip| trip.round_ns));
            let send_ns = median(&of(&trips, |trip| trip.send_ns));
            let receive_ns = median(&of(&trips, |trip| trip.receive_ns));
            // A gap is not less than what keeps a processor busy.
            let least = send_ns.value.max(receive_ns.value).max(1.0);
            let gap = |round: f64| (round / 2.0 - latency_ns(bytes)).max(least);
            Point {
                bytes: bytes as f64,
                send_ns,
                receive_ns,
                gap_ns: round.map(gap),
            }
        };
        self.trips().into_iter().map(point).collect()
    }

    /// How much the times of single rounds vary, by length.
    ///
    /// A message that is longer than a port's queue overflows it by itself now and then, which it did beside the
    /// acknowledgements of one that went the other way at the same time. That says nothing about messages of that length
    /// elsewhere, and so rounds in which it did do not count, as long as the others tell the same of what is usual.
    pub fn noise(&self) -> Vec<Noise> {
        const PARTS: usize = 21;
        let (mut lost, mut packets) = (0, 0);
        let of_length = |(bytes, mut tries): (usize, Vec<&Tries>)| {
            let times = |tries: &[&Tries]| of(&all(tries), |trip| trip.round_ns);
            let usual = median(&times(&tries)).value.max(1.0);
            let lost_here: u64 = tries.iter().map(|tries| tries.lost_packets).sum();
            let trips: usize = tries.iter().map(|tries| tries.trips.len()).sum();
            let packets_here = trips * bytes.div_ceil(PACKET).max(1);
            // With one more, for none that was lost is no proof that none ever is.
            let expected = (lost + 1) as f64 * packets_here as f64 / packets.max(1) as f64;
            if lost_here as f64 <= OWN_LOSSES * expected {
                (lost, packets) = (lost + lost_here, packets + packets_here);
            } else {
                let is_whole = |tries: &&Tries| tries.lost_packets == 0;
                let whole: Vec<_> = tries.iter().copied().filter(is_whole).collect();
                if (median(&times(&whole)).value / usual - 1.0).abs() <= PRECISE {
                    tries = whole;
                }
            }
            let ratios = times(&tries).into_iter();
            // A rank that was stopped for some seconds says no more than one that was late.
            let ratios = ratios.map(|time| (time / usual).clamp(0.01, MOST_NOISE));
            let ratios = ratios.collect();
            Noise {
                bytes: bytes as f64,
                ratios: middles(ratios, PARTS),
            }
        };
        self.tries().into_iter().map(of_length).collect()
    }
}

fn all(tries: &[&Tries]) -> Vec<Trip> {
    let trips = tries.iter().flat_map(|tries| &tries.trips);
    trips.copied().collect()
}

fn of(trips: &[Trip], part: impl Fn(&Trip) -> u64) -> Vec<f64> {
    trips.iter().map(|trip| part(trip) as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network with L = 20 µs, g(m) = 1 µs + 10 ns for each byte, and 5 µs more beyond one packet.
    fn trip(bytes: usize) -> Trip {
        let gap_ns = 1_000 + 10 * bytes as u64 + if bytes > 1_400 { 5_000 } else { 0 };
        Trip {
            round_ns: 2 * (20_000 + gap_ns),
            send_ns: 100,
            receive_ns: 200,
        }
    }

    fn tries(trips: Vec<Trip>) -> Tries {
        Tries {
            trips,
            lost_packets: 0,
        }
    }

    fn measured(rounds: usize) -> Curve {
        let mut curve = Curve::default();
        for _ in 0..rounds {
            let lengths = curve.lengths();
            let round = lengths
                .into_iter()
                .map(|bytes| (bytes, tries(vec![trip(bytes); 5])));
            curve.add(round.collect());
        }
        curve
    }

    #[test]
    fn latency_and_gaps_are_found_again() {
        let curve = measured(3);
        assert!(curve.is_precise());
        for point in curve.points(curve.gaps(1_000.0)) {
            let gap_ns = trip(point.bytes as usize).round_ns as f64 / 2.0 - 20_000.0;
            assert!((point.gap_ns.value - gap_ns).abs() < 1.0, "{point:?}");
        }
    }

    #[test]
    fn what_a_packet_takes_longer_than_its_gap_is_latency() {
        let curve = measured(3);
        let gaps = Gaps {
            empty_ns: 1_000.0,
            packet_ns: 8_000.0,
        };
        let points = curve.points(gaps);
        let gap_ns = |bytes: f64| {
            let point = points.iter().find(|point| point.bytes == bytes);
            point.unwrap().gap_ns.value
        };
        assert!((gap_ns(0.0) - 1_000.0).abs() < 1.0);
        assert!((gap_ns(1_400.0) - 8_000.0).abs() < 1.0);
        let longer = trip(65_536).round_ns as f64 / 2.0 - trip(1_400).round_ns as f64 / 2.0;
        assert!((gap_ns(65_536.0) - 8_000.0 - longer).abs() < 1.0);
    }

    #[test]
    fn lengths_are_added_where_the_curve_bends() {
        let curve = measured(2);
        let lengths = curve.lengths();
        let near = lengths.iter().filter(|bytes| (700..5_000).contains(*bytes));
        assert!(near.count() > 3, "{lengths:?}");
        assert!(lengths.len() <= MOST);
    }

    /// Adds the first round once more, with all of it slower.
    fn add_slow(curve: &mut Curve) {
        let slow = |(bytes, tried): (&usize, &Tries)| {
            let slow = tried.trips.iter().map(|trip| Trip {
                round_ns: 2 * trip.round_ns,
                ..*trip
            });
            (*bytes, tries(slow.collect()))
        };
        let round = curve.rounds[0].iter().map(slow).collect();
        curve.add(round);
    }

    #[test]
    fn a_round_in_which_all_was_slower_does_not_count() {
        let mut curve = measured(4);
        add_slow(&mut curve);
        assert_eq!(curve.unsteady(), 1);
        assert!((curve.time_ns(0) - 21_000.0).abs() < 1.0);
    }

    #[test]
    fn of_two_speeds_of_the_machine_the_quicker_one_counts() {
        let mut curve = measured(2);
        add_slow(&mut curve);
        add_slow(&mut curve);
        assert_eq!(curve.unsteady(), 2);
        assert!((curve.time_ns(0) - 21_000.0).abs() < 1.0);
    }

    /// One of eight rounds of these lengths takes half as long again, and loses packets.
    fn with_losses(lost: &[(usize, u64)]) -> Curve {
        let mut curve = measured(8);
        let round = curve.rounds.last_mut().unwrap();
        for &(bytes, lost_packets) in lost {
            let tries = round.get_mut(&bytes).unwrap();
            tries.lost_packets = lost_packets;
            for trip in &mut tries.trips {
                trip.round_ns += trip.round_ns / 2;
            }
        }
        curve
    }

    fn most_noise(curve: &Curve, bytes: usize) -> f64 {
        let noise = curve.noise();
        let of_length = noise.iter().find(|one| one.bytes == bytes as f64);
        of_length
            .unwrap()
            .ratios
            .iter()
            .copied()
            .fold(0.0, f64::max)
    }

    #[test]
    fn a_trip_through_a_rank_that_was_stopped_varies_by_no_more_than_a_file_may_say() {
        let mut curve = measured(1);
        let tries = curve.rounds[0].get_mut(&64).unwrap();
        tries.trips[0].round_ns = 90_000_000_000;
        assert_eq!(most_noise(&curve, 64), MOST_NOISE);
    }

    #[test]
    fn what_overflows_a_queue_by_itself_is_not_noise() {
        let long = 65_536;
        let curve = with_losses(&[(long, 60), (1 << 20, 900)]);
        assert_eq!(most_noise(&curve, long), 1.0);
        assert_eq!(most_noise(&curve, 1 << 20), 1.0);
    }

    /// Nothing else is usual there.
    #[test]
    fn what_overflows_a_queue_nearly_always_is_noise() {
        let long = 65_536;
        let mut curve = with_losses(&[(long, 60), (1 << 20, 900)]);
        let often = curve.rounds.last().unwrap()[&long].clone();
        for round in curve.rounds.iter_mut().skip(2) {
            round.insert(long, often.clone());
        }
        let noise = curve.noise();
        let of_length = noise.iter().find(|one| one.bytes == long as f64).unwrap();
        assert!((of_length.ratios[0] - 1.0 / 1.5).abs() < 0.001);
        assert_eq!(of_length.ratios[10], 1.0);
        assert_eq!(most_noise(&curve, 1 << 20), 1.0);
    }

    #[test]
    fn what_a_network_loses_of_all_lengths_is_noise() {
        let long = 65_536;
        let curve = with_losses(&[(4_096, 1), (16_384, 2), (long, 10)]);
        assert_eq!(most_noise(&curve, long), 1.5);
        assert_eq!(most_noise(&curve, 16_384), 1.5);
        // Nor is one packet a proof.
        assert_eq!(most_noise(&with_losses(&[(long, 1)]), long), 1.5);
    }
}
