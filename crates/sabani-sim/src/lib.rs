//! Sabani's transport on an in-memory network in virtual time.
//!
//! A [`Network`] carries the datagrams of many hosts, each of which runs a real
//! [`sabani_proto::Node`], over links with delay, rate, MTU and finite queues that may be made to
//! lose, repeat, reorder, damage and replay what they carry. Nothing here reads a clock or draws a
//! number of its own: a run is a function of its seed and of the calls made on it, and
//! [`Network::trace_hash`] tells two runs apart.
//!
//! | module | what it holds |
//! |---|---|
//! | [`network`] | hosts, what joins them, and what happens to them in order of time |
//! | [`topology`] | common shapes of networks: star, dumbbell, tree |
//! | [`fabric`] | cables, switches and their output queues |
//! | [`link`] | one direction of a path: delay, rate, queue, MTU |
//! | [`faults`] | what a link does to datagrams |
//! | [`host`] | a process: its node, its socket's buffer, what its CPU costs |
//! | [`delay`] | how long it takes a process to run, and when others have its processor |
//! | [`clock`] | a host's clock, fast or slow |
//! | `script` | [`Network::at`]: what happens at a time of its own |
//! | `ending` | [`Network::settle`]: how a run ends, and why it failed |
//! | `standing` | what hosts are doing, in words, for reports of failures |
//! | [`recording`] | queue lengths and rates over time |
//! | [`watch`] | how far a run is, for another thread |
//! | `engine`, `agenda`, `datagram` | virtual time, what is to happen, what is under way |
//! | [`tcp`] | a model of TCP, to share links with |
//! | [`traffic`] | what programs send and how they receive |
//! | [`ranks`] | collectives: each host is a rank |
//! | [`checker`] | what must hold whatever the network does |
//! | [`canary`] | known bugs to plant, which the checkers must find |
//! | [`plan`] | whole runs as values: drawn from seeds, read from TOML, shrunk when they fail |
//! | [`units`] | quantities as people write them |
//!
//! Hosts are joined by links of their own, one for each pair and direction, unless they are given
//! cables to switches. A train of datagrams that a node hands over for segmentation is cut before
//! any queue.
//!
//! Scenarios build a network, make it misbehave, call [`Network::settle`], and look at the
//! counters; that every message arrived once, whole and in order is checked by the [`checker`] all
//! along. A failure names the seed and the virtual time.
//!
//! `cargo run --release -p sabani-sim --example exchange -- --hosts 1024` measures the simulator:
//! events per second and memory, every host sending to every other (`--sealed`, `--rounds N` and
//! `--bytes N` vary it). An event is an arrival, a departure or a turn of a process; most of the
//! time goes into the nodes themselves. `cargo bench -p sabani-sim` counts packet events alone.

#![forbid(unsafe_code)]

mod agenda;
pub mod canary;
pub mod checker;
pub mod clock;
mod datagram;
pub mod delay;
mod ending;
mod engine;
pub mod fabric;
pub mod faults;
pub mod host;
pub mod link;
pub mod network;
mod order;
pub mod plan;
pub mod ranks;
pub mod recording;
mod rng;
mod script;
mod standing;
mod steering;
pub mod tcp;
pub mod topology;
pub mod traffic;
pub mod units;
pub mod watch;

pub use canary::Bug;
pub use checker::{Checker, Rule, Violation, Wish};
pub use clock::Clock;
pub use delay::{Delay, Stalls};
pub use ending::Failure;
pub use fabric::{Cable, Pause, Place, Port, PortId, Switch, SwitchId};
pub use faults::{Faults, Packet};
pub use host::{Cost, Host, HostId};
pub use link::Link;
pub use network::{Network, sealed};
pub use plan::{Outcome, Plan};
pub use recording::Recording;
pub use rng::Rng;
pub use tcp::{TcpFlow, TcpId};
pub use traffic::{Reading, Sorting};
pub use units::{Rate, Size, Time};
pub use watch::Watch;

/// One microsecond, in the nanoseconds that all times are in.
pub const US: u64 = 1_000;
/// One millisecond.
pub const MS: u64 = 1_000_000;
/// One second.
pub const SEC: u64 = 1_000_000_000;
