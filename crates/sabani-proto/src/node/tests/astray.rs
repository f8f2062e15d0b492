//! What comes from elsewhere, or from nobody who is known, while connections are made.

use super::*;

const ELSEWHERE: &str = "198.51.100.9:9";

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// What a node sends now, and where.
fn sent(node: &mut Node, now_ns: u64) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut buffer = vec![0; 65_536];
    let mut all = Vec::new();
    while let Some(train) = node.poll_transmit(now_ns, &mut buffer) {
        let packets = buffer[..train.bytes].chunks(train.segment);
        all.extend(packets.map(|packet| (train.to, packet.to_vec())));
    }
    all
}

impl Pair {
    /// One of them is told that this came from there.
    fn hear(&mut self, who: usize, from: &str, datagram: &[u8]) {
        let (len, bytes) = (datagram.len(), &mut datagram.to_vec());
        self.nodes[who].handle_datagrams(self.now_ns, addr(from), None, len, false, bytes);
    }

    /// The first sends to the second; the answer to its Init.
    fn ask(&mut self) -> Vec<u8> {
        let sent_copy = self.nodes[0].send_copy(self.now_ns, PeerId(1), 7, b"hello", false);
        sent_copy.unwrap();
        self.pass_train();
        let replies = sent(&mut self.nodes[1], self.now_ns);
        let [(_, reply)] = &replies[..] else {
            panic!("{} answers", replies.len());
        };
        reply.clone()
    }

    /// Carries what is sent to where the two are, `at` these addresses, and loses the rest; returns where the first has sent to.
    fn wander(&mut self, millis: u64, from: [&str; 2], at: [&[&str]; 2]) -> Vec<SocketAddr> {
        let mut ways = Vec::new();
        for _ in 0..millis {
            self.now_ns += 1_000_000;
            for who in 0..2 {
                self.nodes[who].handle_deadline(self.now_ns);
                for (to, datagram) in sent(&mut self.nodes[who], self.now_ns) {
                    if at[1 - who].iter().any(|at| addr(at) == to) {
                        self.hear(1 - who, from[who], &datagram);
                    }
                    if who == 0 {
                        ways.push(to);
                    }
                }
            }
        }
        ways
    }

    fn events(&mut self, who: usize) -> Vec<Event> {
        std::iter::from_fn(|| self.nodes[who].next_event()).collect()
    }
}

fn is_lost(event: &Event) -> bool {
    matches!(event, Event::Lost { .. })
}

#[test]
fn a_copy_of_the_reply_moves_nobody() {
    for mode in modes() {
        let mut pair = Pair::new(mode);
        let reply = pair.ask();
        // Who sees the Reply repeats it, and is faster.
        pair.hear(0, ELSEWHERE, &reply);
        pair.hear(0, ADDRS[1], &reply);
        let ways = pair.wander(20_000, ADDRS, [&ADDRS[..1], &ADDRS[1..]]);
        assert!(ways.iter().all(|&to| to == addr(ADDRS[1])));
        assert!(!pair.events(0).iter().any(is_lost));
        assert!(pair.nodes[1].try_take(&Match::any()).is_some());
        assert!(pair.nodes[0].is_settled());
    }
}

/// A host with several addresses may answer from another one than it was asked at.
#[test]
fn who_answers_from_elsewhere_is_found_there() {
    for mode in modes() {
        let mut pair = Pair::new(mode);
        let reply = pair.ask();
        pair.hear(0, ELSEWHERE, &reply);
        let (from, at) = ([ADDRS[0], ELSEWHERE], [ADDRS[1], ELSEWHERE]);
        pair.wander(100, from, [&ADDRS[..1], &at]);
        let moved = Event::Moved {
            peer: PeerId(1),
            from: addr(ADDRS[1]),
            to: addr(ELSEWHERE),
        };
        let events = pair.events(0);
        assert!(
            events.contains(&moved) && !events.iter().any(is_lost),
            "{events:?}"
        );
        assert!(pair.nodes[1].try_take(&Match::any()).is_some());
        assert!(pair.nodes[0].is_settled());
        let again = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 8, b"again", false);
        again.unwrap();
        // Where it was asked at nobody hears any more.
        let ways = pair.wander(100, from, [&ADDRS[..1], &[ELSEWHERE]]);
        assert!(!ways.is_empty() && ways.iter().all(|&to| to == addr(ELSEWHERE)));
        assert!(pair.nodes[1].try_take(&Match::any()).is_some());
    }
}

