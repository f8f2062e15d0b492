//! One message each way, and both sides hold keys.

use std::fmt;

use super::keys::PacketKey;
use super::noise::{Noise, Role};
use super::plain::{PlainHandshake, Turn};
use super::{Checksum, Entropy, JobKeys, Mode, SealRx, SealTx};

/// The side that opens a connection, waiting for message 2.
#[derive(Debug)]
pub struct Initiator(State);

#[derive(Debug)]
enum State {
    Sealed(Noise),
    Plain(PlainHandshake),
    Over,
}

impl Initiator {
    /// Appends message 1 to `out`: `payload` and 48 bytes (sealed) or 5 (plain).
    ///
    /// The same bytes may be sent again until an answer comes. `prologue` names protocol and version;
    /// it isn't sent, and both sides must use the same. The payload of message 1 is not forward secret
    /// and can be replayed. Costs about 15 µs when sealed.
    ///
    /// # Errors
    /// [`HandshakeError::TooLong`], in sealed mode.
    pub fn start(
        mode: &Mode,
        prologue: &[u8],
        payload: &[u8],
        entropy: &mut Entropy,
        out: &mut Vec<u8>,
    ) -> Result<Self, HandshakeError> {
        let state = match mode {
            Mode::Sealed(keys) => {
                let mut noise = Noise::new(Role::Initiator, &keys.current, prologue);
                noise.write(payload, entropy.secret(), out)?;
                State::Sealed(noise)
            }
            Mode::Plain { checksum } => {
                let plain = PlainHandshake::new(*checksum, prologue);
                plain.write(Turn::First, payload, out);
                State::Plain(plain)
            }
        };
        Ok(Initiator(state))
    }

    /// Takes message 2: returns its payload and the two directions of the connection. Costs about
    /// 50 µs when sealed.
    ///
    /// # Errors
    /// A message that doesn't open changes nothing: the true one can still come. After a success
    /// everything is [`HandshakeError::Over`].
    pub fn finish(&mut self, message2: &[u8]) -> Result<(Vec<u8>, SealTx, SealRx), HandshakeError> {
        let (payload, tx, rx) = match &mut self.0 {
            State::Sealed(noise) => {
                let payload = noise.read(message2)?;
                let (tx, rx) = sealed(noise);
                (payload, tx, rx)
            }
            State::Plain(plain) => {
                let payload = plain.read(Turn::Second, message2)?;
                let (tx, rx) = unsealed(plain);
                (payload, tx, rx)
            }
            State::Over => return Err(HandshakeError::Over),
        };
        self.0 = State::Over;
        Ok((payload, tx, rx))
    }
}

/// The side that has opened message 1 and may answer it.
#[derive(Debug)]
pub struct Responder {
    state: Answer,
    used_previous_key: bool,
}

#[derive(Debug)]
enum Answer {
    Sealed(Noise),
    Plain(PlainHandshake),
}

impl Responder {
    /// Opens message 1: returns its payload and what can answer it.
    ///
    /// A forged one costs symmetric cryptography only: about 5 µs for each job key
    /// ([`InitMac`](super::InitMac) tells most for less). A true one may be a replay: nothing that matters may change before a packet opens under the new keys.
    ///
    /// # Errors
    /// [`HandshakeError::WrongKey`] if no key of `mode` opens it, and the others that name `message1`'s
    /// defects.
    pub fn open(
        mode: &Mode,
        prologue: &[u8],
        message1: &[u8],
    ) -> Result<(Vec<u8>, Self), HandshakeError> {
        match mode {
            Mode::Sealed(keys) => Self::open_sealed(keys, prologue, message1),
            Mode::Plain { checksum } => {
                let plain = PlainHandshake::new(*checksum, prologue);
                let payload = plain.read(Turn::First, message1)?;
                let responder = Responder {
                    state: Answer::Plain(plain),
                    used_previous_key: false,
                };
                Ok((payload, responder))
            }
        }
    }

