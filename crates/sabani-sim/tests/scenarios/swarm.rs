//! Each seed chooses hosts, sizes, faults and mishaps of its own.

use sabani_proto::{Config, Match};
use sabani_sim::{Faults, HostId, MS, Network, Reading, SEC, US, sealed};

use crate::{checked, sound};

/// A path with a few kinds of trouble, seldom all of them.
fn trouble(net: &mut Network) -> Faults {
    let mut some = |value: f64| if net.rng().chance(0.4) { value } else { 0.0 };
    Faults {
        loss: some(0.05),
        burst: some(0.003),
        burst_len: 20,
        burst_spares: 0.0,
        duplicate: some(0.05),
        reorder: some(0.1),
        corrupt: some(0.02),
        truncate: some(0.01),
        replay: some(0.02),
        jitter_ns: some(200_000.0) as u64,
        late_ns: 2 * MS,
        cut: false,
    }
}

fn pick<T: Copy>(net: &mut Network, from: &[T]) -> T {
    from[net.rng().below(from.len() as u64) as usize]
}

fn build(seed: u64) -> Network {
    let mut dice = Network::new(seed);
    let count = 2 + dice.rng().below(4) as u32;
    let memory = pick(&mut dice, &[64 << 10, 1 << 20, 1 << 30]);
    let socket = pick(&mut dice, &[64 << 10, 1 << 20, 8 << 20]);
    let mode = if dice.rng().chance(0.7) {
        sealed()
    } else {
        checked()
    };
    let mut net = Network::mesh(seed, count, &mode, |config: &mut Config| {
        config.memory_bytes = memory;
        config.socket_buffer_bytes = socket;
    });
    for from in net.host_ids() {
        if dice.rng().chance(0.5) {
            net.host(from).program.reading = Reading::Post {
                wanted: Match::any(),
                ahead: 1 + dice.rng().below(8) as usize,
                buffer: 500_000,
            };
        } else if memory < 1 << 20 {
            net.host(from).program.reading = Reading::Post {
                wanted: Match::any(),
                ahead: 1,
                buffer: 500_000,
            };
        }
        for to in net.host_ids().filter(|&to| to != from) {
            let faults = trouble(&mut dice);
            let link = net.link(from, to);
            link.faults = faults;
            link.delay_ns = pick(&mut dice, &[5 * US, 50 * US, MS, 20 * MS]);
            link.bits_per_second = pick(&mut dice, &[100_000_000, 1_000_000_000, 0]);
            link.queue_bytes = pick(&mut dice, &[64 << 10, u64::MAX]);
        }
    }
    net
}

/// One mishap, or none.
fn mishap(net: &mut Network, hosts: u64) {
    let who = HostId(net.rng().below(hosts) as u32);
    let other = HostId((who.0 + 1) % hosts as u32);
    match net.rng().below(12) {
        0 => net.restart(who, true),
        1 => {
            let duration_ns = net.rng().below(300 * MS);
            net.stall(who, duration_ns);
        }
        2 => net.link(who, other).faults.cut = true,
        3 | 4 => net.link(who, other).faults.cut = false,
        5 => net.link(who, other).mtu = 1_200,
        6 => net.link(who, other).mtu = 1_472,
        _ => {}
    }
}

fn run(seed: u64) {
    let mut net = build(seed);
    let hosts = net.host_ids().count() as u64;
    for _ in 0..60 {
        let from = HostId(net.rng().below(hosts) as u32);
        let to = HostId(((u64::from(from.0) + 1 + net.rng().below(hosts - 1)) % hosts) as u32);
        let len = pick(
            &mut net,
            &[0, 5, 64, 700, 1_024, 1_025, 9_000, 70_000, 400_000],
        );
        let tracked = net.rng().chance(0.3);
        for _ in 0..=net.rng().below(8) {
            net.send_as(from, to, 0, len, tracked);
        }
        let pause_ns = net.rng().below(4 * MS);
        net.run_for(pause_ns);
        mishap(&mut net, hosts);
    }
    net.links(|link| link.faults.cut = false);
    sound(net.settle(120 * SEC));
}

#[test]
fn each_seed_a_world_of_its_own() {
    for seed in (1..40).chain([314]) {
        run(seed);
    }
}
