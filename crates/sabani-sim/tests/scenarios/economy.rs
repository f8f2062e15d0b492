//! Acknowledgements cost little: a few for a burst, none for a conversation.

use sabani_proto::{Congestion, CreditPolicy};
use sabani_sim::{MS, Network, SEC, US, sealed};

use crate::{A, B, counters, sound, time_to_deliver, warm_pair};

#[test]
fn a_burst_needs_few_acknowledgements() {
    let mut net = warm_pair(1, &sealed());
    let before = (counters(&mut net, A), counters(&mut net, B));
    for _ in 0..56 {
        net.send(A, B, 256_000);
    }
    sound(net.settle(SEC));
    let sent = counters(&mut net, A).packets_sent - before.0.packets_sent;
    let answers = counters(&mut net, B).packets_sent - before.1.packets_sent;
    assert!(sent >= 10_000, "{sent} packets");
    assert!(answers <= sent / 14, "{answers} answers to {sent} packets");
    let (sent, needed) = (counters(&mut net, A).packets_sent, 56 * 256_000 / 1_420);
    assert!(
        sent < needed * 11 / 10,
        "{sent} packets for {needed} packets' worth"
    );
}

#[test]
fn a_burst_of_small_messages_shares_packets() {
    let mut net = warm_pair(1, &sealed());
    let before = counters(&mut net, A).packets_sent;
    for _ in 0..10_000 {
        net.send(A, B, 4);
    }
    sound(net.settle(SEC));
    let sent = counters(&mut net, A).packets_sent - before;
    assert!(sent < 100, "{sent} packets for 10,000 messages of 4 bytes");
}

#[test]
fn a_conversation_needs_no_acknowledgements_of_its_own() {
    const ROUNDS: u64 = 1_000;
    for len in [4, 1_024, 20_000] {
        let mut net = warm_pair(1, &sealed());
        let before = counters(&mut net, A).acks_alone + counters(&mut net, B).acks_alone;
        net.host(A).program.echoes = ROUNDS;
        net.host(B).program.echoes = ROUNDS;
        net.send(A, B, len);
        sound(net.settle(SEC));
        assert!(net.checker.delivered > 2 * ROUNDS);
        let alone = counters(&mut net, A).acks_alone + counters(&mut net, B).acks_alone - before;
        assert!(
            alone <= 2,
            "{len} bytes: {alone} acknowledgements travelled alone"
        );
        let polls = counters(&mut net, A).polls + counters(&mut net, B).polls;
        assert_eq!(polls, 0, "{len} bytes");
    }
}

#[test]
fn an_idle_connection_is_nearly_silent() {
    let mut net = warm_pair(1, &sealed());
    let before = counters(&mut net, A).packets_sent + counters(&mut net, B).packets_sent;
    net.run_for(60 * SEC);
    let sent = counters(&mut net, A).packets_sent + counters(&mut net, B).packets_sent - before;
    assert!(sent <= 80, "{sent} packets in a minute of silence");
    assert!(net.losses(A).is_empty() && net.losses(B).is_empty());
    net.send(A, B, 10);
    sound(net.settle(10 * MS));
}

/// Acknowledgements are late where the receiver knows that the sender has credit; it knows nothing of congestion
/// control.
#[test]
fn who_keeps_to_less_than_its_credit_does_not_wait_for_late_acknowledgements() {
    let mut net = Network::mesh(1, 2, &sealed(), |config| {
        config.congestion = Congestion::Cubic;
        config.credit = CreditPolicy::Shares;
        config.late_ack_ns = 5 * MS;
    });
    net.send(A, B, 100);
    sound(net.settle(SEC));
    // Silence takes the window down to two packets.
    net.link(A, B).faults.cut = true;
    net.send(A, B, 100);
    net.run_for(100 * MS);
    net.link(A, B).faults.cut = false;
    sound(net.settle(SEC));
    let before = net.checker.delivered;
    for _ in 0..40 {
        net.send(A, B, 100);
        net.run_for(10 * US);
    }
    time_to_deliver(&mut net, before + 40, MS);
}
