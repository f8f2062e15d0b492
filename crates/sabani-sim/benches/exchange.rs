//! Packet events per second: arrivals of packets at switches, ports and hosts, and departures from
//! queues, of hosts around one switch that all send to each other. Most of the time goes into the
//! nodes themselves; `plain` leaves out their cryptography.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sabani_proto::seal::{Checksum, Mode};
use sabani_sim::{Cable, Network, SEC, Switch, sealed};

const HOSTS: u32 = 16;

/// One round: everybody sends to everybody. Returns how many packet events that took.
fn round(net: &mut Network, bytes: usize) -> u64 {
    let before = net.packet_events();
    for from in net.host_ids() {
        for to in net.host_ids().filter(|&to| to != from) {
            net.send(from, to, bytes);
        }
    }
    net.settle(60 * SEC).expect("all arrives");
    net.packet_events() - before
}

fn exchange(c: &mut Criterion) {
    let plain = Mode::Plain {
        checksum: Checksum::None,
    };
    let mut group = c.benchmark_group("exchange");
    for (name, mode) in [("plain", plain), ("sealed", sealed())] {
        for (size, bytes) in [("64 B", 64), ("1000 B", 1_000), ("256 KiB", 256 << 10)] {
            let mut net = Network::mesh(1, HOSTS, &mode, |_| {});
            net.star(&Cable::default(), Switch::default());
            round(&mut net, 1);
            group.throughput(Throughput::Elements(round(&mut net, bytes)));
            group.bench_function(format!("{size} {name}"), |b| {
                b.iter(|| round(&mut net, bytes));
            });
        }
    }
}

criterion_group!(benches, exchange);
criterion_main!(benches);
