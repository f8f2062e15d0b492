//! The Noise handshake, run by `snow` over our [`Primitives`].

use std::sync::{Arc, OnceLock};

use snow::{Builder, Error, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

use super::keys::{Secret, TAG_LEN};
use super::primitives::{Ephemeral, KEY_LEN, Primitives};
use super::{HandshakeError, JobKey};

/// Pattern `NNpsk0`: no static keys; the job key is mixed in first, so that message 1 is
/// authenticated before the responder computes anything expensive.
const PROTOCOL: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// Bytes that a handshake message adds to its payload: an ephemeral public key and a tag.
pub(super) const MESSAGE_OVERHEAD: usize = KEY_LEN + TAG_LEN;

/// The longest payload that Noise's limit of 65,535 bytes leaves room for.
pub(super) const MAX_PAYLOAD: usize = 65_535 - MESSAGE_OVERHEAD;

/// Which side of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Initiator,
    Responder,
}

/// One side of a handshake that is under way.
#[derive(Debug)]
pub(super) struct Noise {
    state: Box<HandshakeState>,
    role: Role,
    ephemeral: Arc<OnceLock<Ephemeral>>,
}

impl Noise {
    /// Starts under a job key. Costs no public-key cryptography.
    pub fn new(role: Role, key: &JobKey, prologue: &[u8]) -> Self {
        let ephemeral = Arc::default();
        let build = || {
            let primitives = Box::new(Primitives(Arc::clone(&ephemeral)));
            let builder = Builder::with_resolver(PROTOCOL.parse()?, primitives)
                .prologue(prologue)?
                .psk(0, key.bytes())?;
            match role {
                Role::Initiator => builder.build_initiator(),
                Role::Responder => builder.build_responder(),
            }
        };
        let state: Result<HandshakeState, Error> = build();
        Noise {
            state: Box::new(state.expect("pattern, primitives and key fit each other")),
            role,
            ephemeral,
        }
    }

    /// Appends this side's message to `out`; `ephemeral` must be fresh and random.
    ///
    /// # Errors
    /// [`HandshakeError::TooLong`] and [`HandshakeError::BadPublicKey`]; `out` is then unchanged.
    pub fn write(
        &mut self,
        payload: &[u8],
        ephemeral: Ephemeral,
        out: &mut Vec<u8>,
    ) -> Result<(), HandshakeError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(HandshakeError::TooLong {
                bytes: payload.len(),
                max: MAX_PAYLOAD,
            });
        }
        let _ = self.ephemeral.set(ephemeral);
        let start = out.len();
        out.resize(start + payload.len() + MESSAGE_OVERHEAD, 0);
        match self.state.write_message(payload, &mut out[start..]) {
            Ok(_) => Ok(()),
            Err(error) => {
                out.truncate(start);
                // What the other side sent was authenticated, so a failed agreement is a member's fault.
                Err(match error {
                    Error::Dh => HandshakeError::BadPublicKey,
                    _ => HandshakeError::Malformed,
                })
            }
        }
    }

    /// Opens the other side's message and returns its payload.
    ///
    /// # Errors
    /// After an error the state is as before, so the true message can still come.
    pub fn read(&mut self, message: &[u8]) -> Result<Vec<u8>, HandshakeError> {
        let len = message
            .len()
            .checked_sub(MESSAGE_OVERHEAD)
            .filter(|&len| len <= MAX_PAYLOAD)
            .ok_or(HandshakeError::Malformed)?;
        let mut payload = vec![0; len];
        self.state
            .read_message(message, &mut payload)
            .map_err(|error| match error {
                // Message 2 is authenticated only after the agreement: anybody can make that fail.
                Error::Decrypt | Error::Dh => HandshakeError::WrongKey,
                _ => HandshakeError::Malformed,
            })?;
        Ok(payload)
    }

    /// The secrets of what this side sends and of what it receives, once both messages have passed.
    pub fn split(&mut self) -> (Secret, Secret) {
        let mut split = self.state.dangerously_get_raw_split();
        let (by_initiator, by_responder) = (Zeroizing::new(split.0), Zeroizing::new(split.1));
        split.zeroize();
        match self.role {
            Role::Initiator => (by_initiator, by_responder),
            Role::Responder => (by_responder, by_initiator),
        }
    }
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
