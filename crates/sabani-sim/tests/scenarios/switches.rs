//! Switches with finite queues: what they drop, mark and hold back, and what the transport makes of
//! it.

use std::cell::Cell;
use std::rc::Rc;

use sabani_proto::{Config, Congestion};
use sabani_sim::{Cable, Host, HostId, MS, Network, Pause, PortId, SEC, Switch, US, sealed};

use crate::{A, sound};

const GIGABIT: Cable = Cable {
    bits_per_second: 1_000_000_000,
    delay_ns: 1_000,
    mtu: 1_472,
};

/// What a datagram of 1,458 bytes takes on the wire: 1,500 bytes, 12 µs at 1 Gb/s.
const PAYLOAD: usize = 1_458;
const ON_WIRE: u64 = 1_500;

fn star(hosts: u32, switch: Switch) -> Network {
    let mut net = Network::mesh(1, hosts, &sealed(), |_| {});
    net.star(&GIGABIT, switch);
    net
}

/// Hosts 1 and 2 each send `count` datagrams to host 0 at once, past their nodes; what arrives
/// stays in its socket.
fn collide(net: &mut Network, count: u64) {
    net.stall(A, SEC);
    for _ in 0..count {
        for from in [HostId(1), HostId(2)] {
            net.emit(from, A, &[9; PAYLOAD]);
        }
    }
    net.run_for(900 * MS);
}

/// The same, while the port to host 0 sends but one of the 100 datagrams: so 99 want to wait.
const WAITING: u64 = 99;

fn jam(switch: Switch) -> (Network, PortId) {
    let mut net = star(3, switch);
    let port = net.port_to(A).expect("it is in the star");
    net.port(port).link.bits_per_second = 10_000_000;
    collide(&mut net, 50);
    (net, port)
}

#[test]
fn a_queue_drops_exactly_what_overflows() {
    for room in [0, 1, 20, WAITING - 1, WAITING, WAITING + 1] {
        let (mut net, port) = jam(Switch::drop_tail(room * ON_WIRE));
        let waited = room.min(WAITING);
        assert_eq!(net.port(port).queued_max(), waited * ON_WIRE);
        assert_eq!(net.port(port).link.counters.queue_full, WAITING - waited);
        assert_eq!(net.host(A).socket.len() as u64, waited + 1);
    }
}

#[test]
fn a_shared_buffer_serves_one_port_or_all() {
    for (alpha, most) in [(f64::INFINITY, 30), (1.0, 15), (0.5, 10)] {
        let (mut net, port) = jam(Switch {
            buffer_bytes: 30 * ON_WIRE,
            alpha,
            ..Switch::default()
        });
        assert_eq!(net.port(port).queued_max(), most * ON_WIRE, "alpha {alpha}");
    }
}

#[test]
fn marks_begin_above_the_threshold_and_reach_the_receiver() {
    for threshold in [0, 10, WAITING - 2, WAITING - 1, WAITING] {
        let (mut net, port) = jam(Switch {
            mark_above: threshold * ON_WIRE,
            ..Switch::default()
        });
        // The first finds nothing before it, the last all others.
        let expected = (WAITING - 1).saturating_sub(threshold);
        assert_eq!(net.port(port).link.counters.marked, expected);
        net.run_for(SEC);
        let Host { socket, .. } = net.host(A);
        assert_eq!((socket.read, socket.read_marked), (100, expected));
    }
}

#[test]
fn pause_frames_lose_nothing() {
    let lossy = Switch {
        buffer_bytes: 24 * ON_WIRE,
        ..Switch::default()
    };
    let pausing = Switch {
        pause: Some(Pause {
            stop_above: 6 * ON_WIRE,
            go_at: 3 * ON_WIRE,
        }),
        ..lossy.clone()
    };
    for (switch, loses) in [(lossy, true), (pausing, false)] {
        let mut net = star(3, switch);
        collide(&mut net, 200);
        let port = net.port_to(A).expect("it is in the star");
        let nic = net.nic(HostId(1)).expect("it is in the star");
        assert_eq!(net.port(port).link.counters.queue_full > 0, loses);
        assert_eq!(net.port(nic).pauses > 0, !loses);
        if !loses {
            assert_eq!(net.host(A).socket.len(), 400);
            // Silencing costs no time: the port that they share was busy all along.
            let least_ns = 400 * 12 * US;
            assert!(net.port(port).link.idle_since_ns() < MS + least_ns + 40 * US);
        }
    }
}

