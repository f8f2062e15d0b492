//! The procedure on a network that answers as the model says.

use std::collections::BTreeMap;

use super::*;
use crate::network::{Estimate, Fit, Network};

/// Bytes per second of each host's link.
const LINK: f64 = 12.5e6;
const LATENCY_NS: f64 = 30e3;
/// What a full port adds to a trip, and what one that is lost takes more.
const DELAY_NS: u64 = 5_000_000;
const REPAIR_NS: u64 = 20_000_000;

fn gap_ns(bytes: usize) -> f64 {
    2e3 + bytes as f64 / LINK * 1e9
}

/// Hosts at one switch: each shares its link evenly among those that it sends to or receives from.
fn answer(probe: &Probe, took_ns: u64) -> Outcome {
    let streams = |flow: &&Flow| matches!(flow.traffic, Traffic::Stream { .. });
    let filled = probe
        .flows
        .iter()
        .any(|flow| !matches!(flow.traffic, Traffic::Trips { .. }));
    let of = |flow: &Flow| {
        let count = |shares: fn(&Flow, &Flow) -> bool| {
            let flows = probe.flows.iter().filter(streams);
            flows.filter(|other| shares(other, flow)).count()
        };
        match flow.traffic {
            Traffic::Stream { lasts_ns, .. } => {
                let sent = count(|other, flow| other.from == flow.from);
                let shares = sent.max(count(|other, flow| other.to == flow.to));
                let every_ns = gap_ns(flow.bytes) * shares as f64;
                let count = (lasts_ns as f64 / every_ns) as u64;
                Seen::Arrivals(
                    (1..=count)
                        .map(|at| (at as f64 * every_ns) as u64)
                        .collect(),
                )
            }
            Traffic::Trips { count } => {
                let round_ns = 2.0 * (LATENCY_NS + gap_ns(flow.bytes));
                let more_ns = |at: usize| match (filled, at % 10) {
                    (false, _) => 0,
                    (true, 9) => DELAY_NS + REPAIR_NS,
                    (true, _) => DELAY_NS,
                };
                let trip = |at| Trip {
                    round_ns: round_ns as u64 + more_ns(at),
                    send_ns: 500,
                    receive_ns: 700,
                };
                Seen::Trips((0..count).map(trip).collect())
            }
        }
    };
    Outcome {
        seen: probe.flows.iter().map(of).collect(),
        lost_packets: u64::from(filled),
        took_ns,
    }
}

fn settings(hosts: usize) -> Settings {
    Settings {
        names: (0..hosts).map(|host| format!("host{host}")).collect(),
        one_host: false,
        transport: "sabani".into(),
        repairs: Repairs::Sabani,
        seed: 1,
        patterns: 36,
        network_ns: u64::MAX,
        copy_bytes_per_s: Estimate::exact(1e10),
        reduce_bytes_per_s: Estimate::exact(5e9),
    }
}

fn measured(settings: Settings, took_ns: u64) -> Measured {
    let mut procedure = Procedure::new(settings);
    while let Some(probe) = procedure.next_probe() {
        procedure.take(&probe, answer(&probe, took_ns));
    }
    procedure.finish().unwrap()
}

#[test]
fn a_switch_is_described_as_it_is() {
    let measured = measured(settings(6), 1_000_000);
    let network = measured.network;
    assert_eq!(Network::from_json(&network.to_json()).unwrap(), network);
    let transport = &network.transports["sabani"];
    let latencies = &transport.latencies;
    assert_eq!(
        latencies.len(),
        1,
        "all hosts are equally far from each other"
    );
    for latency in [latencies[0].empty_ns, latencies[0].packet_ns] {
        assert!(
            (latency.value / LATENCY_NS - 1.0).abs() < 0.02,
            "{latency:?}"
        );
    }
    for point in &transport.points {
        let expected = gap_ns(point.bytes as usize);
        assert!(
            (point.gap_ns.value - expected).abs() < 0.02 * expected + 100.0,
            "{point:?}"
        );
        assert_eq!(
            (point.send_ns.value, point.receive_ns.value),
            (500.0, 700.0)
        );
    }
    assert!(network.graph.groups.is_empty());
    assert!(
        network
            .graph
            .fit
            .is_some_and(|fit| fit.is_good() && fit.patterns <= 20)
    );
    for host in &network.graph.hosts {
        for capacity in [&host.out, &host.into] {
            let value = capacity.bytes_per_s.unwrap().value;
            assert!((0.9 * LINK..1.05 * LINK).contains(&value), "{value}");
        }
        let queue = host.into.queue_bytes.unwrap().value;
        let expected = DELAY_NS as f64 / 1e9 * LINK;
        assert!(
            (queue / expected - 1.0).abs() < 0.1,
            "{queue}, not {expected}"
        );
    }
    let repair = transport.recovery.probe_ns.unwrap().value;
    assert!((repair / REPAIR_NS as f64 - 1.0).abs() < 0.05, "{repair}");
}

#[test]
fn who_lost_nothing_has_seen_no_queue_and_no_repair() {
    let mut procedure = Procedure::new(settings(6));
    while let Some(probe) = procedure.next_probe() {
        let outcome = answer(&probe, 1_000_000);
        let lossless = Outcome {
            lost_packets: 0,
            ..outcome
        };
        procedure.take(&probe, lossless);
    }
    let network = procedure.finish().unwrap().network;
    assert_eq!(network.graph.hosts[0].into.queue_bytes, None);
    let recovery = network.transports["sabani"].recovery;
    assert!(!recovery.seen, "some trips were late, as hosts are");
    let round_ns = recovery.later_ns.value;
    assert_eq!(
        recovery.probe_ns,
        Some(Estimate::exact(2.0 * round_ns + 2e6))
    );
}

