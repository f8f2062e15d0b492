//! When the receiving half of a channel owes an acknowledgement, and what it says.

use super::*;
use crate::channel::received::SOON_NS;

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

/// 60 packets of credit in all, of which 50 have been told.
fn with_untold_credit(ack_delay_ns: u64) -> Received {
    let mut received = Received::new(&ChannelConfig {
        ack_delay_ns,
        ..config(Recovery::Selective, 0)
    });
    arrive(&mut received, 0, 0);
    received.take_ack(50 * FULL, 0);
    received
}

const FULL: u32 = datagram_cost(1_472);

/// Takes in one full packet.
fn arrive(received: &mut Received, number: u64, flags: u8) {
    let owed = received.on_packet(&data(number, flags), 1_472, 0);
    received.owe(&owed, 0);
}

#[test]
fn credit_is_told_early_to_who_has_waited_for_what_was_there() {
    const DELAY_NS: u64 = 100_000;
    let told_at = |remaining: u32, credit: u32, flags| {
        let mut received = with_untold_credit(DELAY_NS);
        arrive(&mut received, 1, flags);
        received.owe_credit((remaining * FULL).into(), credit * FULL, false, 0);
        assert_eq!(received.deadline(), None, "nothing is to be told yet");
        arrive(&mut received, 2, 0);
        received.owe_credit(0, 60 * FULL, true, 0);
        received.deadline()
    };
    assert_eq!(told_at(49, 59, 0), None, "it knows of enough");
    assert_eq!(told_at(50, 49, 0), None, "there is no more than it knows");
    assert_eq!(told_at(50, 59, 0), Some(SOON_NS), "there was more");
    let waits = Prelude::URGENT;
    assert_eq!(told_at(49, 49, waits), Some(SOON_NS), "it was told late");
    assert_eq!(told_at(50, 49, waits), None, "it waits for more to come");
}

#[test]
fn who_has_waited_and_has_little_left_is_answered_early_for_a_while() {
    const DELAY_NS: u64 = 100_000;
    let mut received = with_untold_credit(DELAY_NS);
    let mut answered = |told: u32, number: u64| {
        received.take_ack(told, 0);
        arrive(&mut received, number, Prelude::ASK);
        let after = received.deadline();
        received.owe_credit(
            (60 * FULL).into(),
            if number == 2 { 61 * FULL } else { 0 },
            false,
            0,
        );
        after
    };
    assert_eq!(answered(FULL, 1), Some(DELAY_NS), "it has not waited");
    assert_eq!(answered(FULL, 2), Some(DELAY_NS), "now it has");
    assert_eq!(answered(20 * FULL, 3), Some(DELAY_NS), "it has enough left");
    let early = (4..100).take_while(|&at| answered(FULL, at) == Some(SOON_NS));
    assert_eq!(early.count(), 32);
}
