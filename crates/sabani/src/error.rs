//! One error for the public API: whose fault, the cause, the cure.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use sabani_proto::{
    Backlog, ConnectError, Envelope, Hindrance, HumanTime, Limit, LinkState, Obstacle, PeerId,
    PeerLost, RecvError, SendError, Starvation,
};
use sabani_ring::ScheduleError;

/// What can go wrong. [`Error::fault`] says on whose side. Its debug form is the same text as its
/// display form: that is what a `main` that returns it shows.
#[non_exhaustive]
pub enum Error {
    /// No address is known for the peer.
    UnknownPeer(PeerId),
    /// No single process can be at the address that the program has given for a peer.
    BadAddress {
        /// The peer.
        peer: PeerId,
        /// The address.
        addr: SocketAddr,
        /// What is wrong with it, and what to write instead.
        problem: &'static str,
    },
    /// The address book has no line for this process, and the program does not say where to bind.
    NotListed(PeerId),
    /// The queue towards the peer is full and the call was not to wait.
    Full {
        /// The peer.
        peer: PeerId,
        /// Bytes that wait already.
        queued_bytes: usize,
        /// What keeps them from leaving.
        limit: Limit,
        /// What is in the way of the connection, as far as this machine or the network has said.
        obstacle: Option<Obstacle>,
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
    /// The connection ended before the work was done, or had ended and there is no other one.
    PeerLost {
        /// The peer.
        peer: PeerId,
        /// Why, if it is known.
        why: Option<PeerLost>,
    },
    /// The message is longer than the buffer. It can still be received, or discarded
    /// ([`crate::Node::discard`]).
    TooSmall {
        /// What waits.
        envelope: Envelope,
        /// Bytes in the buffer.
        room: usize,
    },
    /// The message is longer than the node allocates ([`crate::Builder::memory`]). It can still be
    /// received into a buffer ([`crate::Node::post`]), or discarded ([`crate::Node::discard`]).
    TooLarge {
        /// What waits.
        envelope: Envelope,
        /// Bytes that the node allocates at most.
        limit: u64,
    },
    /// The message was worth something for some time only, or sent once ([`crate::Value`]), and its
    /// sender has dropped it. To the sender: it is not known to have arrived. To a receive that it
    /// had matched: it does not come, the next one may.
    Expired {
        /// The other one.
        peer: PeerId,
    },
    /// The system has no memory for a copy of the message; nothing was taken.
    NoMemory {
        /// Bytes of the message.
        bytes: usize,
    },
    /// Untaken messages from a peer use up its credit, so what this receive waits for can't come.
    Backlog {
        /// The peer.
        peer: PeerId,
        /// Credit that its untaken messages use.
        bytes: u64,
    },
    /// Messages that do not come on, or that nobody takes, use up the node's memory
    /// ([`crate::Builder::memory`]), so what this receive waits for can't come. A receive with a buffer
    /// ([`crate::Node::post`]) needs no such memory.
    Starved(Starvation),
    /// This receive has given its message, or the error that ended it, before ([`crate::Posted`]).
    Ended,
    /// There was no connection to the peer when the time was over. It is still being made.
    Unconnected {
        /// The peer.
        peer: PeerId,
        /// Why, as far as is known by now.
        why: ConnectError,
    },
    /// The node is closed.
    Closed,
    /// This process is a forked child of the one that opened the node: keys and packet numbers must
    /// not be used twice.
    Forked,
    /// Some messages were not acknowledged within the linger time.
    Unacknowledged {
        /// One of those that have not acknowledged all.
        peer: PeerId,
        /// The linger time.
        time: Duration,
        /// Why there is no connection to it yet, as far as is known; `None` if there is one.
        unconnected: Option<ConnectError>,
        /// The connection to it. Nothing leaves while one of the two programs has disconnected.
        state: LinkState,
    },
    /// The socket can't be opened there.
    Socket {
        /// The local address that was asked for.
        addr: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The operating system refused something.
    Io {
        /// What was tried.
        doing: String,
        /// Its answer.
        source: io::Error,
    },
    /// A line of the address book can't be read.
    AddressBook {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The job key can't be used.
    JobKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Neither a job key nor `plain` was asked for.
    NoJobKey,
    /// The layers can't be run as asked for ([`crate::Builder::layers`], or `SABANI_LAYERS`).
    Layers {
        /// What was asked for: a schedule, or `SABANI_LAYERS=` and what stands there.
        asked: String,
        /// What is wrong with it.
        why: ScheduleError,
    },
}

/// On whose side an error lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The program called wrongly.
    Caller,
    /// The other process, or the way to it.
    Peer,
    /// The machine or its configuration.
    Environment,
}

impl Error {
    /// On whose side the error lies.
    pub fn fault(&self) -> Fault {
        match self {
            Error::PeerLost { why: Some(why), .. }
                if why.obstacle().is_some_and(Obstacle::is_local) =>
            {
                Fault::Environment
            }
            Error::Unconnected { why, .. } if why.obstacle().is_some_and(Obstacle::is_local) => {
                Fault::Environment
            }
            Error::Full { obstacle, .. } if obstacle.is_some_and(Obstacle::is_local) => {
                Fault::Environment
            }
            Error::PeerLost { .. }
            | Error::Expired { .. }
            | Error::Unacknowledged { .. }
            | Error::Unconnected { .. } => Fault::Peer,
            Error::Socket { .. }
            | Error::Io { .. }
            | Error::AddressBook { .. }
            | Error::JobKey { .. }
            | Error::NoMemory { .. } => Fault::Environment,
            Error::Full {
                limit: Limit::Grant | Limit::Handshake,
                ..
            }
            | Error::Disconnected { by_peer: true, .. } => Fault::Peer,
            _ => Fault::Caller,
        }
    }

    /// What the end of a connection means to a call that was about it.
    pub(crate) fn lost(peer: PeerId, why: PeerLost) -> Error {
        match why {
            PeerLost::ClosedHere => Error::Closed,
            why => Error::PeerLost {
                peer,
                why: Some(why),
            },
        }
    }

    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let doing = doing.into();
        move |source| Error::Io { doing, source }
    }
}

/// The same for those who have a queue alone, for its text.
fn full(peer: PeerId, queued_bytes: usize, limit: Limit, obstacle: Option<Obstacle>) -> SendError {
    SendError::Full {
        peer,
        queued_bytes,
        limit,
        obstacle,
    }
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        match error {
            SendError::UnknownPeer(peer) => Error::UnknownPeer(peer),
            SendError::Full {
                peer,
                queued_bytes,
                limit,
                obstacle,
            } => Error::Full {
                peer,
                queued_bytes,
                limit,
                obstacle,
            },
            SendError::PeerLost { peer, why } => Error::lost(peer, why),
            SendError::Disconnected {
                peer,
                queued_bytes,
                by_peer,
            } => Error::Disconnected {
                peer,
                queued_bytes,
                by_peer,
            },
            SendError::NoMemory { bytes } => Error::NoMemory { bytes },
            SendError::Closed => Error::Closed,
        }
    }
}

