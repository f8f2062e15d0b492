//! Which packets may leave before what waits for the host's own link.

use super::*;

/// A connected pair, the first of which has just sent data to somebody else, or to nobody.
fn pair(busy: bool) -> Pair {
    let mut pair = Pair::new(modes()[0].clone());
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    if busy {
        pair.nodes[0].hub.own_link.on_data(99, 1, pair.now_ns);
    }
    pair
}

impl Pair {
    /// Sends so many bytes and carries them until nothing is left to carry: how many trains of the first node were express,
    /// and how many were not.
    fn trains(&mut self, from: [usize; 2]) -> [usize; 2] {
        for (index, bytes) in from.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0) {
            let to = PeerId(1 - index as u32);
            let sent = self.nodes[index].send(self.now_ns, to, 1, vec![0; bytes].into(), false);
            sent.expect("there is room");
        }
        let (mut counts, mut idle) = ([0, 0], 0);
        let mut buffer = vec![0; 65_536];
        while idle < 20 {
            idle += 1;
            self.now_ns += 10_000;
            for (from, addr) in ADDRS.iter().enumerate() {
                self.nodes[from].handle_deadline(self.now_ns);
                while let Some(train) = self.nodes[from].poll_transmit(self.now_ns, &mut buffer) {
                    idle = 0;
                    counts[usize::from(!train.express)] += usize::from(from == 0);
                    let bytes = &mut buffer[..train.bytes];
                    let addr = addr.parse().unwrap();
                    let to = &mut self.nodes[1 - from];
                    to.handle_datagrams(self.now_ns, addr, None, train.segment, false, bytes);
                }
            }
        }
        counts
    }
}

#[test]
fn words_and_what_is_alone_overtake_data_for_others() {
    let mut idle = pair(false);
    assert_eq!(idle.trains([0, 300_000])[0], 0, "nothing to overtake");
    let mut busy = pair(true);
    let [express, in_turn] = busy.trains([0, 300_000]);
    assert!(express > 2 && in_turn == 0, "{express} and {in_turn}");
    assert_eq!(busy.trains([64, 0]), [1, 0]);
    let [express, in_turn] = busy.trains([300_000, 0]);
    assert!(express == 0 && in_turn > 4, "{express} and {in_turn}");
}

/// Else the peer would take what is overtaken for lost.
#[test]
fn nothing_overtakes_what_is_for_the_same_peer() {
    let mut pair = pair(true);
    let short = |pair: &mut Pair| {
        let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 1, b"short", false);
        sent.expect("there is room");
        pair.pass_train().express
    };
    assert!(short(&mut pair), "it is alone");
    assert!(!short(&mut pair), "one in a round trip");
    pair.carry();
    pair.nodes[0].disconnect(pair.now_ns, PeerId(1)).unwrap();
    assert!(pair.pass_train().express, "all has arrived");
}
