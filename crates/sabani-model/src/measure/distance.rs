//! Messages that are not longer than a packet: what one takes of a host's link, and how far hosts are from
//! each other.
//!
//! g of such messages is not what a stream shows, in which a transport packs many into a packet. It shows
//! where a host talks to many others at once, each of which waits for an answer: then its link is full of
//! packets that go to different hosts.

use std::collections::BTreeMap;

use sabani_collective::Collective;

use super::curve::{Curve, Gaps, PACKET};
use super::patterns::Patterns;
use super::probe::{Flow, Probe, Seen, Traffic};
use super::statistics::median;
use crate::network::{Latency, Network, Transport};
use crate::route::Routes;
use crate::task::Task;

/// Pairs of hosts are drawn so many times that all hosts have one.
const MATCHINGS: usize = 4;
/// Trips of each length between two hosts.
const TRIPS: usize = 10;
/// A host talks to so many others at most at once.
const CROWD: usize = 8;
/// The hosts that do, one after the other: those between which longer messages are measured.
const HUBS: [usize; 2] = [0, 1];
/// A link is full if trips take so many times as long as if nothing else were under way.
const FULL: f64 = 1.5;

/// What was seen.
#[derive(Debug, Default)]
pub struct Distances {
    /// For each length and pair of hosts that had the network nearly to themselves: a trip.
    apart: Vec<(usize, (usize, usize), f64)>,
    /// For each length: trips of a host that talked to many, and their rate.
    crowds: Vec<(usize, Crowd)>,
}

#[derive(Clone, Copy, Debug)]
struct Crowd {
    round_ns: f64,
    /// The time between two messages of its link.
    gap_ns: f64,
}

/// Trips between pairs of hosts that have the network nearly to themselves.
pub fn apart(patterns: &mut Patterns) -> Vec<Probe> {
    let probe = |bytes| {
        // Every other pair of a circle: each host is in one of them at most.
        let circle = patterns.permutation();
        let (pairs, _) = circle.as_chunks::<2>();
        both_ways(bytes, pairs.iter().map(|[pair, _]| *pair))
    };
    [0, PACKET]
        .repeat(MATCHINGS)
        .into_iter()
        .map(probe)
        .collect()
}

/// Trips between one host and many others.
pub fn crowds(hosts: usize) -> Vec<Probe> {
    let crowd = |(bytes, hub)| {
        let others = (0..hosts).filter(move |host| *host != hub).take(CROWD);
        both_ways(bytes, others.map(|other| (hub, other)))
    };
    let hubs = [0, PACKET].map(|bytes| HUBS.map(|hub| (bytes, hub)));
    hubs.concat().into_iter().map(crowd).collect()
}

fn both_ways(bytes: usize, pairs: impl Iterator<Item = (usize, usize)>) -> Probe {
    let flow = |(from, to)| Flow {
        from,
        to,
        bytes,
        traffic: Traffic::Trips { count: TRIPS },
    };
    let flows = pairs.flat_map(|(one, other)| [flow((one, other)), flow((other, one))]);
    Probe {
        flows: flows.collect(),
    }
}

impl Distances {
    /// Adds what came of a probe of [`apart`].
    pub fn add_apart(&mut self, probe: &Probe, seen: &[Seen]) {
        let trips = probe.flows.iter().zip(seen);
        self.apart.extend(
            trips.filter_map(|(flow, seen)| {
                Some((flow.bytes, (flow.from, flow.to), round_ns(seen)?))
            }),
        );
    }

    /// Adds what came of a probe of [`crowds`].
    pub fn add_crowd(&mut self, probe: &Probe, seen: &[Seen]) {
        let rounds: Vec<_> = seen.iter().filter_map(round_ns).collect();
        let crowd = Crowd {
            round_ns: median(&rounds).value,
            gap_ns: 1.0 / rounds.iter().map(|round_ns| 1.0 / round_ns).sum::<f64>(),
        };
        let first = probe.flows.first().filter(|_| !rounds.is_empty());
        self.crowds.extend(first.map(|flow| (flow.bytes, crowd)));
    }

    /// g of short messages; where no link was full, as if L did not depend on the length, with g(0) as a stream
    /// shows it.
    pub fn gaps(&self, curve: &Curve, stream_ns: f64) -> Gaps {
        let empty_ns = self.gap_ns(0).unwrap_or(stream_ns);
        let gaps = curve.gaps(empty_ns);
        let packet_ns = self.gap_ns(PACKET).unwrap_or(gaps.packet_ns);
        Gaps {
            packet_ns: packet_ns.clamp(empty_ns, gaps.packet_ns.max(empty_ns)),
            ..gaps
        }
    }

    /// Of the slower one of the hosts that talked to many.
    fn gap_ns(&self, bytes: usize) -> Option<f64> {
        let apart = self.apart.iter().filter(|(length, ..)| *length == bytes);
        let rounds: Vec<_> = apart.map(|(.., round_ns)| *round_ns).collect();
        let least_ns = FULL * median(&rounds).value;
        let crowds = self.crowds.iter().filter(|(length, _)| *length == bytes);
        let full = crowds.filter(|(_, crowd)| crowd.round_ns >= least_ns);
        full.map(|(_, crowd)| crowd.gap_ns).reduce(f64::max)
    }