impl From<Hindrance> for Error {
    fn from(why: Hindrance) -> Self {
        match why {
            Hindrance::Backlog(Backlog { peer, bytes, .. }) => Error::Backlog { peer, bytes },
            Hindrance::Starved(why) => Error::Starved(why),
        }
    }
}

impl From<RecvError> for Error {
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::TooSmall { envelope, room, .. } => Error::TooSmall {
                envelope,
                room: room as usize,
            },
            RecvError::TooLarge { envelope, limit } => Error::TooLarge { envelope, limit },
            RecvError::Expired { envelope, .. } => Error::Expired {
                peer: envelope.source,
            },
            RecvError::PeerLost { peer, why, .. } => Error::lost(peer, why),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UnknownPeer(peer) => SendError::UnknownPeer(*peer).fmt(f),
            Error::BadAddress {
                peer,
                addr,
                problem,
            } => write!(f, "peer {peer} can't be at {addr}: {problem}"),
            Error::NotListed(id) => write!(
                f,
                "this process is peer {id}, which is not in the address book, so the others could \
                 not find it: add a line for it, or say where to bind (`Builder::bind`)"
            ),
            &Error::Full {
                peer,
                queued_bytes,
                limit,
                obstacle,
            } => full(peer, queued_bytes, limit, obstacle).fmt(f),
            &Error::Disconnected {
                peer,
                queued_bytes,
                by_peer,
            } => SendError::Disconnected {
                peer,
                queued_bytes,
                by_peer,
            }
            .fmt(f),
            Error::PeerLost { peer, why } => write_lost(f, *peer, why.as_ref()),
            Error::TooSmall { envelope, room } => write!(
                f,
                "the message from peer {} with tag {} has {} bytes, the buffer has room for \
                 {room}: receive it into a larger one",
                envelope.source, envelope.tag, envelope.len
            ),
            &Error::TooLarge { envelope, limit } => RecvError::TooLarge { envelope, limit }.fmt(f),
            Error::Expired { peer } => write!(
                f,
                "the message from or for peer {peer} was dropped: its time was over, or it was sent once \
                 and lost; go on with the next one"
            ),
            Error::Backlog { peer, bytes } => write!(
                f,
                "untaken messages from peer {peer} hold {bytes} bytes, all the credit it has, so \
                 the message waited for can't come: receive or discard those first, or raise \
                 `log_window_max` or `memory`"
            ),
            Error::Starved(why) => why.fmt(f),
            Error::Ended => write!(
                f,
                "this receive has ended, and what came of it was returned before: post another one"
            ),
            &Error::NoMemory { bytes } => SendError::NoMemory { bytes }.fmt(f),
            Error::Unconnected { peer, why } => {
                write!(f, "no connection to peer {peer} yet: {why}")
            }
            Error::Closed => write!(f, "the node is closed"),
            Error::Forked => write!(
                f,
                "this process was forked from the one that opened the node: open another node in \
                 the child"
            ),
            Error::Unacknowledged {
                peer,
                time,
                unconnected,
                state,
            } => write_unacknowledged(f, *peer, *time, unconnected.as_ref(), *state),
            Error::Socket { addr, source } => write_socket(f, *addr, source),
            Error::Io { doing, source } => write_refused(f, doing, source, io_cure(source)),
            Error::AddressBook {
                path,
                line,
                problem,
            } => write!(f, "{}:{line}: {problem}", path.display()),
            Error::JobKey { path, problem } => write!(f, "{}: {problem}", path.display()),
            Error::Layers { asked, why } => {
                write!(f, "layers that share a thread, `{asked}`: {why}")
            }
            Error::NoJobKey => write!(
                f,
                "no job key: give the node one, or say `plain` if nobody else can reach the network"
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

fn write_lost(f: &mut fmt::Formatter<'_>, peer: PeerId, why: Option<&PeerLost>) -> fmt::Result {
    match why {
        None => write!(f, "the connection to peer {peer} ended"),
        Some(PeerLost::Unreachable(why)) => write!(f, "peer {peer} can't be reached: {why}"),
        Some(why) => write!(f, "the connection to peer {peer} ended: {why}"),
    }
}

/// Says what is known of a peer that has not acknowledged all in that time.
fn write_unacknowledged(
    f: &mut fmt::Formatter<'_>,
    peer: PeerId,
    time: Duration,
    unconnected: Option<&ConnectError>,
    state: LinkState,
) -> fmt::Result {
    write!(
        f,
        "peer {peer} did not acknowledge all messages within {}: some may be lost",
        HumanTime(time)
    )?;
    if let Some(why) = unconnected {
        return write!(f, "; there is no connection to it: {why}");
    }
    f.write_str(match state {
        LinkState::Disconnected => {
            "; this program has disconnected from it: reconnect before closing"
        }
        LinkState::DisconnectedByPeer => {
            "; its program has disconnected: close once it has reconnected, or wait longer for that"
        }
        LinkState::DisconnectedByBoth => {
            "; both programs have disconnected: reconnect before closing, and have it reconnect"
        }
        _ => "",
    })
}

fn write_socket(f: &mut fmt::Formatter<'_>, addr: SocketAddr, error: &io::Error) -> fmt::Result {
    let doing = format!("opening a UDP socket on {addr}");
    write_refused(f, &doing, error, socket_cure(addr, error).as_deref())
}

fn write_refused(
    f: &mut fmt::Formatter<'_>,
    doing: &str,
    error: &io::Error,
    cure: Option<&str>,
) -> fmt::Result {
    write!(f, "{doing}: {error}")?;
    match cure {
        Some(cure) => write!(f, ": {cure}"),
        None => Ok(()),
    }
}

/// What helps where descriptors, threads or memory have run out.
fn io_cure(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::MFILE => Some("this process has too many files open: raise its limit (`ulimit -n`)"),
        Errno::NFILE => Some("too many files are open on this machine: raise `fs.file-max`"),
        Errno::AGAIN => Some(
            "raise the limit of processes and threads (`ulimit -u`, a container's own), or end some",
        ),
        Errno::NOMEM | Errno::NOBUFS => Some(
            "the system has no memory for it: end other programs, or raise what limits this one's",
        ),
        _ => None,
    }
}

/// Whether it is an address of a link, and does not say of which.
fn is_of_one_link(addr: SocketAddr) -> bool {
    matches!(addr, SocketAddr::V6(addr) if addr.ip().is_unicast_link_local() && addr.scope_id() == 0)
}

/// What helps where a socket can't be opened.
fn socket_cure(addr: SocketAddr, error: &io::Error) -> Option<String> {
    let port = addr.port();
    let (any, other) = match addr {
        SocketAddr::V4(_) => ("0.0.0.0", "IPv6"),
        SocketAddr::V6(_) => ("[::]", "IPv4"),
    };
    Some(match Errno::from_io_error(error)? {
        Errno::ADDRINUSE => format!(
            "another process has the port, or a node of this one that was closed and not dropped: \
             `ss -ulpn 'sport = :{port}'` names it; port 0 takes one that is free"
        ),
        Errno::ADDRNOTAVAIL => format!(
            "this machine has no such address: `ip address` lists those it has, {any} is all of them"
        ),
        Errno::INVAL if is_of_one_link(addr) => {
            "such an address is that of one interface: name it, as in [fe80::1%eth0]:7000".into()
        }
        Errno::ACCESS | Errno::PERM if (1..1_024).contains(&port) => {
            "ports below 1,024 are for root: take a larger one".into()
        }
        Errno::AFNOSUPPORT => {
            format!("this machine lacks that version of IP: bind to an {other} address")
        }
        _ => io_cure(error)?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_an_error_shows_its_text() {
        let time = Duration::from_millis(1_500);
        let peer = PeerId(3);
        let unconnected = None;
        let state = LinkState::Open;
        let error = Error::Unacknowledged {
            peer,
            time,
            unconnected,
            state,
        };
        let text = "peer 3 did not acknowledge all messages within 1.5 s: some may be lost";
        assert_eq!(format!("{error:?}"), text);
    }

    #[test]
    fn where_descriptors_or_threads_run_out_the_limit_is_named() {
        for (errno, limit) in [(Errno::MFILE, "`ulimit -n`"), (Errno::AGAIN, "`ulimit -u`")] {
            let error = Error::io("opening a node")(errno.into()).to_string();
            assert!(error.starts_with("opening a node: "), "{error}");
            assert!(error.contains(limit), "{error}");
        }
    }

    #[test]
    fn an_address_of_a_link_needs_its_name() {
        let addr = "[fe80::1]:80".parse().unwrap();
        let source = Errno::INVAL.into();
        let error = Error::Socket { addr, source }.to_string();
        assert!(error.contains("[fe80::1%eth0]"), "{error}");
    }

    #[test]
    fn sockets_that_can_not_be_opened_have_a_cure() {
        let addr = "10.0.0.1:80".parse().unwrap();
        for (errno, cure) in [
            (Errno::ADDRINUSE, "`ss -ulpn 'sport = :80'`"),
            (Errno::ADDRNOTAVAIL, "0.0.0.0 is all of them"),
            (Errno::ACCESS, "take a larger one"),
            (Errno::MFILE, "`ulimit -n`"),
            (Errno::NFILE, "`fs.file-max`"),
            (Errno::NOMEM, "no memory for it: end other programs"),
            (Errno::AFNOSUPPORT, "an IPv6 address"),
        ] {
            let source = errno.into();
            let error = Error::Socket { addr, source };
            let text = error.to_string();
            assert!(
                text.starts_with("opening a UDP socket on 10.0.0.1:80: "),
                "{text}"
            );
            assert!(text.contains(cure), "{text}");
            assert_eq!(error.fault(), Fault::Environment);
        }
    }
}
