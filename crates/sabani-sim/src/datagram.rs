//! Datagrams under way, in memory that is used again and again.

use std::net::SocketAddr;
use std::ops::{Index, IndexMut};

use crate::HostId;
use crate::fabric::{PortId, SwitchId};

/// Ethernet, IPv4 and UDP headers, in bytes: what a datagram takes on the wire beside itself.
pub const HEADERS: u64 = 42;

/// Where a datagram may arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A host's socket.
    Host(HostId),
    /// The end of a host's cable: what the path from its sender does to it comes last, when those
    /// that left together have long been apart.
    Path(HostId),
    /// A switch, by the cable of the port named in [`Datagram::came_by`].
    Switch(SwitchId),
}

/// Explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ecn {
    /// No switch may mark it.
    #[default]
    NotCapable,
    /// A switch may.
    Capable,
    /// A switch has: congestion experienced.
    Marked,
}

impl Ecn {
    pub fn of(capable: bool) -> Self {
        match capable {
            true => Ecn::Capable,
            false => Ecn::NotCapable,
        }
    }
}

/// What a datagram's header asks of those that it passes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Class {
    /// What switches may do, or have done, to it.
    pub ecn: Ecn,
    /// It leaves before what waits for its host's own cable.
    pub express: bool,
    /// So many more of its train follow.
    pub behind: u16,
}

/// A datagram under way.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    /// The address that it comes from.
    pub source: SocketAddr,
    /// The host that sent it; for an outsider's, the one that it is meant for.
    pub from: HostId,
    /// The host that it is meant for.
    pub to: HostId,
    /// Where it arrives next.
    pub next: Stop,
    pub class: Class,
    /// The port by whose cable it came into the switch that holds it.
    pub came_by: PortId,
    /// How many datagrams had come to the link before it.
    pub nth: u64,
    /// Its payload.
    pub bytes: Vec<u8>,
}

impl Datagram {
    /// What it takes on the wire, in bytes.
    pub fn wire_bytes(&self) -> u64 {
        self.bytes.len() as u64 + HEADERS
    }
}

/// Names a datagram under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatagramId(u32);

/// All datagrams under way.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    slots: Vec<Datagram>,
    free: Vec<DatagramId>,
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
}

/// Buffers of at most this many bytes are kept apart, so that an acknowledgement does not hold the
/// memory of a full datagram.
const SMALL: usize = 256;
/// Most buffers of each kind that are kept for use again.
const KEPT: usize = 1 << 16;

impl Datagrams {
    /// Takes in a datagram.
    pub fn insert(&mut self, datagram: Datagram) -> DatagramId {
        if let Some(id) = self.free.pop() {
            self[id] = datagram;
            return id;
        }
        self.slots.push(datagram);
        DatagramId(self.slots.len() as u32 - 1)
    }

    /// A second datagram like this one, with these bytes in place of its own.
    pub fn insert_like(&mut self, id: DatagramId, bytes: Vec<u8>) -> DatagramId {
        let Datagram {
            source,
            from,
            to,
            next,
            class,
            came_by,
            nth,
            bytes: _,
        } = self[id];
        self.insert(Datagram {
            source,
            from,
            to,
            next,
            class,
            came_by,
            nth,
            bytes,
        })
    }

    /// Takes out a datagram that has arrived: where it comes from, what it says, whether a switch has
    /// marked it.
    pub fn take(&mut self, id: DatagramId) -> (SocketAddr, Vec<u8>, bool) {
        self.free.push(id);
        let datagram = &mut self[id];
        let bytes = std::mem::take(&mut datagram.bytes);
        (datagram.source, bytes, datagram.class.ecn == Ecn::Marked)
    }

    /// Forgets a datagram.
    pub fn remove(&mut self, id: DatagramId) {
        let (_, bytes, _) = self.take(id);
        self.give_back(bytes);
    }

    /// A buffer with these bytes.
    pub fn buffer(&mut self, bytes: &[u8]) -> Vec<u8> {
        let kept = if bytes.len() <= SMALL {
            self.small.pop()
        } else {
            self.large.pop()
        };
        let mut buffer = kept.unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Takes a buffer back.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        let kept = if buffer.capacity() <= SMALL {
            &mut self.small
        } else {
            &mut self.large
        };
        if kept.len() < KEPT {
            kept.push(buffer);
        }
    }
}

impl Index<DatagramId> for Datagrams {
    type Output = Datagram;

    fn index(&self, id: DatagramId) -> &Datagram {
        &self.slots[id.0 as usize]
    }
}

impl IndexMut<DatagramId> for Datagrams {
    fn index_mut(&mut self, id: DatagramId) -> &mut Datagram {
        &mut self.slots[id.0 as usize]
    }
}
