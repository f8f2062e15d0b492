//! Minutes long, and for root only: a source tree and a 2 GiB file between two network namespaces,
//! over a path that loses one packet in a hundred in each direction, to a receiver that is cut off
//! in the middle.

use std::env;
use std::io::{self, Write};
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;

use super::programs::{Place, Program, assert_never_half, until};
use super::tree;

const SIZE: u64 = 2 << 30;
const NEAR: &str = "sabani-long-a";
const FAR: &str = "sabani-long-b";
const LOSS: &str = "table inet loss { chain in { type filter hook input priority 0; \
                    ip protocol udp numgen random mod 100 < 1 counter drop; }; }";

/// Two namespaces with a wire between them; removed at the end.
struct Wire;

impl Wire {
    fn new() -> Self {
        remove();
        for line in [
            format!("ip netns add {NEAR}"),
            format!("ip netns add {FAR}"),
            format!("ip link add sabani-a netns {NEAR} type veth peer name sabani-b netns {FAR}"),
            format!("ip -n {NEAR} addr add 10.77.0.1/24 dev sabani-a"),
            format!("ip -n {FAR} addr add 10.77.0.2/24 dev sabani-b"),
            // Trains are cut before the wire, so that single packets get lost.
            format!("ip -n {NEAR} link set sabani-a gso_max_segs 1"),
            format!("ip -n {FAR} link set sabani-b gso_max_segs 1"),
            format!("ip -n {NEAR} link set sabani-a up"),
            format!("ip -n {FAR} link set sabani-b up"),
        ] {
            assert!(shell(&line), "{line}");
        }
        for side in [NEAR, FAR] {
            let line = format!("ip netns exec {side} nft '{LOSS}'");
            assert!(shell(&line), "{line}");
        }
        Wire
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        remove();
    }
}

fn remove() {
    for side in [NEAR, FAR] {
        shell(&format!("ip netns del {side} 2>/dev/null"));
    }
}

fn shell(line: &str) -> bool {
    let status = Command::new("sh").args(["-c", line]).status();
    status.is_ok_and(|status| status.success())
}

/// The same command in a namespace.
fn inside(side: &str, command: &Command) -> Command {
    let mut wrapped = Command::new("ip");
    wrapped
        .args(["netns", "exec", side])
        .arg(command.get_program());
    wrapped.args(command.get_args());
    for (name, value) in command.get_envs() {
        wrapped.env(name, value.unwrap_or_default());
    }
    wrapped
}

#[test]
fn a_tree_and_two_gib_over_a_lossy_wire_with_a_break() {
    if env::var_os("SABANI_LONG_TESTS").is_none() {
        let _ = writeln!(
            io::stderr(),
            "skipped: set SABANI_LONG_TESTS=1 (needs root and nft)"
        );
        return;
    }
    let place = Place::new();
    tree::of_sources(&place.source());
    tree::random_file(&place.source().join("large"), SIZE);
    let _wire = Wire::new();
    let receive = || Program::start(&mut inside(FAR, &place.receiver("10.77.0.2:7226", &[])));
    let never_half = assert_never_half(&place.arrived().join("large"), SIZE);
    let receiver = receive();
    let begun = Instant::now();
    let sender = Program::start(&mut inside(NEAR, &place.sender("10.77.0.2:7226", &[])));
    until("half has arrived", || place.partial() > SIZE / 2);
    receiver.signal(Signal::KILL);
    receiver.end();
    let broken = begun.elapsed();
    let kept = place.partial();
    let _receiver = receive();
    let sent = sender.end();
    let seconds = begun.elapsed();
    sent.assert_success();
    never_half();
    tree::assert_same(&place.source(), &place.arrived());
    println!("cut off after {broken:?} with {kept} bytes kept; all after {seconds:?}");
    println!("{}", sent.said);
    assert!(shell(&format!("ip netns exec {FAR} nft list ruleset")));
}
