//! Into how many trains what waits for a peer is cut, and where.

use super::*;

/// Two nodes, the first of which has a message of so many bytes to send behind a short one that is on its way or has arrived.
fn pair(bytes: usize, arrived: bool) -> Pair {
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
    pair
}

/// Packets of each train that leaves.
fn trains(bytes: usize, arrived: bool) -> Vec<usize> {
    let mut pair = pair(bytes, arrived);
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

/// Each would cost a system call otherwise.
#[test]
fn messages_of_which_no_more_fit_into_a_packet_share_trains() {
    for bytes in [500, 720, 1_000] {
        let mut pair = pair(1, true);
        pair.carry();
        let mut sent = vec![0];
        let mut send = |pair: &mut Pair, bytes: usize| {
            let body = vec![1; bytes].into();
            let accepted = pair.nodes[0].send(pair.now_ns, PeerId(1), 1, body, false);
            accepted.expect("there is room");
            sent.push(bytes);
        };
        // A longer one among them begins a train of its own.
        (0..30).for_each(|_| send(&mut pair, bytes));
        send(&mut pair, 1_024);
        (0..30).for_each(|_| send(&mut pair, bytes));
        let mut trains = 0;
        while pair.nodes[0].has_queued() {
            let train = pair.pass_train();
            assert!(
                train.bytes.div_ceil(train.segment) <= 64,
                "the kernel's limit"
            );
            trains += 1;
        }
        assert!(trains <= 6, "{trains} trains of messages of {bytes} bytes");
        pair.carry();
        let came = std::iter::from_fn(|| pair.nodes[1].try_take(&Match::any()));
        assert_eq!(
            came.skip(2).map(|one| one.body.len()).collect::<Vec<_>>(),
            sent[1..]
        );
    }
}

/// What may wait for long is an end: else its receiver would owe nothing, and the sender would ask with a POLL.
#[test]
fn a_train_behind_which_a_rest_stays_is_full_and_asks() {
    const REST: usize = 62 << 10;
    for bytes in [64 << 10, 90 << 10, 120 << 10] {
        let mut pair = pair(bytes, false);
        let mut buffer = vec![0; 65_536];
        let waiting = |pair: &Pair| pair.nodes[0].waiting(PeerId(1)).bytes;
        pair.nodes[0].keep_rest(Some((PeerId(1), REST)));
        while waiting(&pair) >= REST {
            let train = pair.nodes[0]
                .poll_transmit(pair.now_ns, &mut buffer)
                .unwrap();
            let (bytes, segment) = (&mut buffer[..train.bytes], train.segment);
            assert_eq!(bytes.len(), 44 * segment);
            let last = &bytes[bytes.len() - segment..];
            let asks = Prelude::parse(last).unwrap().0.flags & Prelude::ASK != 0;
            assert_eq!(asks, waiting(&pair) < REST);
            let from = ADDRS[0].parse().unwrap();
            pair.nodes[1].handle_datagrams(pair.now_ns, from, None, segment, false, bytes);
        }
        assert!(waiting(&pair) > 0 && pair.nodes[0].has_queued());
        assert!(!pair.nodes[0].may_send_beside(pair.now_ns, PeerId(1)));
        // The peer asks for a grant: that waits for nothing.
        let asks = pair.nodes[1].send(pair.now_ns, PeerId(0), 1, vec![0; 1 << 20].into(), false);
        asks.expect("there is room");
        pair.pass_train_from(1);
        assert!(pair.nodes[0].may_send_beside(pair.now_ns, PeerId(1)));
        pair.nodes[0].keep_rest(None);
        pair.carry();
        let last = std::iter::from_fn(|| pair.nodes[1].try_take(&Match::any())).last();
        assert_eq!(last.unwrap().body.len(), bytes);
        let counters = pair.nodes[0].peer_stats(PeerId(1)).unwrap().counters;
        assert_eq!(counters.polls, 0);
    }
}
