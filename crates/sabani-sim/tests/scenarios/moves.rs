//! Peers whose address changes under a connection, and others who pretend that it does.

use std::cell::RefCell;
use std::rc::Rc;

use sabani_proto::Event;
use sabani_proto::wire::Prelude;
use sabani_sim::{HostId, MS, Network, SEC, US, sealed};

use crate::hostile::{capture, nobody_was_flooded, stranger};
use crate::{A, B, peer_stats, plain, sound, warm_pair};

/// How often a host was told that a peer has moved.
fn moves(net: &mut Network, at: HostId) -> usize {
    let events = net.host(at).program.events.iter();
    events
        .filter(|event| matches!(event, Event::Moved { .. }))
        .count()
}

/// Where a host sends what is for another.
#[track_caller]
fn knows_where(net: &mut Network, at: HostId, of: HostId) {
    let addr = net.host(of).addr;
    assert_eq!(peer_stats(net, at, of).address, Some(addr));
}

#[track_caller]
fn nothing_was_lost(net: &mut Network) {
    assert_eq!((net.losses(A), net.losses(B)), (vec![], vec![]));
    assert_eq!(net.checker.excused, 0);
}

#[test]
fn a_peer_that_moves_in_the_middle_of_traffic() {
    for mode in [sealed(), plain()] {
        for (seed, far) in (1..10).flat_map(|seed| [(seed, true), (seed, false)]) {
            let mut net = warm_pair(seed, &mode);
            net.links(|link| link.faults.loss = 0.02);
            for _ in 0..30 {
                net.send(A, B, 50_000);
                net.send(B, A, 50_000);
            }
            let pause = net.rng().below(2 * MS);
            net.run_for(pause);
            net.relocate(B, far);
            sound(net.settle(SEC));
            assert_eq!(moves(&mut net, A), 1, "seed {seed}");
            assert_eq!(moves(&mut net, B), 0, "seed {seed}");
            knows_where(&mut net, A, B);
            // And on to the next place.
            net.relocate(B, far);
            net.send(B, A, 100);
            sound(net.settle(SEC));
            assert_eq!(moves(&mut net, A), 2, "seed {seed}");
            nothing_was_lost(&mut net);
        }
    }
}

#[test]
fn a_peer_that_moves_and_has_nothing_to_say() {
    for seed in 1..5 {
        let mut net = warm_pair(seed, &sealed());
        net.relocate(B, true);
        net.send(A, B, 900_000);
        // Its keep-alive shows where it is.
        sound(net.settle(5 * SEC));
        knows_where(&mut net, A, B);
        nothing_was_lost(&mut net);
    }
}

#[test]
fn a_peer_that_moves_while_it_is_disconnected() {
    for told in [false, true] {
        let mut net = warm_pair(1, &sealed());
        net.send_as(A, B, 0, 900_000, true);
        net.run_for(200 * US);
        net.set_connected(A, false);
        net.run_for(MS);
        net.relocate(B, true);
        if told {
            net.introduce_to(A);
            knows_where(&mut net, A, B);
        } else {
            net.run_for(10 * SEC);
        }
        net.set_connected(A, true);
        sound(net.settle(SEC));
        knows_where(&mut net, A, B);
        nothing_was_lost(&mut net);
    }
}

#[test]
fn recorded_packets_from_elsewhere_move_nobody() {
    for mode in [sealed(), plain()] {
        let mut net = warm_pair(1, &mode);
        let seen = capture(&mut net, B, A);
        for _ in 0..20 {
            net.send(B, A, 3_000);
        }
        sound(net.settle(SEC));
        for (index, packet) in (0..).zip(seen.borrow().iter()) {
            net.inject(stranger(index), A, packet.clone());
            net.run_for(10 * US);
        }
        net.run_for(10 * MS);
        assert!(
            net.strangers()
                .all(|(_, stranger)| stranger.received_bytes == 0)
        );
        assert_eq!(moves(&mut net, A), 0);
        nothing_was_lost(&mut net);
    }
}

