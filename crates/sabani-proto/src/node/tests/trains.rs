//! Into how many trains what waits for a peer is cut, and where.

use super::*;

/// Packets of the first train and of all that leave, for a message of so many bytes behind a short one that is on its way or has
/// arrived.
fn trains(bytes: usize, arrived: bool) -> Vec<usize> {
    let mut pair = Pair::with(modes()[1].clone(), |config| {
        config.max_datagram = 1_472;
    });
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    let send = |pair: &mut Pair, bytes: usize| {
        let sent = pair.nodes[0].send(pair.now_ns, PeerId(1), 1, vec![0; bytes].into(), false);
        sent.expect("there is room");
    };
    send(&mut pair, 1);
    pair.pass_train();
    if arrived {
        pair.carry();
    }
    send(&mut pair, bytes);
    let mut buffer = vec![0; 65_536];
    let mut next = || pair.nodes[0].poll_transmit(pair.now_ns, &mut buffer);
    std::iter::from_fn(|| next().map(|train| train.bytes.div_ceil(train.segment))).collect()
}

/// The first is taken in while the second is built and sent: 44 packets fit, and all would wait for those otherwise.
#[test]
fn what_takes_two_trains_is_cut_where_it_arrives_earliest() {
    for (bytes, arrived) in [(64 << 10, true), (64 << 10, false), (63_000, false)] {
        let [first, second] = trains(bytes, arrived)[..] else {
            panic!("it needs two");
        };
        assert!((30..=32).contains(&first), "{first} and {second}");
        assert!((44..=48).contains(&(first + second)), "{first}, {second}");
    }
    assert_eq!(trains(40 << 10, false).len(), 1, "it fits");
}
