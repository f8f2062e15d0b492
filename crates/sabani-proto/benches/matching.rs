//! What it costs to find a message or a receive by exact source and tag, among few and among many.
//!
//! A node's messages to itself go through the same queues as those of others, but over no wire.
//! Entries are asked for far from the order in which they wait: a look-up takes the same steps
//! among many, but what it touches is not in the processor's cache.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sabani_proto::seal::{Checksum, Mode};
use sabani_proto::{Config, Match, Node, PeerId};

const ME: PeerId = PeerId(0);
const WAITING: [u64; 2] = [10, 100_000];

fn node() -> Node {
    let mode = Mode::Plain {
        checksum: Checksum::None,
    };
    Node::new(Config::new(ME, mode), [1; 32])
}

fn send(node: &mut Node, tag: u64) {
    node.send_copy(0, ME, tag, b"body", false).unwrap();
}

fn exactly(tag: u64) -> Match {
    Match::any().from(ME).tag(tag)
}

/// Tags of `0..count`, far from the order in which they wait.
fn scattered(count: u64) -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % count
    }
}

fn look_up(c: &mut Criterion) {
    let mut group = c.benchmark_group("look up a message among");
    for waiting in WAITING {
        let mut node = node();
        (0..waiting).for_each(|tag| send(&mut node, tag));
        let mut tag = scattered(waiting);
        group.bench_function(BenchmarkId::from_parameter(waiting), |b| {
            b.iter(|| black_box(node.probe(&exactly(tag()))).is_some());
        });
    }
}

fn send_and_take(c: &mut Criterion) {
    let mut group = c.benchmark_group("send and take one among waiting messages");
    for waiting in WAITING {
        let mut node = node();
        (0..waiting).for_each(|tag| send(&mut node, tag));
        let mut tag = scattered(waiting);
        group.bench_function(BenchmarkId::from_parameter(waiting), |b| {
            b.iter(|| {
                let tag = tag();
                send(&mut node, tag);
                node.try_take(&exactly(tag)).expect("there are two")
            });
        });
    }
}

fn post_and_send(c: &mut Criterion) {
    let mut group = c.benchmark_group("send to one among waiting receives, post it again");
    for waiting in WAITING {
        let mut node = node();
        let mut receives: Vec<_> = (0..waiting)
            .map(|tag| node.post(exactly(tag), None))
            .collect();
        let mut tag = scattered(waiting);
        group.bench_function(BenchmarkId::from_parameter(waiting), |b| {
            b.iter(|| {
                let tag = tag();
                send(&mut node, tag);
                let receive = &mut receives[tag as usize];
                let message = node.take_received(*receive).expect("it came").unwrap();
                *receive = node.post(exactly(tag), None);
                message
            });
        });
    }
}

criterion_group!(benches, look_up, send_and_take, post_and_send);
criterion_main!(benches);
