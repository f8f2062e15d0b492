//! Processes that die, start anew, fall silent, or are stopped for a while.

use std::cell::RefCell;
use std::rc::Rc;

use sabani_proto::wire::Kind;
use sabani_proto::{Config, PeerLost};
use sabani_sim::{HostId, MS, Network, Reading, SEC, US, sealed};

use crate::{A, B, plain, sound, warm_pair};

#[test]
fn a_restarted_peer_gets_nothing_of_its_predecessors() {
    for mode in [sealed(), plain()] {
        for seed in 1..6 {
            let mut net = warm_pair(seed, &mode);
            net.links(|link| link.faults.loss = 0.02);
            net.host(B).program.reading = Reading::Nothing;
            for len in [10, 3_000, 200_000, 900_000] {
                net.send_as(A, B, 0, len, true);
            }
            let pause = net.rng().below(300 * US);
            net.run_for(pause);
            net.restart(B, true);
            net.host(B).program.reading = Reading::Take(sabani_proto::Match::any());
            net.run_for(10 * MS);
            for len in [11, 3_001, 200_001] {
                net.send(A, B, len);
            }
            net.send(B, A, 77);
            sound(net.settle(20 * SEC));
            let losses = net.losses(A);
            assert_eq!(losses, [PeerLost::Restarted], "seed {seed}");
        }
    }
}

/// Who makes the connection to the process that lives, and whether B had begun to before it met the
/// dead one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MadeBy {
    Newcomer,
    Other,
    OtherFromBefore,
}

#[test]
fn what_a_dead_process_said_last_comes_too_late() {
    for mode in [sealed(), plain()] {
        for made_by in [MadeBy::Newcomer, MadeBy::Other, MadeBy::OtherFromBefore] {
            let mut net = Network::pair(1, &mode);
            if made_by == MadeBy::OtherFromBefore {
                net.link(B, A)
                    .drop_first(1, |packet| packet.kind() == Some(Kind::Init));
                net.send(B, A, 100);
                net.run_for(MS);
            }
            let withheld = withhold_data(&mut net, A, B);
            net.send(A, B, 200);
            net.run_for(MS);
            net.restart(A, true);
            net.link(A, B).drop_if(|_| false);
            match made_by {
                MadeBy::Newcomer => net.send(A, B, 300),
                MadeBy::Other => net.send(B, A, 400),
                MadeBy::OtherFromBefore => {}
            }
            net.run_for(100 * MS);
            net.send(A, B, 500);
            net.run_for(10 * MS);
            let source = net.host(A).addr;
            for bytes in withheld.take() {
                net.inject(source, B, bytes);
            }
            net.run_for(10 * MS);
            net.send(A, B, 600);
            net.send(B, A, 700);
            sound(net.settle(SEC));
            assert_eq!(net.losses(A), [], "{made_by:?}");
            assert_eq!(net.losses(B), [], "{made_by:?}");
        }
    }
}

/// Keeps back all data packets.
fn withhold_data(net: &mut Network, from: HostId, to: HostId) -> Rc<RefCell<Vec<Vec<u8>>>> {
    let withheld = Rc::new(RefCell::new(Vec::new()));
    let sink = withheld.clone();
    net.link(from, to).drop_if(move |packet| {
        if packet.is_data() {
            sink.borrow_mut().push(packet.bytes.to_vec());
        }
        packet.is_data()
    });
    withheld
}

#[test]
fn a_peer_that_restarts_again_and_again() {
    for seed in 1..5 {
        let seal_below = seed % 2 == 0;
        let mut net = Network::mesh(seed, 2, &sealed(), |config| config.seal_below = seal_below);
        for life in 0..8 {
            for _ in 0..10 {
                net.send(A, B, 500);
                net.send(B, A, 5_000);
            }
            let pause = net.rng().below(20 * MS);
            net.run_for(pause);
            net.restart(if life % 2 == 0 { B } else { A }, true);
        }
        net.send(A, B, 500);
        sound(net.settle(30 * SEC));
    }
}

#[test]
fn a_restarted_peer_that_knows_nobody_is_found_by_silence() {
    let mut net = warm_pair(1, &sealed());
    net.restart(B, false);
    net.send(A, B, 100);
    let began_ns = net.now_ns();
    while net.losses(A).is_empty() {
        net.run_for(10 * MS);
        assert!(net.now_ns() < began_ns + 15 * SEC, "nobody noticed");
    }
    net.send(A, B, 100);
    sound(net.settle(SEC));
    assert_eq!(net.checker.delivered, 9);
}

