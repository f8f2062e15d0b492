//! Values that steer a node.

use std::net::IpAddr;

use crate::channel::{
    AckPolicy, BASE_DATAGRAM, Congestion, DEFAULT_DATAGRAM, MAX_DATAGRAM, Recovery,
};
use crate::credit::{CreditPolicy, DECAY_NS};
use crate::seal::Mode;
use crate::{PeerId, wire};

/// The latest that an acknowledgement may be on which nothing depends: standing credit is taken for given
/// back by a sender that was silent for twice as long.
pub(crate) const LATE_ACK_MOST_NS: u64 = DECAY_NS / 2;

/// Credit for less than a few of the longest entries would never let one in.
const LOG_WINDOW_LEAST: u64 = 4 << 10;
/// With more, so many messages could be on their way that ids of bodies can't be told apart (`message::IDS_AHEAD`).
const LOG_WINDOW_MOST: u64 = 1 << 30;

/// How a node behaves. Start from [`Config::new`] and change what you need.
#[derive(Clone, Debug)]
pub struct Config {
    /// This process.
    pub id: PeerId,
    /// Sealed under a job key, or plain. Both sides must agree.
    pub mode: Mode,
    /// Bytes that the kernel may charge to the socket's receive buffer, as `SO_RCVBUF` reads back.
    /// Windows are shares of it, so that no sender can overrun it. Default 8 MiB: what a request
    /// for 4 MiB gives on Linux.
    pub socket_buffer_bytes: u64,
    /// Largest window for one peer, in bytes as the kernel charges them. Default 1 GiB: what the path
    /// holds decides, and 1 Gb/s × 600 ms is 120 MB.
    pub window_max: u32,
    /// How credit is given to those who send to this process. Default: as much as the path holds,
    /// those first who have least left to send.
    pub credit: CreditPolicy,
    /// Largest datagram to send or take, in bytes of UDP payload, 1,200…65,507. Sizes above 1,200
    /// are used once a probe of them has arrived. Default 1,472: Ethernet over IPv4.
    pub max_datagram: usize,
    /// Largest body sent without being asked for, in bytes. A larger one costs a round trip until
    /// its receiver grants it, a smaller one may take memory there that nobody asked for. Up to 1,024
    /// bytes always travel unasked. Default 256 KiB.
    pub eager_max: u64,
    /// Most bytes accepted for one peer and not yet acknowledged; as many again of bodies above
    /// `eager_max`, and of those that have to be asked for because credit runs short, which take no room from others. Default 4 MiB; of each sort, a
    /// single larger message is taken when none is queued.
    pub send_queue_bytes: usize,
    /// First credit for small and eager messages that one peer may send before the program takes
    /// any, in bytes (each message counts 128 more than its body), at least 1. Default 256 KiB.
    pub log_window: u64,
    /// Largest such credit. It doubles as the peer needs it and `memory_bytes` allows, and a peer that hardly uses it for
    /// `keep_alive_ns` gives it back. 4 KiB to 1 GiB, default 8 MiB.
    pub log_window_max: u64,
    /// Memory for messages that nobody has asked for yet, over all peers: half of it for what they have such credit for,
    /// half for larger bodies. Posted receives without buffers of their own may allocate as much again as both, and an
    /// eighth more that is kept for bodies of at most that length. Default 1 GiB.
    pub memory_bytes: u64,
    /// How much of it the large bodies of one peer may take, in bytes: those that nobody has asked
    /// for yet, and as much again those on their way to posted receives. Beyond, the peer's next
    /// bodies wait until others of it have arrived; one is always let come. At most, and by
    /// default, a quarter of `memory_bytes`: 256 MiB, so that no peer keeps it from the others.
    pub peer_memory_bytes: u64,
    /// How long an acknowledgement that was asked for may wait for data to ride on, while the
    /// program is inside the library. Default 100 µs.
    pub ack_delay_ns: u64,
    /// How long it may wait where nothing depends on it: it is owed for less than 256 KiB, as the kernel charges
    /// them, and the sender has credit for 48 KiB more than that. Peers are told, and ask for the tail of what they sent so much later. At most
    /// 50 ms. Default 0: no longer than any other. Of use where ranks of one host send short messages one
    /// way, and nothing is lost but by their own doing.
    pub late_ack_ns: u64,
    /// How many peers are likely to send here. Credit that peers hold while they have nothing to send is
    /// divided among so many from the start, as far as each gets two packets. Default 1: the first ones
    /// get most of it.
    pub expected_peers: u32,
    /// The longest delay of an acknowledgement, announced to peers: they do not ask again sooner.
    /// Default 2 ms: what it takes until a helper takes over from a program that computes.
    pub max_ack_delay_ns: u64,
    /// When acknowledgements are sent.
    pub ack_policy: AckPolicy,
    /// How this node finds what was lost of what it sends. Default: [`Recovery::Selective`].
    pub recovery: Recovery,
    /// What keeps this node to what paths carry, beside the credit that receivers give. Default:
    /// [`Congestion::None`]. [`crate::Node::set_congestion`] says it for one peer.
    pub congestion: Congestion,
    /// The driver tells which datagrams switches have marked ([`crate::Node::handle_datagrams`]). Peers
    /// are told so, and send datagrams that may be marked (ECN, RFC 3168); marks count as the path's
    /// queue being full, here and in their congestion control. Default no: asking costs 0.1 to 0.2 µs
    /// for each system call, and few switches mark anything.
    pub ecn: bool,
    /// A peer that is silent for this long, although it was asked to answer, is lost. Default 10 s.
    pub dead_after_ns: u64,
    /// An idle peer is asked for a sign of life after this long, at most half of `dead_after_ns`.
    /// Default 3 s.
    pub keep_alive_ns: u64,
    /// While one of the two programs has disconnected, a peer that is silent for this long is lost,
    /// and what is kept for it. Default 10 min: time to move a host, and an end for what is kept for
    /// one that never comes back. Both sides should have the same.
    pub disconnected_max_ns: u64,
    /// A handshake that brought no answer for this long has failed. Default 5 s.
    pub connect_timeout_ns: u64,
    /// Accept peers that are not in the address book, if they know the job key. Default yes.
    pub accept_unknown: bool,
    /// Most peers known at a time. Default 65,536.
    pub max_peers: usize,
    /// Handshakes under way, begun by others, above which a cookie is asked for. Default 64.
    pub cookie_above: usize,
    /// The socket's address, if it is bound to that alone: peers at the same one are on this very host, and what goes to them does not
    /// wait for its link. Default: not told.
    pub address: Option<IpAddr>,
    /// The driver seals packets, on a thread of its own perhaps: [`crate::Transmit::unsealed`]. Default no: the node does.
    pub seal_below: bool,
    /// The driver opens packets, as far as it can: [`crate::Keyring`], [`crate::Node::handle_opened`]. Default no: the node does.
    pub open_below: bool,
    /// Hand out traffic secrets as [`crate::Event::Secrets`], for decrypting captures. Default no.
    pub key_log: bool,
}

