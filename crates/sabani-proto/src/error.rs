//! Errors, by whose fault they are.

use std::fmt;
use std::time::Duration;

use crate::wire::{RejectReason, VERSION, VERSION_MIN};
use crate::{Envelope, HumanTime, Limit, Obstacle, PeerId};

/// Why a message was not accepted for sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// Nobody has said where this peer is.
    UnknownPeer(PeerId),
    /// The queue towards the peer is full; nothing was taken. Wait, or drive the node.
    Full {
        /// The peer.
        peer: PeerId,
        /// Bytes queued.
        queued_bytes: usize,
        /// What keeps them from leaving.
        limit: Limit,
        /// What is in the way of the connection, as far as this machine or the network has said.
        obstacle: Option<Obstacle>,
    },
    /// A connection to the peer ended, and nobody has been told yet. Said once: the next message makes a
    /// new one. That the peer has closed its node is no news once it is back, if nothing was lost.
    PeerLost {
        /// The peer.
        peer: PeerId,
        /// Why.
        why: PeerLost,
    },
    /// This program has disconnected from the peer; or the peer's has, and the queue is full.
    Disconnected {
        /// The peer.
        peer: PeerId,
        /// Bytes that wait for it.
        queued_bytes: usize,
        /// Whether the peer's program has disconnected, not this one.
        by_peer: bool,
    },
    /// The system has no memory for a copy of the message; nothing was taken.
    NoMemory {
        /// Bytes of the message.
        bytes: usize,
    },
    /// The node is closing.
    Closed,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::UnknownPeer(peer) => {
                write!(f, "peer {peer} is not in the address book: add its address")
            }
            SendError::Full {
                peer,
                queued_bytes,
                limit,
                obstacle,
            } => {
                let cause = match limit {
                    Limit::Handshake => "there is no connection to it yet",
                    Limit::Grant => "its program leaves messages untaken",
                    Limit::HeldResends => "this program keeps what was lost (`hold_resends`)",
                    Limit::OwnLink => "this host sends no faster",
                    _ => "the path, or whoever receives, is slower than the program",
                };
                write!(
                    f,
                    "{queued_bytes} bytes already wait for peer {peer}, because {cause}"
                )?;
                match obstacle {
                    Some(obstacle) => write!(f, ": {obstacle}"),
                    None => Ok(()),
                }
            }
            SendError::PeerLost { peer, why } => {
                write!(f, "the connection to peer {peer} was lost: {why}")
            }
            SendError::Disconnected {
                peer,
                by_peer: false,
                ..
            } => write!(
                f,
                "this program has disconnected from peer {peer}: reconnect before sending"
            ),
            SendError::Disconnected {
                peer,
                queued_bytes: 0,
                ..
            } => write!(
                f,
                "the program of peer {peer} has disconnected: messages leave when it reconnects"
            ),
            SendError::Disconnected {
                peer, queued_bytes, ..
            } => write!(
                f,
                "the program of peer {peer} has disconnected, and {queued_bytes} bytes already \
                 wait for it: they leave when it reconnects"
            ),
            SendError::NoMemory { bytes } => write!(
                f,
                "the system has no memory for a copy of the message's {bytes} bytes: hand the body over \
                 instead (`send_owned`), or give the process more memory"
            ),
            SendError::Closed => write!(f, "the node is closing: nothing more can be sent"),
        }
    }
}

impl std::error::Error for SendError {}

/// Why a message that was accepted is not known to have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// The connection ended.
    PeerLost(PeerLost),
    /// It was worth something for some time only, or sent once ([`crate::Value`]), and was dropped.
    /// All of it may have arrived, if only the acknowledgements were late.
    Expired,
}

