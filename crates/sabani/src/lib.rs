//! Sabani carries messages between the processes of a parallel or distributed program over plain
//! UDP: reliable, ordered, any size, encrypted, thousands of peers over one socket, no daemon.
//!
//! ```
//! use sabani::{Checksum, Match, Node, PeerId};
//!
//! # fn main() -> Result<(), sabani::Error> {
//! # let any = "127.0.0.1:0".parse().unwrap();
//! let alice = Node::builder(PeerId(0)).bind(any).plain(Checksum::None).open()?;
//! let bob = Node::builder(PeerId(1)).bind(any).plain(Checksum::None).open()?;
//! alice.add_peer(PeerId(1), bob.local_addr())?;
//!
//! alice.send(PeerId(1), 7, b"hello")?;
//! let message = bob.recv(Match::any().tag(7))?;
//! assert_eq!(message.body(), b"hello");
//!
//! bob.send(message.source, 8, b"and hello to you")?;
//! assert_eq!(alice.recv(Match::any().from(PeerId(1)))?.body(), b"and hello to you");
//! # Ok(())
//! # }
//! ```
//!
//! Use [`Builder::job_key`] instead of `plain` wherever others can reach the network: every packet
//! is then encrypted and authenticated.
//!
//! # Progress
//!
//! The protocol runs in the thread that calls in. A call that waits spins briefly and then sleeps
//! in the kernel. When the program has stayed away for about a millisecond (up to four after it was
//! busy for long), a helper thread takes over, so that acknowledgements, resends and keep-alives
//! still go out while the program computes, or calls and only takes what is here; it sleeps otherwise. Small messages to a busy peer
//! share packets: they leave when 62 KiB wait, after an eighth of the round-trip time (at least
//! 20 µs, at most 80 µs), or at the next receive, wait, [`Node::flush`] or [`Node::progress`]; if
//! the program stays away, when the helper takes over. Of messages that a program sends to one peer in a
//! row, within 80 µs of each other, what fills no train of 62 KiB waits likewise.

mod address;
mod address_book;
mod builder;
pub mod comm;
mod engine;
mod error;
mod helper;
mod job_key;
mod layers;
mod node;
mod pending;
mod poll_fd;
mod shared;
#[cfg(test)]
mod testing;
mod threads;
mod timing;

pub use address_book::AddressBook;
pub use builder::{Builder, LAYERS_VARIABLE};
pub use comm::Comm;
pub use error::{Error, Fault};
pub use job_key::JobKey;
pub use node::Node;
pub use pending::{Posted, PostedInto, Sent};
pub use sabani_launch::Launcher;
pub use sabani_proto::seal::Checksum;
pub use sabani_proto::wire::{RejectReason, VERSION as PROTOCOL_VERSION};
pub use sabani_proto::{
    AckPolicy, Congestion, ConnectError, Counters, CreditPolicy, CreditStats, Dropped, Envelope,
    Event, GrantOrder, Limit, LinkState, Match, Message, NodeStats, Obstacle, Outbound, PeerId,
    PeerLost, PeerStats, Quality, Recovery, Shortage, Starvation, Terms, Value, datagram_cost,
};
pub use sabani_ring::{Schedule, ScheduleError};
pub use sabani_udp::{Capabilities, Counters as SocketCounters};
pub use timing::{Spent, Stage, Timings};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
