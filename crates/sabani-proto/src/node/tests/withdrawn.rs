//! Receives that are withdrawn, and messages that nobody takes: who gets them, and what they hold.

use super::*;
use crate::Value;
use crate::message::RecvTicket;

const MIB: usize = 1 << 20;

fn send(pair: &mut Pair, tag: u64, bytes: usize) {
    let body = vec![tag as u8; bytes];
    let sent = pair.nodes[0].send(pair.now_ns, PeerId(1), tag, body.into(), false);
    sent.unwrap();
}

/// Two nodes of which each has 8 MiB for messages that nobody has asked for.
fn tight() -> Pair {
    Pair::with(modes()[1].clone(), |config| {
        config.memory_bytes = 8 * MIB as u64;
        config.send_queue_bytes = 64 * MIB;
    })
}

/// Until a receive is being filled.
fn until_filling(pair: &mut Pair, ticket: RecvTicket) {
    let is_filling = |pair: &mut Pair| pair.nodes[1].hub.mailbox.filling(ticket).is_some();
    let steps = (0..1_000).take_while(|_| !is_filling(pair) && pair.step());
    steps.count();
    assert!(is_filling(pair));
}

/// Two receives wait for the same; the first one is withdrawn while its message comes. The second one, and another message.
fn withdrawn_while_filling(with_another: bool) -> (Pair, RecvTicket) {
    let mut pair = Pair::new(modes()[1].clone());
    let wanted = Match::any().tag(7);
    let [first, second] = [(); 2].map(|()| pair.nodes[1].post(wanted, None));
    send(&mut pair, 7, 300_000);
    until_filling(&mut pair, first);
    assert!(pair.nodes[1].cancel(first).0.is_none(), "it has begun");
    if with_another {
        send(&mut pair, 7, 100);
    }
    pair.carry();
    (pair, second)
}

#[test]
fn who_waits_gets_what_a_withdrawn_receive_had() {
    for with_another in [false, true] {
        let (mut pair, second) = withdrawn_while_filling(with_another);
        let message = pair.nodes[1].take_received(second).unwrap().unwrap();
        assert_eq!(message.body.len(), 300_000, "it was sent first");
        let other = pair.nodes[1].try_take(&Match::any());
        assert_eq!(other.is_some(), with_another);
    }
}

#[test]
fn who_waits_gets_a_whole_message_that_another_has_given_back() {
    let mut pair = Pair::new(modes()[1].clone());
    let wanted = Match::any().tag(7);
    let [first, second] = [(); 2].map(|()| pair.nodes[1].post(wanted, None));
    send(&mut pair, 7, 10);
    pair.carry();
    assert!(pair.nodes[1].has_ended(first));
    pair.nodes[1].abandon(first);
    let message = pair.nodes[1].take_received(second).unwrap().unwrap();
    assert_eq!(message.body.len(), 10);
}

#[test]
fn who_waits_for_memory_behind_a_receive_that_is_withdrawn_gets_it() {
    let mut pair = tight();
    for (tag, mib) in [(1, 3), (2, 4), (3, 7), (4, 2)] {
        send(&mut pair, tag, mib * MIB);
    }
    let [held, whole, long, short] =
        [1, 2, 3, 4].map(|tag| pair.nodes[1].post(Match::any().tag(tag), None));
    while pair.nodes[1].stats().posted_bytes == 0 {
        pair.step();
    }
    assert!(
        pair.nodes[1].cancel(held).0.is_none(),
        "untaken, it holds 3 MiB"
    );
    pair.carry();
    assert!(pair.nodes[1].take_received(whole).unwrap().is_ok());
    pair.carry();
    assert!(!pair.nodes[1].has_ended(long) && !pair.nodes[1].has_ended(short));
    // Both wait for what only the program can give back, and both say so.
    for (ticket, tag, says) in [
        (long, 3, "bytes, for"),
        (short, 4, "and comes after one, for"),
    ] {
        let Some(Hindrance::Starved(why)) = pair.nodes[1].hindrance_of(ticket) else {
            panic!("{tag} waits in vain");
        };
        assert_eq!((why.waiting.tag, why.holder.tag), (tag, 1));
        assert!(why.to_string().contains(says), "{why}");
    }
    pair.nodes[1].cancel(long);
    pair.carry();
    assert!(pair.nodes[1].has_ended(short), "5 MiB are free");
}

/// Nobody has to wait for the turn of one for which there will be no room until the program does something.
#[test]
fn who_waits_in_vain_holds_up_nobody_who_comes_later() {
    let mut pair = tight();
    send(&mut pair, 1, 3 * MIB);
    let held = pair.nodes[1].post(Match::any().tag(1), None);
    until_filling(&mut pair, held);
    pair.nodes[1].cancel(held);
    send(&mut pair, 2, 7 * MIB);
    let long = pair.nodes[1].post(Match::any().tag(2), None);
    pair.carry();
    for tag in 10..30 {
        send(&mut pair, tag, 9 * MIB / 4);
        let ticket = pair.nodes[1].post(Match::any().tag(tag), None);
        pair.carry();
        let message = pair.nodes[1].take_received(ticket);
        assert!(message.is_some_and(|message| message.is_ok()), "{tag}");
    }
    assert!(!pair.nodes[1].has_ended(long));
    assert!(pair.nodes[1].try_take(&Match::any().tag(1)).is_some());
    pair.carry();
    assert!(pair.nodes[1].has_ended(long));
}