/// Why a connection ended, and with it what was queued on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerLost {
    /// It could not be made.
    Unreachable(ConnectError),
    /// The peer was silent for too long.
    Silent {
        /// For how long.
        time: Duration,
        /// What was last said to be in the way, if anything was.
        obstacle: Option<Obstacle>,
    },
    /// The peer's process started anew; messages meant for the old one are dropped.
    Restarted,
    /// The peer's program closed its node.
    Closed,
    /// This program closed its node.
    ClosedHere,
    /// The peer, still the same process, made a new connection: it had given this one up.
    Replaced,
    /// The connection has used up its packet numbers; the next message makes a new one.
    WornOut,
    /// The peer broke the protocol; what it did.
    Violation(&'static str),
    /// The peer says that this side broke the protocol.
    Accused,
    /// This side's system had no memory for a message of so many bytes that had begun to come.
    NoMemory(u64),
}

impl PeerLost {
    /// What was said to be in the way of a peer that did not answer.
    pub fn obstacle(&self) -> Option<Obstacle> {
        match self {
            PeerLost::Unreachable(why) => why.obstacle(),
            PeerLost::Silent { obstacle, .. } => *obstacle,
            _ => None,
        }
    }
}

impl fmt::Display for PeerLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerLost::Unreachable(why) => why.fmt(f),
            PeerLost::Silent { time, obstacle } => {
                write!(f, "the peer has been silent for {}", HumanTime(*time))?;
                write_obstacle(f, obstacle)
            }
            PeerLost::Restarted => write!(f, "the peer's process was started anew"),
            PeerLost::Closed => write!(f, "the peer closed its node"),
            PeerLost::ClosedHere => write!(f, "this program closed its node"),
            PeerLost::Replaced => {
                write!(f, "the peer had given the connection up and made a new one")
            }
            PeerLost::WornOut => write!(f, "the connection has used up its packet numbers"),
            PeerLost::Violation(what) => write!(f, "the peer broke the protocol: {what}"),
            PeerLost::Accused => write!(f, "the peer says that this node broke the protocol"),
            PeerLost::NoMemory(bytes) => write!(
                f,
                "this node's system had no memory for a message of {bytes} bytes: lower the node's \
                 `memory`, or give the process more"
            ),
        }
    }
}

impl std::error::Error for PeerLost {}

/// Adds what is in the way, if anything is.
fn write_obstacle(f: &mut fmt::Formatter<'_>, obstacle: &Option<Obstacle>) -> fmt::Result {
    match obstacle {
        Some(obstacle) => write!(f, "; {obstacle}"),
        None => Ok(()),
    }
}

/// Why no connection could be made. The reasons beyond silence come from unauthenticated hints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// Nothing came back.
    NoAnswer {
        /// For how long.
        time: Duration,
        /// What was last said to be in the way, if anything was.
        obstacle: Option<Obstacle>,
    },
    /// The peer turned the handshake away.
    Rejected {
        /// Why.
        reason: RejectReason,
        /// Versions that the peer speaks.
        versions: (u8, u8),
        /// Whether the peer seals its packets.
        sealed: bool,
    },
}

