//! Lost packets come back soon: the last one of a message by a POLL, one in the middle by the gap
//! that it leaves; and nothing goes again without need.

use sabani_proto::wire::{Frame, Prelude};
use sabani_proto::{LinkState, PeerId};
use sabani_sim::{Faults, MS, Network, Packet, SEC, US, sealed};

use crate::{A, B, counters, peer_stats, plain, sound, time_to_deliver, warm_pair};

/// The packet with the end of a body.
fn ends_a_body(packet: &Packet<'_>) -> bool {
    packet.has_frame(|frame| match frame {
        Frame::Fragment(fragment) => fragment.offset + fragment.data.len() as u64 == fragment.total,
        _ => false,
    })
}

/// How long the sender waits before it asks again.
fn patience_ns(net: &mut Network) -> u64 {
    const ACK_DELAY_NS: u64 = 2 * MS;
    let stats = peer_stats(net, A, B);
    stats.rtt_ns + (4 * stats.rtt_variation_ns).max(100 * US) + ACK_DELAY_NS
}

/// A makes a connection to B, and both are at rest.
fn greet(net: &mut Network) {
    let now_ns = net.now_ns();
    net.host(A).node().connect(now_ns, PeerId(B.0)).unwrap();
    net.kick(A);
    net.run_for(SEC);
    assert_eq!(peer_stats(net, B, A).state, LinkState::Open);
}

#[test]
fn a_lost_last_packet_is_asked_for() {
    for seed in 1..4 {
        let mut net = warm_pair(seed, &plain());
        let (patience, rtt) = (patience_ns(&mut net), peer_stats(&mut net, A, B).rtt_ns);
        net.link(A, B).drop_first(1, ends_a_body);
        net.send(A, B, 50_000);
        let took = time_to_deliver(&mut net, 9, SEC);
        let most = patience + 2 * rtt + 50 * US;
        assert!(took <= most, "seed {seed}: {took} ns, expected {most}");
        assert_eq!(net.link(A, B).counters.lost, 1);
        sound(net.settle(SEC));
        let counters = counters(&mut net, A);
        assert_eq!((counters.timeouts, counters.polls), (0, 1), "seed {seed}");
    }
}

#[test]
fn a_lost_small_message_is_asked_for() {
    for mode in [sealed(), plain()] {
        let mut net = warm_pair(1, &mode);
        let (patience, rtt) = (patience_ns(&mut net), peer_stats(&mut net, A, B).rtt_ns);
        net.link(A, B).drop_first(1, |_| true);
        net.send(A, B, 100);
        let took = time_to_deliver(&mut net, 9, SEC);
        assert!(took <= patience + 2 * rtt + 50 * US, "{took} ns");
        sound(net.settle(SEC));
        assert_eq!(counters(&mut net, A).timeouts, 0);
    }
}

#[test]
fn a_lost_first_flight_is_asked_for_as_soon_as_the_handshake_allows() {
    for mode in [sealed(), plain()] {
        let mut net = Network::pair(1, &mode);
        net.link(A, B).drop_first(1, |packet| packet.is_data());
        net.send(A, B, 100);
        let took = time_to_deliver(&mut net, 1, SEC);
        assert!(took <= 10 * MS, "{took} ns");
        assert_eq!(net.link(A, B).counters.lost, 1);
        sound(net.settle(SEC));
        assert_eq!(counters(&mut net, A).timeouts, 0);
    }
}

#[test]
fn a_first_flight_lost_after_a_lost_reply_waits_no_longer_than_the_handshake_took() {
    for seed in 1..=20 {
        let mut net = Network::pair(seed, &sealed());
        net.link(B, A).drop_first(1, |_| true);
        net.link(A, B).drop_first(2, |packet| packet.is_data());
        net.send(A, B, 100);
        // The Init goes again within 30 ms, and half as long once more is waited for an answer.
        let took = time_to_deliver(&mut net, 1, SEC);
        assert_eq!(net.link(A, B).counters.lost, 2);
        assert!(took <= 30 * MS * 5 / 2 + MS, "{took} ns");
        sound(net.settle(SEC));
        assert_eq!(counters(&mut net, A).timeouts, 0);
    }
}

