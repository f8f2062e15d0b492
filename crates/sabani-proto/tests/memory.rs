//! What peers cost in memory while nothing happens.

use std::net::SocketAddr;

use sabani_proto::seal::{Checksum, JobKey, JobKeys, Mode};
use sabani_proto::{Buffer, Config, Match, Node, PeerId};

#[global_allocator]
static HEAP: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

/// Peers by which the nodes that are compared differ: what a node has but once doesn't count.
const PEERS: u32 = 256;
/// Peers that speak at the same time: what a node keeps for so many at once doesn't count either.
const AT_ONCE: usize = 64;
const HUB: PeerId = PeerId(0);

fn address(id: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, (id >> 8) as u8, id as u8], 7_000))
}

/// A node with many peers, and the heap that it has taken so far.
struct Hub {
    node: Node,
    bytes: usize,
}

impl Hub {
    fn new(mode: Mode) -> Self {
        Hub {
            node: Node::new(Config::new(HUB, mode), [1; 32]),
            bytes: 0,
        }
    }

    /// Does something with the node, and counts the memory that it takes or gives back.
    fn with<T>(&mut self, act: impl FnOnce(&mut Node) -> T) -> T {
        let before = HEAP.allocated();
        let result = act(&mut self.node);
        self.bytes = self.bytes + HEAP.allocated() - before;
        result
    }
}

/// Carries datagrams between the hub and its peers for `millis` milliseconds.
fn run(hub: &mut Hub, peers: &mut [Node], now_ns: &mut u64, millis: u64) {
    let mut buffer = vec![0; 65_536];
    for _ in 0..millis {
        *now_ns += 1_000_000;
        let now = *now_ns;
        hub.with(|node| node.handle_deadline(now));
        while let Some(train) = hub.with(|node| node.poll_transmit(now, &mut buffer)) {
            let peer = peers
                .iter_mut()
                .find(|peer| address(peer.id().0) == train.to);
            let peer = peer.expect("the hub knows only these");
            let bytes = &mut buffer[..train.bytes];
            peer.handle_datagrams(now, address(0), None, train.segment, false, bytes);
        }
        for peer in peers.iter_mut() {
            peer.handle_deadline(now);
            while let Some(train) = peer.poll_transmit(now, &mut buffer) {
                let (from, bytes) = (address(peer.id().0), &mut buffer[..train.bytes]);
                hub.with(|node| {
                    node.handle_datagrams(now, from, None, train.segment, false, bytes)
                });
            }
            while peer.next_event().is_some() || peer.try_take(&Match::any()).is_some() {}
        }
        hub.with(
            |node| {
                while node.next_event().is_some() || node.try_take(&Match::any()).is_some() {}
            },
        );
    }
}

/// Bytes of a node that knows some peers, and of one that is connected to them, after traffic and
/// a while of silence.
fn cost(mode: &Mode, count: u32) -> (usize, usize) {
    let mut hub = Hub::new(mode.clone());
    for id in 1..=count {
        hub.with(|node| node.add_peer(PeerId(id), address(id)));
    }
    let known = hub.bytes;
    let mut peers: Vec<_> = (1..=count)
        .map(|id| {
            let config = Config::new(PeerId(id), mode.clone());
            let mut node = Node::new(config, [id as u8; 32]);
            node.add_peer(HUB, address(0));
            node
        })
        .collect();
    let mut now_ns = 0;
    for len in [10, 1_000, 50_000, 300_000] {
        for at in (0..peers.len()).step_by(AT_ONCE) {
            for peer in &mut peers[at..at + AT_ONCE] {
                let body = || vec![1; len].into();
                let (there, back) = (HUB, peer.id());
                peer.send(now_ns, there, 1, body(), false).unwrap();
                hub.with(|node| node.send(now_ns, back, 1, body(), false).unwrap());
            }
            run(&mut hub, &mut peers, &mut now_ns, 100);
        }
    }
    assert!(hub.node.is_settled() && hub.node.stats().connections == count as usize);
    // Past the keep-alive, when connections give back what they do not need.
    run(&mut hub, &mut peers, &mut now_ns, 12_000);
    assert_eq!(hub.node.stats().connections, count as usize);
    // Buffers of arrived bodies are kept for use again, for all peers together.
    hub.with(|node| {
        for len in [300_000, 50_000].repeat(64) {
            drop(node.pool().take(len).map(Buffer::into_vec));
        }
    });
    (known, hub.bytes)
}

#[test]
fn idle_peers_are_small() {
    let plain = Mode::Plain {
        checksum: Checksum::Crc32c,
    };
    let sealed = Mode::Sealed(JobKeys {
        current: JobKey::from_bytes([7; 32]),
        previous: None,
    });
    for (mode, most) in [(plain, 1_024), (sealed, 2_560)] {
        let (few, many) = (cost(&mode, PEERS), cost(&mode, 2 * PEERS));
        let known = (many.0 - few.0) / PEERS as usize;
        let connected = (many.1 - few.1) / PEERS as usize;
        println!("known: {known} B, connected: {connected} B");
        assert!(known <= 128, "{known} B for a known peer");
        assert!(connected <= most, "{connected} B for a connected peer");
    }
}
