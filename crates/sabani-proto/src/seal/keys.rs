//! The key schedule of one direction of a connection.

use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use zeroize::Zeroizing;

use super::Forged;

/// Bytes of an authentication tag.
pub(super) const TAG_LEN: usize = 16;

/// Packet numbers per epoch: `1 << EPOCH_BITS`.
///
/// RFC 9001, appendix B.1, allows 2^23 packets of up to 64 KiB under one AES-GCM key before an
/// attacker's advantage passes 2^-57. An epoch stays a factor of two below, so the limit holds for
/// every datagram size, without counting.
pub(super) const EPOCH_BITS: u32 = 22;

/// The epoch that a packet number belongs to.
pub(super) fn epoch_of(packet_number: u64) -> u64 {
    packet_number >> EPOCH_BITS
}

/// What an epoch's keys and all later secrets are derived from.
pub(super) type Secret = Zeroizing<[u8; 32]>;

/// Keys for `1 << EPOCH_BITS` consecutive packet numbers of one direction.
pub(super) struct Epoch {
    number: u64,
    secret: Secret,
    iv: [u8; NONCE_LEN],
    key: LessSafeKey,
}

impl Epoch {
    /// Epoch 0, under the secret that the handshake made for this direction.
    pub fn first(secret: Secret) -> Self {
        Epoch::new(0, secret)
    }

    /// The epoch after this one. Its secret doesn't reveal this one's.
    pub fn next(&self) -> Self {
        let secret = Zeroizing::new(expand(&self.secret, b"sabani next"));
        Epoch::new(self.number + 1, secret)
    }

    fn new(number: u64, secret: Secret) -> Self {
        let key = Zeroizing::new(expand::<16>(&secret, b"sabani key"));
        let iv = expand(&secret, b"sabani iv");
        let key = UnboundKey::new(&AES_128_GCM, &*key).expect("AES-128 takes any 16 bytes");
        Epoch {
            number,
            secret,
            iv,
            key: LessSafeKey::new(key),
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
        let nonce = self.nonce(packet_number);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(prelude), body)
            .expect("a datagram is far below AES-GCM's limit of 64 GiB");
        room.copy_from_slice(tag.as_ref());
    }

    /// Checks and decrypts in place; what `sealed` holds after a failure is undefined.
    #[inline]
    pub fn open<'a>(
        &self,
        packet_number: u64,
        prelude: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        let nonce = self.nonce(packet_number);
        self.key
            .open_in_place(nonce, Aad::from(prelude), sealed)
            .map_err(|_| Forged)
    }

    /// The packet number, big-endian in the last 8 bytes, under the epoch's secret mask.
    #[inline]
    fn nonce(&self, packet_number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(packet_number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({})", self.number)
    }
}

/// HKDF-Expand with SHA-256 (RFC 5869).
fn expand<const N: usize>(secret: &Secret, info: &[u8]) -> [u8; N] {
    struct Length(usize);

    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }

    let mut out = [0; N];
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &secret[..])
        .expand(&[info], Length(N))
        .and_then(|okm| okm.fill(&mut out))
        .expect("N is far below HKDF's limit of 8,160 bytes");
    out
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
