//! Networks that lose, shrink, complain and vanish.

use std::time::Duration;

use sabani_tests::{Actor, Command, Pair, Path, Reply, Setup};

use crate::{actor, couple};

fn on(pair: &Pair, setups: [Setup; 2]) -> (Actor, Actor) {
    couple(Some((&pair.left, &pair.right)), setups)
}

fn ends() -> [Setup; 2] {
    [
        Setup::new(0, "10.77.0.1:7000"),
        Setup::new(1, "10.77.0.2:7000"),
    ]
}

/// Streams both ways, small and large, and says how many packets were found lost.
fn stream(left: &mut Actor, right: &mut Actor) -> u64 {
    let sizes: Vec<usize> = (0..2_000)
        .map(|number| [10, 200, 2_000, 30_000][number % 4])
        .chain([8 << 20; 2])
        .collect();
    left.begin_sending(1, 0, &sizes);
    right.expect(0, 0, &sizes);
    left.done();
    right.begin_sending(0, 0, &sizes);
    left.expect(1, 0, &sizes);
    right.done();
    left.lost_nobody();
    right.lost_nobody();
    left.flow(1).packets_lost + right.flow(0).packets_lost
}

/// Loses packets at random where they arrive; `offload` decides whether they go in trains.
fn loses(per_thousand: u32, offload: bool) {
    let Some(pair) = Pair::new(1_500) else { return };
    for host in [&pair.left, &pair.right] {
        if !offload {
            host.segment_in_software();
        }
        host.drop_arriving(&format!(
            "meta l4proto udp numgen random mod 1000 < {per_thousand}"
        ));
    }
    let (mut left, mut right) = on(&pair, ends());
    assert!(stream(&mut left, &mut right) > 0, "nothing was lost");
}

#[test]
fn one_packet_in_a_hundred_is_lost() {
    loses(10, false);
}

#[test]
fn five_packets_in_a_hundred_are_lost() {
    loses(50, false);
}

#[test]
fn whole_trains_are_lost() {
    loses(20, true);
}

#[test]
fn the_path_shrinks_silently() {
    let Some(path) = Path::new(1_500) else { return };
    let setups = [Setup::new(0, "10.77.1.1:0"), Setup::new(1, "10.77.2.1:0")];
    let (mut left, mut right) = couple(Some((&path.left, &path.right)), setups);
    // As many as take longer than it takes to shrink the path on a busy machine.
    let sizes = [256 << 10; 600];
    left.send(1, 0, &sizes[..4]);
    right.expect(0, 0, &sizes[..4]);
    assert_eq!(left.flow(1).datagram_bytes, 1_472);
    left.begin_sending(1, 4, &sizes);
    right.expect(0, 4, &sizes[..10]);
    path.shrink(1_280);
    right.expect(0, 14, &sizes[10..]);
    left.done();
    let datagram = left.flow(1).datagram_bytes;
    assert!(datagram <= 1_280 - 28, "{datagram}");
    left.lost_nobody();
    right.lost_nobody();
}

#[test]
fn the_path_shrinks_while_nothing_is_sent() {
    let Some(path) = Path::new(1_500) else { return };
    let setups = [Setup::new(0, "10.77.1.1:0"), Setup::new(1, "10.77.2.1:0")];
    let (mut left, mut right) = couple(Some((&path.left, &path.right)), setups);
    left.track(1, 0, &[1 << 20; 4]);
    right.expect(0, 0, &[1 << 20; 4]);
    path.shrink(1_280);
    // A full packet or less than one: both must get through.
    left.track(1, 4, &[1_024, 10, 100_000, 1 << 20]);
    right.expect(0, 4, &[1_024, 10, 100_000, 1 << 20]);
    left.lost_nobody();
}

#[test]
fn a_device_that_refuses_large_packets_for_ever_blocks_nobody() {
    let Some(pair) = Pair::new(1_500) else { return };
    // Towards a smaller far end, veth has "no buffers" rather than "message too long".
    pair.right.shell("ip link set eth0 mtu 1280");
    let (mut left, mut right) = on(&pair, ends());
    left.track(1, 0, &[10, 1_024, 100_000, 1 << 20]);
    right.expect(0, 0, &[10, 1_024, 100_000, 1 << 20]);
    left.track(1, 4, &[10; 100]);
    right.expect(0, 4, &[10; 100]);
    left.lost_nobody();
    let before = left.cpu();
    left.run(&Command::Sleep { ms: 1_000 });
    let used = left.cpu() - before;
    assert!(used < Duration::from_millis(100), "{used:?}");
}

#[test]
fn replies_come_from_the_address_that_was_contacted() {
    let Some(pair) = Pair::new(1_500) else { return };
    pair.right.shell("ip addr add 10.77.0.3/24 dev eth0");
    // What a plain answer would come from.
    pair.left
        .drop_arriving("ip saddr 10.77.0.2 meta l4proto udp");
    let mut left = actor(Some(&pair.left), &Setup::new(0, "10.77.0.1:0"));
    let mut right = actor(Some(&pair.right), &Setup::new(1, "0.0.0.0:7000"));
    left.knows(1, "10.77.0.3:7000".parse().expect("an address"));
    left.track(1, 0, &[10, 100_000]);
    right.expect(0, 0, &[10, 100_000]);
    right.track(0, 0, &[10, 100_000]);
    left.expect(1, 0, &[10, 100_000]);
}

