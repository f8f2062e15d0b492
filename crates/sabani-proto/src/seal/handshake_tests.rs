use super::super::testing::{PROLOGUE, key, modes, sealed};
use super::super::{JobKey, Mode};
use super::*;

fn entropy(seed: u8) -> Entropy {
    Entropy::from_seed([seed; 32])
}

fn start(mode: &Mode, payload: &[u8]) -> (Initiator, Vec<u8>) {
    let mut message = Vec::new();
    let initiator =
        Initiator::start(mode, PROLOGUE, payload, &mut entropy(1), &mut message).unwrap();
    (initiator, message)
}

fn open(mode: &Mode, message: &[u8]) -> Result<(Vec<u8>, Responder), HandshakeError> {
    Responder::open(mode, PROLOGUE, message)
}

fn reply(responder: Responder, payload: &[u8]) -> (SealTx, SealRx, Vec<u8>) {
    let mut message = Vec::new();
    let (tx, rx) = responder
        .reply(payload, &mut entropy(2), &mut message)
        .unwrap();
    (tx, rx, message)
}

/// Sends one packet from `tx` to `rx`.
fn passes(tx: &mut SealTx, rx: &mut SealRx, packet_number: u64) -> bool {
    let mut packet = b"a packet".to_vec();
    packet.resize(packet.len() + tx.overhead(), 0);
    tx.seal(packet_number, b"prelude", &mut packet);
    rx.open(packet_number, b"prelude", &mut packet)
        .is_ok_and(|body| body == b"a packet")
}

#[test]
fn both_sides_get_payloads_and_keys() {
    for mode in modes() {
        let (mut initiator, message1) = start(&mode, b"hello");
        let (payload, responder) = open(&mode, &message1).unwrap();
        assert_eq!(payload, b"hello");
        let (mut tx2, mut rx2, message2) = reply(responder, b"hello back");
        let (payload, mut tx1, mut rx1) = initiator.finish(&message2).unwrap();
        assert_eq!(payload, b"hello back");

        assert!(passes(&mut tx1, &mut rx2, 0));
        assert!(passes(&mut tx2, &mut rx1, 0));
        assert_eq!(tx1.log_secret(), rx2.log_secret());
        assert_eq!(tx2.log_secret(), rx1.log_secret());
        assert_eq!(tx1.log_secret().is_some(), mode.is_sealed());
        if mode.is_sealed() {
            assert_ne!(tx1.log_secret(), tx2.log_secret());
            assert!(
                !passes(&mut tx1, &mut rx1, 1),
                "a direction has keys of its own"
            );
        }
        assert_eq!(
            initiator.finish(&message2).err(),
            Some(HandshakeError::Over)
        );
    }
}

#[test]
fn payloads_of_any_length_pass_up_to_the_limit() {
    for mode in modes() {
        for len in [0, 1, 64, 1400, 65_535 - 48] {
            let payload = vec![0xa5; len];
            let (_, message) = start(&mode, &payload);
            assert_eq!(open(&mode, &message).unwrap().0, payload);
        }
    }
    let mut message = Vec::new();
    let long = vec![0; 65_535];
    let refused = Initiator::start(&sealed(), PROLOGUE, &long, &mut entropy(1), &mut message);
    let (bytes, max) = (65_535, 65_487);
    assert_eq!(refused.err(), Some(HandshakeError::TooLong { bytes, max }));
    assert!(message.is_empty());
}

#[test]
fn messages_are_appended() {
    for mode in modes() {
        let mut out = b"prelude".to_vec();
        Initiator::start(&mode, PROLOGUE, b"hello", &mut entropy(1), &mut out).unwrap();
        let message1 = out.strip_prefix(b"prelude").unwrap();
        let (_, responder) = open(&mode, message1).unwrap();
        let mut out = b"prelude".to_vec();
        responder.reply(b"", &mut entropy(2), &mut out).unwrap();
        assert!(out.starts_with(b"prelude"));
        assert_eq!(out.len(), 7 + if mode.is_sealed() { 48 } else { 5 });
    }
}