impl ConnectError {
    /// What was said to be in the way.
    pub fn obstacle(&self) -> Option<Obstacle> {
        match self {
            ConnectError::NoAnswer { obstacle, .. } => *obstacle,
            ConnectError::Rejected { .. } => None,
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::NoAnswer {
                time,
                obstacle: None,
            } => write!(
                f,
                "no answer in {}: is the peer running, and is its address right?",
                HumanTime(*time)
            ),
            // However long that was: nothing has left.
            ConnectError::NoAnswer {
                obstacle: Some(obstacle),
                ..
            } if obstacle.is_lasting() => obstacle.fmt(f),
            ConnectError::NoAnswer { time, obstacle } => {
                write!(f, "no answer in {}", HumanTime(*time))?;
                write_obstacle(f, obstacle)
            }
            ConnectError::Rejected {
                reason,
                versions: (oldest, newest),
                sealed,
            } => match reason {
                RejectReason::Version => write!(
                    f,
                    "the peer speaks protocol versions {oldest} to {newest}, this node \
                     {VERSION_MIN} to {VERSION}: upgrade one of them"
                ),
                RejectReason::Mode if *sealed => write!(
                    f,
                    "the peer seals its packets and this node is plain: give this node the job key"
                ),
                RejectReason::Mode => write!(
                    f,
                    "the peer is plain and this node seals its packets: use one mode on both"
                ),
                RejectReason::Key => {
                    write!(f, "the peer has another job key: give both the same one")
                }
                RejectReason::Checksum => write!(
                    f,
                    "the peer guards plain packets with another checksum: use the same on both"
                ),
                RejectReason::WrongPeer => write!(
                    f,
                    "the process at this address has another id: correct the address book"
                ),
                RejectReason::Full => write!(
                    f,
                    "the peer has no room for another peer, or for more messages that its program has not taken"
                ),
                RejectReason::Stranger => write!(
                    f,
                    "the peer takes only processes that it knows: add this one to its addresses"
                ),
                RejectReason::Other(code) => write!(f, "the peer turned us away (reason {code})"),
            },
        }
    }
}

impl std::error::Error for ConnectError {}

/// What is in the way of a receive, which waits in vain until the program does something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// Untaken messages use up the sender's credit.
    Backlog(Backlog),
    /// Messages that do not come on, or that nobody takes, use up the node's memory.
    Starved(Starvation),
}

impl Hindrance {
    /// Whether nothing has changed since another account.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Hindrance::Backlog(one), Hindrance::Backlog(other)) => one == other,
            (Hindrance::Starved(one), Hindrance::Starved(other)) => one.is_by_same_holder(other),
            _ => false,
        }
    }
}

/// Messages from a peer that the program does not take. They use up the peer's credit, so that nothing more can come
/// from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The peer.
    pub peer: PeerId,
    /// Credit that they use, in bytes.
    pub bytes: u64,
    /// Credit that those use which were taken before.
    pub(crate) taken: u64,
}

/// What keeps the node's memory from a receive without a buffer, which waits in vain until the program does something
/// about it, or a peer reconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starvation {
    /// The message that can't come.
    pub waiting: Envelope,
    /// The longest of those that hold memory and do not give it back. If it is complete, its receive was withdrawn,
    /// or has timed out; else either program has disconnected from the other.
    pub holder: Envelope,
    /// Bytes that all of these hold.
    pub held_bytes: u64,
    /// The node's memory for messages that receives wait for, in bytes.
    pub limit: u64,
    /// Tells the longest from others of that length and tag.
    pub(crate) holder_id: u64,
}

impl Starvation {
    /// Whether the longest that holds memory is the same message as in another account, and not one like it that
    /// has followed it.
    pub fn is_by_same_holder(&self, other: &Self) -> bool {
        (self.holder, self.holder_id) == (other.holder, other.holder_id)
    }
}

impl fmt::Display for Starvation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiting, holder) = (&self.waiting, &self.holder);
        let has_room = waiting.len <= self.limit.saturating_sub(self.held_bytes);
        let behind = if has_room {
            " and comes after one,"
        } else {
            ""
        };
        write!(
            f,
            "the message from peer {} with tag {} has {} bytes,{} for which there is no room while others hold {} of \
             the {} bytes that this node allocates for messages; the longest, {} bytes from peer {} with tag {}, ",
            waiting.source,
            waiting.tag,
            waiting.len,
            behind,
            self.held_bytes,
            self.limit,
            holder.len,
            holder.source,
            holder.tag,
        )?;
        f.write_str(match holder.complete {
            true => "is here, and nobody receives it: receive it, discard it",
            false => {
                "does not come on while that peer and this one are disconnected: reconnect, or withdraw its receive \
                 and discard it"
            }
        })?;
        f.write_str(", hand over a buffer for the one that waits, or raise the node's `memory`")
    }
}
