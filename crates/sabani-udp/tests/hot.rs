//! A peer that talks alone gets a connected socket; nobody notices but by the clock.

#![cfg(not(miri))]

use sabani_udp::{Options, RecvBatch, SendOutcome, Socket, Train};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
/// More than makes a peer hot, and more than makes it cold again.
const MANY: u32 = 1_500;

fn bind(addr: &str) -> Socket {
    Socket::bind(addr.parse().unwrap(), &Options::default()).unwrap()
}

fn at(host: &str, socket: &Socket) -> SocketAddr {
    SocketAddr::new(host.parse().unwrap(), socket.local_addr().port())
}

fn send(socket: &mut Socket, train: Train<'_>) {
    let mut report = |_, outcome| assert_eq!(outcome, SendOutcome::Sent);
    socket.send(&[train], &mut report).unwrap();
}

/// What came first: both ends and the datagrams.
fn next(socket: &mut Socket) -> (SocketAddr, Option<IpAddr>, Vec<Vec<u8>>) {
    let mut batch = RecvBatch::new(1);
    loop {
        socket.look_everywhere();
        if socket.recv(&mut batch).unwrap() > 0 {
            break;
        }
        assert!(socket.wait(None, PATIENCE).unwrap().socket, "nothing came");
    }
    let received = batch.received().next().unwrap();
    let (from, to) = (received.from, received.to);
    let datagrams = received.into_datagrams().map(|bytes| bytes.to_vec());
    (from, to, datagrams.collect())
}

/// Sends `MANY` numbered datagrams from one to the other, answered each, and checks both.
fn talk(left: &mut Socket, right: &mut Socket, to: SocketAddr, back: SocketAddr) {
    for number in 0..MANY {
        let bytes = number.to_le_bytes();
        send(left, Train::new(to, 0, &bytes));
        let (from, local, datagrams) = next(right);
        assert_eq!((from, &datagrams[..]), (back, &[bytes.to_vec()][..]));
        let answer = Train {
            from: local,
            ..Train::new(from, 0, &bytes)
        };
        send(right, answer);
        let (from, _, datagrams) = next(left);
        assert_eq!((from, &datagrams[..]), (to, &[bytes.to_vec()][..]));
    }
}