#[test]
fn a_copy_of_the_first_packet_is_got_over() {
    let mut pair = Pair::new(modes()[0].clone());
    let reply = pair.ask();
    pair.hear(0, ADDRS[1], &reply);
    for (_, datagram) in sent(&mut pair.nodes[0], pair.now_ns) {
        pair.hear(1, ELSEWHERE, &datagram);
        pair.hear(1, ADDRS[0], &datagram);
    }
    pair.wander(20_000, ADDRS, [&ADDRS[..1], &ADDRS[1..]]);
    assert!(!pair.events(0).iter().chain(&pair.events(1)).any(is_lost));
    assert!(pair.nodes[0].is_settled());
}

#[test]
fn what_a_reply_is_padded_with_proves_no_size() {
    for (largest, proven) in [(8_972, 1_472), (1_300, 1_300)] {
        let mut pair = Pair::with(modes()[0].clone(), |config| config.max_datagram = largest);
        let mut reply = pair.ask();
        reply.resize(8_972, 0);
        pair.hear(0, ADDRS[1], &reply);
        let index = pair.nodes[0].peers.index(PeerId(1)).unwrap();
        let session = pair.nodes[0].peers[index].session().unwrap();
        assert_eq!(session.channel.mtu.current(), proven);
    }
}

/// A packet on a connection that nobody knows of.
fn stray() -> Vec<u8> {
    let mut stray = vec![0x55; 64];
    stray[0] = 0x10;
    stray
}

/// Nobody answers for so many milliseconds; when the peer was reported as lost.
fn lost_after(pair: &mut Pair, millis: u64) -> Option<u64> {
    (0..millis).find(|_| {
        pair.wander(1, ADDRS, [&[], &[]]);
        pair.events(0).iter().any(is_lost)
    })
}

#[test]
fn a_stray_takes_no_time_from_who_wants_the_connection_later() {
    let sends = |pair: &mut Pair| {
        let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 0, b"hello", false);
        sent.unwrap();
    };
    let connects = |pair: &mut Pair| pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    let wants: [&dyn Fn(&mut Pair); 2] = [&sends, &connects];
    for (want, most) in wants.into_iter().zip([5_100, 5_000]) {
        let mut pair = Pair::new(modes()[0].clone());
        pair.hear(0, ADDRS[1], &stray());
        assert_eq!(lost_after(&mut pair, 4_900), None);
        // To want it again buys no time.
        let after = (0..6).find_map(|second| {
            want(&mut pair);
            Some(second * 1_000 + lost_after(&mut pair, 1_000)? + 1)
        });
        let after = after.expect("nobody answers");
        assert!((5_000..=most).contains(&after), "{after} ms");
    }
}

#[test]
fn who_has_all_the_time_there_is_may_wait() {
    let mut pair = Pair::with(modes()[0].clone(), |config| {
        config.connect_timeout_ns = u64::MAX;
    });
    pair.ask();
    assert_eq!(lost_after(&mut pair, 20_000), None);
}

#[test]
fn garbage_hides_no_stray_of_a_peer() {
    let mut pair = Pair::new(modes()[0].clone());
    let mut ways = Vec::new();
    for _ in 0..200 {
        pair.hear(0, ELSEWHERE, &stray());
        pair.hear(0, ADDRS[1], &stray());
        ways.extend(pair.wander(1, ADDRS, [&[], &[]]));
    }
    assert!(ways.contains(&addr(ADDRS[1])));
}

#[test]
fn garbage_from_many_addresses_hides_no_stray_of_a_peer() {
    let mut pair = Pair::new(modes()[0].clone());
    let mut ways = Vec::new();
    for _ in 0..200 {
        for from in 0..50 {
            pair.hear(0, &format!("198.51.100.{from}:9"), &stray());
        }
        pair.hear(0, ADDRS[1], &stray());
        ways.extend(pair.wander(1, ADDRS, [&[], &[]]));
    }
    assert!(ways.contains(&addr(ADDRS[1])));
}