    fn open_sealed(
        keys: &JobKeys,
        prologue: &[u8],
        message1: &[u8],
    ) -> Result<(Vec<u8>, Self), HandshakeError> {
        let open = |key, used_previous_key| {
            let mut noise = Noise::new(Role::Responder, key, prologue);
            let payload = noise.read(message1)?;
            let responder = Responder {
                state: Answer::Sealed(noise),
                used_previous_key,
            };
            Ok((payload, responder))
        };
        match (open(&keys.current, false), &keys.previous) {
            (Err(HandshakeError::WrongKey), Some(previous)) => open(previous, true),
            (opened, _) => opened,
        }
    }

    /// Whether message 1 came under the key before the current one. When that is no longer seen
    /// anywhere, a rotation can end.
    pub fn used_previous_key(&self) -> bool {
        self.used_previous_key
    }

    /// Appends message 2 to `out`, `payload` and 48 bytes (sealed) or 5 (plain), and returns the two
    /// directions of the connection. Costs about 60 µs when sealed.
    ///
    /// # Errors
    /// [`HandshakeError::TooLong`] and [`HandshakeError::BadPublicKey`], in sealed mode.
    pub fn reply(
        self,
        payload: &[u8],
        entropy: &mut Entropy,
        out: &mut Vec<u8>,
    ) -> Result<(SealTx, SealRx), HandshakeError> {
        match self.state {
            Answer::Sealed(mut noise) => {
                noise.write(payload, entropy.secret(), out)?;
                Ok(sealed(&mut noise))
            }
            Answer::Plain(plain) => {
                plain.write(Turn::Second, payload, out);
                Ok(unsealed(&plain))
            }
        }
    }
}

fn sealed(noise: &mut Noise) -> (SealTx, SealRx) {
    let (tx, rx) = noise.split();
    (SealTx::new(PacketKey::first(tx)), SealRx::sealed(rx))
}

fn unsealed(plain: &PlainHandshake) -> (SealTx, SealRx) {
    let checksum = plain.checksum();
    let key = PacketKey::Plain(checksum);
    (SealTx::new(key), SealRx::plain(checksum))
}

/// Why a handshake went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// Sealed mode: the message doesn't open under any of our job keys, or was damaged.
    WrongKey,
    /// Sealed mode: too short or too long to be a handshake message.
    Malformed,
    /// Sealed mode: a member of the job sent a public key that no honest one makes.
    BadPublicKey,
    /// Plain mode: the checksum of the message is wrong.
    Damaged,
    /// Plain mode: the two sides guard their packets differently.
    ChecksumMismatch {
        /// What this side uses.
        ours: Checksum,
        /// What the other side uses.
        theirs: Checksum,
    },
    /// The caller's payload doesn't fit a handshake message.
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The caller passed a message to a handshake that has succeeded already.
    Over,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::WrongKey => f.write_str(
                "the peer's handshake doesn't open under this node's job key: the peer has another \
                 key or speaks another protocol version, or the message was forged; give all nodes \
                 of the job the same key file (while keys are rotated: old and new key to all first)",
            ),
            HandshakeError::Malformed => f.write_str(
                "the peer's handshake message is too short or too long for the sealed mode of this \
                 node; it was cut on its way, or is not from a Sabani node in sealed mode",
            ),
            HandshakeError::BadPublicKey => f.write_str(
                "the peer holds the job key but sent an invalid public key; \
                 its software is broken or malicious",
            ),
            HandshakeError::Damaged => f.write_str(
                "the peer's handshake message was damaged on its way, or the peer speaks another \
                 protocol version or mode; use the same version and mode on all nodes",
            ),
            HandshakeError::ChecksumMismatch { ours, theirs } => write!(
                f,
                "this node guards its packets with {ours}, the peer with {theirs}; \
                 choose the same for all nodes"
            ),
            HandshakeError::TooLong { bytes, max } => write!(
                f,
                "{bytes} bytes of handshake payload exceed the limit of {max}; send less"
            ),
            HandshakeError::Over => {
                f.write_str("this handshake is over already; start another one to connect again")
            }
        }
    }
}

impl std::error::Error for HandshakeError {}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
