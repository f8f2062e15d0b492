//! PlogP's parameters by the length of a message, between two hosts with traffic both ways.
//!
//! Both hosts send a message and answer the other's with one of the same length, so that each message
//! meets one that goes the other way. A round takes 2 (L + g(m)); g(0) is what a stream of empty
//! messages takes for each, and so L follows from a round of empty ones.

use std::collections::BTreeMap;

use super::probe::Trip;
use super::statistics::{median, quantiles, width};
use crate::network::{Estimate, Point};

/// Lengths to begin with: powers of four, and the largest that fits into one packet of Ethernet.
const FIRST: [usize; 9] = [0, 64, 256, 1_024, 1_400, 4_096, 16_384, 65_536, 1 << 20];
/// A curve is bent if a point is off the line between its neighbours by this part of it.
const BENT: f64 = 0.08;
/// Most lengths.
const MOST: usize = 18;
/// An interval is narrow enough if it is this part of the value.
const PRECISE: f64 = 0.05;
/// A round of all lengths is worth nothing if its sentinel is off the others by this part.
const DRIFT: f64 = 0.25;

/// All trips of one round, by length; the sentinel's are those of empty messages.
pub type Round = BTreeMap<usize, Vec<Trip>>;

/// What was seen of messages of all lengths.
#[derive(Debug, Default)]
pub struct Curve {
    rounds: Vec<Round>,
    /// g(0), as a stream shows it.
    pub empty_gap_ns: f64,
}

