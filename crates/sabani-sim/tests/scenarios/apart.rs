//! Programs that disconnect and reconnect, and a library that does both by itself (U14).

use sabani_proto::{Event, Limit, LinkState, PeerId, PeerLost, SendError};
use sabani_sim::{HostId, MS, Network, SEC, US, sealed};

use crate::{A, B, peer_stats, plain, sound, warm_pair};

fn state(net: &mut Network, at: HostId, to: HostId) -> LinkState {
    peer_stats(net, at, to).state
}

/// States that a host was told of, of its only connection.
fn changes(net: &mut Network, at: HostId) -> Vec<LinkState> {
    let events = net.host(at).program.events.iter();
    let changes = events.filter_map(|event| match event {
        Event::Changed { to, .. } => Some(*to),
        _ => None,
    });
    changes.collect()
}

/// What a program is told that sends a message from `from` to `to`.
fn refusal(net: &mut Network, from: HostId, to: HostId) -> Option<SendError> {
    let now_ns = net.now_ns();
    let node = net.host(from).node();
    node.send_copy(now_ns, PeerId(to.0), 0, b"in vain", false)
        .err()
}

/// Nothing was given up, by anybody.
#[track_caller]
fn nothing_was_lost(net: &mut Network) {
    assert_eq!(net.losses(A), []);
    assert_eq!(net.losses(B), []);
    assert_eq!(net.checker.excused, 0);
}

#[test]
fn what_was_not_acknowledged_waits_and_arrives_once() {
    for mode in [sealed(), plain()] {
        for seed in 1..12 {
            let mut net = warm_pair(seed, &mode);
            net.links(|link| {
                link.faults.loss = 0.05;
                link.faults.duplicate = 0.05;
                link.faults.reorder = 0.1;
                link.faults.late_ns = 200 * US;
            });
            for len in [10, 3_000, 200_000, 900_000, 20] {
                net.send_as(A, B, 0, len, true);
                net.send_as(B, A, 0, len, true);
            }
            let pause = net.rng().below(2 * MS);
            net.run_for(pause);
            net.set_connected(A, false);
            net.run_for(SEC);
            assert_eq!(state(&mut net, A, B), LinkState::Disconnected);
            assert_eq!(state(&mut net, B, A), LinkState::DisconnectedByPeer);
            let delivered = net.checker.delivered;
            net.run_for(30 * SEC);
            assert_eq!(net.checker.delivered, delivered, "seed {seed}");
            net.set_connected(A, true);
            sound(net.settle(SEC));
            assert_eq!(net.checker.delivered, 8 + 10);
            nothing_was_lost(&mut net);
        }
    }
}

#[test]
fn who_disconnected_is_refused_at_once_and_told_why() {
    let mut net = warm_pair(1, &sealed());
    net.set_connected(A, false);
    net.run_for(MS);
    let error = refusal(&mut net, A, B).expect("nothing is accepted");
    let Some(SendError::Disconnected { by_peer: false, .. }) = Some(&error) else {
        panic!("{error:?}");
    };
    assert!(error.to_string().contains("reconnect before sending"));
    // The other side may queue what its queue takes, and is told then.
    let most = net.host(B).config.send_queue_bytes;
    let error = (0..=most / 7).find_map(|_| refusal(&mut net, B, A));
    let Some(SendError::Disconnected {
        queued_bytes,
        by_peer: true,
        ..
    }) = error
    else {
        panic!("{error:?}");
    };
    assert!(queued_bytes <= most);
}

#[test]
fn both_sides_are_told_of_each_change_once() {
    use LinkState::{Disconnected, DisconnectedByBoth, DisconnectedByPeer, Open};
    let mut net = warm_pair(1, &sealed());
    net.links(|link| link.faults.duplicate = 0.5);
    for (who, connected) in [(A, false), (B, false), (A, true), (B, true)] {
        net.set_connected(who, connected);
        net.set_connected(who, connected);
        net.run_for(10 * MS);
    }
    assert_eq!(
        changes(&mut net, A),
        [Disconnected, DisconnectedByBoth, DisconnectedByPeer, Open]
    );
    assert_eq!(
        changes(&mut net, B),
        [DisconnectedByPeer, DisconnectedByBoth, Disconnected, Open]
    );
    net.send(A, B, 100);
    net.send(B, A, 100);
    sound(net.settle(SEC));
    nothing_was_lost(&mut net);
}

#[test]
fn a_network_that_is_down_meanwhile_changes_nothing() {
    for told in [true, false] {
        let mut net = warm_pair(1, &sealed());
        net.send_as(A, B, 0, 2_000_000, true);
        net.run_for(200 * US);
        let (now_ns, both) = (net.now_ns(), [A, B]);
        if told {
            // Both know before the network goes down, for longer than anybody is waited for else.
            net.set_connected(A, false);
            net.run_for(MS);
            net.partition(&both, &both, now_ns, now_ns + 120 * SEC);
            net.run_for(121 * SEC);
        } else {
            // The network goes down first, for less than that.
            net.partition(&both, &both, now_ns, now_ns + 8 * SEC);
            net.run_for(MS);
            net.set_connected(A, false);
            net.run_for(9 * SEC);
        }
        net.set_connected(A, true);
        sound(net.settle(3 * SEC));
        nothing_was_lost(&mut net);
    }
}

