//! Switches that mark packets (ECN): who takes notice keeps queues short, and loses nothing.

use sabani_proto::{Config, Congestion, CreditPolicy};
use sabani_sim::{Cable, HostId, MS, Network, SEC, Switch, US, sealed};

use crate::{A, B, sound};

const NEAR: Cable = Cable {
    bits_per_second: 1_000_000_000,
    delay_ns: 10 * US,
    mtu: 1_472,
};

fn marking(queue_bytes: u64, mark_above: u64) -> Switch {
    Switch {
        queue_bytes,
        mark_above,
        ..Switch::default()
    }
}

/// Rounds of many to one, the first few to find out what the path holds. Returns what the switch has
/// marked, dropped after those, and what the receiver believes of the queue.
fn incast(senders: u32, ecn: bool) -> (u64, u64, u64) {
    const WARM_UP: u32 = 5;
    let mut net = Network::mesh(1, senders + 1, &sealed(), |config| config.ecn = ecn);
    net.star(&NEAR, marking(96 << 10, 24 << 10));
    let port = net.port_to(A).expect("it is in the star");
    let mut before = 0;
    for round in 0..4 * WARM_UP {
        if round == WARM_UP {
            before = net.port(port).link.counters.queue_full;
        }
        for from in 1..=senders {
            net.send(HostId(from), A, (2 << 20) / senders as usize);
        }
        sound(net.settle(10 * SEC));
    }
    let queue = net.host(A).node().stats().credit.queue;
    let counters = net.port(port).link.counters;
    (counters.marked, counters.queue_full - before, queue)
}

#[test]
fn many_to_one_keeps_the_queue_of_a_switch_that_marks_short() {
    for senders in [8, 40] {
        let (marked, dropped, queue) = incast(senders, true);
        let (unmarked, _, others) = incast(senders, false);
        println!("{senders} senders: {marked} marked, {dropped} dropped, {queue} for {others}");
        assert!(marked > 0 && unmarked == 0);
        assert_eq!(dropped, 0);
        assert!(queue < others, "{queue} and {others}");
    }
}

/// A flow under CUBIC over a link in the middle that marks; returns what that has marked, dropped
/// once slow start was over, and the part of the link that the flow got.
fn through_the_middle(change: impl Fn(&mut Config)) -> (u64, u64, f64) {
    const RATE: u64 = 50_000_000;
    const LASTS: u64 = 15 * SEC;
    let mut net = Network::mesh(1, 2, &sealed(), |config| {
        config.congestion = Congestion::Cubic;
        config.credit = CreditPolicy::Shares;
        change(config);
    });
    let between = Cable {
        bits_per_second: RATE,
        delay_ns: 10 * MS,
        ..NEAR
    };
    let link = net.dumbbell(1, &NEAR, &between, &marking(125_000, 40_000));
    for _ in 0..LASTS / SEC * 7 {
        net.send(A, B, 1 << 20);
    }
    net.run_until(2 * SEC);
    let before = net.port(link.rightwards).link.counters.queue_full;
    net.run_until(LASTS);
    sound(net.verdict());
    let counters = net.port(link.rightwards).link.counters;
    let (marked, dropped) = (counters.marked, counters.queue_full - before);
    let bytes = net.host(B).node().stats().counters.bytes_received;
    let part = bytes as f64 * 8.0 / (RATE * LASTS / SEC) as f64;
    println!("{marked} marked, {dropped} dropped, {part:.2} of the link");
    (marked, dropped, part)
}

#[test]
fn congestion_control_slows_down_when_it_hears_of_marks() {
    let (marked, dropped, part) = through_the_middle(|config| config.ecn = true);
    assert!(marked > 0 && dropped == 0);
    assert!(part > 0.8, "{part}");
    let (marked, dropped, _) = through_the_middle(|_| {});
    assert!(marked == 0 && dropped > 0);
}

/// It is for the receiver to want it; the sender need not be told.
#[test]
fn the_receivers_wish_is_enough_and_the_senders_does_nothing() {
    let only = |host: HostId| through_the_middle(move |config| config.ecn = config.id.0 == host.0);
    let (marked, dropped, _) = only(B);
    assert!(marked > 0 && dropped == 0);
    let (marked, dropped, _) = only(A);
    assert!(marked == 0 && dropped > 0);
}
