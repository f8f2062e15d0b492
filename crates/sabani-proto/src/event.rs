//! What a node tells its program without being asked.

use crate::{PeerId, error::PeerLost};

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
    /// A connection ended. What was queued for it and not acknowledged is lost with it.
    Lost {
        /// The peer.
        peer: PeerId,
        /// Why.
        why: PeerLost,
        /// Messages that were accepted for sending and never acknowledged.
        unsent_messages: u64,
    },
    /// Traffic secrets of a new connection, in hexadecimal, if the key log is on.
    Secrets {
        /// The peer.
        peer: PeerId,
        /// A line for a key log file.
        line: String,
    },
}