#[test]
fn disconnecting_before_there_is_a_connection() {
    // Nothing is made until the program reconnects, whatever the peer does meanwhile.
    let mut net = Network::pair(1, &sealed());
    net.set_connected(A, false);
    assert_eq!(state(&mut net, A, B), LinkState::Barred);
    assert!(refusal(&mut net, A, B).is_some());
    net.run_for(SEC);
    assert_eq!(net.host(A).node().stats().connections, 0);
    net.send(B, A, 100);
    net.run_for(SEC);
    assert_eq!(state(&mut net, A, B), LinkState::Disconnected);
    assert_eq!(state(&mut net, B, A), LinkState::DisconnectedByPeer);
    net.set_connected(A, true);
    net.send(A, B, 100);
    sound(net.settle(SEC));

    // What was accepted while the connection was being made is kept, too.
    let mut net = Network::pair(2, &sealed());
    net.link(A, B).faults.cut = true;
    net.send(A, B, 5_000);
    net.run_for(MS);
    net.set_connected(A, false);
    assert_eq!(state(&mut net, A, B), LinkState::Barred);
    assert_eq!(peer_stats(&mut net, A, B).limit, Limit::Disconnected);
    net.run_for(60 * SEC);
    net.link(A, B).faults.cut = false;
    net.set_connected(A, true);
    sound(net.settle(SEC));
    nothing_was_lost(&mut net);
}

#[test]
fn a_restarted_peer_never_gets_what_was_kept_for_the_dead() {
    for seed in 1..6 {
        let mut net = warm_pair(seed, &sealed());
        for len in [10, 3_000, 2_000_000] {
            net.send_as(A, B, 0, len, true);
        }
        net.run_for(100 * US);
        net.set_connected(A, false);
        net.run_for(MS);
        net.restart(B, true);
        net.send(B, A, 100);
        net.run_for(SEC);
        // The new process is told at once, and what it had sent before that is there.
        assert_eq!(state(&mut net, A, B), LinkState::Disconnected);
        assert_eq!(state(&mut net, B, A), LinkState::DisconnectedByPeer);
        assert_eq!(net.losses(A), [PeerLost::Restarted]);
        net.set_connected(A, true);
        net.send(A, B, 200);
        sound(net.settle(SEC));
        assert!(net.checker.excused > 0, "seed {seed}");
    }
}

#[test]
fn a_peer_that_never_comes_back_is_lost_in_the_end() {
    let mut net = warm_pair(1, &sealed());
    net.host(A).program.echoes = 0;
    net.set_connected(A, false);
    net.run_for(MS);
    net.send(B, A, 100);
    net.run_for(MS);
    net.crash(A);
    net.run_for(590 * SEC);
    assert_eq!(net.losses(B), []);
    net.run_for(30 * SEC);
    assert!(matches!(net.losses(B)[..], [PeerLost::Silent { .. }]));
}

#[test]
fn a_disconnected_pair_is_quiet() {
    let mut net = warm_pair(1, &sealed());
    net.send(A, B, 900_000);
    net.run_for(200 * US);
    net.set_connected(A, false);
    net.run_for(SEC);
    let before = crate::counters(&mut net, A).packets_sent;
    net.run_for(60 * SEC);
    let sent = crate::counters(&mut net, A).packets_sent - before;
    assert!(sent <= 2 * 60 / 3 + 2, "{sent} packets in a minute");
}

#[test]
fn a_silent_peer_is_told_of_and_found_again() {
    for (seed, down_ns) in [(1, 7 * SEC), (2, 9 * SEC)] {
        let mut net = warm_pair(seed, &sealed());
        net.send_as(A, B, 0, 900_000, true);
        net.run_for(200 * US);
        let (now_ns, both) = (net.now_ns(), [A, B]);
        net.partition(&both, &both, now_ns, now_ns + down_ns);
        net.run_for(down_ns - MS);
        assert_eq!(state(&mut net, A, B), LinkState::Silent);
        // It takes messages all the same.
        net.send(A, B, 100);
        sound(net.settle(3 * SEC));
        assert_eq!(changes(&mut net, A), [LinkState::Silent, LinkState::Open]);
        nothing_was_lost(&mut net);
    }
}

#[test]
fn closing_ends_a_disconnected_connection() {
    let mut net = warm_pair(1, &sealed());
    net.send(A, B, 900_000);
    net.run_for(100 * US);
    net.set_connected(A, false);
    net.run_for(MS);
    sound(net.close_all(SEC, SEC));
    assert_eq!(net.losses(B), [PeerLost::Closed]);
}
