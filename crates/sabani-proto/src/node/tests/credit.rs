//! Credit that a node gives, and what it tells of it.

use super::*;

/// The window that the first node tells with the next packet.
fn told_window(pair: &mut Pair) -> u32 {
    let mut buffer = vec![0; 65_536];
    let train = pair.nodes[0].poll_transmit(pair.now_ns, &mut buffer);
    let packet = &buffer[Prelude::LEN..train.expect("there is one").bytes];
    let mut frames = Frames::new(packet).flatten();
    let window = frames.find_map(|frame| match frame {
        Frame::Ack(ack) => Some(ack.window),
        _ => None,
    });
    window.expect("it acknowledges")
}

/// Standing credit decays in silence, and others get it: whoever then sent a short message, and got its answer before any
/// credit was given anew, was told all that it had once had.
#[test]
fn credit_that_has_decayed_is_not_told_again() {
    let mut pair = Pair::new(modes()[1].clone());
    let send = |pair: &mut Pair, from: u32, body: &[u8]| {
        let (node, now_ns) = (&mut pair.nodes[from as usize], pair.now_ns);
        let accepted = node.send_copy(now_ns, PeerId(1 - from), 1, body, false);
        accepted.unwrap();
    };
    for _ in 0..3 {
        send(&mut pair, 1, &[7; 1_000]);
        pair.carry();
    }
    let index = pair.nodes[0].peers.index(PeerId(1)).unwrap();
    let once = pair.nodes[0].hub.granter.window(index);
    for _ in 0..100 {
        pair.now_ns += 10_000_000;
        pair.carry();
    }
    assert_eq!(pair.nodes[0].hub.granter.window(index), 0, "it has decayed");
    for other in 100..120 {
        pair.nodes[0].hub.granter.admit(other, pair.now_ns);
    }
    send(&mut pair, 1, &[7; 100]);
    pair.pass_train_from(1);
    send(&mut pair, 0, b"answer");
    let told = told_window(&mut pair);
    pair.nodes[0].next_deadline();
    let counted = pair.nodes[0].hub.granter.window(index);
    assert!(told <= counted, "told {told}, counted {counted}");
    assert!(counted < once, "others have most of it");
}

/// It grows by doubling, and nothing is twice nothing: no message ever came.
#[test]
fn no_first_log_credit_at_all_is_taken_for_the_least() {
    let mut pair = Pair::with(modes()[1].clone(), |config| config.log_window = 0);
    let (node, now_ns) = (&mut pair.nodes[0], pair.now_ns);
    node.send_copy(now_ns, PeerId(1), 1, b"hello", false)
        .unwrap();
    for _ in 0..100 {
        pair.carry();
    }
    assert!(pair.nodes[1].try_take(&Match::any()).is_some());
}
