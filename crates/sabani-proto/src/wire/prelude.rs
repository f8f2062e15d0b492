//! The clear 16 bytes in front of every packet (rows U4, H3, H4).

use super::{Malformed, Reader};

/// The protocol version this library speaks.
pub const VERSION: u8 = 1;
/// The oldest version it can still talk to.
pub const VERSION_MIN: u8 = 1;

/// Names a connection at the side that gave it out: 24 bits of table slot, 40 random bits.
///
/// The slot makes finding the connection one table look-up (row H4); the random bits keep a sender
/// that cannot see the traffic from naming it, which is all that protects `plain` connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// Combines a table slot with random bits.
    pub fn new(slot: u32, random: u64) -> Self {
        ConnectionId((random << 24) | u64::from(slot & 0xff_ffff))
    }

    /// The table slot.
    pub fn slot(self) -> usize {
        (self.0 & 0xff_ffff) as usize
    }
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sealed frames on an established connection.
    Data,
    /// First handshake message.
    Init,
    /// Second handshake message.
    Reply,
    /// "Send your first message again, with this cookie": proof of address under load.
    Cookie,
    /// "I can't talk to you, because …": a hint, never authenticated, never a verdict.
    Reject,
}

/// The clear header. Authenticated as associated data, except before keys exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prelude {
    /// What the packet is.
    pub kind: Kind,
    /// Bits: see the `ASK` and `URGENT` constants; others are sent as zero and ignored.
    pub flags: u8,
    /// 48-bit packet number; never used twice on one connection.
    pub packet_number: u64,
    /// The receiver's name for the connection; zero in an `Init`.
    pub connection: ConnectionId,
}

impl Prelude {
    /// Bytes of a prelude.
    pub const LEN: usize = 16;
    /// Please acknowledge within your announced delay; the packet number is the request's number.
    pub const ASK: u8 = 1;
    /// Together with `ASK`: answer at once (a POLL, or a sender that waits for window). Alone: more waits behind this packet, and there
    /// is no credit for it.
    pub const URGENT: u8 = 2;
    /// Largest packet number.
    pub const MAX_PACKET_NUMBER: u64 = (1 << 48) - 1;

    /// Reads the prelude off the front of a packet.
    ///
    /// Only the `Data` kind insists on the exact version: handshake packets of other versions must
    /// still be read, so that the mismatch can be named.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<(Prelude, u8), Malformed> {
        let mut reader = Reader(packet);
        let first = reader.u64()?;
        let connection = ConnectionId(reader.u64()?);
        let kind = match first as u8 & 0x0f {
            0 => Kind::Data,
            1 => Kind::Init,
            2 => Kind::Reply,
            3 => Kind::Cookie,
            4 => Kind::Reject,
            _ => return Err(Malformed("unknown packet kind")),
        };
        let version = first as u8 >> 4;
        if kind == Kind::Data && version != VERSION {
            return Err(Malformed("data packet of another version"));
        }
        let prelude = Prelude {
            kind,
            flags: (first >> 8) as u8,
            packet_number: first >> 16,
            connection,
        };
        Ok((prelude, version))
    }

    /// The sixteen bytes.
    #[inline]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let kind = VERSION << 4 | self.kind as u8;
        let first = u64::from(kind) | u64::from(self.flags) << 8 | self.packet_number << 16;
        (u128::from(first) | u128::from(self.connection.0) << 64).to_le_bytes()
    }
}
