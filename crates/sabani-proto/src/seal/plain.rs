//! Protection against accidents alone: handshake and packets of plain mode.

use std::fmt;

use super::{Forged, HandshakeError};

/// What guards the packets of plain mode against damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing of ours. UDP's own 16-bit checksum misses one damaged packet in 65,536.
    None,
    /// CRC-32C over prelude and body: 4 bytes per packet, about 0.1 µs per full one.
    Crc32c,
}

impl Checksum {
    /// Bytes that the checksum adds to a packet.
    pub(super) fn overhead(self) -> usize {
        match self {
            Checksum::None => 0,
            Checksum::Crc32c => CRC_LEN,
        }
    }

    /// Writes the checksum into the room behind the body.
    #[inline]
    pub(super) fn seal(self, prelude: &[u8], body_and_tag: &mut [u8]) {
        if self == Checksum::Crc32c {
            let (body, room) = body_and_tag
                .split_last_chunk_mut()
                .expect("room for the checksum");
            *room = crc(crc32c::crc32c(prelude), body);
        }
    }

    /// Takes the checksum off again.
    #[inline]
    pub(super) fn open<'a>(
        self,
        prelude: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        if self == Checksum::None {
            return Ok(sealed);
        }
        let (body, sum) = sealed.split_last_chunk_mut().ok_or(Forged)?;
        if *sum == crc(crc32c::crc32c(prelude), body) {
            Ok(body)
        } else {
            Err(Forged)
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Checksum::None => "no checksum",
            Checksum::Crc32c => "CRC-32C",
        })
    }
}

const CRC_LEN: usize = 4;

/// The CRC-32C of what `so_far` covers and `bytes` after it, as it stands in a packet.
#[inline]
fn crc(so_far: u32, bytes: &[u8]) -> [u8; CRC_LEN] {
    crc32c::crc32c_append(so_far, bytes).to_le_bytes()
}

/// One side of the handshake of plain mode.
///
/// A message is the payload, one byte that names the sender's [`Checksum`], and a CRC-32C over
/// prologue, the number of the message (1 or 2), payload and that byte.
#[derive(Debug)]
pub(super) struct PlainHandshake {
    checksum: Checksum,
    prologue_crc: u32,
}

/// Which message of the handshake: covered by its checksum, so that none passes for the other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    First = 1,
    Second = 2,
}

impl PlainHandshake {
    pub fn new(checksum: Checksum, prologue: &[u8]) -> Self {
        PlainHandshake {
            checksum,
            prologue_crc: crc32c::crc32c(prologue),
        }
    }

    /// What will guard the packets.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Appends a message to `out`.
    pub fn write(&self, turn: Turn, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(payload);
        out.push(match self.checksum {
            Checksum::None => 0,
            Checksum::Crc32c => 1,
        });
        let sum = crc(self.start_crc(turn), &out[start..]);
        out.extend_from_slice(&sum);
    }

    /// The payload of a message.
    pub fn read(&self, turn: Turn, message: &[u8]) -> Result<Vec<u8>, HandshakeError> {
        let (covered, sum) = message.split_last_chunk().ok_or(HandshakeError::Damaged)?;
        if *sum != crc(self.start_crc(turn), covered) {
            return Err(HandshakeError::Damaged);
        }
        let theirs = match covered.split_last() {
            Some((0, _)) => Checksum::None,
            Some((1, _)) => Checksum::Crc32c,
            _ => return Err(HandshakeError::Damaged),
        };
        if theirs != self.checksum {
            return Err(HandshakeError::ChecksumMismatch {
                ours: self.checksum,
                theirs,
            });
        }
        Ok(covered[..covered.len() - 1].to_vec())
    }

    fn start_crc(&self, turn: Turn) -> u32 {
        crc32c::crc32c_append(self.prologue_crc, &[turn as u8])
    }
}