#[test]
fn a_silent_peer_is_lost_in_time() {
    for (busy, most) in [(true, 10_500 * MS), (false, 14 * SEC)] {
        let mut net = warm_pair(1, &sealed());
        if busy {
            net.send_as(A, B, 0, 100, true);
            net.crash(B);
        } else {
            net.crash(B);
        }
        let began_ns = net.now_ns();
        net.run_for(9_500 * MS);
        assert!(net.losses(A).is_empty(), "given up too soon");
        net.run_until(began_ns + most);
        let losses = net.losses(A);
        assert!(
            matches!(losses[..], [PeerLost::Silent { .. }]),
            "busy {busy}: {losses:?}"
        );
        sound(net.settle(SEC));
    }
}

#[test]
fn a_stall_of_ones_own_is_held_against_nobody() {
    for (seed, busy) in [(1, true), (2, false)] {
        // B is patient enough to outlast A's stall; A must not blame B for it.
        let mut net = Network::new(seed);
        net.add_host(Config::new(sabani_proto::PeerId(0), sealed()));
        let mut patient = Config::new(sabani_proto::PeerId(1), sealed());
        patient.dead_after_ns = 120 * SEC;
        net.add_host(patient);
        net.introduce();
        net.send(A, B, 100);
        sound(net.settle(SEC));
        if busy {
            for _ in 0..50 {
                net.send(A, B, 100_000);
                net.send(B, A, 100_000);
            }
            net.run_for(200 * US);
        }
        net.stall(A, 60 * SEC);
        net.run_for(61 * SEC);
        net.send(A, B, 1_000);
        sound(net.settle(5 * SEC));
        assert_eq!(net.losses(A), []);
        assert_eq!(net.losses(B), []);
        assert_eq!(net.checker.excused, 0);
        assert!(net.host(A).node().stats().stalled_ns > 50 * SEC);
    }
}

#[test]
fn a_stall_longer_than_the_others_patience() {
    let mut net = warm_pair(1, &sealed());
    net.stall(A, 60 * SEC);
    net.send(B, A, 100);
    net.run_for(61 * SEC);
    assert!(matches!(net.losses(B)[..], [PeerLost::Silent { .. }]));
    net.send(A, B, 100);
    net.send(B, A, 100);
    sound(net.settle(30 * SEC));
    net.send(A, B, 100);
    net.send(B, A, 100);
    let delivered = net.checker.delivered;
    sound(net.settle(SEC));
    assert_eq!(net.checker.delivered, delivered + 2);
}

#[test]
fn short_stalls_disturb_nothing() {
    for seed in 1..4 {
        let mut net = Network::mesh(seed, 3, &sealed(), |_| {});
        for _ in 0..20 {
            for (from, to) in [(0, 1), (1, 2), (2, 0)] {
                net.send(HostId(from), HostId(to), 50_000);
            }
            let (who, how_long) = (net.rng().below(3), net.rng().below(500 * MS));
            net.stall(HostId(who as u32), how_long);
            net.run_for(50 * MS);
        }
        sound(net.settle(20 * SEC));
        assert_eq!(net.checker.excused, 0);
    }
}

#[test]
fn closing_says_everything_first() {
    for seed in 1..6 {
        let mut net = warm_pair(seed, &sealed());
        net.links(|link| link.faults.loss = 0.1);
        for _ in 0..20 {
            net.send(A, B, 5_000);
        }
        net.run_for(30 * US);
        net.host(A).node().stop_sending();
        sound(net.settle(5 * SEC));
        net.host(A).node().close();
        net.kick(A);
        net.run_for(5 * SEC);
        assert!(net.host(A).node().is_closed(), "seed {seed}");
        assert_eq!(net.losses(A), [PeerLost::ClosedHere], "seed {seed}");
        let heard = net.losses(B);
        assert!(
            matches!(heard[..], [] | [PeerLost::Closed]),
            "seed {seed}: {heard:?}"
        );
        assert_eq!(net.checker.excused, 0);
    }
}

#[test]
fn handshakes_that_others_began_end_with_closing() {
    let mut net = Network::pair(1, &sealed());
    net.link(A, B)
        .drop_if(|packet| packet.is_data() && packet.at_ns < 3 * MS);
    net.send(A, B, 100);
    net.run_for(MS);
    assert!(net.host(B).node().is_closed(), "A has not proven itself");
    net.close(B);
    // What A sends now, again and again, would complete the handshake.
    net.run_for(SEC);
    assert!(net.host(B).node().is_closed());
    sound(net.verdict());
}
