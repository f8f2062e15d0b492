//! What a message costs from one state machine into another, acknowledgements included, without
//! any socket between them.

use std::net::SocketAddr;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sabani_proto::seal::{Checksum, JobKey, JobKeys, Mode};
use sabani_proto::{Config, Match, Message, Node, Outbound, PeerId};

/// Virtual time between one message and the next.
const TURN_NS: u64 = 5_000;
/// A train's most bytes.
const TRAIN: usize = 65_507;

/// Two nodes, and trains between them.
struct Pair {
    nodes: [Node; 2],
    now_ns: u64,
    train: Vec<u8>,
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, index as u8], 7_000))
}

impl Pair {
    fn new(mode: &Mode) -> Self {
        let node = |index: usize| {
            let config = Config::new(PeerId(index as u32), mode.clone());
            let mut node = Node::new(config, [index as u8; 32]);
            node.add_peer(PeerId(1 - index as u32), address(1 - index));
            node
        };
        let mut pair = Pair {
            nodes: [node(0), node(1)],
            now_ns: 0,
            train: vec![0; TRAIN],
        };
        // The connection, and probes for the path's MTU.
        for _ in 0..1_000 {
            pair.pass(Outbound::from(vec![0]));
        }
        pair
    }

    /// Sends a message from one node to the other.
    fn pass(&mut self, body: Outbound) -> Message {
        self.now_ns += TURN_NS;
        self.nodes[0]
            .send(self.now_ns, PeerId(1), 1, body, false)
            .expect("there is room");
        loop {
            self.carry();
            if let Some(message) = self.nodes[1].try_take(&Match::any()) {
                return message;
            }
            self.now_ns += TURN_NS;
        }
    }

    /// Carries what both have to say.
    fn carry(&mut self) {
        for from in [0, 1] {
            let now_ns = self.now_ns;
            if self.nodes[from]
                .next_deadline()
                .is_some_and(|at| at <= now_ns)
            {
                self.nodes[from].handle_deadline(now_ns);
            }
            while let Some(train) = self.nodes[from].poll_transmit(now_ns, &mut self.train) {
                let bytes = &mut self.train[..train.bytes];
                self.nodes[1 - from].handle_datagrams(
                    now_ns,
                    address(from),
                    None,
                    train.segment,
                    false,
                    bytes,
                );
            }
            while self.nodes[from].next_event().is_some() {}
        }
    }
}

fn pass(c: &mut Criterion) {
    let plain = Mode::Plain {
        checksum: Checksum::None,
    };
    let sealed = Mode::Sealed(JobKeys::from(JobKey::from_bytes([7; 32])));
    let mut group = c.benchmark_group("pass");
    for (name, mode) in [("plain", plain), ("sealed", sealed)] {
        for (size, len) in [("4 B", 4), ("64 KiB", 64 << 10)] {
            let mut pair = Pair::new(&mode);
            let body = Arc::new(vec![7; len]);
            group.throughput(Throughput::Bytes(len as u64));
            group.bench_function(format!("{size} {name}"), |b| {
                b.iter(|| pair.pass(Outbound::from(Arc::clone(&body))));
            });
        }
    }
}

criterion_group!(benches, pass);
criterion_main!(benches);