impl Curve {
    /// Lengths to try in the next round: those tried so far, and some between where the curve bends.
    pub fn lengths(&self) -> Vec<usize> {
        let points = self.points();
        if points.is_empty() {
            return FIRST.to_vec();
        }
        let mut lengths: Vec<usize> = points.iter().map(|point| point.bytes as usize).collect();
        for around in points.windows(3) {
            let [left, middle, right] = around else {
                continue;
            };
            let share = (middle.bytes - left.bytes) / (right.bytes - left.bytes);
            let line = left.gap_ns.value + (right.gap_ns.value - left.gap_ns.value) * share;
            let gap = middle.gap_ns;
            let chance = (gap.low..=gap.high).contains(&line);
            let bent = (gap.value - line).abs() > BENT * line && !chance;
            if bent && lengths.len() + 2 <= MOST {
                let between = [left.bytes + middle.bytes, middle.bytes + right.bytes];
                lengths.extend(between.map(|sum| (sum / 2.0) as usize));
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
        let sentinel = |round: &Round| median(&of(round.get(&0), |trip| trip.round_ns)).value;
        let all: Vec<f64> = self.rounds.iter().map(sentinel).collect();
        let usual = median(&all).value;
        let steady = move |round: &&Round| (sentinel(round) - usual).abs() <= DRIFT * usual;
        self.rounds.iter().filter(steady)
    }

    /// Rounds that were left out because something had changed meanwhile.
    pub fn unsteady(&self) -> usize {
        self.rounds.len() - self.steady().count()
    }

    /// All that was seen of each length.
    fn trips(&self) -> BTreeMap<usize, Vec<Trip>> {
        let mut trips: BTreeMap<usize, Vec<Trip>> = BTreeMap::new();
        for (bytes, more) in self.steady().flatten() {
            trips.entry(*bytes).or_default().extend(more);
        }
        trips
    }

    fn round_times(&self) -> Vec<(usize, Estimate)> {
        let trips = self.trips().into_iter();
        trips
            .map(|(bytes, trips)| (bytes, median(&of(Some(&trips), |trip| trip.round_ns))))
            .collect()
    }

    /// L + g(m) for one of the lengths tried, or the next longer one; zero if there is none.
    pub fn time_ns(&self, bytes: usize) -> f64 {
        let times = self.round_times();
        let found = times.iter().find(|(tried, _)| *tried >= bytes);
        found.map_or(0.0, |(_, round)| round.value / 2.0)
    }

    /// L of most pairs of hosts, from what empty messages took between some.
    pub fn latency_ns(&self, rounds_ns: &[f64]) -> Estimate {
        match rounds_ns {
            [] => self.near_latency_ns(),
            _ => self.latency_of(median(rounds_ns)),
        }
    }

    /// L of the pair for which there are curves.
    fn near_latency_ns(&self) -> Estimate {
        let trips = self.trips();
        self.latency_of(median(&of(trips.get(&0), |trip| trip.round_ns)))
    }

    /// L, from what a round of empty messages takes.
    fn latency_of(&self, round: Estimate) -> Estimate {
        let latency = |round: f64| (round / 2.0 - self.empty_gap_ns).max(0.0);
        Estimate {
            value: latency(round.value),
            low: latency(round.low),
            high: latency(round.high),
        }
    }

    /// os(m), or(m), g(m).
    pub fn points(&self) -> Vec<Point> {
        let latency_ns = self.near_latency_ns().value;
        let point = |(bytes, trips): (usize, Vec<Trip>)| {
            let round = median(&of(Some(&trips), |trip| trip.round_ns));
            let send_ns = median(&of(Some(&trips), |trip| trip.send_ns));
            let receive_ns = median(&of(Some(&trips), |trip| trip.receive_ns));
            // A gap is not less than what keeps a processor busy.
            let least = send_ns.value.max(receive_ns.value).max(1.0);
            let gap = |round: f64| (round / 2.0 - latency_ns).max(least);
            Point {
                bytes: bytes as f64,
                send_ns,
                receive_ns,
                gap_ns: Estimate {
                    value: gap(round.value),
                    low: gap(round.low),
                    high: gap(round.high),
                },
            }
        };
        self.trips().into_iter().map(point).collect()
    }

    /// Times of single rounds as parts of the median for their length, as quantiles.
    pub fn noise(&self) -> Vec<f64> {
        const QUANTILES: usize = 21;
        let ratios = self.trips().into_values().flat_map(|trips| {
            let times = of(Some(&trips), |trip| trip.round_ns);
            let usual = median(&times).value.max(1.0);
            times.into_iter().map(move |time| (time / usual).max(0.01))
        });
        quantiles(ratios.collect(), QUANTILES)
    }
}

fn of(trips: Option<&Vec<Trip>>, part: impl Fn(&Trip) -> u64) -> Vec<f64> {
    let trips = trips.into_iter().flatten();
    trips.map(|trip| part(trip) as f64).collect()
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

    fn measured(rounds: usize) -> Curve {
        let mut curve = Curve {
            empty_gap_ns: 1_000.0,
            ..Curve::default()
        };
        for _ in 0..rounds {
            let lengths = curve.lengths();
            let round = lengths
                .into_iter()
                .map(|bytes| (bytes, vec![trip(bytes); 5]));
            curve.add(round.collect());
        }
        curve
    }

    #[test]
    fn latency_and_gaps_are_found_again() {
        let curve = measured(3);
        assert!(curve.is_precise());
        let latency_ns = |rounds_ns: &[f64]| curve.latency_ns(rounds_ns).value;
        assert!((latency_ns(&[]) - 20_000.0).abs() < 1.0);
        let most = latency_ns(&[42_000.0, 92_000.0, 92_000.0]);
        assert!(
            (most - 45_000.0).abs() < 1.0,
            "as most pairs of hosts have it: {most}"
        );
        for point in curve.points() {
            let gap_ns = trip(point.bytes as usize).round_ns as f64 / 2.0 - 20_000.0;
            assert!((point.gap_ns.value - gap_ns).abs() < 1.0, "{point:?}");
        }
    }

    #[test]
    fn lengths_are_added_where_the_curve_bends() {
        let curve = measured(2);
        let lengths = curve.lengths();
        let near = lengths.iter().filter(|bytes| (700..5_000).contains(*bytes));
        assert!(near.count() > 3, "{lengths:?}");
        assert!(lengths.len() <= MOST);
    }

    #[test]
    fn a_round_in_which_all_was_slower_does_not_count() {
        let mut curve = measured(4);
        let slow = |(bytes, trips): (&usize, &Vec<Trip>)| {
            let slow = trips.iter().map(|trip| Trip {
                round_ns: 2 * trip.round_ns,
                ..*trip
            });
            (*bytes, slow.collect())
        };
        let round = curve.rounds[0].iter().map(slow).collect();
        curve.add(round);
        assert_eq!(curve.unsteady(), 1);
        assert!((curve.near_latency_ns().value - 20_000.0).abs() < 1.0);
    }
}
