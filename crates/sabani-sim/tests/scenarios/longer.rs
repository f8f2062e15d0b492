//! Paths that become longer under a connection.

use sabani_sim::{MS, Network, SEC, US};

use crate::{A, B, peer_stats, plain, sound};

const SHORT_NS: u64 = 250 * US;
const LONG_NS: u64 = 25 * MS;

/// One way takes so long from now on, at 1 Gbit/s.
fn reach(net: &mut Network, delay_ns: u64) {
    net.links(|link| {
        link.delay_ns = delay_ns;
        link.bits_per_second = 1_000_000_000;
        link.queue_bytes = 256 << 10;
    });
}

/// A connected pair that has known the short path for a while.
fn near_pair() -> Network {
    let mut net = Network::pair(1, &plain());
    reach(&mut net, SHORT_NS);
    for _ in 0..8 {
        net.send(A, B, 100);
        net.send(B, A, 100);
        sound(net.settle(SEC));
        net.run_for(150 * MS);
    }
    net
}

/// What each of so many messages of 4 MiB takes, in milliseconds, with half a second between them.
fn times_ms(net: &mut Network, messages: u32) -> Vec<u64> {
    let one = |_| {
        let (delivered, began_ns) = (net.checker.delivered, net.now_ns());
        net.send(A, B, 4 << 20);
        while net.checker.delivered == delivered {
            assert!(net.now_ns() < began_ns + 20 * SEC, "it does not come");
            net.run_for(MS);
        }
        let took_ms = (net.now_ns() - began_ns) / MS;
        net.run_for(500 * MS);
        took_ms
    };
    (0..messages).map(one).collect()
}

/// What the path brings in the long run if it was so from the beginning.
fn usual_ms() -> u64 {
    let mut net = Network::pair(1, &plain());
    reach(&mut net, LONG_NS);
    *times_ms(&mut net, 10).last().unwrap()
}

/// The smallest round trip that the connection had ever had counted anew after each rest: 2,900 ms each, for good.
#[test]
fn a_path_that_becomes_longer_is_as_good_as_one_that_always_was() {
    let mut net = near_pair();
    reach(&mut net, LONG_NS);
    let times = times_ms(&mut net, 20);
    let (last, usual) = (&times[15..], usual_ms());
    assert!(
        last.iter().all(|&ms| ms < usual * 5 / 4),
        "{times:?}, {usual}"
    );
}

/// Half of that lay with the receiver, who kept the old path's round trip.
#[test]
fn a_peer_that_moves_far_away_is_measured_anew() {
    let mut net = near_pair();
    times_ms(&mut net, 1);
    reach(&mut net, LONG_NS);
    net.relocate(A, true);
    let (times, usual) = (times_ms(&mut net, 6), usual_ms());
    assert!(times[0] < usual * 3, "{times:?}, {usual}");
    let then = &times[1..];
    assert!(
        then.iter().all(|&ms| ms < usual * 5 / 4),
        "{times:?}, {usual}"
    );
}

/// What stands in the queue for as long as a flow goes on is its own: taken for a longer path, it would let more be on its
/// way, and the queue grow by that.
#[test]
fn a_long_flow_does_not_take_its_own_queue_for_the_path() {
    let mut net = near_pair();
    net.links(|link| link.bits_per_second = 100_000_000);
    let before = times_ms(&mut net, 3);
    for _ in 0..100 {
        net.send(A, B, 4 << 20);
    }
    // In the midst of it, what has been measured since it began is all that counts.
    net.run_for(30 * SEC);
    let least_us = [(A, B), (B, A)].map(|(at, to)| peer_stats(&mut net, at, to).rtt_min_ns / US);
    sound(net.settle(60 * SEC));
    let after = times_ms(&mut net, 3);
    assert!(least_us.iter().all(|&us| us < 600), "{least_us:?}");
    assert_eq!(before.last(), after.last());
}