#[test]
fn replies_come_from_elsewhere_once_the_address_that_was_contacted_is_gone() {
    let Some(pair) = Pair::new(1_500) else { return };
    pair.right.shell("ip addr add 10.77.0.3/24 dev eth0");
    let mut left = actor(Some(&pair.left), &Setup::new(0, "10.77.0.1:0"));
    let mut right = actor(Some(&pair.right), &Setup::new(1, "0.0.0.0:7000"));
    left.knows(1, "10.77.0.3:7000".parse().expect("an address"));
    // Enough that each has a connected socket for the other.
    let sizes = [10; 1_000];
    left.track(1, 0, &sizes);
    right.expect(0, 0, &sizes);
    pair.right.shell("ip addr del 10.77.0.3/24 dev eth0");
    right.track(0, 0, &[10, 100_000]);
    left.expect(1, 0, &[10, 100_000]);
    left.track(1, 0, &[10, 100_000]);
    right.expect(0, 0, &[10, 100_000]);
    left.lost_nobody();
    right.lost_nobody();
}

#[test]
fn one_unreachable_peer_does_not_disturb_another() {
    let Some(pair) = Pair::new(1_500) else { return };
    let (mut left, mut right) = on(&pair, ends());
    // No port, no host, no network.
    for (peer, addr) in [(2, "10.77.0.2:9"), (3, "10.77.0.99:9"), (4, "192.0.2.1:9")] {
        left.knows(peer, addr.parse().expect("an address"));
    }
    let sizes = [50_000; 300];
    right.tell(&Command::Receive {
        count: sizes.len(),
        timeout_ms: 60_000,
    });
    for (first_tag, chunk) in (0..).step_by(10).zip(sizes.chunks(10)) {
        for stranger in 2..=4 {
            // Whether it is taken or refused: it concerns nobody else.
            left.begin_sending(stranger, 0, &[100]);
            left.reply();
        }
        left.send(1, first_tag, chunk);
    }
    match right.reply() {
        Reply::Received(arrivals) => {
            assert_eq!(arrivals.len(), sizes.len());
            assert!(arrivals.iter().all(|arrival| arrival.intact));
        }
        other => panic!("{other:?}"),
    }
    right.lost_nobody();
    let events = left.events();
    let lost = events
        .iter()
        .any(|event| event.starts_with("Lost { peer: PeerId(1)"));
    assert!(!lost, "{events:?}");
}

#[test]
fn who_can_not_be_reached_is_lost_with_the_reason() {
    let Some(pair) = Pair::new(1_500) else { return };
    pair.left.reject_leaving("udp dport 11");
    pair.right.drop_arriving("udp dport 12");
    let mut left = actor(Some(&pair.left), &Setup::new(0, "10.77.0.1:0"));
    let expected = [
        ("10.77.0.2:9", "Some(Network(111))"),
        ("10.77.0.99:9", "Some(Network(113))"),
        ("192.0.2.1:9", "Some(System(101))"),
        ("10.77.0.2:11", "Some(System(1))"),
        ("[fd77::2]:9", "Some(IpVersion { ipv6: true })"),
        // What is said of the others is not said of this one.
        ("10.77.0.2:12", "None"),
    ];
    for (peer, (addr, _)) in (1..).zip(expected) {
        left.knows(peer, addr.parse().expect("an address"));
        left.begin_sending(peer, 0, &[100]);
        left.reply();
    }
    let mut events = Vec::new();
    while events.len() < expected.len() {
        events.extend(left.wait_for("Lost"));
        events.retain(|event| event.starts_with("Lost"));
    }
    for (peer, (addr, obstacle)) in (1..).zip(expected) {
        let lost = format!("Lost {{ peer: PeerId({peer})");
        let event = events.iter().find(|event| event.starts_with(&lost));
        let event = event.expect("all are lost");
        assert!(
            event.contains(&format!("obstacle: {obstacle}")),
            "{addr}: {event}"
        );
    }
    for (peer, cure) in [(3, "ip route get"), (4, "nft list ruleset"), (5, "[::]")] {
        let (first_tag, sizes) = (1, vec![100]);
        let error = left.fails(&Command::Send {
            peer,
            first_tag,
            sizes,
        });
        assert!(error.contains(cure), "{error}");
    }
}

#[test]
fn a_vanished_interface_is_an_error_and_comes_back() {
    let Some(pair) = Pair::new(1_500) else { return };
    let (mut left, mut right) = on(&pair, ends().map(|setup| setup.dead_after_ms(1_000)));
    left.track(1, 0, &[100_000; 10]);
    right.expect(0, 0, &[100_000; 10]);
    pair.cut();
    left.send(1, 10, &[100_000; 5]);
    left.wait_for("Lost { peer: PeerId(1), why: Silent");
    right.wait_for("Lost { peer: PeerId(0), why: Silent");
    let error = left.fails(&Command::Send {
        peer: 1,
        first_tag: 15,
        sizes: vec![10],
    });
    assert!(error.contains("silent"), "{error}");
    pair.mend(1_500);
    left.track(1, 16, &[100_000; 10]);
    right.expect(0, 16, &[100_000; 10]);
}