#[test]
fn what_the_program_has_looked_for_and_left_is_named_to_who_waits_for_its_memory() {
    let mut pair = tight();
    send(&mut pair, 1, 6 * MIB);
    send(&mut pair, 2, 4 * MIB);
    pair.carry();
    assert!(pair.nodes[1].try_take(&Match::any().tag(1)).is_none());
    pair.carry();
    let left = pair.nodes[1].probe(&Match::any().tag(1)).unwrap();
    assert!(left.complete, "it was asked for, and has come");
    let waits = pair.nodes[1].post(Match::any().tag(2), None);
    pair.carry();
    assert!(!pair.nodes[1].has_ended(waits));
    let peer = pair.nodes[1].peer_stats(PeerId(0)).unwrap();
    assert_eq!(peer.posted_bytes, pair.nodes[1].stats().posted_bytes);
    assert_eq!(peer.withdrawn_bytes, 6 * MIB as u64);
    assert!(pair.nodes[1].hindrance_of(waits).is_some());
    // And it is over when that is taken.
    assert!(pair.nodes[1].try_take(&Match::any().tag(1)).is_some());
    pair.carry();
    assert!(pair.nodes[1].has_ended(waits));
}

#[test]
fn what_is_kept_of_receives_with_buffers_of_their_own_is_charged() {
    let mut pair = tight();
    let mut withdraw = |tag, is_whole: bool| {
        send(&mut pair, tag, 3 * MIB);
        let buffer = Some(vec![0; 3 * MIB]);
        let ticket = pair.nodes[1].post(Match::any().tag(tag), buffer);
        if is_whole {
            pair.carry();
            pair.nodes[1].abandon(ticket);
        } else {
            until_filling(&mut pair, ticket);
            let given_back = pair.nodes[1].cancel(ticket).1.is_some();
            assert_eq!(given_back, tag == 1, "without room for a copy it is kept");
        }
        pair.carry();
        pair.nodes[1].stats().posted_bytes
    };
    assert_eq!(withdraw(1, false), 3 * MIB as u64);
    assert_eq!(withdraw(2, true), 6 * MIB as u64);
    assert_eq!(withdraw(3, false), 6 * MIB as u64);
    for tag in [1, 2, 3] {
        let message = pair.nodes[1].try_take(&Match::any().tag(tag)).unwrap();
        assert!(message.body.iter().all(|byte| u64::from(*byte) == tag));
    }
    assert_eq!(pair.nodes[1].stats().posted_bytes, 0);
}

/// What the node had charged for a message is free once the message goes on in a buffer of the program's.
#[test]
fn who_brings_a_buffer_for_a_message_that_is_coming_gives_its_memory_back() {
    for brings in [false, true] {
        let mut pair = tight();
        for (tag, mib) in [(1, 3), (2, 6)] {
            send(&mut pair, tag, mib * MIB);
        }
        let first = pair.nodes[1].post(Match::any().tag(1), None);
        until_filling(&mut pair, first);
        let has_come = |pair: &Pair| pair.nodes[1].stats().counters.bytes_received > MIB as u64;
        while !has_come(&pair) {
            pair.step();
        }
        pair.nodes[1].cancel(first);
        let buffer = brings.then(|| vec![0; 4 * MIB]);
        let next = pair.nodes[1].post(Match::any().tag(1), buffer);
        let own = if brings { 0 } else { 3 * MIB as u64 };
        assert_eq!(pair.nodes[1].stats().posted_bytes, own);
        let waits = pair.nodes[1].post(Match::any().tag(2), None);
        let is_fed = pair.nodes[1].stats().posted_bytes - own == 6 * MIB as u64;
        assert_eq!(is_fed, brings);
        pair.carry();
        for (ticket, tag, mib) in [(next, 1, 3), (waits, 2, 6)] {
            let message = pair.nodes[1].take_received(ticket).unwrap().unwrap();
            assert!(
                message.body.len() == mib * MIB && message.body.iter().all(|&byte| byte == tag)
            );
        }
        assert_eq!(pair.nodes[1].stats().posted_bytes, 0);
    }
}

