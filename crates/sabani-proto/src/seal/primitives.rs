//! The primitives that `snow` builds the handshake from, taken from `aws-lc-rs`.

use std::sync::{Arc, OnceLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::digest;
use aws_lc_rs::error::Unspecified;
use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::Zeroizing;

use super::keys::TAG_LEN;

/// Bytes of an X25519 key, private or public, and of an AES-256 key.
pub(super) const KEY_LEN: usize = 32;

/// An ephemeral private key.
pub(super) type Ephemeral = Zeroizing<[u8; KEY_LEN]>;

/// Gives `snow` its primitives; randomness is the one ephemeral key that each side needs.
pub(super) struct Primitives(pub Arc<OnceLock<Ephemeral>>);

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(OneEphemeral(Arc::clone(&self.0))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::<X25519Dh>::default() as _)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::SHA256).then(|| Box::<Sha256>::default() as _)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        matches!(choice, CipherChoice::AESGCM).then(|| Box::<Aes256Gcm>::default() as _)
    }
}

/// Hands out the ephemeral key, which `Noise::write` puts here just before it is asked for.
struct OneEphemeral(Arc<OnceLock<Ephemeral>>);

impl Random for OneEphemeral {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        let ephemeral = self.0.get().ok_or(Error::Rng)?;
        if dest.len() != ephemeral.len() {
            return Err(Error::Rng);
        }
        dest.copy_from_slice(&ephemeral[..]);
        Ok(())
    }
}

#[derive(Default)]
struct X25519Dh {
    private: Ephemeral,
    public: [u8; KEY_LEN],
    /// The library's form of both, absent until there is a private key: it is costly to make.
    key: Option<PrivateKey>,
}

impl X25519Dh {
    /// Makes the rest out of the private key.
    fn complete(&mut self) -> Result<(), Unspecified> {
        let key = PrivateKey::from_private_key(&X25519, &self.private[..])?;
        self.public
            .copy_from_slice(key.compute_public_key()?.as_ref());
        self.key = Some(key);
        Ok(())
    }
}

impl Dh for X25519Dh {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY_LEN
    }

    fn priv_len(&self) -> usize {
        KEY_LEN
    }

    fn set(&mut self, privkey: &[u8]) {
        self.private.copy_from_slice(privkey);
        self.complete().expect("X25519 takes any 32 bytes");
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        rng.try_fill_bytes(&mut self.private[..])?;
        self.complete().map_err(|_| Error::Dh)
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.private[..]
    }

    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let key = self.key.as_ref().ok_or(Error::Dh)?;
        let peer = UnparsedPublicKey::new(&X25519, &pubkey[..KEY_LEN]);
        agreement::agree(key, peer, Error::Dh, |shared| {
            out[..KEY_LEN].copy_from_slice(shared);
            Ok(())
        })
    }
}

/// Holds bytes, not an expanded key: most of Noise's keys are replaced before they are used.
#[derive(Default)]
struct Aes256Gcm(Zeroizing<[u8; KEY_LEN]>);

impl Aes256Gcm {
    fn key(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, &self.0[..]).expect("AES-256 takes any 32 bytes");
        LessSafeKey::new(key)
    }
}

/// Noise's nonce for AES-GCM: 32 bits of zeros, then the counter in big-endian order.
fn noise_nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

impl Cipher for Aes256Gcm {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; KEY_LEN]) {
        *self.0 = *key;
    }

    fn encrypt(&self, nonce: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (body, rest) = out.split_at_mut(plaintext.len());
        body.copy_from_slice(plaintext);
        let tag = self
            .key()
            .seal_in_place_separate_tag(noise_nonce(nonce), Aad::from(authtext), body)
            .expect("a handshake message is far below AES-GCM's limit");
        rest[..TAG_LEN].copy_from_slice(tag.as_ref());
        plaintext.len() + TAG_LEN
    }

    fn decrypt(
        &self,
        nonce: u64,
        authtext: &[u8],
        ciphertext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let (body, tag) = ciphertext
            .split_last_chunk::<TAG_LEN>()
            .ok_or(Error::Decrypt)?;
        let out = out.get_mut(..body.len()).ok_or(Error::Decrypt)?;
        self.key()
            .open_separate_gather(noise_nonce(nonce), Aad::from(authtext), body, tag, out)
            .map_err(|_| Error::Decrypt)?;
        Ok(body.len())
    }
}

struct Sha256(digest::Context);

impl Default for Sha256 {
    fn default() -> Self {
        Sha256(digest::Context::new(&digest::SHA256))
    }
}

impl Hash for Sha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        *self = Sha256::default();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let context = std::mem::take(self).0;
        out[..32].copy_from_slice(context.finish().as_ref());
    }
}
