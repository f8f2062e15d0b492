//! What a node tells its program without being asked.

use std::net::SocketAddr;

use crate::error::PeerLost;
use crate::{Envelope, LinkState, PeerId};

/// Something happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection was made, by either side.
    Connected {
        /// The peer.
        peer: PeerId,
        /// Random number that names this life of the peer's process.
        incarnation: u64,
    },
    /// A connection ended. What was queued for it and not acknowledged is lost with it; messages that
    /// had come whole can still be received, also where one before them had not.
    Lost {
        /// The peer.
        peer: PeerId,
        /// Why.
        why: PeerLost,
        /// Messages that were accepted for sending and never acknowledged.
        unsent_messages: u64,
    },
    /// A connection changed its state without beginning or ending: a program has disconnected or
    /// reconnected, or the library lost sight of the peer or found it again.
    Changed {
        /// The peer.
        peer: PeerId,
        /// What it was.
        from: LinkState,
        /// What it is.
        to: LinkState,
    },
    /// A peer's packets come from another address, and it has answered there: packets for it go to
    /// that one from now on.
    Moved {
        /// The peer.
        peer: PeerId,
        /// Where it was.
        from: SocketAddr,
        /// Where it is.
        to: SocketAddr,
    },
    /// A message that no receive had matched yet was dropped by its sender before all of it had come:
    /// it was worth something for some time only ([`crate::Value`]).
    Expired {
        /// What does not come.
        envelope: Envelope,
    },
    /// Traffic secrets of a new connection, in hexadecimal, if the key log is on.
    Secrets {
        /// The peer.
        peer: PeerId,
        /// A line for a key log file.
        line: String,
    },
}