#[test]
fn incast_through_a_shallow_queue_delivers_everything_once() {
    for senders in [8, 40] {
        let mut net = star(senders + 1, Switch::drop_tail(64 << 10));
        for from in 1..=senders {
            net.send(HostId(from), A, 65_536);
        }
        sound(net.settle(10 * SEC));
        assert_eq!(net.checker.delivered, u64::from(senders));
        let port = net.port_to(A).expect("it is in the star");
        assert!(net.port(port).queued_max() <= 64 << 10);
        assert!(net.port(port).queued_max() > 0);
    }
}

#[test]
fn the_bottleneck_of_a_dumbbell_is_shared() {
    let mut net = Network::mesh(1, 6, &sealed(), |_| {});
    let between = Cable {
        bits_per_second: 100_000_000,
        delay_ns: MS,
        ..GIGABIT
    };
    let bottleneck = net.dumbbell(3, &GIGABIT, &between, &Switch::drop_tail(100_000));
    for from in 0..3 {
        net.send(HostId(from), HostId(from + 3), 500_000);
        net.send(HostId(from), HostId((from + 1) % 3), 500_000);
    }
    sound(net.settle(10 * SEC));
    let carried = net.port(bottleneck.rightwards).link.counters.entered_bytes;
    assert!(carried > 1_500_000, "{carried} bytes crossed");
    let back = net.port(bottleneck.leftwards).link.counters.entered_bytes;
    assert!(back < carried / 10, "{back} bytes came back");
    let (seconds, least) = (net.now_ns() as f64 / SEC as f64, 1_500_000.0 * 8.0 / 1e8);
    assert!(seconds > least, "{seconds} s, at least {least}");
}

#[test]
fn a_tree_joins_all_hosts() {
    let mut net = Network::mesh(1, 9, &sealed(), |_| {});
    let uplinks = net.tree(
        3,
        &GIGABIT,
        &Cable::default(),
        &Switch::drop_tail(256 << 10),
    );
    for from in net.host_ids() {
        for to in net.host_ids().filter(|&to| to != from) {
            net.send(from, to, 20_000);
        }
    }
    sound(net.settle(10 * SEC));
    assert_eq!(uplinks.len(), 3);
    for (up, down) in uplinks {
        // Six hosts elsewhere for each of three.
        for port in [up, down] {
            let crossed = net.port(port).link.counters.entered_bytes;
            assert!((360_000..1_000_000).contains(&crossed), "{crossed} bytes");
        }
    }
}

#[test]
fn wires_of_a_star_may_misbehave_and_pairs_too() {
    let mut net = star(4, Switch::default());
    let port = net.port_to(A).expect("it is in the star");
    net.port(port).link.faults.loss = 0.05;
    net.port(port).link.faults.corrupt = 0.02;
    net.link(HostId(2), HostId(3)).faults.loss = 0.2;
    net.link(HostId(1), HostId(2)).delay_ns = 5 * MS;
    for from in net.host_ids() {
        for to in net.host_ids().filter(|&to| to != from) {
            net.send(from, to, 100_000);
        }
    }
    sound(net.settle(10 * SEC));
    assert!(net.port(port).link.counters.lost > 0);
    assert!(net.link(HostId(2), HostId(3)).counters.lost > 0);
    assert!(net.now_ns() > 10 * MS, "one path is long");
}

/// What waits for the cable was to wait until its time before that: it needs no timer any more. (The rule of work is broken by who
/// wakes again and again for nothing.)
#[test]
fn a_sender_that_waits_for_its_own_cable_sleeps() {
    for congestion in [Congestion::Cubic, Congestion::Copa] {
        let mut net = Network::mesh(1, 2, &sealed(), |config| config.congestion = congestion);
        let slow = Cable {
            bits_per_second: 1_000_000,
            ..GIGABIT
        };
        net.star(&slow, Switch::default());
        net.host(A).send_buffer_bytes = 8_192;
        net.send(A, HostId(1), 256 << 10);
        sound(net.settle(30 * SEC));
    }
}

