//! The key schedule of one direction of a connection, and the cipher.
//!
//! Packets are sealed with AEGIS-128X4 and not with AES-GCM, as a datagram is short: 1,440 bytes
//! take half the time or less, and a key is 16 bytes, not 600 of tables.

use std::fmt;
use std::sync::Arc;

use aegis::aegis128x4::{Aegis128X4, Key, Nonce};
use aws_lc_rs::hkdf;
use zeroize::Zeroizing;

use super::{Checksum, Forged};

/// Bytes of an authentication tag.
pub(super) const TAG_LEN: usize = 16;

/// Packet numbers per epoch: `1 << EPOCH_BITS`.
///
/// Far below what the cipher allows, even for AES-GCM (2^23 packets of up to 64 KiB: RFC 9001,
/// appendix B.1). A few seconds at full speed, so that keys are soon forgotten, and the bound
/// holds without counting.
pub(super) const EPOCH_BITS: u32 = 22;

/// The epoch that a packet number belongs to.
pub(super) fn epoch_of(packet_number: u64) -> u64 {
    packet_number >> EPOCH_BITS
}

/// Packet numbers from this one on that belong to its epoch.
pub(super) fn left_in_epoch(packet_number: u64) -> u64 {
    (1 << EPOCH_BITS) - packet_number % (1 << EPOCH_BITS)
}

/// What an epoch's keys and all later secrets are derived from.
pub(super) type Secret = Zeroizing<[u8; 32]>;

/// Keys for `1 << EPOCH_BITS` consecutive packet numbers of one direction.
pub(crate) struct Epoch {
    number: u64,
    secret: Secret,
    iv: Zeroizing<Nonce>,
    key: Zeroizing<Key>,
}

impl Epoch {
    /// Epoch 0, under the secret that the handshake made for this direction.
    pub fn first(secret: Secret) -> Self {
        Epoch::new(0, secret)
    }

    /// The epoch after this one. Its secret doesn't reveal this one's.
    pub fn next(&self) -> Self {
        let secret = expand(&self.secret, b"sabani next");
        Epoch::new(self.number + 1, secret)
    }

    fn new(number: u64, secret: Secret) -> Self {
        Epoch {
            number,
            iv: expand(&secret, b"sabani iv"),
            key: expand(&secret, b"sabani key"),
            secret,
        }
    }

    /// Which epoch this is.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The secret of this epoch, for a key log.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// Encrypts all but the last [`TAG_LEN`] bytes in place and writes the tag there.
    #[inline]
    pub fn seal(&self, packet_number: u64, prelude: &[u8], body_and_tag: &mut [u8]) {
        let (body, room) = body_and_tag
            .split_last_chunk_mut::<TAG_LEN>()
            .expect("room for the tag");
        *room = self.cipher(packet_number).encrypt_in_place(body, prelude);
    }

    /// Checks and decrypts in place; what `sealed` holds after a failure is undefined.
    #[inline]
    pub fn open<'a>(
        &self,
        packet_number: u64,
        prelude: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        let (body, tag) = sealed.split_last_chunk_mut::<TAG_LEN>().ok_or(Forged)?;
        let cipher = self.cipher(packet_number);
        match cipher.decrypt_in_place(body, tag, prelude) {
            Ok(()) => Ok(body),
            Err(_) => Err(Forged),
        }
    }

    /// The nonce is the packet number, big-endian in the last 8 bytes, under the epoch's secret mask.
    #[inline]
    fn cipher(&self, packet_number: u64) -> Aegis128X4<TAG_LEN> {
        let mut nonce = *self.iv;
        for (byte, number) in nonce[8..].iter_mut().zip(packet_number.to_be_bytes()) {
            *byte ^= number;
        }
        Aegis128X4::new(&self.key, &nonce)
    }
}

/// Protects the packets of one direction of a connection, as long as an epoch lasts. Any thread may have it
/// for as long as it has packets to seal or to open; the keys are wiped when the last has let go of it.
#[derive(Clone, Debug)]
pub(crate) enum PacketKey {
    Plain(Checksum),
    Sealed(Arc<Epoch>),
}

impl PacketKey {
    pub(super) fn first(secret: Secret) -> Self {
        PacketKey::Sealed(Arc::new(Epoch::first(secret)))
    }

    /// Bytes that sealing adds behind the body.
    #[inline]
    pub fn overhead(&self) -> usize {
        match self {
            PacketKey::Plain(checksum) => checksum.overhead(),
            PacketKey::Sealed(_) => TAG_LEN,
        }
    }

    /// Whether it is the one for this packet number.
    #[inline]
    pub fn covers(&self, packet_number: u64) -> bool {
        match self {
            PacketKey::Plain(_) => true,
            PacketKey::Sealed(epoch) => epoch.number() == epoch_of(packet_number),
        }
    }

    /// Seals a packet in place; no packet number may be sealed twice.
    ///
    /// # Panics
    /// If another key is the one for this packet number.
    #[inline]
    pub fn seal(&self, packet_number: u64, prelude: &[u8], body_and_tag: &mut [u8]) {
        assert!(
            self.covers(packet_number),
            "sealed under another epoch's key"
        );
        match self {
            PacketKey::Plain(checksum) => checksum.seal(prelude, body_and_tag),
            PacketKey::Sealed(epoch) => epoch.seal(packet_number, prelude, body_and_tag),
        }
    }

    /// Opens a packet in place; one of another epoch is forged.
    #[inline]
    pub fn open<'a>(
        &self,
        packet_number: u64,
        prelude: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        match self {
            PacketKey::Plain(checksum) => checksum.open(prelude, sealed),
            PacketKey::Sealed(epoch) => epoch.open(packet_number, prelude, sealed),
        }
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({})", self.number)
    }
}

/// HKDF-Expand with SHA-256 (RFC 5869).
pub(super) fn expand<const N: usize>(secret: &[u8; 32], info: &[u8]) -> Zeroizing<[u8; N]> {
    struct Length(usize);

    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }

    let mut out = Zeroizing::new([0; N]);
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &secret[..])
        .expand(&[info], Length(N))
        .and_then(|okm| okm.fill(&mut out[..]))
        .expect("N is far below HKDF's limit of 8,160 bytes");
    out
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