#[test]
fn a_peer_that_talks_alone_gets_a_socket_of_its_own() {
    let (mut left, mut right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let (to, back) = (right.local_addr(), left.local_addr());
    talk(&mut left, &mut right, to, back);
    assert_eq!(left.counters().hot_peers, 1);
    assert_eq!(right.counters().hot_peers, 1);
    assert_eq!(right.counters().datagrams_received, u64::from(MANY));
}

#[test]
fn the_port_stays_taken() {
    let (mut left, mut right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let (to, back) = (right.local_addr(), left.local_addr());
    talk(&mut left, &mut right, to, back);
    let error = Socket::bind(back, &Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
}

#[test]
fn others_are_heard_beside_a_hot_peer_and_take_its_place() {
    let (mut left, mut right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let mut other = bind("127.0.0.1:0");
    let (to, back, third) = (right.local_addr(), left.local_addr(), other.local_addr());
    talk(&mut left, &mut right, to, back);
    talk(&mut other, &mut right, to, third);
    talk(&mut left, &mut right, to, back);
    assert!(right.counters().hot_peers > 1);
}

#[test]
fn trains_of_a_hot_peer_arrive_as_its_datagrams() {
    let (mut left, mut right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let (to, back) = (right.local_addr(), left.local_addr());
    talk(&mut left, &mut right, to, back);
    for round in 0..20_u8 {
        let bytes = vec![round; 14_000];
        send(&mut left, Train::new(to, 1_400, &bytes));
        let mut datagrams = Vec::new();
        while datagrams.len() < 10 {
            datagrams.extend(next(&mut right).2);
        }
        assert_eq!(datagrams, vec![vec![round; 1_400]; 10]);
    }
    if right.capabilities().gro {
        let calls = right.counters().recv_calls - right.counters().empty_polls;
        assert!(calls < u64::from(MANY) + 200, "trains came coalesced again");
    }
}

#[test]
fn whatever_follows_trains_to_a_hot_peer_is_cut_as_it_says() {
    let (mut left, mut right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let (to, back) = (right.local_addr(), left.local_addr());
    talk(&mut left, &mut right, to, back);
    // Twenty of a kind are enough for the socket to be told beforehand how to cut them.
    let kinds = [
        (1_400, 14_000),
        (1_000, 9_500),
        (1_400, 1_000),
        (1_000, 9_500),
        (5_000, 5_000),
        (5_000, 12_000),
    ];
    for (segment, len) in kinds.into_iter().flat_map(|kind| [kind; 20]) {
        let bytes: Vec<_> = (0..len).map(|at| at as u8).collect();
        send(&mut left, Train::new(to, segment, &bytes));
        let mut datagrams = Vec::new();
        while datagrams.iter().map(Vec::len).sum::<usize>() < len {
            datagrams.extend(next(&mut right).2);
        }
        assert!(bytes.chunks(segment).eq(datagrams));
    }
    assert_eq!(left.counters().hot_peers, 1);
}

#[test]
fn a_peer_that_sends_trains_alone_gets_a_socket_of_its_own_and_stays_in_order() {
    let (mut left, mut right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let (to, back) = (right.local_addr(), left.local_addr());
    let mut number = 0_u32;
    let mut send_more = |left: &mut Socket| {
        let datagrams = (number..number + 5).flat_map(|number| number.to_le_bytes().repeat(350));
        send(left, Train::new(to, 1_400, &datagrams.collect::<Vec<_>>()));
        number += 5;
    };
    // Ten are always under way, also when the socket is opened.
    (0..10).for_each(|_| send_more(&mut left));
    let mut came = 0_u32;
    while came < 5 * MANY {
        send_more(&mut left);
        let (from, local, datagrams) = next(&mut right);
        assert_eq!(from, back);
        for datagram in datagrams {
            assert_eq!(datagram, came.to_le_bytes().repeat(350));
            came += 1;
        }
        // Trains go back over it as well.
        let answer = Train {
            from: local,
            ..Train::new(from, 1_400, &[7; 2_800])
        };
        send(&mut right, answer);
        let mut answers = 0;
        while answers < 2 {
            answers += next(&mut left).2.len();
        }
    }
    assert_eq!(right.counters().hot_peers, 1);
    assert_eq!(left.counters().hot_peers, 1);
}

#[test]
fn a_hot_socket_that_somebody_else_still_holds_takes_nothing_any_more() {
    let (mut left, mut right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let (to, back) = (right.local_addr(), left.local_addr());
    talk(&mut left, &mut right, to, back);
    // As a forked child does, which never reads it.
    let _held = right.watch();
    right.keep_together();
    talk(&mut left, &mut right, to, back);
}

#[test]
fn a_hot_socket_is_bound_to_the_address_that_was_contacted() {
    let (mut left, mut right) = (bind("127.0.0.1:0"), bind("0.0.0.0:0"));
    let to = at("127.0.0.7", &right);
    let back = left.local_addr();
    talk(&mut left, &mut right, to, back);
    assert_eq!(right.counters().hot_peers, 1);
    send(&mut left, Train::new(to, 0, b"to whom"));
    assert_eq!(next(&mut right).1, Some(to.ip()));
}

#[test]
fn a_dual_stack_socket_has_hot_peers_of_both_kinds() {
    let Ok(mut right) = Socket::bind("[::]:0".parse().unwrap(), &Options::default()) else {
        eprintln!("skipped: no IPv6 here");
        return;
    };
    for (turn, host) in ["127.0.0.1", "::1"].into_iter().enumerate() {
        let addr = SocketAddr::new(host.parse().unwrap(), 0);
        let Ok(mut left) = Socket::bind(addr, &Options::default()) else {
            continue;
        };
        let (to, back) = (at(host, &right), left.local_addr());
        talk(&mut left, &mut right, to, back);
        assert_eq!(left.counters().hot_peers, 1);
        assert!(right.counters().hot_peers > turn as u64);
    }
}

#[test]
fn who_watches_the_descriptor_gets_everything_there() {
    let (mut left, mut right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let (to, back) = (right.local_addr(), left.local_addr());
    right.keep_together();
    talk(&mut left, &mut right, to, back);
    assert_eq!(right.counters().hot_peers, 0);
}

#[test]
fn a_hot_peer_that_is_gone_is_hinted_at() {
    let (mut left, mut right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let (to, back) = (right.local_addr(), left.local_addr());
    talk(&mut left, &mut right, to, back);
    drop(right);
    let (mut hints, mut batch) = (Vec::new(), RecvBatch::new(1));
    while hints.is_empty() {
        send(&mut left, Train::new(to, 0, b"still there?"));
        left.wait(None, PATIENCE).unwrap();
        left.look_everywhere();
        left.recv(&mut batch).unwrap();
        left.take_icmp_hints(&mut hints);
    }
    assert_eq!(hints[0].to, to);
}