#[test]
fn the_side_that_was_greeted_knows_the_round_trip_too() {
    for mode in [sealed(), plain()] {
        let mut net = Network::pair(1, &mode);
        greet(&mut net);
        let rtt = peer_stats(&mut net, B, A).rtt_ns;
        let wire = 2 * net.link(A, B).delay_ns;
        assert!((wire..wire + 20 * US).contains(&rtt), "{rtt} ns");
        net.link(B, A).drop_first(1, |_| true);
        net.send(B, A, 100);
        let took = time_to_deliver(&mut net, 1, SEC);
        assert!(took <= 10 * MS, "{took} ns");
        sound(net.settle(SEC));
        assert_eq!(counters(&mut net, B).timeouts, 0);
    }
}

#[test]
fn an_ambiguous_handshake_says_nothing_of_the_round_trip() {
    // The second Init is answered again, and the third message may be for either answer.
    let mut net = Network::pair(1, &sealed());
    net.links(|link| link.delay_ns = 30 * MS);
    greet(&mut net);
    assert_eq!(peer_stats(&mut net, B, A).rtt_ns, 0);
    // The third message is lost: what comes next has waited for something else.
    let mut net = Network::pair(1, &sealed());
    net.link(A, B).drop_first(1, |packet| packet.is_data());
    greet(&mut net);
    assert_eq!(peer_stats(&mut net, B, A).rtt_ns, 0);
}

#[test]
fn a_lost_acknowledgement_costs_one_poll() {
    for mode in [sealed(), plain()] {
        let mut net = warm_pair(1, &mode);
        let before = counters(&mut net, A);
        net.link(B, A).drop_first(1, |_| true);
        net.send(A, B, 100);
        sound(net.settle(20 * MS));
        let after = counters(&mut net, A);
        assert_eq!(after.polls - before.polls, 1);
        assert_eq!(after.packets_sent - before.packets_sent, 2);
        assert_eq!((after.timeouts, after.packets_lost), (0, 0));
    }
}

#[test]
fn the_poll_itself_may_be_lost() {
    let mut net = warm_pair(1, &sealed());
    net.link(A, B).drop_first(2, |_| true);
    net.send(A, B, 100);
    sound(net.settle(50 * MS));
    assert_eq!(counters(&mut net, A).timeouts, 0);
}

/// Packets from A to B for a message of 200 kB of which the `lost` ones vanish, and its time.
fn with_lost(seed: u64, lost: std::ops::Range<u64>) -> (u64, u64) {
    let mut net = warm_pair(seed, &sealed());
    net.links(|link| link.delay_ns = MS);
    for _ in 0..40 {
        net.send(A, B, 100);
        sound(net.settle(SEC));
    }
    let first = net.link(A, B).counters.entered;
    let delivered = net.checker.delivered;
    net.link(A, B)
        .drop_if(move |packet| lost.contains(&(packet.nth - first)) && packet.bytes.len() > 1_000);
    net.send(A, B, 200_000);
    let took = time_to_deliver(&mut net, delivered + 1, SEC);
    sound(net.settle(SEC));
    assert_eq!(counters(&mut net, A).spurious_losses, 0, "seed {seed}");
    (took, net.link(A, B).counters.entered - first)
}

#[test]
fn a_gap_is_repaired_at_once_and_nothing_else_goes_again() {
    const RTT: u64 = 2 * MS;
    for seed in 1..4 {
        let (clean_ns, clean) = with_lost(seed, 0..0);
        for lost in [50..51, 50..53, 3..30] {
            let count = lost.end - lost.start;
            let (took, packets) = with_lost(seed, lost.clone());
            let most = clean_ns + RTT + RTT / 2;
            assert!(
                took <= most,
                "seed {seed}, {lost:?}: {took} ns, expected {most}"
            );
            let extra = packets - clean;
            assert!(
                (count..=count + 2).contains(&extra),
                "seed {seed}, {lost:?}: {extra} packets more"
            );
        }
    }
}

#[test]
fn a_path_that_only_loses_shows_no_reordering() {
    for seed in 1..5 {
        let mut net = warm_pair(seed, &sealed());
        net.links(|link| link.faults.loss = 0.02);
        for _ in 0..20 {
            net.send(A, B, 300_000);
        }
        sound(net.settle(20 * SEC));
        let counters = counters(&mut net, A);
        assert!(counters.packets_lost > 20);
        assert_eq!(counters.spurious_losses, 0, "seed {seed}: {counters:?}");
    }
}

