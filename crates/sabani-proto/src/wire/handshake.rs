//! The clear envelope of handshake packets, and the hello sealed inside them.

use super::{ConnectionId, Malformed, Reader, VERSION, VERSION_MIN, Writer};
use crate::PeerId;

/// What each side tells the other about itself (U9, U13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who speaks.
    pub sender: PeerId,
    /// Whom the speaker means to talk to.
    pub receiver: PeerId,
    /// The speaker's incarnation: random, new at every start of its process.
    pub incarnation: u64,
    /// What to call this connection in packets to the speaker.
    pub connection: ConnectionId,
    /// Feature bits; unknown ones are ignored.
    pub features: u64,
    /// First window: bytes, as the kernel charges them, that may be on their way to the speaker.
    pub window: u32,
    /// The speaker answers an `ASK` within this many microseconds.
    pub ack_delay_us: u32,
    /// First limit of the log's cumulative charge.
    pub log_limit: u64,
    /// Largest datagram the speaker takes, in bytes.
    pub max_datagram: u32,
    /// How much later the speaker answers an `ASK` on which nothing depends, in microseconds.
    pub late_ack_us: u32,
}

impl Hello {
    /// Feature: reads WISH and TERMS frames.
    pub const TERMS: u8 = 1;
    /// Feature: reads EXPIRE frames.
    pub const EXPIRE: u8 = 2;
    /// Feature: reads MARKED frames.
    pub const MARKED: u8 = 4;
    /// Feature, if the program wants it: learns which packets switches have marked, and tells of them.
    pub const ECN: u8 = 8;
    /// Feature: reads bodies of [`INLINE_MAX`](super::INLINE_MAX) bytes inside entries.
    pub const LONG_INLINE: u8 = 16;
    /// Feature: reads RETURNED frames.
    pub const RETURNED: u8 = 32;
    /// Features of this version.
    pub const FEATURES: u64 =
        (Self::TERMS | Self::EXPIRE | Self::MARKED | Self::LONG_INLINE | Self::RETURNED) as u64;
    /// Bytes of an encoded hello.
    pub const LEN: usize = 64;

    /// The hello's bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let mut out = Writer::new(&mut bytes);
        out.u32(self.sender.0);
        out.u32(self.receiver.0);
        out.u64(self.incarnation);
        out.u64(self.connection.0);
        out.u64(self.features);
        out.u32(self.window);
        out.u32(self.ack_delay_us);
        out.u64(self.log_limit);
        out.u32(self.max_datagram);
        out.u32(self.late_ack_us);
        bytes
    }

    /// Reads a hello; bytes behind it belong to newer versions and are ignored.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes.get(..Self::LEN).ok_or(Malformed("hello cut short"))?);
        Ok(Hello {
            sender: PeerId(reader.u32()?),
            receiver: PeerId(reader.u32()?),
            incarnation: reader.u64()?,
            connection: ConnectionId(reader.u64()?),
            features: reader.u64()?,
            window: reader.u32()?,
            ack_delay_us: reader.u32()?,
            log_limit: reader.u64()?,
            max_datagram: reader.u32()?,
            late_ack_us: reader.u32()?,
        })
    }
}

/// What follows the prelude of an `Init`: versions, seal mode, cookie, the handshake's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// Oldest and newest version that the sender speaks.
    pub versions: (u8, u8),
    /// Whether the sender seals its packets.
    pub sealed: bool,
    /// The cookie it was given, or zeros.
    pub cookie: [u8; Init::COOKIE_LEN],
    /// First message of the handshake.
    pub message: &'a [u8],
}

impl<'a> Init<'a> {
    /// Bytes of a cookie.
    pub const COOKIE_LEN: usize = 24;
    /// Bytes in front of the message.
    pub const HEADER: usize = 8 + Self::COOKIE_LEN;

    /// Encodes behind the prelude; what is left of `out` becomes padding.
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.put(&[
            self.versions.0,
            self.versions.1,
            u8::from(self.sealed),
            0,
            0,
            0,
        ]);
        out.u16(self.message.len() as u16);
        out.put(&self.cookie);
        out.put(self.message);
        out.pad();
    }

    /// Reads what follows the prelude.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(body);
        let head = reader.array::<6>()?;
        let len = usize::from(reader.u16()?);
        Ok(Init {
            versions: (head[0], head[1]),
            sealed: head[2] != 0,
            cookie: reader.array()?,
            message: reader.take(len)?,
        })
    }
}

/// Why a handshake was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// No version in common.
    Version,
    /// One side seals its packets, the other is plain.
    Mode,
    /// The handshake does not open under the job key.
    Key,
    /// The packet was meant for another peer id.
    WrongPeer,
    /// Too many peers already.
    Full,
    /// Both are plain, with different checksums.
    Checksum,
    /// The peer takes only those whose address it knows.
    Stranger,
    /// A reason that this version doesn't know.
    Other(u8),
}

/// "I can't talk to you": a hint for the error message. Never authenticated, changes no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Why.
    pub reason: RejectReason,
    /// Versions that the answering side speaks.
    pub versions: (u8, u8),
    /// Whether it seals its packets.
    pub sealed: bool,
}

impl Reject {
    /// Bytes behind the prelude.
    pub const LEN: usize = 8;

    /// A rejection by this library.
    pub fn new(reason: RejectReason, sealed: bool) -> Self {
        Reject {
            reason,
            versions: (VERSION_MIN, VERSION),
            sealed,
        }
    }

    /// The bytes behind the prelude.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let reason = match self.reason {
            RejectReason::Version => 1,
            RejectReason::Mode => 2,
            RejectReason::Key => 3,
            RejectReason::WrongPeer => 4,
            RejectReason::Full => 5,
            RejectReason::Checksum => 6,
            RejectReason::Stranger => 7,
            RejectReason::Other(code) => code,
        };
        let (oldest, newest) = self.versions;
        [reason, oldest, newest, u8::from(self.sealed), 0, 0, 0, 0]
    }

    /// Reads the bytes behind the prelude.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let bytes = Reader(body).array::<{ Self::LEN }>()?;
        let reason = match bytes[0] {
            1 => RejectReason::Version,
            2 => RejectReason::Mode,
            3 => RejectReason::Key,
            4 => RejectReason::WrongPeer,
            5 => RejectReason::Full,
            6 => RejectReason::Checksum,
            7 => RejectReason::Stranger,
            code => RejectReason::Other(code),
        };
        Ok(Reject {
            reason,
            versions: (bytes[1], bytes[2]),
            sealed: bytes[3] != 0,
        })
    }
}