#[test]
fn a_sender_waits_for_its_own_cable() {
    let mut net = star(3, Switch::default());
    net.host(A).send_buffer_bytes = 20_000;
    net.send(A, HostId(1), 300_000);
    net.send(A, HostId(2), 300_000);
    sound(net.settle(SEC));
    let nic = net.nic(A).expect("it is in the star");
    let most = net.port(nic).queued_max();
    assert!(most > 10_000, "{most} bytes waited");
    assert!(
        most < 20_000 + 64 * 1_514,
        "{most} bytes: more than a train beyond the buffer"
    );
}

#[test]
fn a_smaller_mtu_on_one_cable_is_found() {
    let mut net = Network::mesh(1, 2, &sealed(), |config: &mut Config| {
        config.max_datagram = 1_472;
    });
    net.star(&GIGABIT, Switch::default());
    let nic = net.nic(HostId(1)).expect("it is in the star");
    net.port(nic).link.mtu = 1_300;
    net.send(A, HostId(1), 200_000);
    net.send(HostId(1), A, 200_000);
    sound(net.settle(SEC));
    let stats = crate::peer_stats(&mut net, HostId(1), A);
    assert!(stats.datagram_bytes <= 1_300);
}

#[test]
fn queues_and_rates_are_recorded() {
    let mut net = star(9, Switch::drop_tail(64 << 10));
    net.record(100 * US);
    for from in 1..9 {
        net.send(HostId(from), A, 65_536);
    }
    sound(net.settle(SEC));
    let port = net.port_to(A).expect("it is in the star");
    let most = net.port(port).queued_max();
    let recording = net.recording().expect("it was asked for");
    assert_eq!(recording.queues[&port].iter().max(), Some(&most));
    let received: u64 = recording.received[&A].iter().sum();
    assert!(received > 8 * 65_536, "{received} bytes");
    let steps = recording.at_ns.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(steps.into_iter().all(|step| step == 100 * US));
}

#[test]
fn a_run_over_switches_replays() {
    let trace = |seed| {
        let mut net = Network::mesh(seed, 9, &sealed(), |_| {});
        net.star(&GIGABIT, Switch::drop_tail(32 << 10));
        net.links(|link| link.faults = sabani_sim::Faults::everything(0.5));
        for from in 1..9 {
            net.send(HostId(from), A, 100_000);
        }
        sound(net.settle(20 * SEC));
        (net.trace_hash(), net.now_ns(), net.events())
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn a_script_happens_at_its_times() {
    let mut net = star(3, Switch::default());
    let seen = Rc::new(Cell::new(0));
    for at_ns in [3 * MS, 2 * MS, 4 * MS] {
        let seen = seen.clone();
        net.at(at_ns, move |net| {
            assert_eq!(net.now_ns(), at_ns);
            seen.set(seen.get() * 10 + at_ns / MS);
        });
    }
    net.run_until(3 * MS);
    assert_eq!(seen.get(), 23);
    net.run_until(5 * MS);
    assert_eq!(seen.get(), 234);
}

#[test]
fn flaps_and_partitions_heal() {
    let mut net = star(4, Switch::default());
    let others = [HostId(2), HostId(3)];
    net.flap((A, HostId(1)), 2 * MS, (20 * MS, 30 * MS), 5);
    net.partition(&others, &[A], 2 * MS, 600 * MS);
    for round in 0..20 {
        for other in 1..4 {
            net.send(HostId(other), A, 10_000 + round);
            net.send(A, HostId(other), 10_000 + round);
        }
        net.run_for(15 * MS);
    }
    assert!(!net.is_settled(), "nothing comes through the partition");
    sound(net.settle(5 * SEC));
    assert_eq!(net.checker.excused, 0, "nobody was given up");
    for from in 1..4 {
        assert!(net.link(HostId(from), A).counters.lost > 0);
    }
    assert_eq!(
        net.link(A, HostId(2)).counters.lost,
        0,
        "the other way was open"
    );
}
