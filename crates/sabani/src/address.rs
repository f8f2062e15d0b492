//! Addresses as programs, files and people give them.

use std::net::{IpAddr, SocketAddr};

use crate::{Error, PeerId};

/// The address in the notation of its own version of IP: `::ffff:a.b.c.d` is an IPv4 address.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => (ip, addr.port()).into(),
        // As it was: an IPv6 address may have a scope.
        IpAddr::V6(_) => addr,
    }
}

/// The canonical address of a peer, if a single process can be there.
///
/// # Errors
/// [`Error::BadAddress`].
pub(crate) fn of_peer(peer: PeerId, addr: SocketAddr) -> Result<SocketAddr, Error> {
    let addr = canonical(addr);
    match problem(addr) {
        Some(problem) => Err(Error::BadAddress {
            peer,
            addr,
            problem,
        }),
        None => Ok(addr),
    }
}

/// Why nobody can be reached at an address, and what to write instead.
pub(crate) fn problem(addr: SocketAddr) -> Option<&'static str> {
    match addr.ip() {
        _ if addr.port() == 0 => Some("port 0 stands for any free one: name the peer's own port"),
        ip if ip.is_unspecified() => Some(
            "it stands for all addresses of a machine: name the one that it is reached at, or 127.0.0.1 \
             or [::1] for this machine",
        ),
        ip if ip.is_multicast() => {
            Some("it is for groups (multicast): name the peer's own address")
        }
        IpAddr::V4(ip) if ip.is_broadcast() => {
            Some("it is for everybody (broadcast): name the peer's own address")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_are_ipv4() {
        for (text, expected) in [
            ("[::ffff:192.0.2.1]:7", "192.0.2.1:7"),
            ("192.0.2.1:7", "192.0.2.1:7"),
            ("[fe80::1%3]:7", "[fe80::1%3]:7"),
        ] {
            let addr = of_peer(PeerId(1), text.parse().unwrap()).unwrap();
            assert_eq!(addr, expected.parse().unwrap());
        }
    }

    #[test]
    fn nobody_is_at_addresses_of_all_or_none() {
        for (text, said) in [
            ("192.0.2.1:0", "port 0"),
            ("0.0.0.0:7", "127.0.0.1"),
            ("[::ffff:0.0.0.0]:7", "127.0.0.1"),
            ("[::]:7", "[::1]"),
            ("224.0.0.1:7", "multicast"),
            ("[ff02::1]:7", "multicast"),
            ("255.255.255.255:7", "broadcast"),
        ] {
            let error = of_peer(PeerId(1), text.parse().unwrap()).unwrap_err();
            let error = error.to_string();
            assert!(
                error.starts_with("peer 1 can't be at ") && error.contains(said),
                "{error}"
            );
        }
    }
}
