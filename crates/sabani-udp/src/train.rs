//! What is sent, and what becomes of it.

use std::net::{IpAddr, SocketAddr};

/// Payload bytes of the largest message: what IPv4 has room for. The driver divides longer trains.
pub const MAX_TRAIN_BYTES: usize = 65_507;

/// What a datagram says of congestion (ECN, RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Routers drop it rather than mark it. The default: costs nothing.
    #[default]
    NotCapable = 0,
    /// Routers may mark it: ECT(1), for experiments (RFC 8311).
    Capable1 = 1,
    /// Routers may mark it: ECT(0).
    Capable = 2,
    /// A router has marked it: congestion experienced.
    Marked = 3,
}

impl Ecn {
    /// The codepoint in an IPv4 type of service or an IPv6 traffic class.
    pub(crate) fn of(class: u8) -> Self {
        match class & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable,
            _ => Ecn::Marked,
        }
    }
}

/// Datagrams of equal size for one peer, one after another.
#[derive(Clone, Copy, Debug)]
pub struct Train<'a> {
    /// The peer.
    pub to: SocketAddr,
    /// The local address to send from, on a socket bound to a wildcard address: the one that the peer
    /// contacted. `None` leaves the choice to the routing table, and so must who is told of a
    /// [`SendOutcome::SourceGone`].
    pub from: Option<IpAddr>,
    /// Bytes of each datagram; the last may be shorter. 0 stands for one datagram of any size.
    pub segment: usize,
    /// What each of them says of congestion. Anything but the default costs some 0.1 µs for each train.
    pub ecn: Ecn,
    /// They leave before what waits at a device of this host whose queue has bands, as `pfifo_fast` has (IPv4's low delay; Linux
    /// takes no band from an IPv6 traffic class). Costs some 0.1 µs, too.
    pub express: bool,
    /// The datagrams. Empty bytes are one empty datagram.
    pub bytes: &'a [u8],
}

impl<'a> Train<'a> {
    /// A train from wherever the routing table says.
    pub fn new(to: SocketAddr, segment: usize, bytes: &'a [u8]) -> Self {
        Self {
            to,
            from: None,
            segment,
            ecn: Ecn::NotCapable,
            express: false,
            bytes,
        }
    }

    /// The same with other bytes.
    pub(crate) fn with<'b>(&self, bytes: &'b [u8]) -> Train<'b> {
        Train { bytes, ..*self }
    }

    /// Bytes of each datagram, at least 1.
    pub(crate) fn segment(&self) -> usize {
        match self.segment {
            0 => self.bytes.len().max(1),
            segment => segment,
        }
    }

    /// Whether it is one datagram of which nothing need be said but where it goes.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_divisible() && self.class() == 0
    }

    /// The IPv4 type of service, or the IPv6 traffic class, to send it with.
    #[inline]
    pub(crate) fn class(&self) -> u8 {
        let low_delay = self.express && self.to.is_ipv4();
        self.ecn as u8 | if low_delay { libc::IPTOS_LOWDELAY } else { 0 }
    }

    /// Whether it is more than one datagram.
    pub(crate) fn is_divisible(&self) -> bool {
        self.bytes.len() > self.segment()
    }

    /// What the kernel is to cut it into, in bytes; 0: nothing, it is one datagram.
    #[inline]
    pub(crate) fn cut(&self) -> u16 {
        match self.is_divisible() {
            true => self.segment() as u16,
            false => 0,
        }
    }

    pub(crate) fn datagrams(&self) -> usize {
        datagrams(self.bytes.len(), self.segment())
    }
}

/// How many datagrams of `segment` bytes there are in `bytes`. A division takes longer than all else
/// that is done for a single one.
#[inline]
pub(crate) fn datagrams(bytes: usize, segment: usize) -> usize {
    if bytes <= segment {
        1
    } else {
        bytes.div_ceil(segment)
    }
}

/// What became of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The kernel took all of it. That is no promise that it arrives.
    Sent,
    /// The send buffer is full. Offer the rest when the socket is writable.
    Blocked {
        /// Bytes that went before; a multiple of the segment.
        taken_bytes: usize,
    },
    /// A device queue is full, memory is short, or ICMP errors about others come faster than calls can be
    /// made. Offer the rest after a pause; the socket may well look writable meanwhile.
    NoBuffers {
        /// Bytes that went before; a multiple of the segment.
        taken_bytes: usize,
    },
    /// The datagrams are larger than the outgoing device takes. None left.
    TooBig,
    /// The local address that was asked for is not this machine's any more. The rest did not leave.
    SourceGone,
    /// It cannot be sent; holds the `errno`: no route, firewall, wrong address family. The rest did not
    /// leave.
    Failed(i32),
}

impl SendOutcome {
    /// Whether the socket takes no more for now, so that later trains were not tried.
    pub fn stops(self) -> bool {
        matches!(self, Self::Blocked { .. } | Self::NoBuffers { .. })
    }

    /// The same for a train of which `taken` bytes have left already.
    pub(crate) fn after(self, taken: usize) -> Self {
        match self {
            Self::Blocked { taken_bytes } => Self::Blocked {
                taken_bytes: taken + taken_bytes,
            },
            Self::NoBuffers { taken_bytes } => Self::NoBuffers {
                taken_bytes: taken + taken_bytes,
            },
            other => other,
        }
    }
}
