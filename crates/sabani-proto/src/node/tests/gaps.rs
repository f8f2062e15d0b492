//! What acknowledgements tell of packets that never come.

use super::*;

/// Carries what both send within 10 µs, but every seventh datagram of the second node's.
fn step_with_loss(pair: &mut Pair, sent: &mut u32) {
    let mut buffer = vec![0; 65_536];
    pair.now_ns += 10_000;
    for (from, addr) in ADDRS.iter().enumerate() {
        let addr = addr.parse().unwrap();
        pair.nodes[from].handle_deadline(pair.now_ns);
        while let Some(train) = pair.nodes[from].poll_transmit(pair.now_ns, &mut buffer) {
            for datagram in buffer[..train.bytes].chunks_mut(train.segment) {
                *sent += from as u32;
                if from == 1 && sent.is_multiple_of(7) {
                    continue;
                }
                let (len, to) = (datagram.len(), &mut pair.nodes[1 - from]);
                to.handle_datagrams(pair.now_ns, addr, None, len, false, datagram);
            }
        }
    }
}

/// Most of what comes back is words that don't go again: the gaps that their loss leaves are told with each packet of
/// data, 8 bytes each, until the peer says that nothing comes there any more. (Of 1,416 bytes of a message there were 1,132
/// left in a packet after a few seconds, with one packet in a hundred lost.)
#[test]
fn gaps_that_nothing_fills_are_not_told_for_long() {
    let mut pair = Pair::new(modes()[0].clone());
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    let mut sent = 0;
    for tag in 0..400 {
        let message = pair.nodes[1].post(Match::any(), None);
        let body = vec![tag as u8; 30_000];
        let now_ns = pair.now_ns;
        let accepted = pair.nodes[0].send(now_ns, PeerId(1), tag, body.into(), false);
        accepted.unwrap();
        while !pair.nodes[1].has_ended(message) {
            step_with_loss(&mut pair, &mut sent);
        }
        let received = pair.nodes[1].take_received(message);
        assert_eq!(received.unwrap().unwrap().body()[0], tag as u8);
    }
    assert!(sent > 200, "{sent} datagrams came back");
    let peer = pair.nodes[0].peers.iter().next().unwrap();
    let packets = &peer.session().unwrap().channel.received.packets;
    let gaps = packets.report().1.len();
    assert!(gaps < 5, "{gaps} gaps are told");
}