/// One that is greeted again and again in vain keeps nobody else from being greeted.
#[test]
fn who_has_strayed_is_greeted_in_turn() {
    let mut pair = Pair::with(modes()[0].clone(), |config| {
        config.connect_timeout_ns = 50_000_000;
    });
    let other = "10.0.0.3:7000";
    pair.nodes[0].add_peer(PeerId(2), addr(other));
    let mut ways = Vec::new();
    for _ in 0..400 {
        pair.hear(0, ADDRS[1], &stray());
        pair.hear(0, other, &stray());
        ways.extend(pair.wander(1, ADDRS, [&[], &[]]));
    }
    assert!([ADDRS[1], other].iter().all(|to| ways.contains(&addr(to))));
}

/// The first sends to the second, which was restarted and does not know it: what comes is dropped without a word.
#[test]
fn who_was_restarted_and_knows_nobody_is_noticed_before_it_counts_as_silent() {
    for mode in modes() {
        let mut pair = Pair::new(mode);
        let send = |pair: &mut Pair| {
            let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 7, b"hello", false);
            sent.unwrap();
        };
        send(&mut pair);
        pair.carry();
        pair.nodes[1] = Node::new(pair.nodes[1].config().clone(), [9; 32]);
        send(&mut pair);
        pair.wander(4_000, ADDRS, [&ADDRS[..1], &ADDRS[1..]]);
        let events = pair.events(0);
        let restarted = |event: &Event| {
            matches!(
                event,
                Event::Lost {
                    why: PeerLost::Restarted,
                    unsent_messages: 1,
                    ..
                }
            )
        };
        assert!(events.iter().any(restarted), "{events:?}");
        assert_eq!(pair.nodes[0].peer_state(PeerId(1)), Some(LinkState::Open));
        assert!(pair.nodes[1].try_take(&Match::any()).is_none());
        pair.nodes[0].begin_anew(PeerId(1));
        send(&mut pair);
        pair.carry();
        assert!(pair.nodes[1].try_take(&Match::any()).is_some());
        assert!(pair.nodes[0].is_settled());
    }
}

/// Nothing of connections gets through for a while, but handshakes do: the same process answers, and nothing is lost.
#[test]
fn who_inquires_in_vain_loses_nothing() {
    for sender in [0, 1] {
        let mut pair = Pair::new(modes()[0].clone());
        let to = PeerId(1 - sender as u32);
        for len in [10, 100_000] {
            let body = vec![3; len].into();
            pair.nodes[sender]
                .send(pair.now_ns, to, 7, body, false)
                .unwrap();
            pair.carry();
            pair.nodes[1 - sender].try_take(&Match::any()).unwrap();
        }
        let body = vec![4; 100_000].into();
        pair.nodes[sender]
            .send(pair.now_ns, to, 8, body, false)
            .unwrap();
        let mut handshakes = 0;
        for _ in 0..7_000 {
            pair.now_ns += 1_000_000;
            for (who, from) in ADDRS.iter().enumerate() {
                pair.nodes[who].handle_deadline(pair.now_ns);
                for (_, datagram) in sent(&mut pair.nodes[who], pair.now_ns) {
                    let (prelude, _) = Prelude::parse(&datagram).unwrap();
                    if prelude.kind != Kind::Data {
                        handshakes += 1;
                        pair.hear(1 - who, from, &datagram);
                    }
                }
            }
        }
        assert!((2..=40).contains(&handshakes), "{handshakes}");
        pair.wander(7_000, ADDRS, [&ADDRS[..1], &ADDRS[1..]]);
        assert!(!pair.events(0).iter().chain(&pair.events(1)).any(is_lost));
        let message = pair.nodes[1 - sender].try_take(&Match::any()).unwrap();
        assert_eq!(message.body.len(), 100_000);
        pair.wander(10, ADDRS, [&ADDRS[..1], &ADDRS[1..]]);
        assert!(pair.nodes[sender].is_settled());
        for node in &pair.nodes {
            // What attempts had reserved is free again.
            assert!(node.hub.mailbox.logs.used < 2 * node.config().log_window);
            assert_eq!(node.peers.half_open(), 0);
        }
    }
}
