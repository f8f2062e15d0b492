use super::super::testing::{PROLOGUE, sealed};
use super::super::{Initiator, Responder};
use super::*;

#[test]
fn the_seed_decides_everything() {
    let draw = |seed| {
        let mut entropy = Entropy::from_seed(seed);
        let mut bytes = [0; 100];
        entropy.fill(&mut bytes);
        let secrets = [entropy.secret(), entropy.secret()];
        (entropy.next_u64(), bytes, entropy.array::<7>(), secrets)
    };
    assert_eq!(draw([1; 32]), draw([1; 32]));
    assert_ne!(draw([1; 32]), draw([2; 32]));
    let (.., [first, second]) = draw([1; 32]);
    assert_ne!(first, second);
}

#[test]
fn it_is_chacha20() {
    // RFC 8439, A.1, test vector 1: key and nonce of zeros, counter 0.
    let expected = [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90];
    assert_eq!(Entropy::from_seed([0; 32]).array::<8>(), expected);
}

#[test]
fn debug_shows_nothing() {
    let entropy = Entropy::from_seed([0xab; 32]);
    assert_eq!(format!("{entropy:?}"), "Entropy(..)");
}

#[test]
fn secrets_come_of_both_seeds_and_numbers_of_one() {
    let draw = |seed, secrets| {
        let mut entropy = Entropy::with_secrets([seed; 32], &[secrets; 32]);
        (entropy.secret(), entropy.next_u64())
    };
    let (secret, number) = draw(1, 2);
    assert_eq!(draw(1, 2), (secret.clone(), number));
    let (other, same) = draw(1, 3);
    assert_eq!(same, number);
    assert_ne!(other, secret);
    let (other, others) = draw(2, 2);
    assert_ne!(others, number);
    assert_ne!(other, secret);
}

/// What docs/protocol.md, section 14, says of who reads the memory of a running process, and has recorded the wire.
#[test]
fn memory_that_is_read_later_tells_nothing_of_handshakes_that_are_over() {
    let mode = sealed();
    let mut ours = Entropy::with_secrets([1; 32], &[2; 32]);
    // It has kept all numbers that were ever drawn, and whatever else is still there.
    let again = |ours: &Entropy| Entropy {
        numbers: ChaCha20Rng::from_seed(ours.numbers.get_seed()),
        next: ours.next.clone(),
    };
    let (mut message1, mut message2) = (Vec::new(), Vec::new());
    let mut theirs = Entropy::from_seed([3; 32]);
    let start = |entropy: &mut Entropy, out: &mut Vec<u8>| {
        Initiator::start(&mode, PROLOGUE, b"", entropy, out).unwrap()
    };
    let mut before = again(&ours);
    start(&mut ours, &mut message1);
    let (_, responder) = Responder::open(&mode, PROLOGUE, &message1).unwrap();
    responder.reply(b"", &mut theirs, &mut message2).unwrap();

    let finishes = |entropy: &mut Entropy| {
        let mut initiator = start(entropy, &mut Vec::new());
        initiator.finish(&message2).is_ok()
    };
    assert!(!finishes(&mut again(&ours)));
    assert!(finishes(&mut before), "else this shows nothing");
}