#[test]
fn reordering_is_learnt() {
    for seed in 1..4 {
        let mut net = warm_pair(seed, &sealed());
        net.links(|link| {
            link.faults = Faults {
                jitter_ns: 10 * US,
                ..Faults::default()
            };
        });
        let mut rounds = Vec::new();
        for _ in 0..10 {
            let before = counters(&mut net, A);
            for _ in 0..5 {
                net.send(A, B, 300_000);
            }
            sound(net.settle(5 * SEC));
            let after = counters(&mut net, A);
            let sent = after.packets_sent - before.packets_sent;
            rounds.push((after.packets_lost - before.packets_lost) as f64 / sent as f64);
        }
        let late: f64 = rounds[5..].iter().sum::<f64>() / 5.0;
        assert!(late < 0.002, "seed {seed}: resent {rounds:?}");
    }
}

#[test]
fn loss_does_not_stall() {
    // At a round trip of 0.2 ms nothing should ever take a retransmission timeout of old.
    for seed in 1..4 {
        let mut net = warm_pair(seed, &sealed());
        net.links(|link| link.faults.loss = 0.05);
        let mut slowest = 0;
        for count in 9..200 {
            net.send(A, B, 1_024);
            slowest = slowest.max(time_to_deliver(&mut net, count, SEC));
        }
        assert!(slowest < 30 * MS, "seed {seed}: {slowest} ns");
    }
}

#[test]
fn old_packets_change_nothing() {
    use std::cell::RefCell;
    use std::rc::Rc;
    for mode in [sealed(), plain()] {
        let mut net = warm_pair(1, &mode);
        let seen = Rc::new(RefCell::new(Vec::new()));
        let sink = seen.clone();
        net.link(A, B).drop_if(move |packet| {
            sink.borrow_mut().push(packet.bytes.to_vec());
            false
        });
        for len in [10, 5_000, 300_000] {
            net.send(A, B, len);
        }
        sound(net.settle(SEC));
        let (packets, before) = (seen.borrow().clone(), net.host(B).node().stats());
        let from = net.host(A).addr;
        for packet in &packets {
            net.inject(from, B, packet.clone());
        }
        net.run_for(50 * MS);
        let after = net.host(B).node().stats();
        let replayed = after.dropped.replayed - before.dropped.replayed;
        assert_eq!(replayed, packets.len() as u64);
        assert_eq!(after.counters.packets_sent, before.counters.packets_sent);
        net.send(A, B, 5_000);
        sound(net.settle(SEC));
        assert!(packets.iter().all(|packet| packet.len() >= Prelude::LEN));
    }
}

/// How much later a message of `bytes` is delivered if its last packet is lost, in round trips of a full packet: after 25
/// such messages whose packets all arrive, over a link of so many bits a second.
fn tail_costs(bits_per_second: u64, delay_ns: u64, bytes: usize) -> f64 {
    let mut net = Network::pair(1, &plain());
    net.links(|link| (link.delay_ns, link.bits_per_second) = (delay_ns, bits_per_second));
    let deliver = |net: &mut Network| {
        let delivered = net.checker.delivered;
        net.send(A, B, bytes);
        let took_ns = time_to_deliver(net, delivered + 1, SEC);
        sound(net.settle(SEC));
        net.run_for(20 * MS);
        took_ns
    };
    let clean_ns = (0..25).map(|_| deliver(&mut net)).last().unwrap();
    let link = net.link(A, B);
    if bytes > 1_200 {
        link.drop_first(1, ends_a_body);
    } else {
        link.drop_first(1, move |packet| packet.bytes.len() > bytes);
    }
    let took_ns = deliver(&mut net);
    assert_eq!(net.link(A, B).counters.lost, 1);
    assert_eq!(counters(&mut net, A).timeouts, 0);
    let packet_ns = 1_514 * 8 * SEC / bits_per_second;
    (took_ns - clean_ns) as f64 / (2 * delay_ns + packet_ns) as f64
}

#[test]
fn a_lost_last_packet_costs_three_round_trips_at_most() {
    for bits_per_second in [1_000_000_000, 10_000_000_000] {
        for delay_ns in [100 * US, 500 * US, 20 * MS] {
            for bytes in [1_000, 4_096, 65_536, 262_144] {
                let trips = tail_costs(bits_per_second, delay_ns, bytes);
                let path = format!("{bits_per_second} bit/s, {delay_ns} ns");
                assert!(trips <= 3.0, "{bytes} bytes, {path}: {trips:.2}");
            }
        }
    }
}