#[test]
fn the_seed_decides_every_byte() {
    let run = |seed| {
        let mut entropy = entropy(seed);
        let (mut message1, mut message2) = (Vec::new(), Vec::new());
        let mode = sealed();
        let mut initiator =
            Initiator::start(&mode, PROLOGUE, b"hello", &mut entropy, &mut message1).unwrap();
        let (_, responder) = open(&mode, &message1).unwrap();
        responder.reply(b"", &mut entropy, &mut message2).unwrap();
        let (_, tx, _) = initiator.finish(&message2).unwrap();
        (message1, message2, *tx.log_secret().unwrap())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
    assert_ne!(run(1).1, run(2).1);
}

#[test]
fn nothing_but_the_key_opens_a_sealed_handshake() {
    let (mut initiator, message1) = start(&sealed(), b"hello");
    let stranger = Mode::Sealed(key(8).into());
    assert_eq!(
        open(&stranger, &message1).err(),
        Some(HandshakeError::WrongKey)
    );

    // The stranger can't answer either, even though it sees message 1.
    let (_, foreign) = start(&stranger, b"hello");
    let (_, _, forged) = reply(open(&stranger, &foreign).unwrap().1, b"");
    assert_eq!(
        initiator.finish(&forged).err(),
        Some(HandshakeError::WrongKey)
    );
    assert_eq!(
        initiator.finish(&message1).err(),
        Some(HandshakeError::WrongKey)
    );
    let (_, _, message2) = reply(open(&sealed(), &message1).unwrap().1, b"");
    assert!(
        initiator.finish(&message2).is_ok(),
        "forgeries don't disturb it"
    );
}

#[test]
fn an_answer_to_another_handshake_is_refused() {
    let mode = sealed();
    let (mut initiator, _) = start(&mode, b"");
    let mut other = Vec::new();
    Initiator::start(&mode, PROLOGUE, b"", &mut entropy(3), &mut other).unwrap();
    let (_, _, answer) = reply(open(&mode, &other).unwrap().1, b"");
    assert_eq!(
        initiator.finish(&answer).err(),
        Some(HandshakeError::WrongKey)
    );
}

#[test]
fn both_sides_must_mean_the_same_protocol() {
    for mode in modes() {
        let (_, message1) = start(&mode, b"hello");
        let refused = Responder::open(&mode, b"sabani 2", &message1).err();
        let expected = match mode {
            Mode::Sealed(_) => HandshakeError::WrongKey,
            Mode::Plain { .. } => HandshakeError::Damaged,
        };
        assert_eq!(refused, Some(expected));
    }
}

#[test]
fn modes_do_not_mix() {
    use Checksum::{Crc32c, None as Unchecked};
    let [sealed, unchecked, checked] = modes();
    let refusal = |ours, theirs| open(ours, &start(theirs, &[1; 64]).1).err();
    assert_eq!(refusal(&sealed, &checked), Some(HandshakeError::WrongKey));
    assert_eq!(refusal(&checked, &sealed), Some(HandshakeError::Damaged));
    let mismatch = |ours, theirs| Some(HandshakeError::ChecksumMismatch { ours, theirs });
    assert_eq!(refusal(&checked, &unchecked), mismatch(Crc32c, Unchecked));
    assert_eq!(refusal(&unchecked, &checked), mismatch(Unchecked, Crc32c));
}

/// Every way to cut a message, and every way to flip one of its bits.
fn damaged(message: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let cuts = (0..message.len()).map(|len| message[..len].to_vec());
    let flips = (0..8 * message.len()).map(|bit| {
        let mut flipped = message.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    });
    let longer = [message, b"x"].concat();
    cuts.chain(flips).chain([longer])
}

#[test]
fn damaged_messages_are_refused_and_disturb_nothing() {
    for mode in modes() {
        let (mut initiator, message1) = start(&mode, b"hi");
        for message in damaged(&message1) {
            assert!(open(&mode, &message).is_err());
        }
        let (mut tx, _, message2) = reply(open(&mode, &message1).unwrap().1, b"yo");
        for message in damaged(&message2) {
            // X25519 ignores the top bit of a public key, but Noise authenticates that bit too.
            assert!(initiator.finish(&message).is_err());
        }
        let (payload, _, mut rx) = initiator.finish(&message2).unwrap();
        assert_eq!(payload, b"yo");
        assert!(passes(&mut tx, &mut rx, 0));
    }
}

#[test]
fn a_reflected_message_is_no_answer() {
    for mode in modes() {
        let (mut initiator, message1) = start(&mode, b"hello");
        assert!(initiator.finish(&message1).is_err());
    }
}

/// The three steps of [`JobKeys`]'s rotation, with nodes one step apart talking to each other.
#[test]
fn keys_rotate_without_a_break() {
    let keys = |current: &JobKey, previous: Option<&JobKey>| {
        Mode::Sealed(JobKeys {
            current: current.clone(),
            previous: previous.cloned(),
        })
    };
    let (old, new) = (key(1), key(2));
    let steps = [
        keys(&old, None),
        keys(&old, Some(&new)),
        keys(&new, Some(&old)),
        keys(&new, None),
    ];
    for ahead in 0..steps.len() {
        for behind in ahead.saturating_sub(1)..=ahead {
            for (from, to) in [(ahead, behind), (behind, ahead)] {
                let (mut initiator, message1) = start(&steps[from], b"");
                let (_, responder) = open(&steps[to], &message1).unwrap();
                assert_eq!(responder.used_previous_key(), (from <= 1) != (to <= 1));
                let (_, _, message2) = reply(responder, b"");
                assert!(initiator.finish(&message2).is_ok());
            }
        }
    }
    let (_, message1) = start(&steps[3], b"");
    assert_eq!(
        open(&steps[0], &message1).err(),
        Some(HandshakeError::WrongKey)
    );
}

#[test]
fn errors_name_cause_and_cure() {
    let mismatch = HandshakeError::ChecksumMismatch {
        ours: Checksum::None,
        theirs: Checksum::Crc32c,
    };
    assert_eq!(
        mismatch.to_string(),
        "this node guards its packets with no checksum, the peer with CRC-32C; \
         choose the same for all nodes"
    );
    assert!(
        HandshakeError::WrongKey
            .to_string()
            .contains("same key file")
    );
}
