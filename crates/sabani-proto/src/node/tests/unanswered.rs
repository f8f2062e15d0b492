//! A peer that is heard and acknowledges nothing.

use super::*;
use crate::event::Event;

/// Until the first loses the connection; of what it sends, only datagrams of up to `longest` bytes arrive. How long that took,
/// if it was no more than `most_ns`.
fn time_until_lost(pair: &mut Pair, longest: usize, most_ns: u64) -> Option<u64> {
    let begun_ns = pair.now_ns;
    let mut buffer = vec![0; 65_536];
    while pair.now_ns < begun_ns + most_ns {
        for (from, addr) in ADDRS.iter().enumerate() {
            let addr = addr.parse().unwrap();
            pair.nodes[from].handle_deadline(pair.now_ns);
            while let Some(train) = pair.nodes[from].poll_transmit(pair.now_ns, &mut buffer) {
                for datagram in buffer[..train.bytes].chunks_mut(train.segment) {
                    let len = datagram.len();
                    if from == 1 || len <= longest {
                        let to = &mut pair.nodes[1 - from];
                        to.handle_datagrams(pair.now_ns, addr, None, len, false, datagram);
                    }
                }
            }
        }
        while let Some(event) = pair.nodes[0].next_event() {
            if let Event::Lost { .. } = event {
                return Some(pair.now_ns - begun_ns);
            }
        }
        let next = pair.nodes.iter_mut().filter_map(Node::next_deadline).min();
        let soonest = pair.now_ns + 10_000;
        pair.now_ns = next
            .unwrap_or(u64::MAX)
            .clamp(soonest, soonest + 10_000_000);
    }
    None
}

/// A lone packet is taken back by each POLL and leaves anew with it; for as long as the peer was heard, that went on for ever.
#[test]
fn who_is_heard_and_never_acknowledges_is_lost_however_little_waits() {
    for (messages, max_datagram) in [(2, 1_200), (1, 1_200), (1, 1_472)] {
        let mut pair = Pair::with(modes()[1].clone(), |config| {
            config.max_datagram = max_datagram;
        });
        let send = |pair: &mut Pair, body: &[u8]| {
            let (node, now_ns) = (&mut pair.nodes[0], pair.now_ns);
            node.send_copy(now_ns, PeerId(1), 1, body, false).unwrap();
        };
        send(&mut pair, b"hello");
        pair.carry();
        for _ in 0..messages {
            send(&mut pair, &[7; 1_000]);
        }
        let lost_ns = time_until_lost(&mut pair, 500, 120_000_000_000);
        let seconds = lost_ns.expect("it is lost") / 1_000_000_000;
        assert!((20..30).contains(&seconds), "{messages}: after {seconds} s");
    }
}
