//! Socket addresses as the kernel lays them out.
//!
//! Encoding is a handful of stores (1–2 ns), so nothing is gained by remembering encoded addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

const V4_LEN: usize = size_of::<libc::sockaddr_in>();
const V6_LEN: usize = size_of::<libc::sockaddr_in6>();

/// Which addresses a socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// `sockaddr_in`.
    V4,
    /// `sockaddr_in6`; with `mapped`, IPv4 peers appear as `::ffff:a.b.c.d`.
    V6 { mapped: bool },
}

impl Family {
    /// Whether a datagram for `ip` can leave through a socket of this family.
    pub fn takes(self, ip: IpAddr) -> bool {
        match self {
            Family::V4 => ip.is_ipv4(),
            Family::V6 { mapped } => ip.is_ipv6() || mapped,
        }
    }
}

impl Family {
    /// An address as a socket of this family knows it. A scope, which only link-local ones have, is that
    /// of `like`.
    pub fn spell(self, ip: IpAddr, port: u16, like: SocketAddr) -> SocketAddr {
        let scope = match like {
            SocketAddr::V6(like) if is_link_local(ip) => like.scope_id(),
            _ => 0,
        };
        match (ip, self) {
            (IpAddr::V4(ip), Family::V6 { .. }) => {
                SocketAddrV6::new(ip.to_ipv6_mapped(), port, 0, 0).into()
            }
            (IpAddr::V6(ip), _) => SocketAddrV6::new(ip, port, 0, scope).into(),
            (ip, _) => SocketAddr::new(ip, port),
        }
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// A `sockaddr_in` or `sockaddr_in6`, byte for byte.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct RawAddr {
    bytes: [u8; V6_LEN],
    len: u32,
}

impl RawAddr {
    /// Room for the kernel to write an address into.
    pub const EMPTY: Self = Self {
        bytes: [0; V6_LEN],
        len: V6_LEN as u32,
    };

    /// No address: a connected socket knows where to.
    pub const NONE: Self = Self {
        len: 0,
        ..Self::EMPTY
    };

    /// The form that a socket of `family` needs. [`Family::takes`] must hold for the address.
    pub fn encode(addr: SocketAddr, family: Family) -> Self {
        match (addr, family) {
            (SocketAddr::V4(v4), Family::V4) => Self::encode_v4(&v4),
            (SocketAddr::V4(v4), Family::V6 { .. }) => Self::encode_v6(&SocketAddrV6::new(
                v4.ip().to_ipv6_mapped(),
                v4.port(),
                0,
                0,
            )),
            (SocketAddr::V6(v6), _) => Self::encode_v6(&v6),
        }
    }

    fn encode_v4(addr: &SocketAddrV4) -> Self {
        let mut bytes = [0; V6_LEN];
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&addr.port().to_be_bytes());
        bytes[4..8].copy_from_slice(&addr.ip().octets());
        Self {
            bytes,
            len: V4_LEN as u32,
        }
    }

    fn encode_v6(addr: &SocketAddrV6) -> Self {
        let mut bytes = [0; V6_LEN];
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&addr.port().to_be_bytes());
        bytes[4..8].copy_from_slice(&addr.flowinfo().to_be_bytes());
        bytes[8..24].copy_from_slice(&addr.ip().octets());
        bytes[24..28].copy_from_slice(&addr.scope_id().to_ne_bytes());
        Self {
            bytes,
            len: V6_LEN as u32,
        }
    }

    /// The address, with IPv4-mapped ones given as IPv4; `None` for another family or a short address.
    pub fn decode(&self) -> Option<SocketAddr> {
        let field = |at: usize| [self.bytes[at], self.bytes[at + 1]];
        let family = i32::from(u16::from_ne_bytes(field(0)));
        let port = u16::from_be_bytes(field(2));
        if family == libc::AF_INET && self.len as usize >= V4_LEN {
            let ip: [u8; 4] = *self.bytes[4..].first_chunk()?;
            return Some(SocketAddr::from((ip, port)));
        }
        if family == libc::AF_INET6 && self.len as usize >= V6_LEN {
            let octets: [u8; 16] = *self.bytes[8..].first_chunk()?;
            let scope = u32::from_ne_bytes(*self.bytes[24..].first_chunk()?);
            return Some(match canonical(octets) {
                IpAddr::V4(v4) => SocketAddr::from((v4, port)),
                IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, scope).into(),
            });
        }
        None
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    /// Notes how many bytes the kernel wrote.
    pub fn set_len(&mut self, len: u32) {
        self.len = len.min(V6_LEN as u32);
    }

    pub fn as_ptr(&self) -> *const libc::c_void {
        self.bytes.as_ptr().cast()
    }

    pub fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }
}

/// An IPv6 address as its owner would write it: mapped ones as IPv4.
pub(crate) fn canonical(octets: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(octets).to_canonical()
}

/// An IPv4 address from its bytes.
pub(crate) fn v4(octets: [u8; 4]) -> IpAddr {
    Ipv4Addr::from(octets).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str, family: Family) -> String {
        let addr: SocketAddr = text.parse().unwrap();
        assert!(family.takes(addr.ip()));
        let raw = RawAddr::encode(addr, family);
        raw.decode().unwrap().to_string()
    }

    #[test]
    fn addresses_survive_the_kernels_form() {
        let dual = Family::V6 { mapped: true };
        assert_eq!(round_trip("10.1.2.3:4567", Family::V4), "10.1.2.3:4567");
        assert_eq!(round_trip("10.1.2.3:4567", dual), "10.1.2.3:4567");
        assert_eq!(round_trip("[2001:db8::7]:9", dual), "[2001:db8::7]:9");
        assert_eq!(round_trip("[fe80::1%3]:9", dual), "[fe80::1%3]:9");
    }

    #[test]
    fn the_bytes_are_those_of_the_system_headers() {
        let raw = RawAddr::encode("1.2.3.4:258".parse().unwrap(), Family::V4);
        assert_eq!(raw.len(), 16);
        assert_eq!(raw.bytes[2..8], [1, 2, 1, 2, 3, 4]);
    }

    #[test]
    fn families_refuse_what_they_cannot_carry() {
        let (v4, v6) = ("1.2.3.4".parse().unwrap(), "::1".parse().unwrap());
        assert!(!Family::V4.takes(v6));
        assert!(!Family::V6 { mapped: false }.takes(v4));
        assert!(Family::V6 { mapped: true }.takes(v4));
    }

    #[test]
    fn short_or_foreign_addresses_decode_to_nothing() {
        let mut raw = RawAddr::encode("1.2.3.4:5".parse().unwrap(), Family::V4);
        raw.set_len(7);
        assert_eq!(raw.decode(), None);
        assert_eq!(RawAddr::EMPTY.decode(), None);
    }
}
