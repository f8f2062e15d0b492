//! Messages of all sizes over links that lose, repeat, reorder and damage.

use sabani_proto::Match;
use sabani_proto::seal::Mode;
use sabani_sim::{Faults, HostId, MS, Network, Reading, SEC, US, sealed};

use crate::{A, B, checked, counters, plain, safe_modes, sound};

const SIZES: [usize; 14] = [
    0, 1, 63, 64, 65, 1_023, 1_024, 1_025, 1_500, 9_000, 65_536, 262_144, 262_145, 4_194_304,
];

/// A mix of sizes both ways, in an order that the seed chooses.
fn mixed(net: &mut Network, rounds: usize, largest: usize) {
    for _ in 0..rounds {
        for (from, to) in [(A, B), (B, A)] {
            let size = SIZES[net.rng().below(SIZES.len() as u64) as usize];
            let tracked = net.rng().chance(0.3);
            net.send_as(from, to, 0, size.min(largest), tracked);
        }
    }
}

fn run(seed: u64, mode: &Mode, rounds: usize, faults: impl Fn() -> Faults) -> Network {
    let mut net = Network::pair(seed, mode);
    net.links(|link| link.faults = faults());
    mixed(&mut net, rounds, 300_000);
    sound(net.settle(60 * SEC));
    net
}

#[test]
fn all_sizes_both_ways() {
    for mode in [sealed(), plain(), checked()] {
        let mut net = Network::pair(1, &mode);
        for size in SIZES {
            net.send(A, B, size);
            net.send_as(B, A, 0, size, true);
        }
        sound(net.settle(SEC));
        let lost = counters(&mut net, A).packets_lost + counters(&mut net, B).packets_lost;
        assert_eq!(lost, 0, "nothing was lost on a clean path");
    }
}

#[test]
fn all_ways_to_receive() {
    let wanted = Match::any().from(sabani_proto::PeerId(0));
    for (seed, buffer) in [(1, 0), (2, 4 << 20)] {
        let mut net = Network::pair(seed, &sealed());
        net.links(|link| link.faults.loss = 0.01);
        net.host(B).program.reading = Reading::Post {
            wanted,
            ahead: 4,
            buffer,
        };
        for size in SIZES {
            net.send(A, B, size);
        }
        sound(net.settle(10 * SEC));
    }
}

