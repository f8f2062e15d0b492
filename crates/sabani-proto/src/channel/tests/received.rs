//! When the receiving half of a channel owes an acknowledgement, and what it says.

use super::*;
use crate::channel::received::EARLY_NS;

#[test]
fn the_size_of_what_the_peer_sends_is_the_largest_since_its_last_probe() {
    let mut received = acknowledging(AckPolicy::WhenAsked);
    let mut number = 0;
    let mut after = |bytes, probe: bool| {
        let owed = received.on_packet(&data(number, 0), bytes, 0);
        number += 1;
        if probe {
            received.on_probe(bytes);
        }
        received.owe(&owed, 0);
        received.datagram()
    };
    assert_eq!(after(100, false), 1_472, "what the handshake has proven");
    assert_eq!(after(8_972, true), 8_972);
    assert_eq!(after(1_472, false), 8_972);
    assert_eq!(after(1_200, true), 1_200);
    assert_eq!(after(1_452, false), 1_452);
    assert_eq!(after(30, true), 1_200, "which every path carries");
}

fn data(number: u64, flags: u8) -> Prelude {
    Prelude {
        kind: crate::wire::Kind::Data,
        flags,
        packet_number: number,
        connection: Default::default(),
    }
}

fn acknowledging(ack_policy: AckPolicy) -> Received {
    Received::new(&ChannelConfig {
        ack_policy,
        ack_delay_ns: 7,
        ..config(Recovery::Selective, 0)
    })
}

/// Feeds packets; returns how long after the last one an acknowledgement is due.
fn due_after(policy: AckPolicy, packets: &[(u64, u8)]) -> Option<u64> {
    let mut received = acknowledging(policy);
    for &(number, flags) in packets {
        let prelude = data(number, flags);
        let owed = received.on_packet(&prelude, 1_200, 100);
        received.owe(&owed, 100);
    }
    received.deadline().map(|at| at - 100)
}

#[test]
fn acknowledgements_are_due_when_the_policy_says() {
    let asked = AckPolicy::WhenAsked;
    assert_eq!(due_after(asked, &[(0, 0), (1, 0)]), None);
    assert_eq!(due_after(asked, &[(0, Prelude::ASK)]), Some(7));
    let urgent = Prelude::ASK | Prelude::URGENT;
    assert_eq!(due_after(asked, &[(0, urgent)]), Some(0));
    assert_eq!(due_after(asked, &[(0, 0), (2, 0)]), Some(0), "a gap");
    assert_eq!(due_after(asked, &[(0, Prelude::ASK), (2, 0)]), Some(0));
    let many: Vec<_> = (0..200).map(|number| (number, 0)).collect();
    assert_eq!(due_after(asked, &many), Some(0), "much is not told of");
    let every = AckPolicy::EveryPackets(3);
    assert_eq!(due_after(every, &[(0, 0), (1, 0)]), None);
    assert_eq!(due_after(every, &[(0, 0), (1, 0), (2, 0)]), Some(0));
}

#[test]
fn an_acknowledgement_says_how_long_it_waited_and_what_it_answers() {
    let mut received = acknowledging(AckPolicy::WhenAsked);
    for (number, flags, at) in [(0, 0, 10), (1, Prelude::ASK, 20), (0, 0, 30)] {
        let prelude = data(number, flags);
        if !received.packets.contains(number) {
            let owed = received.on_packet(&prelude, 100, at);
            received.owe(&owed, at);
        }
    }
    assert!(received.owes());
    let ack = received.take_ack(55, 50);
    assert_eq!((ack.largest, ack.first_len, ack.window), (1, 2, 55));
    assert_eq!((ack.delay_ns, ack.answers), (30, 1));
    assert!(!received.owes() && received.deadline().is_none());
}

const FULL: u32 = datagram_cost(1_472);
const DELAY_NS: u64 = 100_000;

/// One whose peer has been told of credit for so many packets.
fn having_told(packets: u32) -> Received {
    let mut received = Received::new(&ChannelConfig {
        ack_delay_ns: DELAY_NS,
        ..config(Recovery::Selective, 0)
    });
    arrive(&mut received, 0, 0);
    received.take_ack(packets * FULL, 0);
    received
}

/// Takes in one full packet.
fn arrive(received: &mut Received, number: u64, flags: u8) {
    let owed = received.on_packet(&data(number, flags), 1_472, 0);
    received.owe(&owed, 0);
}

/// The peer wants `remaining` packets, and was given `credit`.
fn wants(received: &mut Received, remaining: u32, credit: u32, renewed: bool) -> Option<u64> {
    received.owe_credit((remaining * FULL).into(), credit * FULL, renewed, 0);
    received.deadline()
}

#[test]
fn credit_is_told_early_to_who_has_waited_for_what_was_there() {
    // At once, and when more of it is renewed.
    let told_after = |remaining, credit, flags| {
        let mut received = having_told(50);
        arrive(&mut received, 1, flags);
        let now = wants(&mut received, remaining, credit, false);
        received.take_ack(50 * FULL, 0);
        arrive(&mut received, 2, 0);
        [now, wants(&mut received, 0, 49, true)]
    };
    let (waits, early) = (Prelude::URGENT, Some(EARLY_NS));
    assert_eq!(told_after(49, 59, 0), [None; 2], "it knows of enough");
    assert_eq!(told_after(50, 49, 0), [None; 2], "it knows of all");
    assert_eq!(told_after(50, 59, 0), [None, early], "there was more");
    assert_eq!(told_after(50, 59, waits), [early; 2], "it stands still");
    assert_eq!(told_after(49, 49, waits), [None, early], "it was told late");
    assert_eq!(told_after(50, 49, waits), [None; 2], "there is no more");
}

#[test]
fn who_has_waited_and_asks_with_little_left_is_answered_early_for_a_while() {
    let mut received = having_told(0);
    let mut answered = |told: u32, number: u64| {
        received.take_ack(told * FULL, 0);
        arrive(&mut received, number, Prelude::ASK);
        let after = received.deadline();
        let given = if number == 2 { 60 } else { 0 };
        wants(&mut received, 60, given, false);
        after
    };
    assert_eq!(answered(1, 1), Some(DELAY_NS), "it has not waited");
    assert_eq!(answered(1, 2), Some(DELAY_NS), "now it has");
    assert_eq!(answered(20, 3), Some(DELAY_NS), "it has enough left");
    let early = (4..100).take_while(|&at| answered(1, at) == Some(EARLY_NS));
    assert_eq!(early.count(), 32);
}

/// One packet asks, and another one of the same run only says that it is the last for now.
#[test]
fn who_says_that_it_waits_asks_for_nothing() {
    let mut received = having_told(50);
    let [mut run, last] = [(1, Prelude::ASK), (2, Prelude::URGENT)]
        .map(|(number, flags)| received.on_packet(&data(number, flags), 1_472, 0));
    run.says |= last.says;
    received.owe(&run, 0);
    assert_eq!(received.deadline(), Some(DELAY_NS));
}
