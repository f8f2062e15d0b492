//! Scenarios: real nodes on a simulated network that misbehaves in one way or in many. What must
//! hold in all of them is checked by `sabani_sim::checker`; here is only what each one adds.

mod apart;
mod canaries;
mod crowds;
mod delivery;
mod discard;
mod economy;
mod handshake;
mod hostile;
mod limits;
mod lives;
mod longer;
mod machines;
mod marks;
mod moves;
mod mtu;
mod own_cable;
mod pace;
mod qualities;
mod resends;
mod rivals;
mod steady;
mod swarm;
mod switches;
mod table;
mod tail;
mod value;

use sabani_proto::seal::{Checksum, Mode};
use sabani_proto::{Counters, PeerId, PeerStats};
use sabani_sim::{Failure, HostId, Network, sealed};

const A: HostId = HostId(0);
const B: HostId = HostId(1);

/// Without protection: frames can be looked into by rules.
fn plain() -> Mode {
    Mode::Plain {
        checksum: Checksum::None,
    }
}

/// Without secrecy, but proof against accidents.
fn checked() -> Mode {
    Mode::Plain {
        checksum: Checksum::Crc32c,
    }
}

/// The modes that survive damaged packets.
fn safe_modes() -> [Mode; 2] {
    [sealed(), checked()]
}

/// Ends the test with the failure's report: seed, virtual time, what was expected.
#[track_caller]
fn sound(outcome: Result<(), Failure>) {
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// One side's view of its connection to another host.
fn peer_stats(net: &mut Network, at: HostId, to: HostId) -> PeerStats {
    let stats = net.host(at).node().peer_stats(PeerId(to.0));
    stats.unwrap_or_else(|| panic!("{at} knows {to}"))
}

/// Counters of a host's node over all its connections.
fn counters(net: &mut Network, at: HostId) -> Counters {
    net.host(at).node().stats().counters
}

/// A connected pair with a round-trip sample or two, at rest.
#[track_caller]
fn warm_pair(seed: u64, mode: &Mode) -> Network {
    let mut net = Network::pair(seed, mode);
    for _ in 0..4 {
        net.send(A, B, 100);
        net.send(B, A, 100);
        sound(net.settle(sabani_sim::SEC));
        net.run_for(sabani_sim::MS);
    }
    net
}

/// Runs until `count` messages have been delivered in all; returns how long that took.
#[track_caller]
fn time_to_deliver(net: &mut Network, count: u64, within_ns: u64) -> u64 {
    let began_ns = net.now_ns();
    while net.checker.delivered < count {
        assert!(
            net.now_ns() < began_ns + within_ns,
            "seed {}: {} of {count} messages delivered within {} µs",
            net.seed(),
            net.checker.delivered,
            within_ns / 1_000
        );
        net.run_for(sabani_sim::US);
    }
    net.now_ns() - began_ns
}