#[test]
fn the_same_seed_replays_the_same_run() {
    let trace = |seed| {
        let net = run(seed, &sealed(), 20, || Faults::everything(1.0));
        (net.trace_hash(), net.now_ns(), net.events())
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn fifty_peers_to_one() {
    let mut net = Network::mesh(3, 51, &sealed(), |_| {});
    for from in 1..51 {
        for size in [64, 20_000, 1, 0, 3_000] {
            net.send(HostId(from), A, size);
            net.send(A, HostId(from), 100);
        }
    }
    sound(net.settle(5 * SEC));
    assert_eq!(net.checker.delivered, 500);
}

#[test]
fn random_loss() {
    for (seed, loss) in [
        (1, 0.01),
        (2, 0.01),
        (3, 0.05),
        (4, 0.05),
        (5, 0.2),
        (6, 0.2),
    ] {
        for mode in [sealed(), plain()] {
            run(seed, &mode, 15, || Faults {
                loss,
                ..Faults::default()
            });
        }
    }
}

#[test]
fn bursts_of_loss() {
    for seed in 1..5 {
        run(seed, &sealed(), 15, || Faults {
            burst: 0.01,
            burst_len: 30,
            ..Faults::default()
        });
    }
}

#[test]
fn duplication() {
    for seed in 1..4 {
        let mut net = run(seed, &sealed(), 15, || Faults {
            duplicate: 0.3,
            late_ns: 2 * MS,
            ..Faults::default()
        });
        assert!(net.host(A).node().stats().dropped.replayed > 0);
    }
}

#[test]
fn reordering() {
    for seed in 1..6 {
        for jitter_ns in [5 * US, 100 * US, MS] {
            run(seed, &sealed(), 12, || Faults {
                reorder: 0.1,
                late_ns: 300 * US,
                jitter_ns,
                ..Faults::default()
            });
        }
    }
}

#[test]
fn reordering_across_many_gaps_together_with_loss() {
    for seed in 1..8 {
        run(seed, &plain(), 20, || Faults {
            jitter_ns: 300 * US,
            loss: 0.02,
            ..Faults::default()
        });
    }
}

#[test]
fn damage() {
    for seed in 1..4 {
        for mode in safe_modes() {
            let mut net = run(seed, &mode, 15, || Faults {
                corrupt: 0.05,
                truncate: 0.05,
                ..Faults::default()
            });
            let dropped = net.host(A).node().stats().dropped;
            assert!(dropped.forged + dropped.malformed + dropped.unknown_connection > 0);
        }
    }
}

#[test]
fn replays() {
    for seed in 1..4 {
        run(seed, &sealed(), 15, || Faults {
            replay: 0.3,
            late_ns: 50 * MS,
            ..Faults::default()
        });
    }
}

#[test]
fn everything_at_once() {
    for seed in 1..9 {
        for mode in safe_modes() {
            run(seed, &mode, 12, || Faults::everything(1.0));
        }
    }
}

#[test]
fn far_worse_than_anybody_would_use() {
    for seed in 1..5 {
        run(seed, &sealed(), 6, || Faults::everything(4.0));
    }
}

#[test]
fn a_long_path_is_filled() {
    let mut net = Network::pair(1, &sealed());
    net.links(|link| {
        link.delay_ns = 50 * MS;
        link.bits_per_second = 100_000_000;
    });
    for _ in 0..20 {
        net.send(A, B, 500_000);
    }
    sound(net.settle(10 * SEC));
    let seconds = net.now_ns() as f64 / SEC as f64;
    assert!(seconds < 2.5, "10 MB at 100 Mb/s took {seconds} s");
}

/// The credit for their memory grows with what the path brings in a round trip, however they fill packets.
#[test]
fn a_long_path_is_filled_with_small_messages() {
    for bytes in [64, 600, 1_024] {
        let mut net = Network::pair(1, &sealed());
        net.links(|link| {
            link.delay_ns = 10 * MS;
            link.bits_per_second = 100_000_000;
        });
        // Eight megabytes, for what is charged for each.
        let count = 8_000_000 / (bytes + 128);
        for _ in 0..count {
            net.send(A, B, bytes);
        }
        sound(net.settle(10 * SEC));
        let seconds = net.now_ns() as f64 / SEC as f64;
        let ideal = (count * bytes) as f64 * 8.0 / 1e8;
        assert!(
            seconds < 1.5 * ideal + 0.5,
            "{count} messages of {bytes} bytes took {seconds} s"
        );
    }
}

#[test]
fn a_shallow_queue_drops_and_everything_arrives() {
    for seed in 1..4 {
        let mut net = Network::pair(seed, &sealed());
        net.links(|link| {
            link.bits_per_second = 1_000_000_000;
            link.queue_bytes = 64 << 10;
        });
        for _ in 0..10 {
            net.send(A, B, 300_000);
        }
        sound(net.settle(10 * SEC));
        assert!(net.link(A, B).counters.queue_full > 0);
    }
}

#[test]
fn a_one_way_partition_heals() {
    for (from, to) in [(A, B), (B, A)] {
        let mut net = Network::pair(1, &sealed());
        mixed(&mut net, 20, 100_000);
        net.run_for(500 * US);
        net.link(from, to).faults.cut = true;
        net.run_for(3 * SEC);
        net.link(from, to).faults.cut = false;
        sound(net.settle(5 * SEC));
        assert_eq!(net.checker.excused, 0, "nobody was given up");
    }
}