impl Config {
    /// The defaults, for this process id and mode.
    pub fn new(id: PeerId, mode: Mode) -> Self {
        Config {
            id,
            mode,
            socket_buffer_bytes: 8 << 20,
            window_max: 1 << 30,
            credit: CreditPolicy::default(),
            max_datagram: DEFAULT_DATAGRAM,
            eager_max: 256 << 10,
            send_queue_bytes: 4 << 20,
            log_window: 256 << 10,
            log_window_max: 8 << 20,
            memory_bytes: 1 << 30,
            peer_memory_bytes: 256 << 20,
            ack_delay_ns: 100_000,
            late_ack_ns: 0,
            expected_peers: 1,
            max_ack_delay_ns: 2_000_000,
            ack_policy: AckPolicy::WhenAsked,
            recovery: Recovery::default(),
            congestion: Congestion::default(),
            ecn: false,
            dead_after_ns: 10_000_000_000,
            keep_alive_ns: 3_000_000_000,
            disconnected_max_ns: 600_000_000_000,
            connect_timeout_ns: 5_000_000_000,
            accept_unknown: true,
            max_peers: 65_536,
            cookie_above: 64,
            address: None,
            seal_below: false,
            open_below: false,
            key_log: false,
        }
    }

    /// The same, with values outside their ranges brought to the nearest end.
    pub(crate) fn within_limits(mut self) -> Self {
        self.max_datagram = self.max_datagram.clamp(BASE_DATAGRAM, MAX_DATAGRAM);
        self.dead_after_ns = self.dead_after_ns.max(1_000_000);
        self.connect_timeout_ns = self.connect_timeout_ns.max(1_000_000);
        self.keep_alive_ns = self.keep_alive_ns.clamp(1, self.dead_after_ns / 2);
        self.late_ack_ns = self.late_ack_ns.min(LATE_ACK_MOST_NS);
        self.log_window_max = self.log_window_max.clamp(LOG_WINDOW_LEAST, LOG_WINDOW_MOST);
        // It grows by doubling.
        self.log_window = self.log_window.clamp(1, self.log_window_max);
        self.peer_memory_bytes = self.peer_memory_bytes.min(self.memory_bytes / 4);
        self
    }

    /// Bytes of the largest Init, and so of what a Reply may prove that the path takes.
    pub(crate) fn largest_init(&self) -> usize {
        self.max_datagram.min(DEFAULT_DATAGRAM)
    }

    /// Largest body that travels inside its envelope, in bytes.
    pub const INLINE_MAX: usize = wire::INLINE_MAX;
}
