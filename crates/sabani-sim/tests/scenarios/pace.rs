//! Programs that keep what they send to a rate (U10, U12), and windows that they set at any time.

use sabani_proto::{Congestion, Limit, PeerId};
use sabani_sim::{HostId, MS, Network, Plan, SEC, US, sealed};

use crate::rivals::{BOTTLENECK, C, shared_link};
use crate::{A, B, peer_stats, sound, warm_pair};

/// What A carries to C in `time_ns` if it keeps to so many bytes a second, in bytes a second, and what it sent again, as a part
/// of that.
fn paced(net: &mut Network, rate: Option<u64>, time_ns: u64) -> (f64, f64) {
    let now_ns = net.now_ns();
    let node = net.host(A).node();
    node.set_max_pacing_rate(now_ns, PeerId(C.0), rate).unwrap();
    net.kick(A);
    let count = |net: &mut Network| {
        let stats = peer_stats(net, A, C);
        let arrived = net.host(C).node().stats().counters.bytes_received;
        [
            arrived,
            stats.counters.packets_sent,
            stats.counters.packets_lost,
        ]
    };
    // What left before.
    net.run_for(time_ns / 4);
    let before = count(net);
    net.run_for(time_ns);
    let after = count(net);
    let [bytes, packets, lost] = [0, 1, 2].map(|of| (after[of] - before[of]) as f64);
    (bytes * SEC as f64 / time_ns as f64, lost / packets)
}

/// The program knows how wide the path is, and the receiver does not.
#[test]
fn who_keeps_to_a_rate_overflows_no_link_that_carries_it() {
    let mut net = shared_link(Congestion::None);
    for _ in 0..60 {
        net.send(A, C, 1 << 20);
    }
    let wire = BOTTLENECK as f64 / 8.0;
    for (part, lossy) in [(0.9, false), (0.3, false), (0.02, false), (0.6, true)] {
        net.link(A, C).faults.loss = if lossy { 0.01 } else { 0.0 };
        let rate = (part * wire) as u64;
        let (carried, lost) = paced(&mut net, Some(rate), 2 * SEC);
        println!("{rate} bytes a second allowed, {carried:.0} carried, {lost:.4} lost");
        assert_eq!(peer_stats(&mut net, A, C).limit, Limit::Congestion);
        let used = carried / rate as f64;
        assert!((0.95..=1.01).contains(&used), "{used} of what is allowed");
        assert!(lossy || lost == 0.0, "{lost} lost");
    }
    net.link(A, C).faults.loss = 0.0;
    let (carried, _) = paced(&mut net, None, SEC);
    assert!(
        carried > 0.9 * wire,
        "{carried} once there is no limit any more"
    );
    sound(net.settle(30 * SEC));
}

/// The least that can be said, with datagrams of any size; what does not count as a rate is taken for that.
#[test]
fn at_the_least_rate_everything_arrives() {
    for datagram in [1_472, 65_507] {
        let mut net = Network::mesh(3, 3, &sealed(), |config| config.max_datagram = datagram);
        net.links(|link| link.mtu = datagram);
        net.send(A, C, 100);
        sound(net.settle(SEC));
        let now_ns = net.now_ns();
        let node = net.host(A).node();
        node.set_max_pacing_rate(now_ns, PeerId(C.0), Some(0))
            .unwrap();
        for bytes in [100, 300_000, 1_000, 40_000] {
            net.send(A, C, bytes);
        }
        // Others don't wait for it.
        net.send(A, B, 1 << 20);
        net.run_for(100 * MS);
        assert_eq!(peer_stats(&mut net, A, B).queued_bytes, 0);
        assert!(peer_stats(&mut net, A, C).queued_bytes > 0);
        let began_ns = net.now_ns();
        sound(net.settle(60 * SEC));
        let took_ns = net.now_ns() - began_ns;
        // Nothing is asked for but what was not answered.
        let polls = peer_stats(&mut net, A, C).counters.polls;
        assert!(polls < 10, "{polls} polls");
        assert!(
            took_ns > 2 * SEC,
            "340 kB in {took_ns} ns, in datagrams of {datagram}"
        );
    }
}

/// A keeps to a rate towards B, over 1 Gbit/s.
fn keeping(rate: u64) -> Network {
    let mut net = warm_pair(1, &sealed());
    net.links(|link| {
        link.delay_ns = 50 * US;
        link.bits_per_second = 1_000_000_000;
        link.queue_bytes = 200_000;
    });
    keep(&mut net, A, B, Some(rate));
    net
}

fn keep(net: &mut Network, at: HostId, to: HostId, rate: Option<u64>) {
    let now_ns = net.now_ns();
    let node = net.host(at).node();
    node.set_max_pacing_rate(now_ns, PeerId(to.0), rate)
        .expect("they know each other");
    net.kick(at);
}

/// Credit and acknowledgements for what comes don't use up what the rate leaves for messages.
#[test]
fn what_comes_takes_nothing_of_a_rate() {
    let mut net = keeping(1_000_000);
    for _ in 0..60 {
        net.send(B, A, 1 << 20);
    }
    net.run_for(100 * MS);
    net.send(A, B, 10_000);
    net.run_for(100 * MS);
    assert_eq!(peer_stats(&mut net, A, B).queued_bytes, 0);
    assert!(peer_stats(&mut net, B, A).queued_bytes > 0);
    sound(net.settle(5 * SEC));
}

