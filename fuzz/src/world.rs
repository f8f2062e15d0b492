//! Nodes in virtual time, and what holds for every node whatever comes in.

use std::net::SocketAddr;

use sabani_proto::{Config, Node, PeerId};

/// More trains than this in one go, for what a script can have queued, is an endless loop.
const MOST_TRAINS: usize = 20_000;
/// A node whose timer is due this often without anything to send spins.
const MOST_WAKEUPS: usize = 100;

/// The address of a node.
pub fn address(id: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, id as u8 + 1], 7_000))
}

/// A configuration with little memory, so that its limits are met.
pub fn config(id: u32, mode: sabani_proto::seal::Mode) -> Config {
    Config {
        memory_bytes: 1 << 20,
        send_queue_bytes: 256 << 10,
        log_window: 32 << 10,
        log_window_max: 256 << 10,
        eager_max: 16 << 10,
        socket_buffer_bytes: 1 << 20,
        max_peers: 16,
        ..Config::new(PeerId(id), mode)
    }
}

/// A datagram on its way.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Where it comes from.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// Collects what a node sends now.
pub fn drain(node: &mut Node, now_ns: u64, out: &mut Vec<Datagram>) {
    let from = address(node.id().0);
    let mut buffer = [0; 8_192];
    for _ in 0..MOST_TRAINS {
        let Some(train) = node.poll_transmit(now_ns, &mut buffer) else {
            return;
        };
        assert!(train.bytes > 0 && train.segment > 0);
        out.extend(
            buffer[..train.bytes]
                .chunks(train.segment)
                .map(|bytes| Datagram {
                    from,
                    to: train.to,
                    bytes: bytes.to_vec(),
                }),
        );
    }
    panic!("a node sends without end");
}

/// Lets a node live until `until_ns`, deadline by deadline; collects what it sends.
pub fn live(node: &mut Node, now_ns: &mut u64, until_ns: u64, out: &mut Vec<Datagram>) {
    let mut wakeups = 0;
    let mut since = *now_ns;
    drain(node, *now_ns, out);
    while let Some(at) = node.next_deadline().filter(|&at| at <= until_ns) {
        *now_ns = at.max(*now_ns);
        let before = out.len();
        node.handle_deadline(*now_ns);
        drain(node, *now_ns, out);
        wakeups += 1;
        if out.len() > before || *now_ns > since + 1_000_000 {
            (wakeups, since) = (0, *now_ns);
        }
        assert!(wakeups < MOST_WAKEUPS, "a node's timer spins");
    }
    *now_ns = until_ns;
    node.handle_deadline(until_ns);
    drain(node, until_ns, out);
}
