//! Messages that the program throws away.

use std::time::Duration;

use sabani_proto::{Config, Event, Match, PeerId, RecvError, Value};
use sabani_sim::{MS, Network, Reading, SEC, US, Wish, checker, sealed};

use crate::{A, B, peer_stats, sound, warm_pair};

/// B's program throws away the messages that match and are announced by now.
fn discard(net: &mut Network, wanted: Match) {
    let before = std::mem::replace(&mut net.host(B).program.reading, Reading::Discard(wanted));
    net.kick(B);
    net.run_for(US);
    net.host(B).program.reading = before;
    net.kick(B);
}

fn discarded(net: &Network) -> usize {
    let messages = net.checker.ledger.messages();
    let discarded = messages.filter(|(_, _, sent)| sent.fate == checker::Fate::Discarded);
    discarded.count()
}

/// A pair whose second program receives nothing, and has room for 1 MiB.
fn tight_pair(seed: u64) -> Network {
    let mut net = Network::mesh(seed, 2, &sealed(), |config: &mut Config| {
        config.memory_bytes = 1 << 20;
        config.send_queue_bytes = 256 << 20;
    });
    net.host(B).program.reading = Reading::Nothing;
    net
}

#[test]
fn a_message_beyond_all_memory_is_thrown_away_without_any() {
    let mut net = tight_pair(1);
    net.send_as(A, B, 0, 64 << 20, true);
    net.send(A, B, 10);
    net.run_for(10 * MS);
    let node = net.host(B).node();
    let ticket = node.post(Match::any(), None);
    match node.take_received(ticket) {
        Some(Err(error @ RecvError::TooLarge { .. })) => {
            assert!(error.to_string().contains("discard it"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        node.oversized(&Match::any()),
        Some(RecvError::TooLarge { .. })
    ));
    let reserved = node.stats().unmatched_bytes;
    discard(&mut net, Match::any().tag(0));
    let node = net.host(B).node();
    assert!(node.oversized(&Match::any()).is_none());
    let next = node.try_take(&Match::any()).expect("the way is free");
    assert_eq!(next.tag, 1);
    net.note_received(B, &next);
    for _ in 0..20 {
        net.run_for(MS);
        let stats = net.host(B).node().stats();
        assert_eq!((stats.unmatched_bytes, stats.posted_bytes), (reserved, 0));
    }
    // Somebody waits to hear that the message has arrived, and does.
    sound(net.settle(5 * SEC));
    assert_eq!((net.checker.delivered, discarded(&net)), (1, 1));
    sound(net.close_all(SEC, SEC));
}

/// Whatever of it is here: nothing, a part, or all of it; and whether or not a receive
/// had asked for it that was withdrawn.
#[test]
fn messages_go_in_every_state() {
    for (seed, len) in (1..).zip([0, 1_000, 100_000, 400_000, 2 << 20, 8 << 20]) {
        for later_ns in [0, 30 * US, 200 * US, 2 * MS, 50 * MS] {
            for posts in [false, true] {
                let mut net = tight_pair(seed);
                net.links(|link| link.bits_per_second = 5_000_000_000);
                net.link(A, B).faults.loss = 0.02;
                net.link(B, A).faults.loss = 0.02;
                net.send(A, B, 10);
                net.run_for(5 * MS);
                let unwanted = [1, 3].map(|sequence| Match::any().tag(checker::tag(1, sequence)));
                let ticket = posts.then(|| {
                    let buffer = Some(vec![0; len]);
                    net.host(B).node().post(unwanted[0], buffer)
                });
                for (class, len) in [(1, len), (0, 20), (1, len), (0, 30_000)] {
                    net.send_as(A, B, class, len, true);
                }
                net.run_for(later_ns);
                if let Some(ticket) = ticket {
                    net.host(B).node().abandon(ticket);
                }
                for (before, unwanted) in unwanted.into_iter().enumerate() {
                    while discarded(&net) == before {
                        discard(&mut net, unwanted);
                        net.run_for(10 * US);
                    }
                }
                net.host(B).program.reading = Reading::Take(Match::any());
                net.kick(B);
                sound(net.settle(20 * SEC));
                assert_eq!((net.checker.delivered, discarded(&net)), (3, 2));
                let stats = peer_stats(&mut net, B, A);
                assert_eq!(stats.backlog_bytes, 0);
                sound(net.close_all(SEC, SEC));
            }
        }
    }
}

/// Many that nobody wants, among others: none is missed, and the others keep their order.
#[test]
fn one_sort_is_thrown_away_and_the_other_taken() {
    let mut net = tight_pair(7);
    net.link(A, B).faults.loss = 0.01;
    for number in 0..300 {
        let len = [0, 50, 3_000, 70_000, 300_000, 3 << 20][number % 6];
        net.send_as(A, B, (number % 7 % 2) as u8, len, number % 3 == 0);
    }
    let sort = |class| Match::any().tag_mask(checker::tag(class, 0), checker::CLASS_MASK);
    let mut rounds = 0;
    while !net.host(A).program.is_idle() || !net.host(A).node().is_settled() {
        net.host(B).program.reading = match rounds % 2 {
            0 => Reading::Discard(sort(0)),
            _ => Reading::Post {
                wanted: sort(1),
                ahead: 2,
                buffer: 3 << 20,
            },
        };
        net.kick(B);
        net.run_for(MS);
        rounds += 1;
        assert!(rounds < 20_000, "{} of 300", discarded(&net));
    }
    sound(net.verdict());
    let unwanted = (0..300).filter(|number| number % 7 % 2 == 0).count();
    assert_eq!(discarded(&net), unwanted);
}

/// The sender may give a message up that is coming for nobody: nobody is told.
#[test]
fn what_was_thrown_away_may_expire() {
    let mut net = warm_pair(3, &sealed());
    net.links(|link| {
        link.bits_per_second = 10_000_000;
        link.queue_bytes = 32 << 10;
    });
    net.host(B).program.reading = Reading::Nothing;
    let wish = Wish {
        len: 1 << 20,
        value: Value::Within(Duration::from_millis(100)),
        ..Wish::default()
    };
    net.send_wish(A, B, wish);
    net.run_for(20 * MS);
    discard(&mut net, Match::any());
    net.run_for(200 * MS);
    assert_eq!(discarded(&net), 1);
    assert_eq!(peer_stats(&mut net, A, B).expired_sent, 1);
    let mut events = net.host(B).program.events.iter();
    assert!(!events.any(|event| matches!(event, Event::Expired { .. })));
    assert_eq!(peer_stats(&mut net, B, A).backlog_bytes, 0);
    assert_eq!(
        net.host(B).node().probe(&Match::any().from(PeerId(A.0))),
        None
    );
    sound(net.settle(SEC));
    sound(net.close_all(SEC, SEC));
}

/// The connection ends while what nobody wants still comes: nothing is left of it.
#[test]
fn a_sender_may_die_meanwhile() {
    let mut net = tight_pair(4);
    net.send(A, B, 100 << 20);
    net.run_for(5 * MS);
    discard(&mut net, Match::any());
    net.run_for(MS);
    net.crash(A);
    net.restart(A, true);
    net.send(A, B, 10);
    net.host(B).program.reading = Reading::Take(Match::any());
    net.kick(B);
    sound(net.settle(20 * SEC));
    sound(net.close_all(SEC, SEC));
}
