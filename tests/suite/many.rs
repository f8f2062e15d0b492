//! One socket, many peers; one node, many threads.

use std::thread;
use std::time::Duration;

use sabani::{AddressBook, Match, Node, PeerId};
use sabani_tests::{fill, is_intact};

use crate::{node, nodes};

const SOON: Duration = Duration::from_secs(60);

#[test]
fn one_node_talks_to_a_hundred() {
    let frugal = |id| {
        node(id, |builder| {
            builder.spin(Duration::ZERO).socket_buffers(256 << 10)
        })
    };
    let hub = frugal(0);
    let spokes: Vec<Node> = (1..=100).map(frugal).collect();
    for spoke in &spokes {
        hub.add_peer(spoke.id(), spoke.local_addr()).unwrap();
    }
    for spoke in &spokes {
        hub.send_owned(spoke.id(), u64::from(spoke.id().0), fill(1, 5_000))
            .unwrap();
    }
    for spoke in &spokes {
        let message = spoke.recv_timeout(Match::any(), SOON).unwrap().unwrap();
        assert_eq!(message.tag, u64::from(spoke.id().0));
        assert!(is_intact(1, message.body()));
        spoke.send(PeerId(0), 7, message.body()).unwrap();
    }
    for spoke in &spokes {
        let wanted = Match::any().from(spoke.id()).tag(7);
        let answer = hub.recv_timeout(wanted, SOON).unwrap().unwrap();
        assert!(is_intact(1, answer.body()));
    }
    let stats = hub.stats();
    assert_eq!((stats.peers, stats.connections), (100, 100));
}

#[test]
fn thousands_of_known_peers_cost_nothing() {
    let mut book = AddressBook::new();
    for id in 1..=20_000 {
        book.insert(PeerId(id), "127.0.0.1:9".parse().unwrap());
    }
    let other = node(20_001, |builder| builder);
    book.insert(other.id(), other.local_addr());
    let hub = node(0, |builder| builder.addresses(book.clone()));
    hub.send(other.id(), 1, b"hello").unwrap();
    let message = other.recv_timeout(Match::any(), SOON).unwrap().unwrap();
    assert_eq!(message.body(), b"hello");
    let stats = hub.stats();
    assert_eq!((stats.peers, stats.connections), (20_001, 1));
}

#[test]
fn threads_share_a_node_without_mixing_their_messages() {
    const COUNT: u64 = 300;
    let (left, right) = nodes();
    thread::scope(|scope| {
        for tag in 0..6_u64 {
            let (left, right) = (&left, &right);
            let len = move |number: u64| (number * (tag + 1) * 37 % 20_000) as usize;
            scope.spawn(move || {
                for number in 0..COUNT {
                    let body = fill(number, len(number));
                    left.send_owned(PeerId(1), tag, body).unwrap();
                }
            });
            scope.spawn(move || {
                for number in 0..COUNT {
                    let wanted = Match::any().tag(tag);
                    let message = right.recv_timeout(wanted, SOON).unwrap().unwrap();
                    assert_eq!(message.body().len(), len(number));
                    assert!(is_intact(number, message.body()));
                }
            });
        }
    });
}

#[test]
fn closing_wakes_the_threads_that_wait() {
    let (left, _right) = nodes();
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| left.recv_timeout(Match::any(), SOON)))
            .collect();
        thread::sleep(Duration::from_millis(50));
        left.close(Duration::ZERO).unwrap();
        for thread in waiting {
            let result = thread.join().unwrap();
            assert!(matches!(result, Err(sabani::Error::Closed)), "{result:?}");
        }
    });
}
