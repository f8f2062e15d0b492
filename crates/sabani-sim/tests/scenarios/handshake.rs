//! Connections: made over lost packets, by either side or both, and refused with the reason.

use sabani_proto::seal::{JobKey, Mode};
use sabani_proto::wire::{Kind, RejectReason};
use sabani_proto::{Config, ConnectError, PeerId, PeerLost};
use sabani_sim::{Cable, Faults, HostId, MS, Network, SEC, Switch, US, sealed};

use crate::{A, B, peer_stats, plain, sound};

#[test]
fn any_one_handshake_packet_may_be_lost() {
    for mode in [sealed(), plain()] {
        let kinds = [
            (A, B, Kind::Init, 30 * MS),
            (B, A, Kind::Reply, 30 * MS),
            (A, B, Kind::Data, 120 * MS),
        ];
        for (from, to, kind, most) in kinds {
            for len in [10, 50_000] {
                let mut net = Network::pair(1, &mode);
                net.link(from, to)
                    .drop_first(1, move |packet| packet.kind() == Some(kind));
                net.send(A, B, len);
                net.run_for(most);
                assert_eq!(net.checker.delivered, 1, "{kind:?} lost, {len} bytes");
                sound(net.settle(SEC));
            }
        }
    }
}

#[test]
fn the_whole_first_flight_may_be_lost() {
    let mut net = Network::pair(1, &sealed());
    net.link(A, B)
        .drop_if(|packet| packet.is_data() && packet.at_ns < 5 * MS);
    net.send(A, B, 200_000);
    sound(net.settle(SEC));
    assert_eq!(net.checker.excused, 0);
}

#[test]
fn both_sides_begin_at_once() {
    for mode in [sealed(), plain()] {
        for gap_ns in [0, US, 20 * US, 60 * US, 100 * US, MS] {
            let mut net = Network::pair(1, &mode);
            net.send(A, B, 10_000);
            net.run_for(gap_ns);
            net.send(B, A, 10_000);
            sound(net.settle(SEC));
            assert_eq!(net.checker.excused, 0, "{gap_ns} ns apart");
        }
    }
}

#[test]
fn both_sides_begin_at_once_and_packets_are_lost() {
    for seed in 1..400 {
        let mut net = Network::pair(seed, &plain());
        net.links(|link| {
            link.faults = Faults {
                loss: 0.3,
                duplicate: 0.1,
                late_ns: 30 * MS,
                reorder: 0.1,
                ..Faults::default()
            }
        });
        for _ in 0..5 {
            net.send(A, B, 100);
            net.send(B, A, 100);
        }
        sound(net.settle(60 * SEC));
        // With so much loss a peer may seem dead, but no living connection displaces another.
        for lost in [net.losses(A), net.losses(B)].concat() {
            assert!(
                matches!(lost, PeerLost::Unreachable(_) | PeerLost::Silent { .. }),
                "seed {seed}: {lost:?}"
            );
        }
    }
}

#[test]
fn many_begin_at_once() {
    let mut net = Network::mesh(1, 12, &sealed(), |_| {});
    net.links(|link| link.faults.loss = 0.05);
    for from in net.host_ids() {
        for to in net.host_ids().filter(|&to| to != from) {
            net.send(from, to, 2_000);
        }
    }
    sound(net.settle(5 * SEC));
    assert_eq!(net.checker.excused, 0);
}

#[test]
fn hundreds_begin_at_once_with_one() {
    const HOSTS: u32 = 600;
    let mut net = Network::new(1);
    for id in 0..HOSTS {
        net.add_host(Config::new(PeerId(id), plain()));
    }
    net.star(&Cable::default(), Switch::default());
    let addr = net.host(A).addr;
    for id in 1..HOSTS {
        net.host(HostId(id)).node().add_peer(PeerId(0), addr);
        net.send(HostId(id), A, 100);
    }
    // Sooner than anybody tries again.
    sound(net.settle(15 * MS));
}

/// What host A's attempt to reach B came to.
fn refusal(mut net: Network) -> PeerLost {
    net.send_as(A, B, 0, 100, true);
    sound(net.settle(10 * SEC));
    assert_eq!(net.checker.delivered, 0);
    let losses = net.losses(A);
    assert_eq!(losses.len(), 1, "{losses:?}");
    losses[0].clone()
}

