//! What it costs to hand datagrams over to the kernel, and to take them, on loopback.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sabani_udp::{Options, RecvBatch, SendOutcome, Socket, Train};

/// A full packet on Ethernet.
const SEGMENT: usize = 1_472;
/// The longest train of them.
const TRAIN: usize = 44 * SEGMENT;

struct Pair {
    left: Socket,
    right: Socket,
    batch: RecvBatch,
}

/// Time that each side took.
#[derive(Default)]
struct Spent {
    sending: Duration,
    receiving: Duration,
}

impl Pair {
    fn new(options: &Options) -> Self {
        let bind = || {
            let mut socket = Socket::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
            // Through the socket that serves all peers.
            socket.keep_together();
            socket
        };
        Pair {
            left: bind(),
            right: bind(),
            batch: RecvBatch::new(1),
        }
    }

    /// Carries a train over.
    fn carry(&mut self, bytes: &[u8], spent: &mut Spent) {
        let train = Train::new(self.right.local_addr(), SEGMENT, bytes);
        let began = Instant::now();
        let report = &mut |_, outcome| assert_eq!(outcome, SendOutcome::Sent);
        self.left.send(&[train], report).unwrap();
        let sent = Instant::now();
        let mut missing = bytes.len();
        while missing > 0 {
            self.right.recv(&mut self.batch).unwrap();
            missing -= self
                .batch
                .received()
                .map(|received| received.bytes.len())
                .sum::<usize>();
        }
        spent.sending += sent - began;
        spent.receiving += sent.elapsed();
    }
}

fn trains(c: &mut Criterion) {
    let offload = Options::default();
    let without = Options {
        gso: false,
        gro: false,
        ..Options::default()
    };
    for (kernel, options) in [("with offload", offload), ("without offload", without)] {
        for (what, len) in [("64 B", 64), ("44 x 1,472 B", TRAIN)] {
            let mut pair = Pair::new(&options);
            let bytes = vec![7; len];
            let mut group = c.benchmark_group(format!("{what} {kernel}"));
            group.throughput(Throughput::Bytes(len as u64));
            let mut side = |name, time: fn(Spent) -> Duration| {
                group.bench_function(name, |b| {
                    b.iter_custom(|rounds| {
                        let mut spent = Spent::default();
                        (0..rounds).for_each(|_| pair.carry(&bytes, &mut spent));
                        time(spent)
                    });
                });
            };
            side("send", |spent| spent.sending);
            side("receive", |spent| spent.receiving);
        }
    }
}

criterion_group!(benches, trains);
criterion_main!(benches);
