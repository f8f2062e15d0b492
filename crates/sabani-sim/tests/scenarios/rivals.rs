//! Flows of ours beside TCP on a link that both share, far from the receivers: with congestion control
//! neither starves.

use sabani_proto::{Congestion, CreditPolicy, Limit, PeerId, PeerStats};
use sabani_sim::{Cable, HostId, MS, Network, Plan, SEC, Switch, US, sealed};

use crate::{A, B, peer_stats, sound};

pub const BOTTLENECK: u64 = 50_000_000;
const LASTS: u64 = 12 * SEC;
/// Where our flow goes to.
pub const C: HostId = HostId(2);

/// Hosts 0 and 1 on the left, 2 and 3 on the right of a link with a round trip of 20 ms, and a
/// queue of as much as it holds in that time. Windows are shares of the sockets' buffers: what the
/// path carries is for the senders to find out.
pub fn shared_link(congestion: Congestion) -> Network {
    let mut net = Network::mesh(1, 4, &sealed(), |config| {
        config.congestion = congestion;
        config.credit = CreditPolicy::Shares;
    });
    let near = Cable {
        bits_per_second: 1_000_000_000,
        delay_ns: 10 * US,
        mtu: 1_472,
    };
    let between = Cable {
        bits_per_second: BOTTLENECK,
        delay_ns: 10 * MS,
        ..near
    };
    net.dumbbell(2, &near, &between, &Switch::drop_tail(125_000));
    net
}

/// What our flow and TCP's carry in the last three quarters of the time, as parts of the link.
fn shares(congestion: Congestion) -> [f64; 2] {
    let mut net = shared_link(congestion);
    let tcp = net.add_tcp(HostId(1), HostId(3), SEC, SEC + LASTS);
    for _ in 0..LASTS / SEC * 7 {
        net.send(A, C, 1 << 20);
    }
    let carried = |net: &mut Network| {
        let ours = net.host(C).node().stats().counters.bytes_received;
        [ours, net.tcp(tcp).delivered_bytes]
    };
    net.run_until(SEC + LASTS / 4);
    let before = carried(&mut net);
    net.run_until(SEC + LASTS);
    let after = carried(&mut net);
    sound(net.verdict());
    let whole = BOTTLENECK as f64 / 8.0 * (LASTS / SEC) as f64 * 0.75;
    [0, 1].map(|which| (after[which] - before[which]) as f64 / whole)
}

#[test]
fn neither_we_nor_tcp_starve() {
    for congestion in [Congestion::Cubic, Congestion::Copa] {
        let [ours, tcp] = shares(congestion);
        println!("{congestion:?}: {ours:.2} of the link, TCP {tcp:.2}");
        assert!(ours + tcp > 0.85, "{congestion:?}: {ours} and {tcp}");
        assert!(ours.min(tcp) > 0.25, "{congestion:?}: {ours} and {tcp}");
    }
}

#[test]
fn tcp_starves_beside_windows_of_any_size() {
    let [ours, tcp] = shares(Congestion::None);
    assert!(ours > 0.8 && tcp < 0.1, "{ours} and {tcp}");
}

/// With credit alone, and grants as small as on short paths, ours took 0.72 of the link.
#[test]
fn credit_leaves_tcp_its_part_of_a_long_path() {
    let plan = r#"
        hosts = 4
        [network]
        shape = "dumbbell"
        rate = "50mbit"
        delay = "10ms"
        queue = "125000"
        [[traffic]]
        from = 0
        to = 2
        bytes = "1MiB"
        messages = 60
        [[tcp]]
        from = 1
        to = 3
        "#;
    let outcome = Plan::from_toml(plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let [ours, tcp] =
        [outcome.streams[0].goodput(), outcome.tcp[0].goodput()].map(|bits| bits / 50e6);
    assert!(ours.min(tcp) > 0.35, "{ours} and {tcp}");
}

#[test]
fn alone_each_fills_the_link() {
    for (congestion, most) in [(Congestion::Cubic, 1.15), (Congestion::Copa, 1.35)] {
        let mut net = shared_link(congestion);
        for _ in 0..20 {
            net.send(A, C, 1 << 20);
        }
        net.run_until(SEC);
        let stats = peer_stats(&mut net, A, C);
        assert_eq!(stats.limit, Limit::Congestion, "{congestion:?}");
        assert!(stats.congestion_window_bytes > 0 && stats.pacing_rate > 0);
        sound(net.settle(LASTS));
        let least = 20.0 * 8e9 * 1_048_576.0 / BOTTLENECK as f64;
        let took = (net.now_ns() - MS) as f64 / least;
        println!("{congestion:?}: {took:.3} times the least time");
        assert!(took < most, "{congestion:?}: {took} times the least time");
    }
}

#[test]
fn a_controller_is_chosen_for_one_peer_while_it_runs() {
    let mut net = shared_link(Congestion::None);
    let is_governed = |stats: PeerStats| stats.congestion_window_bytes > 0;
    for kind in [Some(Congestion::Copa), Some(Congestion::Cubic), None] {
        let now_ns = net.now_ns();
        let node = net.host(A).node();
        node.set_congestion(now_ns, PeerId(C.0), kind).unwrap();
        net.send(A, C, 1 << 20);
        net.send(A, B, 1 << 20);
        net.run_for(100 * MS);
        assert_eq!(is_governed(peer_stats(&mut net, A, C)), kind.is_some());
        assert!(!is_governed(peer_stats(&mut net, A, B)));
        sound(net.settle(10 * SEC));
    }
}

#[test]
fn what_waits_for_a_link_is_not_carried_in_tcps_time() {
    // The host's own queue has no end, so half of what is sent waits there.
    let plan = "hosts = 2\n[network]\nshape = \"star\"\nrate = \"100mbit\"\nqueue = \"1500\"\n\
                [[tcp]]\nfrom = 0\nto = 1\nuntil = \"1s\"\n";
    let outcome = Plan::from_toml(plan).expect("it can be read").run();
    let carried = outcome.tcp[0].goodput() / 1e8;
    assert!((0.9..=1.0).contains(&carried), "{carried} of the link");
}
