//! Control messages: what travels beside the payload of a system call.
//!
//! They are laid out by hand, in safe code: a header of the length (`size_t`), level and type (`int`), then
//! the data, each message padded to a multiple of the word size. This is the kernel's ABI.

use crate::address::{Family, canonical, v4};
use crate::train::Ecn;
use libc::{UDP_GRO, UDP_SEGMENT};
use std::net::IpAddr;

const WORD: usize = size_of::<usize>();
const HEADER: usize = WORD + 8;

/// Bytes that a message of `len` data bytes takes, padded.
pub(crate) const fn space(len: usize) -> usize {
    HEADER + len.next_multiple_of(WORD)
}

/// Enough for a segment size, a source address and a codepoint, the most that is ever sent or asked for.
pub(crate) const DATA_SPACE: usize = space(4) + space(20) + space(4);

/// A buffer for control messages.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Control<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Control<N> {
    /// No messages.
    pub const EMPTY: Self = Self {
        bytes: [0; N],
        len: 0,
    };

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The whole buffer, for the kernel to write into.
    pub fn room(&mut self) -> &mut [u8; N] {
        &mut self.bytes
    }

    /// Notes how many bytes the kernel wrote.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(N);
    }

    fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let at = self.len;
        let message = &mut self.bytes[at..at + space(data.len())];
        message[..WORD].copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        message[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        message[WORD + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER..HEADER + data.len()].copy_from_slice(data);
        self.len = at + space(data.len());
    }

    /// Has the kernel cut the payload into datagrams of `segment` bytes.
    pub fn push_segment(&mut self, segment: u16) {
        self.push(libc::SOL_UDP, UDP_SEGMENT, &segment.to_ne_bytes());
    }

    /// Has the datagrams, to an address of this kind, bear a type of service or a traffic class.
    pub fn push_class(&mut self, class: u8, to: IpAddr) {
        let (level, kind) = match to {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        self.push(level, kind, &i32::from(class).to_ne_bytes());
    }

    /// Has the datagrams leave from `source`. [`Family::takes`] must hold for it.
    pub fn push_source(&mut self, source: IpAddr, family: Family) {
        match (source, family) {
            (IpAddr::V4(ip), Family::V4) => {
                // struct in_pktinfo: interface index, source address, (ignored) destination
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&ip.octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            (ip, _) => {
                // struct in6_pktinfo: source address, interface index
                let octets = match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                };
                let mut info = [0; 20];
                info[..16].copy_from_slice(&octets);
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }

    /// The messages in the buffer.
    pub fn messages(&self) -> Messages<'_> {
        Messages(self.bytes())
    }
}

/// Iterates over (level, type, data); ends at the first malformed message.
pub(crate) struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (i32, i32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let len = usize::from_ne_bytes(*self.0.first_chunk()?);
        let level = i32::from_ne_bytes(*self.0.get(WORD..)?.first_chunk()?);
        let kind = i32::from_ne_bytes(*self.0.get(WORD + 4..)?.first_chunk()?);
        let data = self.0.get(HEADER..len)?;
        self.0 = self.0.get(space(data.len())..).unwrap_or_default();
        Some((level, kind, data))
    }
}

/// What is worth knowing of a control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// The size of each datagram in a coalesced train.
    Segment(usize),
    /// The local address that the datagram was sent to.
    Destination(IpAddr),
    /// What the datagrams say of congestion.
    Ecn(Ecn),
    /// An entry of the error queue.
    Error(QueuedError),
    /// Nothing that was asked for.
    Other,
}

/// The interesting part of `struct sock_extended_err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuedError {
    /// The `errno` it stands for.
    pub errno: i32,
    /// Whether it came from the network rather than from this host's own call.
    pub from_icmp: bool,
    /// The next hop's MTU, where `errno` is `EMSGSIZE`.
    pub info: u32,
}

/// Reads one control message.
pub(crate) fn interpret((level, kind, data): (i32, i32, &[u8])) -> Fact {
    let fact = match (level, kind) {
        (libc::SOL_UDP, UDP_GRO) => data
            .first_chunk()
            .map(|size| Fact::Segment(i32::from_ne_bytes(*size).max(0) as usize)),
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => data
            .get(4..8)
            .and_then(|ip| ip.first_chunk())
            .map(|ip| Fact::Destination(v4(*ip))),
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => data
            .first_chunk()
            .map(|ip| Fact::Destination(canonical(*ip))),
        // One byte for IPv4, an integer for IPv6.
        (libc::IPPROTO_IP, libc::IP_TOS) => data.first().map(|&tos| Fact::Ecn(Ecn::of(tos))),
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => data
            .first_chunk()
            .map(|class| Fact::Ecn(Ecn::of(i32::from_ne_bytes(*class) as u8))),
        (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
            data.first_chunk().map(|error| Fact::Error(queued(error)))
        }
        _ => None,
    };
    fact.unwrap_or(Fact::Other)
}

fn queued(error: &[u8; 16]) -> QueuedError {
    let word =
        |at: usize| u32::from_ne_bytes([error[at], error[at + 1], error[at + 2], error[at + 3]]);
    QueuedError {
        errno: word(0) as i32,
        from_icmp: error[4] != libc::SO_EE_ORIGIN_LOCAL,
        info: word(8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_system_headers() {
        let mut control = Control::<DATA_SPACE>::EMPTY;
        control.push_segment(1_472);
        assert_eq!(control.bytes().len(), 24);
        assert_eq!(control.bytes()[..8], 18_u64.to_ne_bytes()[..]);
        assert_eq!(HEADER, size_of::<libc::cmsghdr>());
    }

    #[test]
    fn sources_come_back_as_destinations() {
        let ip = "10.9.8.7".parse().unwrap();
        for family in [Family::V4, Family::V6 { mapped: true }] {
            let mut control = Control::<DATA_SPACE>::EMPTY;
            control.push_segment(9);
            control.push_source(ip, family);
            let facts: Vec<Fact> = control.messages().map(interpret).collect();
            assert_eq!(facts, [Fact::Other, Fact::Destination(ip)]);
        }
    }

    #[test]
    fn codepoints_come_back() {
        for ecn in [Ecn::NotCapable, Ecn::Capable1, Ecn::Capable, Ecn::Marked] {
            let mut control = Control::<DATA_SPACE>::EMPTY;
            control.push_segment(9);
            control.push_source("fe80::2".parse().unwrap(), Family::V6 { mapped: false });
            control.push_class(ecn as u8, "fe80::1".parse().unwrap());
            let last = control.messages().map(interpret).last();
            assert_eq!(last, Some(Fact::Ecn(ecn)));
        }
    }

    #[test]
    fn malformed_messages_end_the_list() {
        for len in [0_usize, 3, 15, 200, usize::MAX] {
            let mut control = Control::<64>::EMPTY;
            control.push_segment(9);
            control.room()[..8].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(control.messages().count(), 0, "length {len}");
        }
    }

    #[test]
    fn short_data_is_ignored() {
        for kind in [
            UDP_GRO,
            libc::IP_PKTINFO,
            libc::IP_RECVERR,
            libc::IPV6_TCLASS,
        ] {
            for level in [libc::SOL_UDP, libc::IPPROTO_IP, libc::IPPROTO_IPV6] {
                assert_eq!(interpret((level, kind, &[1, 2, 3])), Fact::Other);
            }
        }
    }
}
