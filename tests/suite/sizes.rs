//! Messages of all sizes arrive whole and in order.

use std::env;

use sabani_tests::{Command, Pair, Setup};

use crate::{actor, couple};

const SIZES: [usize; 14] = [
    0,
    1,
    7,
    64,
    1_023,
    1_024,
    1_025,
    1_432,
    9_000,
    65_536,
    300_000,
    1 << 20,
    (5 << 20) + 1,
    64 << 20,
];

/// There and back, so that both sides send and receive each.
fn go_both_ways(hosts: Option<&Pair>, setups: [Setup; 2], sizes: &[usize]) {
    let hosts = hosts.map(|pair| (&pair.left, &pair.right));
    let (mut left, mut right) = couple(hosts, setups);
    right.tell(&Command::Echo { count: sizes.len() });
    for (tag, size) in sizes.iter().enumerate() {
        left.send(1, tag as u64, &[*size]);
        left.expect(1, tag as u64, &[*size]);
    }
    right.done();
    left.lost_nobody();
    right.lost_nobody();
    left.close();
}

fn setups(left: &str, right: &str) -> [Setup; 2] {
    [Setup::new(0, left), Setup::new(1, right)]
}

fn changed(setups: [Setup; 2], change: impl Fn(&mut Setup)) -> [Setup; 2] {
    setups.map(|mut setup| {
        change(&mut setup);
        setup
    })
}

#[test]
fn on_the_loopback_interface() {
    go_both_ways(None, setups("127.0.0.1:0", "127.0.0.1:0"), &SIZES);
}

#[test]
fn plain() {
    let plain = changed(setups("127.0.0.1:0", "127.0.0.1:0"), |setup| {
        setup.sealed = false;
    });
    go_both_ways(None, plain, &SIZES);
}

#[test]
fn without_offload() {
    let cut = changed(setups("127.0.0.1:0", "127.0.0.1:0"), |setup| {
        setup.offload = false;
    });
    go_both_ways(None, cut, &SIZES);
}

#[test]
fn over_ipv6() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: no IPv6 here");
        return;
    }
    go_both_ways(None, setups("[::1]:0", "[::1]:0"), &SIZES);
}

#[test]
fn over_a_wire() {
    let Some(pair) = Pair::new(1_500) else { return };
    go_both_ways(Some(&pair), setups("10.77.0.1:0", "10.77.0.2:0"), &SIZES);
}

#[test]
fn over_a_wire_with_ipv6() {
    let Some(pair) = Pair::new(1_500) else { return };
    go_both_ways(Some(&pair), setups("[fd77::1]:0", "[fd77::2]:0"), &SIZES);
}

#[test]
fn over_a_wire_without_offload_anywhere() {
    let Some(pair) = Pair::new(1_500) else { return };
    pair.left.segment_in_software();
    pair.right.segment_in_software();
    let cut = changed(setups("10.77.0.1:0", "10.77.0.2:0"), |setup| {
        setup.offload = false;
    });
    go_both_ways(Some(&pair), cut, &SIZES);
}

#[test]
fn jumbo_frames_are_found_and_used() {
    let Some(pair) = Pair::new(9_000) else { return };
    let jumbo = changed(setups("10.77.0.1:0", "10.77.0.2:0"), |setup| {
        setup.max_datagram = Some(8_972);
    });
    let (mut left, mut right) = couple(Some((&pair.left, &pair.right)), jumbo);
    left.begin_sending(1, 0, &[1 << 20; 32]);
    right.expect(0, 0, &[1 << 20; 32]);
    left.done();
    assert_eq!(left.flow(1).datagram_bytes, 8_972);
}

#[test]
fn a_jumbo_wish_on_an_ordinary_wire_is_harmless() {
    let Some(pair) = Pair::new(1_500) else { return };
    let jumbo = changed(setups("10.77.0.1:0", "10.77.0.2:0"), |setup| {
        setup.max_datagram = Some(8_972);
    });
    let (mut left, mut right) = couple(Some((&pair.left, &pair.right)), jumbo);
    left.begin_sending(1, 0, &[1 << 20; 32]);
    right.expect(0, 0, &[1 << 20; 32]);
    left.done();
    assert_eq!(left.flow(1).datagram_bytes, 1_472);
}

#[test]
fn one_gigabyte() {
    if env::var_os("SABANI_LONG_TESTS").is_none() {
        println!("skipped: takes 2 GiB of memory; set SABANI_LONG_TESTS to run it");
        return;
    }
    go_both_ways(None, setups("127.0.0.1:0", "127.0.0.1:0"), &[1 << 30]);
}

#[test]
fn from_many_to_one() {
    let mut one = actor(None, &Setup::new(0, "127.0.0.1:0"));
    let mut many: Vec<_> = (1..=6)
        .map(|id| actor(None, &Setup::new(id, "127.0.0.1:0")))
        .collect();
    for (first_tag, sender) in (0..).step_by(1_000).zip(&mut many) {
        sender.knows(0, one.addr());
        sender.begin_sending(0, first_tag, &[100_000; 50]);
    }
    let arrivals = one.receive(6 * 50, sabani_tests::PATIENCE / 2);
    assert_eq!(arrivals.len(), 6 * 50);
    for sender in &mut many {
        sender.done();
    }
    for source in 1..=6_u32 {
        let tags = arrivals.iter().filter(|arrival| arrival.source == source);
        let tags: Vec<_> = tags.map(|arrival| (arrival.tag, arrival.intact)).collect();
        let first = u64::from(source - 1) * 1_000;
        let expected: Vec<_> = (first..first + 50).map(|tag| (tag, true)).collect();
        assert_eq!(tags, expected);
    }
}
