//! What the tests of several modules need.

use super::{Checksum, Entropy, Initiator, JobKey, JobKeys, Mode, Responder, SealRx, SealTx};

pub const PROLOGUE: &[u8] = b"sabani test";

/// The bytes that `hex` spells.
pub fn bytes(hex: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).unwrap() as u8;
    hex.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// A job key that consists of one byte.
pub fn key(byte: u8) -> JobKey {
    JobKey::from_bytes([byte; JobKey::LEN])
}

/// Sealed mode under one key.
pub fn sealed() -> Mode {
    Mode::Sealed(JobKeys::from(key(7)))
}

/// All modes there are.
pub fn modes() -> [Mode; 3] {
    let plain = |checksum| Mode::Plain { checksum };
    [sealed(), plain(Checksum::None), plain(Checksum::Crc32c)]
}

/// Both ends of a connection: the initiator's, then the responder's.
pub fn connect(mode: &Mode) -> [(SealTx, SealRx); 2] {
    let mut entropy = Entropy::from_seed([1; 32]);
    let (mut message1, mut message2) = (Vec::new(), Vec::new());
    let mut initiator = Initiator::start(mode, PROLOGUE, b"", &mut entropy, &mut message1).unwrap();
    let (_, responder) = Responder::open(mode, PROLOGUE, &message1).unwrap();
    let responder = responder.reply(b"", &mut entropy, &mut message2).unwrap();
    let (_, tx, rx) = initiator.finish(&message2).unwrap();
    [(tx, rx), responder]
}
