//! Acknowledgements that are taken in after the answer to what came with them.

use super::*;
use crate::{SendTicket, Waiting};

/// A connected pair, the first of which has asked something, and been answered.
fn answered(change: impl Fn(&mut Config), ticket: bool) -> (Pair, Option<SendTicket>) {
    let mut pair = Pair::with(modes()[1].clone(), change);
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    let asked = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 1, b"how far?", ticket);
    pair.pass_train();
    pair.answer();
    (pair, asked.expect("there is room"))
}

impl Pair {
    /// The second node answers.
    fn answer(&mut self) {
        self.now_ns += 5_000;
        let answer = self.nodes[1].send_copy(self.now_ns, PeerId(0), 1, b"so far", false);
        answer.expect("there is room");
        self.pass_train_from(1);
    }

    fn in_flight(&self) -> u32 {
        self.nodes[0].in_flight_bytes(PeerId(1))
    }

    fn waiting(&self) -> Waiting {
        self.nodes[0].waiting(PeerId(1))
    }

    fn is_behind(&self) -> bool {
        self.nodes[0].hub.late_ack.is_some()
    }
}

#[test]
fn the_next_question_leaves_before_the_acknowledgement_of_the_last_is_taken_in() {
    let (mut pair, _) = answered(|_| {}, false);
    for _ in 0..3 {
        let before = pair.in_flight();
        assert!(before > 0 && pair.is_behind());
        assert!(pair.waiting().idle, "nothing is on its way");
        let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 1, b"and now?", false);
        sent.expect("there is room");
        pair.pass_train();
        assert!(pair.is_behind() && pair.in_flight() > before);
        pair.nodes[0].next_deadline();
        assert!(!pair.is_behind());
        assert_eq!(pair.in_flight(), before, "the new one");
        pair.answer();
    }
    let session = pair.nodes[0].peers[0].session();
    let latest_ns = session.map(|session| session.channel.rtt.latest_ns());
    assert_eq!(latest_ns, Some(5_000), "what it took is the path's");
}

#[test]
fn what_somebody_may_wait_for_is_not_late() {
    let (mut pair, _) = answered(|_| {}, false);
    assert!(pair.is_behind() && pair.nodes[0].is_settled());

    let (mut pair, ticket) = answered(|_| {}, true);
    assert!(!pair.is_behind(), "a program waits for it");
    let told = pair.nodes[0].take_sent(ticket.expect("it was asked for"));
    assert_eq!(told, Some(Ok(())));

    let (mut pair, _) = answered(|config| config.send_queue_bytes = 1, false);
    assert!(pair.is_behind());
    assert_eq!(pair.nodes[0].has_room(PeerId(1), 1_000), Ok(()));
    assert!(!pair.is_behind());
}

#[test]
fn what_an_end_of_the_connection_drops_is_not_what_has_been_acknowledged() {
    let (mut pair, _) = answered(|_| {}, false);
    while pair.nodes[0].next_event().is_some() {}
    assert!(pair.is_behind());
    pair.nodes[0].lose(0, PeerLost::Closed);
    let Some(Event::Lost {
        unsent_messages, ..
    }) = pair.nodes[0].next_event()
    else {
        panic!("it is told");
    };
    assert_eq!(unsent_messages, 0);
}

#[test]
fn several_packets_that_wait_do_not_leave_before_it() {
    let (mut pair, _) = answered(|_| {}, false);
    assert!(pair.is_behind());
    let sent = pair.nodes[0].send(pair.now_ns, PeerId(1), 1, vec![1; 10_000].into(), false);
    sent.expect("there is room");
    pair.pass_train();
    assert!(!pair.is_behind());
}

#[test]
fn a_gap_is_seen_at_once() {
    let (mut pair, _) = answered(|_| {}, false);
    pair.carry();
    let mut lost = vec![0; 65_536];
    for body in [&b"lost"[..], b"comes"] {
        let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 1, body, false);
        sent.expect("there is room");
        match body {
            b"lost" => drop(pair.nodes[0].poll_transmit(pair.now_ns, &mut lost)),
            _ => drop(pair.pass_train()),
        }
    }
    pair.answer();
    assert!(!pair.is_behind());
}