    /// L: what trips took besides what the links are busy, as most pairs have it that are as far apart.
    pub fn latencies(
        &self,
        curve: &Curve,
        network: &Network,
        transport: &Transport,
    ) -> Vec<Latency> {
        let hosts = network.graph.hosts.len();
        let task = Task::new(Collective::Barrier, hosts, 0, network);
        let routes = Routes::new(network, transport, &task, &mut |estimate| estimate.value);
        let first = [0, PACKET].map(|bytes| (bytes, (0, 1), 2.0 * curve.time_ns(bytes)));
        let mut seen: BTreeMap<usize, [Vec<f64>; 2]> = BTreeMap::new();
        for (bytes, (from, to), round_ns) in self.apart.iter().copied().chain(first) {
            let busy_ns = routes.alone_ns(from, to, &routes.cost(bytes));
            let of_class = seen.entry(routes.trunks(from, to)).or_default();
            of_class[usize::from(bytes > 0)].push((round_ns / 2.0 - busy_ns).max(0.0));
        }
        let whole = seen
            .into_iter()
            .filter(|(_, both)| !both.iter().any(Vec::is_empty));
        let latency = |(trunks, [empty, packet]): (usize, [Vec<f64>; 2])| Latency {
            trunks,
            empty_ns: median(&empty),
            packet_ns: median(&packet),
        };
        whole.map(latency).collect()
    }
}

/// The median time of trips there and back.
fn round_ns(seen: &Seen) -> Option<f64> {
    match seen {
        Seen::Trips(trips) if !trips.is_empty() => {
            let rounds: Vec<_> = trips.iter().map(|trip| trip.round_ns as f64).collect();
            Some(median(&rounds).value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Trip;
    use crate::measure::curve::Tries;

    fn seen(rounds_ns: &[u64]) -> Vec<Seen> {
        let trips = |&round_ns: &u64| {
            Seen::Trips(vec![
                Trip {
                    round_ns,
                    ..Trip::default()
                };
                TRIPS
            ])
        };
        rounds_ns.iter().map(trips).collect()
    }

    /// Trips of empty messages that take 20 µs alone, and so long between a host and two others.
    fn gaps(crowd_ns: u64) -> Gaps {
        let mut distances = Distances::default();
        let pair = both_ways(0, [(0, 1)].into_iter());
        distances.add_apart(&pair, &seen(&[20_000; 2]));
        let crowd = both_ways(0, [(0, 1), (0, 2)].into_iter());
        distances.add_crowd(&crowd, &seen(&[crowd_ns; 4]));
        distances.gaps(&Curve::default(), 500.0)
    }

    #[test]
    fn a_full_link_shows_what_a_message_takes_of_it() {
        // Each of four flows moves one message each way in 60 µs.
        assert!((gaps(60_000).empty_ns - 15_000.0).abs() < 1.0);
    }

    #[test]
    fn a_link_that_is_not_full_shows_nothing_and_a_stream_does() {
        assert_eq!(gaps(25_000).empty_ns, 500.0);
    }

    #[test]
    fn latency_is_what_most_pairs_have_that_are_as_far_apart() {
        let mut network = crate::testing::switched(6);
        network.graph.groups = vec![crate::network::Group::new("near", vec![0, 1])];
        let tcp = network.transports["tcp"].clone();
        let gap_ns = |bytes: usize| tcp.at(bytes as f64).gap_ns.value;
        let mut distances = Distances::default();
        for bytes in [0, PACKET] {
            let one_way = |latency_ns: f64| (2.0 * (latency_ns + gap_ns(bytes))).round() as u64;
            let pairs = [(0, 1), (2, 3), (0, 2), (1, 4), (3, 5)];
            let probe = both_ways(bytes, pairs.into_iter());
            let [near, far] = [10e3, 40e3].map(one_way);
            let rounds = [near, near, far, far, near].map(|round_ns| [round_ns; 2]);
            distances.add_apart(&probe, &seen(&rounds.concat()));
        }
        let mut curve = Curve::default();
        let alone = |bytes| {
            let round_ns = 2.0 * (10e3 + gap_ns(bytes));
            let Seen::Trips(trips) = seen(&[round_ns as u64]).remove(0) else {
                unreachable!("these are trips");
            };
            let tries = Tries {
                trips,
                lost_packets: 0,
            };
            (bytes, tries)
        };
        curve.add([0, PACKET].map(alone).into());
        let latencies = distances.latencies(&curve, &network, &tcp);
        let found: Vec<_> = latencies
            .iter()
            .map(|one| (one.trunks, one.packet_ns.value.round()))
            .collect();
        assert_eq!(found, [(0, 10e3), (1, 40e3)]);
    }
}
