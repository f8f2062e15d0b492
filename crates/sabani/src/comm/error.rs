//! What can go wrong among ranks.

use std::fmt;
use std::net::SocketAddr;

use sabani_collective::BadOverride;

/// Why ranks could not start, or go on. Its debug form is the same text: that is what a `main` that
/// returns it shows.
#[non_exhaustive]
pub enum Error {
    /// This process could not join its job.
    Launch(sabani_launch::Error),
    /// This rank can't reach others.
    Unreachable(Vec<Unreachable>),
    /// The node below failed: see its error.
    Node(crate::Error),
    /// A rank of the communicator has failed; or one that this rank has waited for has ended.
    RankLost {
        /// The rank.
        rank: usize,
        /// What became of it.
        why: String,
    },
    /// A rank has ended the communicator, with [`Comm::revoke`](super::Comm::revoke) or because it has waited
    /// for one that is gone.
    Revoked {
        /// The rank.
        by: usize,
        /// What it says.
        why: String,
    },
    /// All other ranks have ended, so nobody is left to receive from.
    Alone,
    /// Collectives were started by work that was started itself: ranks would not agree on the order.
    Nested,
    /// An operation has called a collective of the communicator that it combines for.
    WithinOperation,
    /// A process can offer some 2²⁸ / P numbers for communicators, P being the size of the world, and
    /// one has.
    NoMoreGroups,
    /// There is no such rank.
    NoSuchRank {
        /// What was asked for.
        rank: usize,
        /// How many there are.
        size: usize,
    },
    /// Ranks are in different collectives, or in the same with different arguments: what each is in.
    Collective(String),
    /// A vector is not as long as the others ask for.
    Size {
        /// Its elements.
        len: usize,
        /// Elements that it should have.
        expected: usize,
    },
    /// A choice of algorithms makes no sense.
    Algorithms {
        /// Where it stands: `SABANI_ALGORITHMS`, or `set_algorithms`.
        by: &'static str,
        /// What is wrong with it.
        why: BadOverride,
    },
    /// The file of a network can't be used: which, and why.
    Network(String),
    /// A message does not fit: it was received, and is dropped.
    Length {
        /// Its sender.
        rank: usize,
        /// Its tag.
        tag: u32,
        /// Its bytes.
        bytes: usize,
        /// Bytes for which there was room; or of which it must have a multiple.
        expected: usize,
    },
}

/// A rank that this one can't reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// This rank.
    pub from: usize,
    /// This rank's host and socket.
    pub from_place: (String, SocketAddr),
    /// The other one.
    pub to: usize,
    /// The other's host and socket.
    pub to_place: (String, SocketAddr),
    /// What happened.
    pub why: String,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |(host, address): &(String, SocketAddr)| format!("{host}, {address}");
        let (from, to) = (place(&self.from_place), place(&self.to_place));
        write!(
            f,
            "rank {} ({from}) can't reach rank {} ({to}): {}",
            self.from, self.to, self.why
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Launch(error) => error.fmt(f),
            Error::Unreachable(pairs) => {
                for pair in pairs {
                    write!(f, "{pair}; ")?;
                }
                write!(
                    f,
                    "does a firewall let UDP through? SABANI_IF names the interface or subnet to \
                     use, SABANI_PORTS the ports"
                )
            }
            Error::Node(error) => error.fmt(f),
            Error::RankLost { rank, why } => write!(f, "rank {rank} {why}"),
            Error::Revoked { by, why } => {
                write!(f, "rank {by} has ended the communicator: {why}")
            }
            Error::Alone => write!(
                f,
                "all other ranks have ended: nobody is left to receive from"
            ),
            Error::Nested => write!(
                f,
                "work that was started can't start other work: call collectives in it, one after the other"
            ),
            Error::WithinOperation => write!(
                f,
                "an operation can't call collectives of the communicator that it combines for: they would wait for \
                 each other"
            ),
            Error::NoMoreGroups => write!(
                f,
                "communicators have been divided too often: make them once, and keep them"
            ),
            Error::NoSuchRank { rank, size } => {
                write!(f, "there is no rank {rank}: ranks are 0 to {}", size - 1)
            }
            Error::Collective(difference) => f.write_str(difference),
            Error::Size { len, expected } => {
                write!(f, "a vector has {len} elements where {expected} belong")
            }
            Error::Algorithms { by, why } => write!(f, "choice of algorithms, {by}: {why}"),
            Error::Network(why) => write!(f, "description of the network: {why}"),
            Error::Length {
                rank,
                tag,
                bytes,
                expected,
            } => write!(
                f,
                "the message from rank {rank} with tag {tag} has {bytes} bytes, where {expected}, \
                 or a multiple of an element's, belong: do both sides have the same type and length?"
            ),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Without sources: what an error shows names the cause already, and would do so twice.
impl std::error::Error for Error {}

impl From<sabani_launch::Error> for Error {
    fn from(error: sabani_launch::Error) -> Self {
        match error {
            sabani_launch::Error::Left(departure) => Error::RankLost {
                rank: departure.rank as usize,
                why: departure.why,
            },
            error => Error::Launch(error),
        }
    }
}

/// Where ranks are known, `Comm::explained` says more.
impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        Error::Node(error)
    }
}
