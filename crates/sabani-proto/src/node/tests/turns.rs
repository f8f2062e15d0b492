//! Receives from anybody, while one sender's message is still coming. The other sender is the node itself.

use super::*;

/// The second node has the beginning of a message of the first.
fn with_a_message_on_its_way() -> Pair {
    let mut pair = Pair::new(modes()[0].clone());
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    let sent = pair.nodes[0].send(pair.now_ns, PeerId(1), 1, vec![7; 300_000].into(), false);
    sent.unwrap();
    while pair.nodes[1].probe(&Match::any()).is_none() {
        pair.step();
    }
    pair
}

fn send_to_itself(pair: &mut Pair, tag: u64) {
    let sent = pair.nodes[1].send_copy(pair.now_ns, PeerId(1), tag, b"here", false);
    sent.unwrap();
}

#[test]
fn whole_messages_of_others_are_taken_first() {
    let mut pair = with_a_message_on_its_way();
    let any = Match::any();
    assert!(pair.nodes[1].try_take(&any).is_none());
    send_to_itself(&mut pair, 2);
    assert_eq!(pair.nodes[1].try_take(&any).unwrap().tag, 2);
    assert!(pair.nodes[1].try_take(&any).is_none());
    pair.carry();
    send_to_itself(&mut pair, 3);
    assert_eq!(
        pair.nodes[1].try_take(&any).unwrap().tag,
        1,
        "it was here before"
    );
    assert_eq!(pair.nodes[1].try_take(&any).unwrap().tag, 3);
}

#[test]
fn a_receive_from_anybody_is_posted_for_what_is_here_or_never_fits() {
    let mut pair = with_a_message_on_its_way();
    let any = Match::any();
    assert!(!pair.nodes[1].is_time_to_post(&any, 1 << 20), "it comes");
    assert!(pair.nodes[1].is_time_to_post(&any, 1 << 10), "too long");
    send_to_itself(&mut pair, 2);
    assert!(pair.nodes[1].is_time_to_post(&any, 1 << 10));
    assert_eq!(pair.nodes[1].try_take(&any).unwrap().tag, 2);
    pair.carry();
    assert!(pair.nodes[1].is_time_to_post(&any, 1 << 20));
}

#[test]
fn a_receive_from_anybody_is_posted_for_what_comes_only_then() {
    let mut pair = Pair::with(modes()[1].clone(), |config| config.memory_bytes = 1 << 20);
    let sent = pair.nodes[0].send(pair.now_ns, PeerId(1), 1, vec![7; 900_000].into(), false);
    sent.unwrap();
    pair.carry();
    let any = Match::any();
    assert!(!pair.nodes[1].probe(&any).unwrap().complete);
    assert!(pair.nodes[1].is_time_to_post(&any, 1 << 20));
    let ticket = pair.nodes[1].post(any, None);
    pair.carry();
    let received = pair.nodes[1].take_received(ticket).unwrap().unwrap();
    assert_eq!(received.body().len(), 900_000);
}
