//! Tests between real processes, over the loopback interface and over wires between network
//! namespaces. What can't be tested here says `skipped: why`.

mod events;
mod fork;
mod lives;
mod many;
mod networks;
mod poll_fd;
mod sizes;
mod time;

use sabani::{Builder, JobKey, Node, PeerId};
use sabani_tests::{Actor, Host, Setup};

/// An actor, on a host if one is given.
fn actor(host: Option<&Host>, setup: &Setup) -> Actor {
    Actor::start(env!("CARGO_BIN_EXE_sabani-actor"), host, setup)
}

/// Two actors, 0 and 1, that know each other.
fn couple(hosts: Option<(&Host, &Host)>, setups: [Setup; 2]) -> (Actor, Actor) {
    let [left, right] = setups;
    let mut left = actor(hosts.map(|(host, _)| host), &left);
    let mut right = actor(hosts.map(|(_, host)| host), &right);
    left.knows(1, right.addr());
    right.knows(0, left.addr());
    (left, right)
}

/// Two sealed actors on the loopback interface.
fn neighbours() -> (Actor, Actor) {
    couple(
        None,
        [Setup::new(0, "127.0.0.1:0"), Setup::new(1, "127.0.0.1:0")],
    )
}

/// A sealed node in this process.
fn node(id: u32, change: impl Fn(Builder) -> Builder) -> Node {
    let builder = Node::builder(PeerId(id))
        .bind("127.0.0.1:0".parse().expect("an address"))
        .job_key(JobKey::from_bytes([9; 32]));
    change(builder).open().expect("a node opens")
}

/// Two nodes in this process, 0 and 1, that know each other.
fn nodes() -> (Node, Node) {
    let (left, right) = (node(0, |builder| builder), node(1, |builder| builder));
    acquaint(&left, &right);
    (left, right)
}

fn acquaint(left: &Node, right: &Node) {
    for (node, other) in [(left, right), (right, left)] {
        node.add_peer(other.id(), other.local_addr())
            .expect("it is open");
    }
}