/// Full packets vanish one at a time, with long pauses between.
#[test]
fn a_path_that_narrows_is_noticed_at_any_rate() {
    for (rate, most_ms) in [(100_000, 4_000), (1_000_000, 1_000), (5_000_000, 1_000)] {
        let mut net = keeping(rate);
        let now_ns = net.now_ns();
        let receiver = net.host(B).node();
        receiver
            .set_window(now_ns, PeerId(A.0), Some(64 << 20))
            .expect("they know each other");
        net.kick(B);
        net.send(A, B, 2_000_000);
        net.run_for(50 * MS);
        net.links(|link| link.mtu = 1_200);
        net.run_for(most_ms * MS);
        let stats = peer_stats(&mut net, A, B);
        println!("{rate}: {stats:?}");
        assert_eq!(stats.datagram_bytes, 1_200, "after {most_ms} ms at {rate}");
        sound(net.settle(60 * SEC));
    }
}

/// However often a program says what holds already.
#[test]
fn what_is_said_again_and_again_stops_nothing() {
    for kind in [Congestion::None, Congestion::Cubic, Congestion::Copa] {
        let mut net = keeping(1_000_000);
        for _ in 0..20 {
            net.send(A, B, 100_000);
        }
        for _ in 0..1_000 {
            let now_ns = net.now_ns();
            let node = net.host(A).node();
            node.set_congestion(now_ns, PeerId(B.0), Some(kind))
                .expect("they know each other");
            keep(&mut net, A, B, Some(1_000_000));
            net.run_for(MS);
        }
        let left = peer_stats(&mut net, A, B).queued_bytes;
        let gone = 2_000_000 - left;
        assert!(
            (900_000..1_100_000).contains(&gone),
            "{kind:?}: {gone} bytes in a second"
        );
        sound(net.settle(5 * SEC));
    }
}

/// Before anything is known of the path there is no other rate to go on with.
#[test]
fn a_rate_may_be_taken_back_at_once() {
    for kind in [Congestion::Cubic, Congestion::Copa] {
        for (who, other, ms) in [(A, B, 45), (B, A, 65)] {
            let mut net = Network::mesh(3, 2, &sealed(), |config| config.congestion = kind);
            net.links(|link| link.delay_ns = 20 * MS);
            keep(&mut net, who, other, Some(100_000));
            net.send(A, B, 0);
            net.run_for(ms * MS);
            keep(&mut net, who, other, None);
            let turns = net.host(who).turns();
            net.send(who, other, 100_000);
            net.run_for(300 * MS);
            let turns = net.host(who).turns() - turns;
            assert!(turns < 500, "{kind:?}: {turns} turns");
            assert_eq!(peer_stats(&mut net, who, other).queued_bytes, 0, "{kind:?}");
            sound(net.settle(SEC));
        }
    }
}

/// Also one to which nothing can be acknowledged yet, for nothing has come from it.
#[test]
fn a_window_may_be_set_at_any_time() {
    for (who, other) in [(A, B), (B, A)] {
        for halves in 1..10 {
            for window in [1, 100_000, u32::MAX] {
                let mut net = Network::mesh(3, 2, &sealed(), |_| {});
                net.links(|link| link.delay_ns = MS);
                net.send(A, B, 0);
                net.run_for(halves * 500 * US);
                let now_ns = net.now_ns();
                let node = net.host(who).node();
                // The other one may not have heard of it yet.
                let _ = node.set_window(now_ns, PeerId(other.0), Some(window));
                net.kick(who);
                sound(net.settle(SEC));
                assert!(net.losses(A).is_empty() && net.losses(B).is_empty());
            }
        }
    }
}

/// A process whose timers come 1 ms late where a round trip takes 0.4 ms once had two packets for each of them: 22 Mbit/s.
#[test]
fn who_wakes_up_late_carries_most_of_the_link_all_the_same() {
    // Copa takes late answers for a queue.
    for (congestion, wake, least) in [
        ("cubic", "400us", 600.0),
        ("cubic", "1ms", 600.0),
        ("cubic", "4ms", 300.0),
        ("copa", "1ms", 150.0),
    ] {
        let text = format!(
            "hosts = 2\n[network]\nrate = \"1gbit\"\ndelay = \"200us\"\n[settings]\ncongestion = \"{congestion}\"\n\
             [[program]]\nhost = 1\nwake = \"{wake}\"\n[[traffic]]\nfrom = 1\nto = 0\nbytes = \"64KiB\"\n\
             messages = 2000\n"
        );
        let outcome = Plan::from_toml(&text).unwrap().run();
        assert_eq!(outcome.failure, None);
        let mbits = outcome.streams[0].goodput() / 1e6;
        println!("{congestion}, {wake} late: {mbits:.0} Mbit/s");
        assert!(mbits > least, "{congestion}, {wake} late: {mbits} Mbit/s");
    }
}
