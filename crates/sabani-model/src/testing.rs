//! Networks for tests, made by hand.

use crate::network::{
    Capacity, Estimate, Graph, Host, Latency, Network, Point, Recovery, Transport, VERSION,
};

/// Bytes per second of a host's link: a gigabit.
pub const LINK: f64 = 125e6;

/// Hosts at one switch with ports of a gigabit; nothing varies and nothing is lost.
pub fn switched(hosts: usize) -> Network {
    let host = |index| Host {
        name: format!("host{index}"),
        out: Capacity::exact(LINK),
        into: Capacity::exact(LINK),
        both: Capacity::default(),
    };
    let transports = ["sabani", "tcp"].map(|name| (name.to_owned(), transport()));
    Network {
        version: VERSION,
        graph: Graph {
            hosts: (0..hosts).map(host).collect(),
            groups: Vec::new(),
            local: Capacity::exact(1e9),
            fit: None,
        },
        one_host: false,
        transports: transports.into(),
        copy_bytes_per_s: Estimate::exact(5e9),
        reduce_bytes_per_s: Estimate::exact(2e9),
        choices: Vec::new(),
    }
}

/// A message costs 5 µs, and its time on the link.
fn transport() -> Transport {
    let point = |bytes: f64| {
        let gap_ns = 5e3 + bytes / LINK * 1e9;
        Point {
            bytes,
            send_ns: Estimate::exact(2e3),
            receive_ns: Estimate::exact(3e3),
            gap_ns: Estimate::exact(gap_ns),
        }
    };
    Transport {
        latencies: vec![Latency::constant(0, Estimate::exact(30e3))],
        points: [0.0, 1e3, 1e6].map(point).into(),
        noise: Vec::new(),
        recovery: Recovery {
            window_bytes: Estimate::exact(65_536.0),
            learned: false,
            granted: false,
            packet_bytes: 1448.0,
            ack_bytes: 0,
            later_packets: 3,
            later_ns: Estimate::exact(200e3),
            probe_ns: Some(Estimate::exact(2e6)),
            timeout_ns: Estimate::exact(200e6),
            seen: false,
        },
    }
}
