//! Which of this host's addresses the others are to use.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::ops::RangeInclusive;

use nix::ifaddrs::getifaddrs;

use crate::{Environment, Error};

/// Names an interface, an address, or a subnet.
const INTERFACE: &str = "SABANI_IF";
/// Ports that a firewall lets through, as in `7000-7099`.
const PORTS: &str = "SABANI_PORTS";
/// An address that nobody has: asking for the way there names the interface of the default route,
/// and sends nothing.
const FAR_AWAY: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 1), 9);

/// This host's address for the others: the one that `SABANI_IF` asks for; else the loopback one if
/// all are on this host; else the one on the way to the rendezvous, or out of this network.
///
/// # Errors
/// If nothing here fits `SABANI_IF`.
pub fn address(
    environment: &Environment,
    is_one_host: bool,
    on_the_way: Option<IpAddr>,
) -> Result<IpAddr, Error> {
    if let Some(wanted) = environment.get(INTERFACE)? {
        return choose(wanted, &interfaces());
    }
    if is_one_host {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    if let Some(address) = on_the_way {
        return Ok(address.to_canonical());
    }
    let outward = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.connect(FAR_AWAY).and_then(|()| socket.local_addr()));
    let addresses = interfaces();
    let first = addresses.iter().find(|(_, address)| !address.is_loopback());
    match (outward, first) {
        (Ok(address), _) if !address.ip().is_unspecified() => Ok(address.ip()),
        (_, Some((_, address))) => Ok(*address),
        (_, None) => Ok(Ipv4Addr::LOCALHOST.into()),
    }
}

/// The ports that this process may use; 0 to 0 means any.
///
/// # Errors
/// If `SABANI_PORTS` makes no sense.
pub fn ports(environment: &Environment) -> Result<RangeInclusive<u16>, Error> {
    let Some(text) = environment.get(PORTS)? else {
        return Ok(0..=0);
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err(Error::Variable {
            name: PORTS,
            problem: format!("`{text}` is not a range of ports, as in 7000-7099"),
        }),
    }
}

/// All ports that may be used are taken.
pub fn no_free_port(ports: &RangeInclusive<u16>) -> Error {
    let (first, last) = (ports.start(), ports.end());
    Error::Variable {
        name: PORTS,
        problem: format!(
            "all ports from {first} to {last} are in use on this host: name at least as many as \
             it has ranks (`ss -uln` lists those in use)"
        ),
    }
}

/// Every address of this host, with its interface.
fn interfaces() -> Vec<(String, IpAddr)> {
    let all = getifaddrs().into_iter().flatten();
    all.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        let v6 = address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()));
        Some((interface.interface_name, v4.or(v6)?))
    })
    .filter(|(_, address)| !is_link_local(address))
    .collect()
}

/// Of no use to others without the interface's number on their side.
fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn choose(wanted: &str, interfaces: &[(String, IpAddr)]) -> Result<IpAddr, Error> {
    let by_name = interfaces.iter().find(|(name, _)| name == wanted);
    let in_subnet = || {
        interfaces
            .iter()
            .find(|(_, address)| is_in(address, wanted))
    };
    let found = by_name.or_else(in_subnet);
    found.map(|(_, address)| *address).ok_or_else(|| {
        let list = interfaces
            .iter()
            .map(|(name, address)| format!("{name} ({address})"));
        Error::NoInterface {
            wanted: wanted.into(),
            found: list.collect::<Vec<_>>().join(", "),
        }
    })
}

/// Whether an address is in a subnet, as in `10.0.0.0/8`, or is this address.
fn is_in(address: &IpAddr, subnet: &str) -> bool {
    let (base, bits) = match subnet.split_once('/') {
        Some((base, bits)) => (base, bits.parse().ok()),
        None => (subnet, Some(128)),
    };
    let (Ok(base), Some(bits)) = (base.parse::<IpAddr>(), bits) else {
        return false;
    };
    let shared: u32 = match (address, base) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return false,
    };
    let all = if address.is_ipv4() { 32 } else { 128 };
    shared >= bits.min(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<(String, IpAddr)> {
        [
            ("lo", "127.0.0.1"),
            ("eth0", "192.168.1.7"),
            ("eth1", "10.1.2.3"),
            ("eth1", "fd00::3"),
        ]
        .map(|(name, address)| (name.to_owned(), address.parse().unwrap()))
        .to_vec()
    }

    #[test]
    fn interfaces_are_chosen_by_name_subnet_and_address() {
        for (wanted, address) in [
            ("eth1", "10.1.2.3"),
            ("10.0.0.0/8", "10.1.2.3"),
            ("192.168.0.0/16", "192.168.1.7"),
            ("fd00::/16", "fd00::3"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert_eq!(
                choose(wanted, &host()),
                Ok(address.parse().unwrap()),
                "{wanted}"
            );
        }
        for wanted in ["eth2", "10.2.0.0/16", "192.168.1.8", "10.0.0.0/x"] {
            let error = choose(wanted, &host()).unwrap_err().to_string();
            assert!(error.contains("eth0 (192.168.1.7)"), "{error}");
        }
    }

    #[test]
    fn all_on_one_host_use_the_loopback_interface() {
        let none = Environment::default();
        assert_eq!(address(&none, true, None), Ok(Ipv4Addr::LOCALHOST.into()));
        let seen = "10.9.8.7".parse().unwrap();
        assert_eq!(address(&none, false, Some(seen)), Ok(seen));
        let lo = [(INTERFACE, "lo")].into_iter().collect();
        assert!(address(&lo, false, Some(seen)).unwrap().is_loopback());
    }

    #[test]
    fn port_ranges_are_read() {
        let range = |text| ports(&[(PORTS, text)].into_iter().collect());
        assert_eq!(range("7000-7099"), Ok(7000..=7099));
        assert_eq!(range("7000"), Ok(7000..=7000));
        for wrong in ["0-5", "9-8", "x", "1-70000"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
