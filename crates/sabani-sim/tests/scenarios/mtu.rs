//! The path decides how large a datagram may be, and changes its mind.

use sabani_proto::Config;
use sabani_sim::{HostId, MS, Network, SEC, US, sealed};

use crate::{A, B, counters, peer_stats, plain, sound, warm_pair};

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
