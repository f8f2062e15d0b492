//! Who may speak, and keeping packets secret.
//!
//! Two processes that hold the same [`JobKey`] make a connection with one message each way
//! ([`Initiator`], [`Responder`]: Noise `NNpsk0` over X25519, AES-256-GCM and SHA-256). It ends with a
//! [`SealTx`] and a [`SealRx`] on each side, which protect every later packet by itself with
//! AEGIS-128X4, in place, whatever the order in which packets arrive. [`InitMac`] makes a flood of
//! forged first messages cheap to turn away, [`CookieJar`] one of recorded messages. [`Entropy`] is the
//! only source of randomness, so that a run with the same seed sends the same bytes.
//!
//! # What it gives
//!
//! - *Membership.* Whoever completes the handshake holds the job key. The key proves that it is *a*
//!   member of the job, not *which* one: members can pretend to be each other.
//! - *Secrecy and integrity* of every packet behind its prelude; the prelude is authenticated.
//! - *Forward secrecy.* Who gets hold of the job key later can't read what was recorded, except the
//!   payload of first messages: it is sealed under the job key alone.
//! - *Freshness* of connections, not of first messages: a recorded message 1 opens again. A responder
//!   must therefore change nothing that matters until a packet opens under the new keys, which
//!   proves that the initiator took part.
//!
//! Replayed packets open again too: the channel's set of packet numbers turns them away.
//!
//! [`Mode::Plain`] gives none of this: whoever can send to the socket can speak, and whoever sees the
//! wire can read. Its checksums find accidents, not attackers.
//!
//! Who reads the memory of a running process has the job key and the keys of open connections. Keys that have
//! served are wiped where this crate holds them, and can't be told from what is left: [`Entropy`] keeps
//! nothing of the secrets it gave ([`Entropy::with_secrets`]). What the cryptographic libraries copy is
//! theirs to wipe, and what the compiler copies where a value moves is not wiped.

mod cookie;
mod entropy;
mod handshake;
mod init_mac;
mod job_key;
mod keys;
mod noise;
mod packet;
mod plain;
mod primitives;
#[cfg(test)]
mod testing;

pub use cookie::CookieJar;
pub use entropy::Entropy;
pub use handshake::{HandshakeError, Initiator, Responder};
pub use init_mac::InitMac;
pub use job_key::{JobKey, JobKeyError, JobKeys};
pub(crate) use keys::PacketKey;
pub use packet::{Forged, Opening, SealRx, SealTx};
pub use plain::Checksum;

/// How a node protects its packets; every node of a job must use the same.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Encrypted and authenticated under the job's key: 16 bytes and 0.1 to 0.15 µs per full packet.
    Sealed(JobKeys),
    /// In the clear, for wires that nobody else can reach: no secrecy, no authentication.
    Plain {
        /// What guards packets against damage.
        checksum: Checksum,
    },
}

impl Mode {
    /// Whether packets are encrypted and authenticated.
    pub fn is_sealed(&self) -> bool {
        matches!(self, Mode::Sealed(_))
    }
}