fn two(first: Mode, second: Mode, adjust: impl Fn(&mut Config)) -> Network {
    let mut net = Network::new(1);
    net.add_host(Config::new(PeerId(0), first));
    let mut config = Config::new(PeerId(1), second);
    adjust(&mut config);
    net.add_host(config);
    net.introduce();
    net
}

fn reason(lost: &PeerLost) -> Option<RejectReason> {
    match lost {
        PeerLost::Unreachable(ConnectError::Rejected { reason, .. }) => Some(*reason),
        _ => None,
    }
}

#[test]
fn refusals_name_the_reason() {
    let other = Mode::Sealed(JobKey::from_bytes([8; JobKey::LEN]).into());
    let wrong_key = refusal(two(sealed(), other, |_| {}));
    assert_eq!(reason(&wrong_key), Some(RejectReason::Key));
    assert!(wrong_key.to_string().contains("another job key"));

    let wrong_mode = refusal(two(plain(), sealed(), |_| {}));
    assert_eq!(reason(&wrong_mode), Some(RejectReason::Mode));
    assert!(
        wrong_mode
            .to_string()
            .contains("give this node the job key")
    );
    let wrong_mode = refusal(two(sealed(), plain(), |_| {}));
    assert_eq!(reason(&wrong_mode), Some(RejectReason::Mode));

    let wrong_peer = refusal(two(sealed(), sealed(), |config| config.id = PeerId(7)));
    assert_eq!(reason(&wrong_peer), Some(RejectReason::WrongPeer));

    let stranger = |adjust: fn(&mut Config)| {
        let mut net = Network::new(1);
        net.add_host(Config::new(PeerId(0), sealed()));
        let mut config = Config::new(PeerId(1), sealed());
        adjust(&mut config);
        net.add_host(config);
        net.introduce_to(A);
        refusal(net)
    };
    let unwanted = stranger(|config| config.accept_unknown = false);
    assert_eq!(reason(&unwanted), Some(RejectReason::Stranger));
    let no_room = stranger(|config| config.max_peers = 0);
    assert_eq!(reason(&no_room), Some(RejectReason::Full));
}

#[test]
fn nobody_there() {
    let mut net = Network::pair(1, &sealed());
    net.crash(B);
    let lost = refusal(net);
    assert!(
        matches!(lost, PeerLost::Unreachable(ConnectError::NoAnswer { .. })),
        "{lost:?}"
    );
}

#[test]
fn a_peer_that_starts_late_is_found() {
    let mut net = Network::pair(1, &sealed());
    net.crash(B);
    net.send(A, B, 5_000);
    net.run_for(3 * SEC);
    net.restart(B, false);
    sound(net.settle(2 * SEC));
    assert_eq!(net.checker.delivered, 1);
}

#[test]
fn keys_may_be_rotated() {
    let key = |byte| JobKey::from_bytes([byte; JobKey::LEN]);
    let keys = |current, previous| {
        Mode::Sealed(sabani_proto::seal::JobKeys {
            current: key(current),
            previous: Some(key(previous)),
        })
    };
    for (first, second) in [(keys(1, 2), keys(2, 1)), (keys(2, 1), keys(1, 2))] {
        let mut net = two(first, second, |_| {});
        net.send(A, B, 100);
        net.send(B, A, 100);
        sound(net.settle(SEC));
    }
}

#[test]
fn thousands_of_peers_in_one_table() {
    let mut net = Network::new(1);
    for id in 0..3 {
        net.add_host(Config::new(PeerId(id), sealed()));
    }
    net.introduce();
    for id in 10..4_010 {
        let addr = ([172, 16, (id >> 8) as u8, id as u8], 7_000).into();
        net.host(A).node().add_peer(PeerId(id), addr);
    }
    for _ in 0..10 {
        net.send(HostId(1), A, 200_000);
        net.send(A, HostId(2), 200_000);
    }
    sound(net.settle(SEC));
    assert_eq!(peer_stats(&mut net, A, HostId(1)).peer, PeerId(1));
}