/// What waits beyond what keeps a link busy stands in switches.
#[test]
fn what_waits_for_a_host_is_bounded_however_many_flows_it_has() {
    let mut procedure = Procedure::new(settings(64));
    let mut degrees = BTreeMap::new();
    while let Some(probe) = procedure.next_probe() {
        let fills = probe
            .flows
            .iter()
            .any(|flow| matches!(flow.traffic, Traffic::Trips { .. }));
        let flows = probe.flows.iter().filter(|_| !fills);
        let streams = flows.filter_map(|flow| match flow.traffic {
            Traffic::Stream {
                ahead_bytes,
                yields: true,
                ..
            } if flow.bytes > 0 => Some((flow, ahead_bytes)),
            _ => None,
        });
        let mut waits: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for (flow, ahead_bytes) in streams {
            assert!(ahead_bytes >= 2 * flow.bytes);
            let (flows, bytes) = waits.entry(flow.from).or_default();
            *flows += 1;
            *bytes += ahead_bytes;
        }
        for (flows, bytes) in waits.into_values() {
            let most: &mut usize = degrees.entry(flows).or_default();
            *most = bytes.max(*most);
        }
        procedure.take(&probe, answer(&probe, 1));
    }
    assert!(degrees.keys().any(|flows| *flows >= 12), "{degrees:?}");
    assert!(
        degrees.values().all(|bytes| *bytes <= 64 << 10),
        "{degrees:?}"
    );
}

#[test]
fn two_hosts_are_enough() {
    let network = measured(settings(2), 1_000_000).network;
    assert_eq!(Network::from_json(&network.to_json()).unwrap(), network);
    assert!(
        network.graph.hosts[1].into.queue_bytes.is_none(),
        "nobody was there to fill it"
    );
}

#[test]
fn nothing_is_told_of_hosts_that_had_no_time_to_say_anything() {
    let limited = Settings {
        network_ns: 1,
        ..settings(6)
    };
    let mut procedure = Procedure::new(limited);
    while let Some(probe) = procedure.next_probe() {
        procedure.take(&probe, answer(&probe, 1_000));
    }
    assert!(procedure.finish().is_none());
}

#[test]
fn of_two_rounds_at_different_speeds_the_quicker_counts() {
    // Only trips take time, and two rounds of them half of it.
    let limited = Settings {
        network_ns: 30,
        ..settings(6)
    };
    let mut procedure = Procedure::new(limited);
    let mut sentinels = 0;
    while let Some(probe) = procedure.next_probe() {
        let is_trips = matches!(probe.flows[0].traffic, Traffic::Trips { .. });
        let mut outcome = answer(&probe, u64::from(is_trips));
        sentinels += usize::from(is_trips && probe.flows[0].bytes == 0);
        for one in &mut outcome.seen {
            if let Seen::Trips(trips) = one {
                let slower = if sentinels > 1 { 3 } else { 1 };
                trips.iter_mut().for_each(|trip| trip.round_ns *= slower);
            }
        }
        procedure.take(&probe, outcome);
    }
    let measured = procedure.finish().expect("one round counts");
    assert_eq!(measured.unsteady_rounds, 1);
}

/// What is said of a network on which so many of 10 pairs are slow, whoever else sends: as where ways are chosen by hashing.
/// Each probe takes 1 ns.
fn hashed_ways(slow: usize, network_ns: u64) -> Option<Network> {
    let mut procedure = Procedure::new(Settings {
        network_ns,
        ..settings(8)
    });
    while let Some(probe) = procedure.next_probe() {
        let mut outcome = answer(&probe, 1);
        for (flow, seen) in probe.flows.iter().zip(&mut outcome.seen) {
            if let Seen::Arrivals(arrivals) = seen
                && (31 * flow.from + 17 * flow.to) % 10 < slow
            {
                arrivals.truncate(arrivals.len() / 3);
            }
        }
        procedure.take(&probe, outcome);
    }
    Some(procedure.finish()?.network)
}

#[test]
fn a_few_flows_that_are_not_predicted_are_reason_enough_to_try_more() {
    let network = hashed_ways(2, 10_000).unwrap();
    let fit = network.graph.fit.unwrap();
    assert!(fit.error < 0.05 && fit.error_p90 > 0.5, "{fit:?}");
    assert!(fit.patterns > 30, "{fit:?}");
    // Before more is held back, for which the time may not be enough.
    let first = (20..200).step_by(6).find_map(|network_ns| {
        let network = hashed_ways(2, network_ns)?;
        network.graph.hosts[0].into.queue_bytes?;
        network.graph.fit
    });
    let first = first.expect("a queue was found");
    assert!(first.patterns < 24, "{first:?}");
}

#[test]
fn what_was_not_predicted_once_is_said_whenever_the_time_is_over() {
    let fits = (20..200)
        .step_by(6)
        .map(|network_ns| hashed_ways(4, network_ns)?.graph.fit);
    // At first nothing is held back, or one pattern of pairs that are all fast.
    let unseen = |fit: &Option<Fit>| fit.is_none_or(|fit| fit.is_good());
    let seen: Vec<_> = fits.skip_while(unseen).collect();
    assert!(seen.len() > 10, "it is seen {} times", seen.len());
    for fit in seen {
        let fit = fit.expect("with less time it was seen");
        assert!(!fit.is_good() && fit.widening() > 0.3, "{fit:?}");
    }
}

#[test]
fn when_the_time_is_over_what_there_is_counts() {
    let limited = Settings {
        network_ns: 60_000_000_000,
        ..settings(6)
    };
    let measured = measured(limited, 2_000_000_000);
    assert!(measured.network_ns < 64_000_000_000);
    let network = measured.network;
    assert_eq!(Network::from_json(&network.to_json()).unwrap(), network);
}
