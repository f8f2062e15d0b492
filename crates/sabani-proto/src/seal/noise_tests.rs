use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};

use super::super::Entropy;
use super::super::testing::bytes;
use super::*;

fn key(hex: &str) -> [u8; 32] {
    bytes(hex).try_into().unwrap()
}

/// The vector for this pattern in the collection of the `cacophony` implementation.
#[test]
fn the_published_vector() {
    let psk = "54686973206973206d7920417573747269616e20706572737065637469766521";
    let psk = JobKey::from_bytes(key(psk));
    let prologue = bytes("4a6f686e2047616c74");
    let mut initiator = Noise::new(Role::Initiator, &psk, &prologue);
    let mut responder = Noise::new(Role::Responder, &psk, &prologue);

    let ephemeral = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
    let mut message = Vec::new();
    initiator
        .write(
            b"Ludwig von Mises",
            Zeroizing::new(key(ephemeral)),
            &mut message,
        )
        .unwrap();
    assert_eq!(
        message,
        bytes(
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944\
             7c37a89fc17813788d30df2d59501d6066f5f8aecc3406bbd9829f2d24a531b1"
        )
    );
    assert_eq!(responder.read(&message).unwrap(), b"Ludwig von Mises");

    let ephemeral = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";
    message.clear();
    responder
        .write(
            b"Murray Rothbard",
            Zeroizing::new(key(ephemeral)),
            &mut message,
        )
        .unwrap();
    assert_eq!(
        message,
        bytes(
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843\
             2f29d79368ef9de4e1ae7a362fb05bf0ad668e026bf5714554497b3a720461"
        )
    );
    assert_eq!(initiator.read(&message).unwrap(), b"Murray Rothbard");

    // The vector goes on with transport messages: AES-256-GCM, counters from 0, under the split keys.
    let (tx, rx) = initiator.split();
    assert_eq!((rx.clone(), tx.clone()), responder.split());
    for (key, plain, sealed) in [
        (
            tx,
            "F. A. Hayek",
            "7c01e898a6201f36aecee532e29cd0b7f8ffa29d3366ad0dce39a6",
        ),
        (
            rx,
            "Carl Menger",
            "a9ff535aace3db6a1da1a7fb00fe2de2622bb373abad9fb42c00e0",
        ),
    ] {
        let (key, sealed) = (*key, bytes(sealed));
        let mut plaintext = [0; 11];
        let cipher = Primitives(Arc::default())
            .resolve_cipher(&CipherChoice::AESGCM)
            .map(|mut cipher| {
                cipher.set(&key);
                cipher
            });
        let opened = cipher.unwrap().decrypt(0, &[], &sealed, &mut plaintext);
        assert_eq!(opened, Ok(11));
        assert_eq!(plaintext, plain.as_bytes());
    }
}

#[test]
fn a_weak_public_key_of_a_member_is_refused() {
    let psk = JobKey::from_bytes([7; 32]);
    let mut entropy = Entropy::from_seed([1; 32]);
    let mut responder = Noise::new(Role::Responder, &psk, b"");
    responder.read(&weak_message(&psk)).unwrap();
    let mut out = b"before".to_vec();
    let refused = responder.write(b"", entropy.secret(), &mut out);
    assert_eq!(refused, Err(HandshakeError::BadPublicKey));
    assert_eq!(out, b"before");
}

/// Message 1 with the public key 0, sealed as it should be, so that only the agreement can object.
fn weak_message(psk: &JobKey) -> Vec<u8> {
    let mut state = Builder::with_resolver(PROTOCOL.parse().unwrap(), Box::new(WeakPrimitives))
        .prologue(b"")
        .unwrap()
        .psk(0, psk.bytes())
        .unwrap()
        .build_initiator()
        .unwrap();
    let mut message = vec![0; MESSAGE_OVERHEAD];
    state.write_message(b"", &mut message).unwrap();
    message
}

struct WeakPrimitives;

impl CryptoResolver for WeakPrimitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Primitives(Arc::default()).resolve_rng()
    }

    fn resolve_dh(&self, _: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::new(WeakDh))
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        Primitives(Arc::default()).resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        Primitives(Arc::default()).resolve_cipher(choice)
    }
}

/// Every key it makes is 0.
struct WeakDh;

impl Dh for WeakDh {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY_LEN
    }

    fn priv_len(&self) -> usize {
        KEY_LEN
    }

    fn set(&mut self, _: &[u8]) {}

    fn generate(&mut self, _: &mut dyn Random) -> Result<(), Error> {
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &[0; KEY_LEN]
    }

    fn privkey(&self) -> &[u8] {
        &[0; KEY_LEN]
    }

    fn dh(&self, _: &[u8], _: &mut [u8]) -> Result<(), Error> {
        Err(Error::Dh)
    }
}
