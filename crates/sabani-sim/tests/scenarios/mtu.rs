//! The path decides how large a datagram may be, and changes its mind.

use sabani_proto::Config;
use sabani_sim::{Cable, HostId, MS, Network, SEC, Switch, US, sealed};

use crate::{A, B, counters, peer_stats, plain, sound, time_to_deliver, warm_pair};

fn datagram_bytes(net: &mut Network) -> usize {
    peer_stats(net, A, B).datagram_bytes
}

fn burst(net: &mut Network, count: usize) {
    for _ in 0..count {
        net.send(A, B, 200_000);
        net.send(A, B, 1_000);
    }
}

#[test]
fn a_path_that_shrinks_silently() {
    for mode in [sealed(), plain()] {
        for shrunk in [1_200, 1_300, 1_452] {
            let mut net = warm_pair(1, &mode);
            assert_eq!(datagram_bytes(&mut net), 1_472);
            burst(&mut net, 20);
            net.run_for(800 * US);
            net.links(|link| link.mtu = shrunk);
            sound(net.settle(2 * SEC));
            burst(&mut net, 5);
            sound(net.settle(SEC));
            let found = datagram_bytes(&mut net);
            assert!((1_200..=shrunk).contains(&found), "{found} of {shrunk}");
            net.links(|link| link.mtu = 1_472);
            net.run_for(601 * SEC);
            burst(&mut net, 5);
            sound(net.settle(SEC));
            assert_eq!(
                datagram_bytes(&mut net),
                1_472,
                "raised again after {shrunk}"
            );
        }
    }
}

#[test]
fn small_messages_survive_a_path_that_shrinks() {
    let mut net = warm_pair(2, &sealed());
    for _ in 0..3_000 {
        net.send(A, B, 300);
    }
    net.run_for(20 * US);
    net.links(|link| link.mtu = 1_200);
    sound(net.settle(2 * SEC));
}

#[test]
fn a_path_that_never_took_full_size() {
    for mtu in [1_200, 1_400] {
        let mut net = Network::pair(1, &sealed());
        net.links(|link| link.mtu = mtu);
        burst(&mut net, 5);
        sound(net.settle(SEC));
        assert!(datagram_bytes(&mut net) <= mtu);
    }
}

#[test]
fn a_way_back_that_never_took_full_size() {
    for mtu in [1_200, 1_400] {
        let mut net = Network::pair(1, &sealed());
        net.link(B, A).mtu = mtu;
        burst(&mut net, 5);
        net.send(B, A, 200_000);
        sound(net.settle(SEC));
        assert!(peer_stats(&mut net, B, A).datagram_bytes <= mtu);
    }
}

#[test]
fn a_path_that_never_took_full_size_delays_the_first_message_by_one_attempt() {
    for (there, back) in [(1_400, 1_400), (1_400, 1_472), (1_472, 1_400)] {
        for seed in 0..20 {
            let mut net = Network::pair(seed, &sealed());
            net.link(A, B).mtu = there;
            net.link(B, A).mtu = back;
            net.send(A, B, 1_000);
            // An attempt is repeated after 10 to 30 ms.
            net.run_for(31 * MS);
            let what = format!("{there} there, {back} back, seed {seed}");
            assert_eq!(counters(&mut net, B).messages_received, 1, "{what}");
        }
    }
}

/// Its first packet was a probe, which does not arrive, and a message waited until that was given up.
#[test]
fn a_path_that_never_took_full_size_does_not_delay_the_first_answer() {
    for (delay_ns, bytes) in [(50 * US, 1), (50 * US, 100_000), (40 * MS, 1)] {
        let mut net = Network::pair(1, &sealed());
        net.links(|link| {
            link.mtu = 1_400;
            link.delay_ns = delay_ns;
        });
        net.send(A, B, 1);
        net.run_for(4 * delay_ns + 35 * MS);
        assert_eq!(net.checker.delivered, 1);
        net.send(B, A, bytes);
        let took_ns = time_to_deliver(&mut net, 2, SEC);
        assert!(
            took_ns < 3 * delay_ns + 2 * MS,
            "{delay_ns}, {bytes}: {took_ns}"
        );
        sound(net.settle(SEC));
    }
}

