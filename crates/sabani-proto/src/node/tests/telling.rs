//! What the program is told.

use super::*;
use crate::Limit;

/// Sends bodies of so many bytes until there is no room; how many that were, and what is said then.
fn fill(pair: &mut Pair, bytes: usize) -> (usize, SendError) {
    let mut accepted = 0;
    loop {
        let body = vec![0; bytes].into();
        if let Err(full) = pair.nodes[0].send(pair.now_ns, PeerId(1), 0, body, false) {
            return (accepted, full);
        }
        accepted += 1;
    }
}

#[test]
fn who_finds_no_room_is_told_what_is_in_the_way() {
    let limit = |full: &SendError| match full {
        SendError::Full { limit, .. } => *limit,
        other => panic!("{other}"),
    };
    for bytes in [4 << 10, 1 << 20] {
        let mut pair = Pair::new(modes()[1].clone());
        let (_, full) = fill(&mut pair, bytes);
        assert_eq!(limit(&full), Limit::Handshake);
        let addr = ADDRS[1].parse().unwrap();
        pair.nodes[0].handle_unreachable_hint(pair.now_ns, addr, Obstacle::Network(111));
        let full = fill(&mut pair, bytes).1.to_string();
        assert!(full.contains("no connection to it yet: "), "{full}");
        // Nobody takes anything there.
        let full = loop {
            pair.carry();
            if let (0, full) = fill(&mut pair, bytes) {
                break full;
            }
        };
        assert_eq!(limit(&full), Limit::Grant, "{full}");
    }
}

#[test]
fn messages_count_from_the_first_whether_or_not_there_is_a_connection() {
    let mut pair = Pair::new(modes()[0].clone());
    let sent = |pair: &Pair| {
        let (node, peer) = (&pair.nodes[0], PeerId(1));
        let of_peer = node.peer_stats(peer).unwrap().counters.messages_sent;
        (node.stats().counters.messages_sent, of_peer)
    };
    for number in 1..=3 {
        let body = b"early".to_vec().into();
        pair.nodes[0].send(0, PeerId(1), 0, body, false).unwrap();
        assert_eq!(sent(&pair), (number, number));
    }
    pair.carry();
    assert_eq!(sent(&pair), (3, 3));
    let received = |pair: &Pair| pair.nodes[1].stats().counters.messages_received;
    assert_eq!(received(&pair), 3);
    // Those of connections that have ended count as well, at both ends.
    pair.replace_first(9);
    pair.carry();
    assert_eq!(received(&pair), 3);
}
