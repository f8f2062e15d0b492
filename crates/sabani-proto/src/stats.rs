//! What a node knows of its flows, as snapshots (row U7).

use std::net::SocketAddr;

use crate::wire::{RejectReason, Terms};
use crate::{CreditStats, LinkState, Obstacle, PeerId, Quality};

/// What keeps a flow from going faster right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Limit {
    /// The program has nothing queued.
    #[default]
    Application,
    /// The connection is still being made.
    Handshake,
    /// What is on its way fills the receiver's window.
    Window,
    /// This side's congestion control ([`crate::Congestion`]): what is on its way fills its window,
    /// or the pacer spreads it; so it does at the rate that the program has set
    /// (`Node::set_max_pacing_rate`).
    Congestion,
    /// The receiver's program leaves messages untaken, or has not granted a large body.
    Grant,
    /// This program keeps what was lost (`Node::hold_resends`), and nothing else may be sent.
    HeldResends,
    /// This host's own link has enough to do, and lets peers take turns.
    OwnLink,
    /// One of the two programs has disconnected, or both: see [`LinkState`].
    Disconnected,
    /// The socket does not take more.
    Socket,
}

/// Which memory is used up, where bodies that receives wait for must wait for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The peer's share: other bodies of it are on their way (`peer_memory_bytes`).
    Peer,
    /// The node's: other bodies, of any peers, are on their way or untaken (`memory_bytes`). Whose they are:
    /// [`PeerStats::posted_bytes`].
    Node,
    /// The system's: it gives this process none for a body, however much of `memory_bytes` is left. It is
    /// asked again when other bodies have given memory back.
    System,
}

/// One peer's flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerStats {
    /// The peer.
    pub peer: PeerId,
    /// Where it is reached; `None` only in [`PeerStats::default`].
    pub address: Option<SocketAddr>,
    /// What the connection is doing.
    pub state: LinkState,
    /// What this machine or the network last said to be in the way, if it has since the peer was
    /// last heard.
    pub obstacle: Option<Obstacle>,
    /// What limits sending now.
    pub limit: Limit,
    /// Window granted by the peer, in bytes as its kernel charges them.
    pub window_bytes: u32,
    /// What this side's congestion control lets be on its way, in the same bytes; zero if there is
    /// none.
    pub congestion_window_bytes: u32,
    /// How fast it, or the program's own limit, lets them leave, in the same bytes per second; zero before it is
    /// known, and without either.
    pub pacing_rate: u64,
    /// On its way, in the same bytes.
    pub in_flight_bytes: u32,
    /// Accepted for sending and not acknowledged, in bytes.
    pub queued_bytes: usize,
    /// Messages accepted for sending and not acknowledged (U8: `datagram_queue_length`).
    pub queued_messages: u64,
    /// Pieces that were lost and wait for `Node::retransmit_now` (U6, U11).
    pub held_resends: usize,
    /// Charge of messages that arrived and that the program has not taken, in bytes.
    pub backlog_bytes: u64,
    /// What the program wants of what it sends there (U10).
    pub quality: Quality,
    /// What the peer has granted to that; `None` before its answer, and without a wish (U10:
    /// `datagram_getdestbuf`).
    pub granted: Option<Terms>,
    /// Memory of [`NodeStats::posted_bytes`] that messages from there hold, in bytes.
    pub posted_bytes: u64,
    /// How much of that comes back only when the program receives or discards messages: their receives
    /// were withdrawn, or timed out, or it has looked for them and not waited.
    pub withdrawn_bytes: u64,
    /// What keeps this side from granting bodies that receives wait for, or have waited for, if anything does.
    pub shortage: Option<Shortage>,
    /// Smoothed round-trip time in nanoseconds; zero before the first sample.
    pub rtt_ns: u64,
    /// Its mean deviation.
    pub rtt_variation_ns: u64,
    /// Shortest round trip of the last 10 to 20 s, or of the last few samples if they are older.
    pub rtt_min_ns: u64,
    /// Datagram size in use towards the peer.
    pub datagram_bytes: usize,
    /// Messages sent on this connection that expired before they were acknowledged
    /// ([`crate::Value`]).
    pub expired_sent: u64,
    /// Messages that expired on their way here.
    pub expired_received: u64,
    /// Counters since the connection was made; messages sent since the first that was to make it.
    pub counters: Counters,
}

/// Counters of one connection, or of all of a node's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets that opened and were new.
    pub packets_received: u64,
    /// Bytes sent, preludes and tags included.
    pub bytes_sent: u64,
    /// Bytes received in such packets.
    pub bytes_received: u64,
    /// Messages accepted for sending.
    pub messages_sent: u64,
    /// Messages arrived.
    pub messages_received: u64,
    /// Packets found lost.
    pub packets_lost: u64,
    /// Packets found lost that arrived after all.
    pub spurious_losses: u64,
    /// Times the tail was asked for again.
    pub polls: u64,
    /// Polls in a row that nobody answered, three or more: the last resort.
    pub timeouts: u64,
    /// Acknowledgements that travelled alone.
    pub acks_alone: u64,
}

impl Counters {
    /// Adds another connection's counters.
    pub(crate) fn add(&mut self, other: &Counters) {
        self.packets_sent += other.packets_sent;
        self.packets_received += other.packets_received;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.messages_sent += other.messages_sent;
        self.messages_received += other.messages_received;
        self.packets_lost += other.packets_lost;
        self.spurious_losses += other.spurious_losses;
        self.polls += other.polls;
        self.timeouts += other.timeouts;
        self.acks_alone += other.acks_alone;
    }
}

/// The whole node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Peers known.
    pub peers: usize,
    /// Connections open.
    pub connections: usize,
    /// Messages that nobody has asked for yet.
    pub unmatched_messages: usize,
    /// Memory reserved for them, and what peers have been told that they may send unasked, in bytes.
    pub unmatched_bytes: u64,
    /// Memory allocated for messages on their way to posted receives without buffers, and for those that such
    /// receives had been given before they were withdrawn, in bytes. At most `memory_bytes` and an eighth of it.
    pub posted_bytes: u64,
    /// What is known of the link to this node and promised to those who send over it.
    pub credit: CreditStats,
    /// Counters over all connections, past ones included.
    pub counters: Counters,
    /// Datagrams thrown away, by reason.
    pub dropped: Dropped,
    /// Whose handshake was turned away last, and why. Anybody can send one, under any address.
    pub rejected_last: Option<(SocketAddr, RejectReason)>,
    /// Nanoseconds for which this process was stopped or kept from running, as far as deadlines
    /// were missed by more than 20 ms; held against no peer.
    pub stalled_ns: u64,
    /// Events that the program has not fetched in time (`Node::next_event`).
    pub events_dropped: u64,
}

/// Datagrams thrown away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// They did not follow the protocol.
    pub malformed: u64,
    /// They named no connection of this node.
    pub unknown_connection: u64,
    /// They did not open: forged, damaged, or sealed under another key.
    pub forged: u64,
    /// They had been received before.
    pub replayed: u64,
    /// Handshakes that were turned away.
    pub rejected: u64,
    /// Handshakes answered with a cookie.
    pub cookies: u64,
    /// First messages of handshakes that were not looked at: in 100 ms more had come than are, from outside of
    /// the job, or recorded ones that somebody repeats. Answers that came behind many forged ones. Third messages
    /// of strangers, when there was no room for another peer any more.
    pub crowded_out: u64,
}
