//! What the process that reports tells those on the hosts, and what they answer.

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::bench::transport::{Key, Transport};

/// Where a sender answers round trips of single packets.
pub const ECHO_PORT: u16 = 7000;

/// Where a sender waits for requests. Each host has all ports to itself.
pub fn address(host: Ipv4Addr, transport: Transport) -> SocketAddr {
    let port = match transport {
        Transport::Sabani => 7001,
        Transport::SabaniPlain => 7002,
        Transport::TcpCubic => 7003,
        Transport::TcpBbr => 7004,
        Transport::RawUdp | Transport::RawUdpConnected => ECHO_PORT,
    };
    SocketAddr::new(host.into(), port)
}

/// What a process is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Be a sender: answer requests by all transports. Answered by `Ready`.
    Answer(Setup),
    /// Be the receiver, and meet all senders. Answered by `Ready`.
    Ask {
        setup: Setup,
        senders: Vec<Ipv4Addr>,
    },
    /// A sender's counters. Answered by `Counts`.
    Count { transport: Transport },
    /// The receiver's round trip of a packet to a sender and back. Answered by `RoundTrip`.
    RoundTrip,
    /// A turn of the receiver's. Answered by `Done`.
    Turn(Turn),
}

/// How an endpoint is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// This host's address.
    pub host: Ipv4Addr,
    /// What will be measured.
    pub transports: Vec<Transport>,
    /// The same for all.
    pub key: Key,
}

/// Some rounds of one transport's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// By which transport.
    pub transport: Transport,
    /// Of what.
    pub pattern: Pattern,
    /// Rounds that count.
    pub rounds: u32,
}

/// Who sends what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// All the same, at the same time.
    Incast { bytes: usize },
    /// The last one a short message, all others long ones all the time.
    Mix { short: usize, long: usize },
}

impl Pattern {
    /// Size of the messages whose times are told.
    pub fn size_bytes(self) -> usize {
        match self {
            Pattern::Incast { bytes } => bytes,
            Pattern::Mix { short, .. } => short,
        }
    }
}

/// What a process answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It is open.
    Ready,
    /// What a sender has sent so far.
    Counts(Counts),
    /// The median of some round trips.
    RoundTrip { ns: u64 },
    /// A turn is over.
    Done(Times),
}

/// Packets of one sender, as its transport counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All that were sent.
    pub packets: u64,
    /// Those that were sent again.
    pub resent: u64,
}

/// What came of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Completion time of each round, in order.
    pub completion_ns: Vec<u64>,
    /// The same while nobody else sends, where that makes a difference.
    pub unloaded_ns: Vec<u64>,
    /// What arrived from those that send most.
    pub bytes: u64,
    /// While how long.
    pub elapsed_ns: u64,
}
