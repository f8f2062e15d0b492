//! What a director says to its actors and what they answer: one JSON object a line.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// How an actor opens its node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Its id.
    pub id: u32,
    /// Its address.
    pub bind: SocketAddr,
    /// Sealed under a key that all actors know, or plain with a checksum.
    pub sealed: bool,
    /// Whether segmentation offload is used.
    pub offload: bool,
    /// Largest datagram in bytes; the default if none.
    pub max_datagram: Option<usize>,
    /// When a silent peer is lost, in milliseconds; the default if none.
    pub dead_after_ms: Option<u64>,
}

impl Setup {
    /// A sealed node with the defaults.
    pub fn new(id: u32, bind: &str) -> Self {
        Setup {
            id,
            bind: bind.parse().expect("an address and a port"),
            sealed: true,
            offload: true,
            max_datagram: None,
            dead_after_ms: None,
        }
    }

    /// Like this one, but a silent peer is lost after so many milliseconds.
    pub fn dead_after_ms(self, time: u64) -> Self {
        Setup {
            dead_after_ms: Some(time),
            ..self
        }
    }
}

/// Something an actor is to do. Bodies are made from tag and length, so that both sides know them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Open the node.
    Open(Setup),
    /// Add a peer.
    Know {
        /// Its id.
        peer: u32,
        /// Where it is.
        addr: SocketAddr,
    },
    /// Send messages of these sizes; their tags count up.
    Send {
        /// To whom.
        peer: u32,
        /// Tag of the first.
        first_tag: u64,
        /// Their lengths in bytes.
        sizes: Vec<usize>,
    },
    /// Send messages one by one, each when the peer's library has the one before.
    Track {
        /// To whom.
        peer: u32,
        /// Tag of the first.
        first_tag: u64,
        /// Their lengths in bytes.
        sizes: Vec<usize>,
    },
    /// Receive so many messages, each within the time.
    Receive {
        /// How many.
        count: usize,
        /// Milliseconds for each.
        timeout_ms: u64,
    },
    /// Receive so many messages and send each back.
    Echo {
        /// How many.
        count: usize,
    },
    /// Keep the processor busy and do not call the library.
    Compute {
        /// For how long.
        ms: u64,
    },
    /// Do nothing.
    Sleep {
        /// For how long.
        ms: u64,
    },
    /// Tell the processor time used so far.
    Cpu,
    /// Tell how a peer's flow is doing.
    Look {
        /// The peer.
        peer: u32,
    },
    /// Tell what has happened.
    Events,
    /// Wait until everything is acknowledged, and close.
    Close {
        /// At most this long.
        linger_ms: u64,
    },
}

/// A message that an actor received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Who sent it.
    pub source: u32,
    /// Its tag.
    pub tag: u64,
    /// Its length in bytes.
    pub len: usize,
    /// Whether its bytes are what tag and length say.
    pub intact: bool,
}

/// How a flow is doing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Datagram size in use.
    pub datagram_bytes: usize,
    /// Messages sent and not acknowledged.
    pub queued_messages: u64,
    /// Packets found lost.
    pub packets_lost: u64,
    /// Whether the connection is open.
    pub open: bool,
}

/// What an actor answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// The node's address.
    Opened(SocketAddr),
    /// What came.
    Received(Vec<Arrival>),
    /// Processor time in microseconds, of all threads, user and system.
    Cpu(u64),
    /// A flow.
    Flow(Snapshot),
    /// Events, as text.
    Events(Vec<String>),
    /// It failed: the error as it reads.
    Failed(String),
}