/// The same where nobody had asked for it.
#[test]
fn who_brings_a_buffer_for_a_message_that_comes_unasked_gives_its_memory_back() {
    let mut pair = tight();
    send(&mut pair, 1, 2 * MIB);
    while pair.nodes[1].stats().counters.bytes_received < MIB as u64 {
        pair.step();
    }
    let unmatched = |pair: &Pair| pair.nodes[1].hub.mailbox.unmatched.used;
    assert_eq!(unmatched(&pair), 2 * MIB as u64);
    let buffer = Some(vec![0; 2 * MIB]);
    let ticket = pair.nodes[1].post(Match::any().tag(1), buffer);
    assert_eq!(unmatched(&pair), 0);
    // Withdrawn, it needs memory again.
    assert!(pair.nodes[1].cancel(ticket).1.is_some());
    assert_eq!(pair.nodes[1].stats().posted_bytes, 2 * MIB as u64);
    pair.carry();
    let message = pair.nodes[1].try_take(&Match::any()).unwrap();
    assert!(message.body.iter().all(|&byte| byte == 1));
    assert_eq!(
        (unmatched(&pair), pair.nodes[1].stats().posted_bytes),
        (0, 0)
    );
}

#[test]
fn the_buffer_of_an_earlier_receive_comes_back_from_who_goes_on_with_its_own() {
    let mut pair = Pair::with(modes()[1].clone(), |config| {
        config.memory_bytes = MIB as u64;
    });
    let tag = Match::any().tag(1);
    send(&mut pair, 1, 2 * MIB);
    let first = pair.nodes[1].post(tag, Some(vec![0; 3 * MIB]));
    let second = pair.nodes[1].post(tag, Some(vec![0; 4 * MIB]));
    until_filling(&mut pair, first);
    let (_, back) = pair.nodes[1].cancel(first);
    assert_eq!(back.map(|buffer| buffer.len()), Some(3 * MIB));
    pair.carry();
    let message = pair.nodes[1].take_received(second).unwrap().unwrap();
    assert!(message.body.len() == 2 * MIB && message.body.iter().all(|&byte| byte == 1));
}

#[test]
fn a_peer_that_is_lost_gives_the_buffer_back() {
    let mut pair = Pair::new(modes()[1].clone());
    let buffer = Some(vec![0; 400_000]);
    let ticket = pair.nodes[1].post(Match::any().from(PeerId(0)), buffer);
    send(&mut pair, 1, 300_000);
    until_filling(&mut pair, ticket);
    pair.replace_first(9);
    let ended = pair.nodes[1].take_received(ticket);
    let Some(Err(RecvError::PeerLost { buffer, .. })) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(buffer.map(|buffer| buffer.len()), Some(400_000));
}

#[test]
fn an_end_that_a_withdrawn_receive_could_have_told_is_told_by_the_next() {
    for withdraws in [true, false] {
        let mut pair = Pair::new(modes()[1].clone());
        let ticket = pair.nodes[1].post(Match::any(), None);
        send(&mut pair, 1, 300_000);
        until_filling(&mut pair, ticket);
        pair.replace_first(9);
        assert!(pair.nodes[1].has_lost_its_peer(ticket));
        if withdraws {
            pair.nodes[1].abandon(ticket);
        } else {
            assert!(pair.nodes[1].take_received(ticket).unwrap().is_err());
        }
        send(&mut pair, 2, 10);
        pair.carry();
        let told = pair.nodes[1].check_source(PeerId(0));
        assert_eq!(told.is_err(), withdraws, "{told:?}");
        assert!(pair.nodes[1].check_source(PeerId(0)).is_ok(), "once");
    }
}

#[test]
fn what_is_kept_of_connections_that_have_ended_is_bounded() {
    let mut pair = tight();
    let mut lives = 0;
    let mut live = |pair: &mut Pair| {
        lives += 1;
        pair.replace_first(20 + lives);
        for _ in 0..200 {
            send(pair, 1, 1_000);
        }
        pair.carry();
        pair.nodes[1].stats()
    };
    let life_bytes = live(&mut pair).unmatched_bytes.max(200_000);
    for _ in 0..100 {
        live(&mut pair);
    }
    let full = pair.nodes[1].stats();
    let most = pair.nodes[1].config().memory_bytes + 2 * life_bytes;
    assert!(full.unmatched_bytes <= most, "{}", full.unmatched_bytes);
    // Once the program has taken them, its peer is let in again.
    while pair.nodes[1].try_take(&Match::any()).is_some() {}
    assert!(live(&mut pair).unmatched_messages > 0);
}

#[test]
fn what_has_come_is_not_counted_as_expired() {
    let mut pair = Pair::new(modes()[1].clone());
    send(&mut pair, 1, 10);
    pair.carry();
    pair.nodes[1].try_take(&Match::any()).unwrap();
    pair.carry();
    let value = Value::Within(std::time::Duration::from_millis(5));
    let body = vec![5; 500].into();
    let sent = pair.nodes[0].send_valued(pair.now_ns, PeerId(1), 2, body, value, false);
    sent.unwrap();
    pair.pass_train();
    assert_eq!(pair.nodes[1].try_take(&Match::any()).unwrap().tag, 2);
    // Its acknowledgement is late.
    pair.now_ns += 10_000_000;
    pair.nodes[0].handle_deadline(pair.now_ns);
    pair.carry();
    let expired = pair.nodes[1]
        .peer_stats(PeerId(0))
        .unwrap()
        .expired_received;
    assert_eq!(expired, 0);
}
