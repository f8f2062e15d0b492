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
//! | [`network`] | hosts, links and the queue of events in order of (time, sequence) |
//! | [`link`] | one direction of a path: delay, rate, queue, MTU |
//! | [`faults`] | what a link does to datagrams |
//! | [`host`] | a process: its node, its socket's buffer, its stalls |
//! | [`traffic`] | what programs send and how they receive |
//! | [`checker`] | what must hold whatever the network does |
//!
//! Scenarios build a network, make it misbehave, call [`Network::settle`], and look at the
//! counters; that every message arrived once, whole and in order is checked by the [`checker`] all
//! along. A failure names the seed and the virtual time.

#![forbid(unsafe_code)]

pub mod checker;
pub mod faults;
pub mod host;
pub mod link;
pub mod network;
mod rng;
pub mod traffic;

pub use checker::{Checker, Violation};
pub use faults::{Faults, Packet};
pub use host::{Host, HostId};
pub use link::Link;
pub use network::{Failure, Network, sealed};
pub use rng::Rng;
pub use traffic::Reading;

/// One microsecond, in the nanoseconds that all times are in.
pub const US: u64 = 1_000;
/// One millisecond.
pub const MS: u64 = 1_000_000;
/// One second.
pub const SEC: u64 = 1_000_000_000;