/// Packets of a connection that somebody on the path has taken off the way from B to A, or has let
/// pass: number, time, bytes.
type Seen = Rc<RefCell<Vec<(u64, u64, Vec<u8>)>>>;

/// Takes one packet in `part` off the way from B to A.
fn intercept(net: &mut Network, part: u64) -> (Seen, Seen) {
    let (taken, passed) = (Seen::default(), Seen::default());
    let sinks = (taken.clone(), passed.clone());
    net.link(B, A).drop_if(move |packet| {
        let Ok((prelude, _)) = Prelude::parse(packet.bytes) else {
            return false;
        };
        let take = packet.nth % part == 0;
        let sink = if take { &sinks.0 } else { &sinks.1 };
        let seen = (prelude.packet_number, packet.at_ns, packet.bytes.to_vec());
        sink.borrow_mut().push(seen);
        take
    });
    (taken, passed)
}

#[test]
fn delayed_packets_from_elsewhere_move_nobody() {
    for mode in [sealed(), plain()] {
        let mut net = warm_pair(1, &mode);
        net.links(|link| link.bits_per_second = 0);
        let (taken, passed) = intercept(&mut net, 7);
        let mut sent = 0;
        for _ in 0..200 {
            net.send(B, A, 20_000);
            net.run_for(10 * US);
            // As soon as a newer one has arrived: later they would not even open.
            let arrived_ns = net.now_ns() - 30 * US;
            let passed = passed.borrow();
            let arrived = passed.iter().filter(|(_, at_ns, _)| *at_ns <= arrived_ns);
            let newest = arrived.map(|(number, ..)| *number).max().unwrap_or(0);
            let mut taken = taken.borrow_mut();
            for (number, _, bytes) in taken.extract_if(.., |(number, ..)| *number < newest) {
                net.inject(stranger(number as u32), A, bytes);
                sent += 1;
            }
        }
        net.link(B, A).drop_if(|_| false);
        sound(net.settle(SEC));
        let refused = net.host(A).node().stats().dropped.replayed;
        assert!(refused < sent / 2, "{refused} of {sent} did not even open");
        assert!(
            net.strangers()
                .all(|(_, stranger)| stranger.received_bytes == 0)
        );
        assert_eq!(moves(&mut net, A), 0);
        nothing_was_lost(&mut net);
    }
}

#[test]
fn packets_diverted_on_the_way_move_nobody() {
    for mode in [sealed(), plain()] {
        let mut net = warm_pair(1, &mode);
        let (taken, _) = intercept(&mut net, 5);
        for round in 0..200 {
            net.send(B, A, 3_000);
            net.send(A, B, 3_000);
            net.run_for(30 * US);
            // Somebody on the path sends the newest on from elsewhere: they are challenged there,
            // and nobody can answer.
            for (_, _, packet) in taken.borrow_mut().drain(..) {
                net.inject(stranger(round % 3), A, packet);
            }
        }
        net.link(B, A).drop_if(|_| false);
        sound(net.settle(SEC));
        let challenged: u64 = net
            .strangers()
            .map(|(_, stranger)| stranger.received_bytes)
            .sum();
        assert!(challenged > 0, "the test diverts the newest packets");
        assert_eq!(moves(&mut net, A), 0);
        knows_where(&mut net, A, B);
        nothing_was_lost(&mut net);
        nobody_was_flooded(&net);
    }
}

#[test]
fn any_one_packet_about_a_new_path_may_be_lost() {
    for lost in 0..12 {
        for (from, to) in [(A, B), (B, A)] {
            let mut net = warm_pair(1, &sealed());
            net.send(B, A, 200_000);
            net.run_for(100 * US);
            net.relocate(B, true);
            let already = net.link(from, to).counters.entered;
            let nth = already + lost;
            net.link(from, to).drop_if(move |packet| packet.nth == nth);
            sound(net.settle(SEC));
            assert_eq!(moves(&mut net, A), 1);
            nothing_was_lost(&mut net);
        }
    }
}