#[test]
fn a_first_packet_that_is_lost_by_chance_costs_no_size() {
    let mut net = Network::pair(1, &sealed());
    net.links(|link| link.mtu = 0);
    net.send(A, B, 1_000);
    net.run_for(MS);
    net.links(|link| link.mtu = 1_472);
    burst(&mut net, 5);
    sound(net.settle(SEC));
    assert_eq!(datagram_bytes(&mut net), 1_472);
}

#[test]
fn jumbo_frames_are_found_and_used() {
    let mut net = Network::mesh(1, 2, &sealed(), |config: &mut Config| {
        config.max_datagram = 8_972;
    });
    net.links(|link| link.mtu = 8_972);
    burst(&mut net, 20);
    sound(net.settle(SEC));
    assert_eq!(datagram_bytes(&mut net), 8_972);
    let before = counters(&mut net, A).packets_sent;
    burst(&mut net, 10);
    sound(net.settle(SEC));
    assert!(counters(&mut net, A).packets_sent - before < 300);
}

#[test]
fn a_probe_that_fails_harms_nobody() {
    let mut net = Network::mesh(1, 2, &sealed(), |config: &mut Config| {
        config.max_datagram = 8_972;
    });
    for _ in 0..5 {
        burst(&mut net, 5);
        sound(net.settle(SEC));
        net.run_for(20 * MS);
    }
    assert_eq!(datagram_bytes(&mut net), 1_472);
    assert!(net.losses(HostId(0)).is_empty());
}

/// Eight hosts send 64 KiB to one at a time, at 1 Gbit/s through a port of 64 KiB, in rounds; packets that were
/// lost, of a thousand. `mtu`: what each host's cable carries; from the 10th round on the path carries no more
/// than `later`; `bytes` of each message.
fn lost_by_eight(mtu: impl Fn(HostId) -> usize, later: usize, bytes: usize) -> u64 {
    let mut net = Network::mesh(1, 9, &sealed(), |config: &mut Config| {
        config.max_datagram = 8_972;
    });
    let cable = Cable {
        bits_per_second: 1_000_000_000,
        delay_ns: 10 * US,
        mtu: 8_972,
    };
    net.star(&cable, Switch::drop_tail(64 << 10));
    let mut sum = (0, 0);
    for round in 0..40 {
        for from in (1..9).map(HostId) {
            let least = mtu(from).min(if round < 10 { 8_972 } else { later });
            net.link(from, A).mtu = least;
            net.link(A, from).mtu = least;
            net.send(from, A, bytes);
        }
        sound(net.settle(SEC));
        net.run_for(MS);
        // Until then paths are searched, and the fall is found.
        if round == 19 {
            sum = sent_and_lost(&mut net);
        }
    }
    let (sent, lost) = sent_and_lost(&mut net);
    (lost - sum.1) * 1_000 / (sent - sum.0)
}

fn sent_and_lost(net: &mut Network) -> (u64, u64) {
    (1..9).fold((0, 0), |(sent, lost), from| {
        let counters = counters(net, HostId(from));
        (sent + counters.packets_sent, lost + counters.packets_lost)
    })
}

/// Credit is for datagrams of the size that paths carry, whatever the largest may be.
#[test]
fn asking_for_large_datagrams_does_not_overflow_the_port_of_many_to_one() {
    let half = |host: HostId| if host.0 > 4 { 8_972 } else { 1_472 };
    for bytes in [60_000, 65_536] {
        for (what, lost) in [
            ("no path", lost_by_eight(|_| 1_472, 8_972, bytes)),
            ("half of the paths", lost_by_eight(half, 8_972, bytes)),
            ("all paths", lost_by_eight(|_| 8_972, 8_972, bytes)),
            ("no path any more", lost_by_eight(|_| 8_972, 1_472, bytes)),
            (
                "no path at all any more",
                lost_by_eight(|_| 8_972, 1_200, bytes),
            ),
        ] {
            assert!(
                lost <= 20,
                "{lost} of 1,000 where {what} carries them, with {bytes} bytes each"
            );
        }
    }
}
