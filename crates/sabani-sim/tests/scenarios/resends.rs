//! Programs that decide when what was lost goes again (U6).

use sabani_proto::{Limit, PeerId, datagram_cost};
use sabani_sim::{Failure, MS, Network, SEC, US, sealed};

use crate::{A, B, counters, peer_stats, sound, warm_pair};

/// The paper's burst: 100 packets into a window of 50, by a program that asks for resends again and
/// again. Returns how many packets it took, and how many were lost.
fn burst(seed: u64, loss: f64) -> (u64, u64) {
    let mut net = warm_pair(seed, &sealed());
    net.links(|link| link.bits_per_second = 100_000_000);
    let window = 50 * datagram_cost(1_472);
    let now_ns = net.now_ns();
    let receiver = net.host(B).node();
    let fixed = receiver.set_window(now_ns, PeerId(A.0), Some(window));
    fixed.expect("they know each other");
    net.kick(B);
    net.run_for(MS);
    net.hold_resends(A, true);
    net.link(A, B).faults.loss = loss;
    let before = counters(&mut net, A);
    for _ in 0..100 {
        // One of these fills a packet so far that no second one fits.
        net.send(A, B, 1_000);
    }
    for _ in 0..2_000 {
        net.run_for(20 * US);
        net.retransmit_now(A);
    }
    sound(net.settle(SEC));
    let after = counters(&mut net, A);
    let packets = after.packets_sent - before.packets_sent;
    (packets, after.packets_lost - before.packets_lost)
}

#[test]
fn a_program_that_asks_for_resends_all_the_time_melts_nothing() {
    let (packets, lost) = burst(1, 0.0);
    println!("{packets} packets, {lost} lost");
    assert!(packets <= 110, "{packets} packets for 100");
    for seed in 2..12 {
        let (packets, lost) = burst(seed, 0.02);
        println!("{packets} packets, {lost} lost");
        assert!(
            packets <= 110 + lost,
            "{packets} packets for 100, {lost} lost"
        );
    }
}

/// What is lost waits for the program, however long; the connection lives on meanwhile.
#[test]
fn what_is_lost_waits_for_the_program() -> Result<(), Failure> {
    let mut net = warm_pair(20, &sealed());
    net.hold_resends(A, true);
    net.link(A, B).faults.cut = true;
    net.send(A, B, 20_000);
    net.run_for(MS);
    net.link(A, B).faults.cut = false;
    net.run_for(20 * SEC);
    assert_eq!(net.losses(A), []);
    assert_eq!(net.checker.delivered, 8);
    let held = peer_stats(&mut net, A, B).held_resends;
    assert!(held > 0);
    assert_eq!(peer_stats(&mut net, A, B).limit, Limit::HeldResends);
    net.retransmit_now(A);
    net.run_for(5 * MS);
    assert!(peer_stats(&mut net, A, B).held_resends < held);
    net.hold_resends(A, false);
    net.settle(SEC)
}

/// A node that closes while its program holds resends gets everything through first.
#[test]
fn closing_lets_everything_go() {
    let mut net = Network::pair(30, &sealed());
    net.send(A, B, 100);
    sound(net.settle(SEC));
    net.hold_resends(A, true);
    net.link(A, B).faults.cut = true;
    net.send(A, B, 5_000);
    net.run_for(MS);
    net.link(A, B).faults.cut = false;
    net.run_for(100 * MS);
    assert_eq!(net.checker.delivered, 1);
    net.host(A).node().stop_sending();
    net.kick(A);
    net.run_for(100 * MS);
    assert_eq!(net.checker.delivered, 2);
}
