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
fn a_receive_that_does_not_wait_takes_what_is_whole_and_says_what_never_fits() {
    let mut pair = with_a_message_on_its_way();
    let any = Match::any();
    let node = &mut pair.nodes[1];
    assert!(node.try_receive(&any, 1 << 20).is_none());
    let too_small = node.try_receive(&any, 1 << 10);
    assert!(
        matches!(too_small, Some(Err(RecvError::TooSmall { ref envelope, room: 1024, .. })) if envelope.tag == 1),
        "{too_small:?}"
    );
    send_to_itself(&mut pair, 2);
    let node = &mut pair.nodes[1];
    assert_eq!(node.try_receive(&any, 1 << 10).unwrap().unwrap().tag, 2);
    pair.carry();
    let whole = pair.nodes[1].try_receive(&any, 1 << 20).unwrap().unwrap();
    assert_eq!((whole.tag, whole.body().len()), (1, 300_000));
}
