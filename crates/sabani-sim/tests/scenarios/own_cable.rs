//! What waits for a host's own cable, and for whom.

use sabani_proto::{Counters, Limit};
use sabani_sim::{Cable, HostId, MS, Network, SEC, Switch};

use crate::{A, B, counters, peer_stats, plain, sound};

const GIGABIT: Cable = Cable {
    bits_per_second: 1_000_000_000,
    delay_ns: 25_000,
    mtu: 1_472,
};

/// Hosts at a switch, whose own cables let all leave as it came.
fn star(hosts: u32) -> Network {
    let mut net = Network::mesh(1, hosts, &plain(), |_| {});
    net.star(&GIGABIT, Switch::drop_tail(1 << 20));
    for host in net.host_ids() {
        let cable = net.nic(host).expect("all have one");
        net.port(cable).keep_order();
        net.host(host).wake = "20us".parse().unwrap();
    }
    net
}

/// Whether it can be asked what waits for its cable makes a difference to host 0.
fn both(hosts: u32) -> [Network; 2] {
    [true, false].map(|tells| {
        let mut net = star(hosts);
        net.host(A).tells_unsent = tells;
        net
    })
}

/// Time until all that one host has sent to another is acknowledged.
fn time_to_send(net: &mut Network, from: HostId, to: HostId, len: usize) -> u64 {
    let begun_ns = net.now_ns();
    net.send(from, to, len);
    loop {
        net.run_for(MS / 20);
        if peer_stats(net, from, to).queued_bytes == 0 {
            return net.now_ns() - begun_ns;
        }
    }
}

#[test]
fn no_more_waits_for_a_hosts_own_cable_than_keeps_it_busy() {
    let [told, untold] = both(4).map(|mut net| {
        let others = [1, 2, 3].map(HostId);
        for to in others {
            for _ in 0..8 {
                net.send(A, to, 512 << 10);
            }
        }
        net.run_for(50 * MS);
        let limits = others.map(|to| peer_stats(&mut net, A, to).limit);
        net.run_for(40 * MS);
        let sent_bytes = counters(&mut net, A).bytes_sent;
        sound(net.settle(SEC));
        let cable = net.nic(A).expect("it has one");
        (net.port(cable).queued_max(), sent_bytes, limits)
    });
    println!("{told:?} and {untold:?}");
    // What the cable takes in 1 ms.
    assert!(
        told.0 < 125_000 && told.0 * 4 < untold.0,
        "{told:?} {untold:?}"
    );
    for (_, sent_bytes, _) in [told, untold] {
        // Of 11.25 MB that it takes meanwhile, with headers.
        assert!(sent_bytes > 10_000_000, "{sent_bytes}");
    }
    assert!(told.2.contains(&Limit::OwnLink), "{told:?}");
    assert!(!untold.2.contains(&Limit::OwnLink), "{untold:?}");
}

/// Behind all that others had given credit for it took 1.8 ms.
#[test]
fn who_has_much_to_send_to_one_sends_a_little_to_another_in_between() {
    let [told, untold] = both(4).map(|mut net| {
        for to in [1, 2].map(HostId) {
            for _ in 0..16 {
                net.send(A, to, 512 << 10);
            }
        }
        net.run_for(20 * MS);
        let took = [0; 8].map(|_| time_to_send(&mut net, A, HostId(3), 32 << 10));
        sound(net.settle(SEC));
        took.iter().sum::<u64>() / 8
    });
    println!("{told} and {untold} ns");
    assert!(told < 1_500_000 && told * 5 < untold * 4, "{told} {untold}");
}

/// Between two turns nobody is asked for what the last one brought, which is no tail: that had one packet in eight go again, and took
/// a fifth more time.
#[test]
fn who_sends_to_all_asks_no_one_between_turns() {
    let mut net = star(8);
    for host in net.host_ids() {
        let cable = net.nic(host).expect("all have one");
        net.port(cable).link.bits_per_second = 100_000_000;
    }
    let mut once = || {
        for to in (1..8).map(HostId) {
            net.send(A, to, 64 << 10);
        }
        let begun_ns = net.now_ns();
        sound(net.settle(SEC));
        net.now_ns() - begun_ns
    };
    let took_ns = once().max(once());
    let Counters {
        polls,
        packets_sent,
        ..
    } = counters(&mut net, A);
    println!("{took_ns} ns, {polls} of {packets_sent} packets");
    // Bytes and headers take 38.5 ms of the cable.
    assert!(took_ns < 43 * MS, "{took_ns}");
    assert!(polls * 20 < packets_sent, "{polls} of {packets_sent}");
}

/// Where hosts let peers take turns themselves, nothing is to wait in their nodes: that would be so if what waits for a slow way held
/// up what goes by another one.
#[test]
fn what_is_overtaken_holds_nothing_up() {
    let [in_turn, as_it_came] = [true, false].map(|in_turn| {
        let mut net = star(4);
        let cable = net.nic(A).expect("it has one");
        net.port(cable).take_turns(in_turn);
        net.port(cable).link.bits_per_second = 100_000_000;
        for to in [1, 2].map(HostId) {
            for _ in 0..10 {
                net.send(A, to, 512 << 10);
            }
        }
        net.run_for(20 * MS);
        for _ in 0..300 {
            time_to_send(&mut net, A, HostId(3), 2_500);
        }
        let held_up = (0..50).filter(|_| {
            net.run_for(MS);
            peer_stats(&mut net, A, B).limit == Limit::OwnLink
        });
        let held_up = held_up.count();
        sound(net.settle(5 * SEC));
        held_up
    });
    println!("{in_turn} and {as_it_came} times of 50");
    assert_eq!(in_turn, 0);
    assert!(as_it_came > 10, "{as_it_came}");
}
