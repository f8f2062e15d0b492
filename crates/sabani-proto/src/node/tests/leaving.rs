//! How connections end, and what is said of it.

use super::*;

/// What the second node is told when it sends the first one something.
fn told(pair: &mut Pair) -> Option<PeerLost> {
    let sent = pair.nodes[1].send_copy(pair.now_ns, PeerId(0), 0, b"still there?", false);
    match sent {
        Ok(_) => None,
        Err(SendError::PeerLost { why, .. }) => Some(why),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn of_ends_that_nobody_was_told_of_the_first_is_told() {
    let mut pair = Pair::new(modes()[0].clone());
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    pair.replace_first(11);
    pair.nodes[0].close();
    pair.carry();
    assert_eq!(told(&mut pair), Some(PeerLost::Restarted));
    assert_eq!(told(&mut pair), None, "it is said once");
}

#[test]
fn who_sends_to_a_peer_that_has_closed_is_told_so_unless_it_is_back() {
    for back in [false, true] {
        let mut pair = Pair::new(modes()[0].clone());
        pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
        pair.carry();
        pair.nodes[0].close();
        pair.carry();
        if back {
            pair.replace_first(11);
        }
        assert_eq!(told(&mut pair), (!back).then_some(PeerLost::Closed));
        assert_eq!(told(&mut pair), None);
        assert_eq!(pair.nodes[1].take_dropped(), None, "nothing was lost");
    }
}

#[test]
fn messages_dropped_before_the_peer_was_back_are_told_with_their_reason() {
    let mut pair = Pair::new(modes()[0].clone());
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    let node = &mut pair.nodes[1];
    let waits = node.post(Match::any().from(PeerId(0)), None);
    node.send_copy(pair.now_ns, PeerId(0), 0, b"to the first", false)
        .unwrap();
    pair.replace_first(11);
    let received = pair.nodes[1].take_received(waits);
    assert!(matches!(received, Some(Err(RecvError::PeerLost { .. }))));
    pair.nodes[0].close();
    pair.carry();
    let dropped = Some((PeerId(0), PeerLost::Restarted));
    assert_eq!(pair.nodes[1].take_dropped(), dropped);
    assert_eq!(pair.nodes[1].take_dropped(), None);
}

#[test]
fn who_closes_before_anything_has_come_acknowledges_nothing() {
    let mut pair = Pair::new(modes()[0].clone());
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    while pair.nodes[0].peer_stats(PeerId(1)).unwrap().state != LinkState::Open {
        pair.pass_train_from(0);
        pair.pass_train_from(1);
    }
    pair.nodes[0].close();
    pair.carry();
    assert_eq!(told(&mut pair), Some(PeerLost::Closed));
}

#[test]
fn what_a_peer_has_that_closes_is_not_dropped_though_its_acknowledgement_be_lost() {
    for (mode, asks) in modes()
        .into_iter()
        .flat_map(|mode| [(mode.clone(), 0), (mode, 2)])
    {
        let mut pair = Pair::new(mode);
        pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
        pair.carry();
        let node = &mut pair.nodes[1];
        let sent = node.send_copy(pair.now_ns, PeerId(0), 7, b"hello to you", true);
        let ticket = sent.unwrap().unwrap();
        let wanted = Match::any().tag(7);
        while pair.nodes[0].probe(&wanted).is_none() {
            pair.pass_train_from(1);
        }
        pair.nodes[0].try_take(&wanted).expect("it is here");
        let lose_from = |pair: &mut Pair, from: usize| {
            pair.nodes[from].handle_deadline(pair.now_ns);
            while pair.nodes[from]
                .poll_transmit(pair.now_ns, &mut [0; 65_536])
                .is_some()
            {}
        };
        pair.now_ns += 1_000_000;
        lose_from(&mut pair, 0);
        // Another packet takes the place of the one that has arrived, and is lost.
        for _ in 0..asks {
            pair.now_ns += 300_000_000;
            lose_from(&mut pair, 1);
        }
        pair.nodes[0].close();
        pair.carry();
        assert_eq!(pair.nodes[1].take_dropped(), None, "after {asks} questions");
        assert_eq!(pair.nodes[1].take_sent(ticket), Some(Ok(())));
    }
}

#[test]
fn a_node_that_closes_connects_to_nobody() {
    let mut pair = Pair::new(modes()[0].clone());
    let node = &mut pair.nodes[0];
    node.close();
    let connected = node.connect(pair.now_ns, PeerId(1));
    assert_eq!(connected, Err(SendError::Closed));
    assert!(node.is_closed());
}

#[test]
fn what_ends_because_this_node_closes_is_not_laid_on_the_peer() {
    let mut pair = Pair::new(modes()[0].clone());
    let node = &mut pair.nodes[0];
    let waits = node.post(Match::any().from(PeerId(1)), None);
    let to_nobody = PeerId(2);
    node.add_peer(to_nobody, "10.0.0.3:7000".parse().unwrap());
    let sent = node.send_copy(pair.now_ns, to_nobody, 0, b"hello", true);
    let ticket = sent.unwrap().unwrap();
    while node.poll_transmit(pair.now_ns, &mut [0; 65_536]).is_some() {}
    node.connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    pair.nodes[0].close();
    pair.carry();
    let node = &mut pair.nodes[0];
    assert!(node.is_closed());
    let dropped = (to_nobody, PeerLost::ClosedHere);
    assert_eq!(node.take_dropped(), Some(dropped));
    let lost = Undelivered::PeerLost(PeerLost::ClosedHere);
    assert_eq!(node.take_sent(ticket), Some(Err(lost)));
    let received = node.take_received(waits);
    assert!(
        matches!(received, Some(Err(RecvError::PeerLost { ref why, .. })) if *why == PeerLost::ClosedHere),
        "{received:?}"
    );
}

/// Anybody can send a datagram from a peer's address that belongs to no connection.
#[test]
fn a_greeting_that_nobody_answers_is_told_to_nobody() {
    for wanted in [false, true] {
        let mut pair = Pair::new(modes()[0].clone());
        let node = &mut pair.nodes[1];
        let waits = node.post(Match::any().from(PeerId(0)), None);
        let from = ADDRS[0].parse().unwrap();
        let prelude = Prelude {
            kind: Kind::Data,
            flags: 0,
            packet_number: 0,
            connection: ConnectionId(1),
        };
        node.handle_datagrams(pair.now_ns, from, None, 16, false, &mut prelude.encode());
        assert!(node.has_queued(), "a greeting");
        if wanted {
            node.connect(pair.now_ns, PeerId(0)).unwrap();
        }
        while let Some(at) = node.next_deadline() {
            pair.now_ns = at;
            node.handle_deadline(at);
            while node.poll_transmit(at, &mut [0; 65_536]).is_some() {}
        }
        let events = std::iter::from_fn(|| node.next_event());
        let lost = events.filter(|event| matches!(event, Event::Lost { .. }));
        assert_eq!(lost.count(), usize::from(wanted));
        assert_eq!(node.take_received(waits).is_some(), wanted);
        assert_eq!(told(&mut pair), None, "or the receive has told it");
    }
}
