//! What stands in the way of datagrams to a peer.

use std::fmt;
use std::io::{Error, ErrorKind};

/// What this machine or the network said of datagrams for a peer that did not get there. A hint, for it may
/// pass, and anybody can forge ICMP errors; but see [`Obstacle::is_lasting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// This machine refused to send them; holds the `errno`.
    System(i32),
    /// The network reported an error (ICMP); holds the `errno` that stands for it.
    Network(i32),
    /// The peer's address is of another version of IP than the one that this node is bound to.
    IpVersion {
        /// Whether the peer's is IPv6.
        ipv6: bool,
    },
}

/// Linux's number of this error.
const EACCES: i32 = 13;

impl Obstacle {
    /// Whether it is on this machine, and kept the datagram from leaving.
    pub fn is_local(self) -> bool {
        !matches!(self, Obstacle::Network(_))
    }

    /// Whether it stays as long as the peer and this node have the addresses that they have, so that trying
    /// again is in vain: the versions of IP differ. A connection that is being made fails at once then. All
    /// others are waited out: a route, an interface and the address bound to may come up, a firewall may
    /// have been full, and a peer may be about to start. What the system says does not tell them apart: a
    /// route that swallows datagrams until a better one comes (`blackhole`, `prohibit`) gives the same
    /// errors as an address that leads nowhere, or to everybody.
    pub fn is_lasting(self) -> bool {
        matches!(self, Obstacle::IpVersion { .. })
    }

    /// Which one counts when this is said and `known` still stands: a firewall that refuses datagrams here
    /// may send ICMP errors, too, as if they had left.
    pub(crate) fn beside(self, known: Option<Obstacle>) -> Obstacle {
        known
            .filter(|known| known.is_local() && !self.is_local())
            .unwrap_or(self)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, errno, cure): (_, _, fn(_) -> _) = match *self {
            Obstacle::System(EACCES) => ("this machine refuses to send there", EACCES, |_| {
                Some(
                    "is it a broadcast address, or one that a route prohibits? `ip route get` shows it",
                )
            }),
            Obstacle::System(errno) => ("this machine refuses to send there", errno, local_cure),
            Obstacle::Network(errno) => ("the network says", errno, network_cure),
            Obstacle::IpVersion { ipv6 } => {
                let (theirs, ours) = if ipv6 { ("6", "4") } else { ("4", "6") };
                return write!(
                    f,
                    "the peer has an IPv{theirs} address and this node is bound to an IPv{ours} \
                     one: bind it to [::], which serves both"
                );
            }
        };
        let error = Error::from_raw_os_error(errno);
        write!(f, "{who}: {error}")?;
        match cure(error.kind()) {
            Some(cure) => write!(f, ": {cure}"),
            None => Ok(()),
        }
    }
}

/// What to look at when this machine refuses.
fn local_cure(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => {
            Some("is there a route to the peer's address? `ip route get` shows it")
        }
        ErrorKind::NetworkDown => Some("is the interface up? `ip link` shows it"),
        ErrorKind::PermissionDenied => {
            Some("does a firewall here drop it? `nft list ruleset` shows that")
        }
        ErrorKind::InvalidInput | ErrorKind::AddrNotAvailable => Some(
            "does the address that this node is bound to exist, and lead there? 127.0.0.1 does not lead \
             out of this machine, a link-local address needs its interface, as in fe80::1%eth0, and \
             `ip route get` fails where a blackhole is in the way",
        ),
        _ => None,
    }
}

/// What to look at when the network says so.
fn network_cure(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::ConnectionRefused => Some("is the peer running, and is its port right?"),
        ErrorKind::HostUnreachable => {
            Some("is the peer's machine up, and does no firewall turn this away?")
        }
        ErrorKind::NetworkUnreachable => Some("does a router know the way to the peer's address?"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_names_the_cause_and_the_cure() {
        const ENETUNREACH: i32 = 101;
        const ECONNREFUSED: i32 = 111;
        for (obstacle, cause, cure) in [
            (
                Obstacle::System(ENETUNREACH),
                "Network is unreachable",
                "`ip route get`",
            ),
            (
                Obstacle::Network(ECONNREFUSED),
                "Connection refused",
                "is its port right?",
            ),
            (
                Obstacle::System(EACCES),
                "Permission denied",
                "is it a broadcast address",
            ),
            (
                Obstacle::IpVersion { ipv6: true },
                "is bound to an IPv4 one",
                "bind it to [::]",
            ),
        ] {
            let text = obstacle.to_string();
            assert!(text.contains(cause) && text.contains(cure), "{text}");
        }
    }
}
