use proptest::prelude::*;

use super::super::testing::{connect, modes, sealed};
use super::*;

const EPOCH: u64 = 1 << EPOCH_BITS;
const PRELUDE: &[u8] = b"sixteen bytes...";

fn packet(tx: &mut SealTx, packet_number: u64, body: &[u8]) -> Vec<u8> {
    let mut packet = body.to_vec();
    packet.resize(body.len() + tx.overhead(), 0);
    tx.seal(packet_number, PRELUDE, &mut packet);
    packet
}

fn opens(rx: &mut SealRx, packet_number: u64, packet: &[u8]) -> bool {
    let mut packet = packet.to_vec();
    rx.open(packet_number, PRELUDE, &mut packet)
        .is_ok_and(|body| body == b"body")
}

fn epochs(rx: &SealRx) -> &Epochs {
    match &rx.protection {
        RxProtection::Sealed(epochs) => epochs,
        RxProtection::Plain(_) => panic!("plain mode has no epochs"),
    }
}

fn next(rx: &SealRx) -> Option<&Epoch> {
    epochs(rx).neighbours.as_ref()?.next.as_deref()
}

#[test]
fn overheads_agree() {
    for (mode, overhead) in modes().iter().zip([16, 0, 4]) {
        for (tx, rx) in connect(mode) {
            assert_eq!((tx.overhead(), rx.overhead()), (overhead, overhead));
        }
    }
}

#[test]
fn sealed_packets_hide_their_body() {
    let [(mut tx, _), _] = connect(&sealed());
    let body = [0; 64];
    let (first, second) = (packet(&mut tx, 0, &body), packet(&mut tx, 1, &body));
    assert_ne!(first[..64], body);
    assert_ne!(first, second);
}

#[test]
fn every_bit_is_guarded() {
    for mode in modes() {
        let [(mut tx, _), (_, mut rx)] = connect(&mode);
        if tx.overhead() == 0 {
            continue;
        }
        let sent = packet(&mut tx, 9, b"body");
        let mut failures = 0;
        let mut refused = |packet_number, prelude: &[u8], packet: &[u8]| {
            let mut packet = packet.to_vec();
            let opened = rx.open(packet_number, prelude, &mut packet);
            assert_eq!(opened, Err(Forged));
            failures += 1;
            assert_eq!(rx.failures(), failures);
        };
        for bit in 0..8 * sent.len() {
            let mut changed = sent.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            refused(9, PRELUDE, &changed);
        }
        for bit in 0..8 * PRELUDE.len() {
            let mut changed = PRELUDE.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            refused(9, &changed, &sent);
        }
        for len in 0..sent.len() {
            refused(9, PRELUDE, &sent[..len]);
        }
        if mode.is_sealed() {
            refused(8, PRELUDE, &sent);
        }
        assert!(opens(&mut rx, 9, &sent));
    }
}

#[test]
#[should_panic(expected = "a packet number used twice")]
fn a_packet_number_is_never_sealed_twice() {
    let [(mut tx, _), _] = connect(&sealed());
    packet(&mut tx, 5, b"body");
    packet(&mut tx, 5, b"body");
}

#[test]
fn keys_change_with_the_epoch_in_both_directions() {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut ends = connect(&sealed());
        let first_secret = *ends[from].0.log_secret().unwrap();
        for packet_number in [0, EPOCH - 1, EPOCH, EPOCH + 1, 2 * EPOCH, 3 * EPOCH + 7] {
            let sent = packet(&mut ends[from].0, packet_number, b"body");
            assert!(opens(&mut ends[to].1, packet_number, &sent));
            let (tx, rx) = (ends[from].0.log_secret(), ends[to].1.log_secret());
            assert_eq!(tx, rx);
            assert_eq!(tx == Some(&first_secret), packet_number < EPOCH);
        }
        assert_eq!(ends[to].1.failures(), 0);
    }
}

#[test]
fn late_packets_of_the_previous_epoch_open() {
    let [(mut tx, _), (_, mut rx)] = connect(&sealed());
    let late = packet(&mut tx, EPOCH - 2, b"body");
    let later = packet(&mut tx, EPOCH - 1, b"body");
    let first = packet(&mut tx, EPOCH, b"body");
    assert!(opens(&mut rx, EPOCH, &first));
    assert!(opens(&mut rx, EPOCH - 2, &late));

    let far = packet(&mut tx, EPOCH + LATE_PACKETS, b"body");
    assert!(opens(&mut rx, EPOCH + LATE_PACKETS, &far));
    assert!(epochs(&rx).previous().is_none(), "forgotten after a while");
    assert!(!opens(&mut rx, EPOCH - 1, &later));
}

#[test]
fn packets_may_be_sealed_elsewhere() {
    for mode in modes() {
        let [(mut tx, _), (_, mut rx)] = connect(&mode);
        let [(mut at_once, _), _] = connect(&mode);
        for number in [0, 1, EPOCH, EPOCH + 1] {
            tx.claim(number..=number);
            let mut sealed = b"body".to_vec();
            sealed.resize(4 + tx.overhead(), 0);
            tx.key().seal(number, PRELUDE, &mut sealed);
            assert_eq!(sealed, packet(&mut at_once, number, b"body"));
            assert!(opens(&mut rx, number, &sealed));
        }
    }
}

#[test]
#[should_panic(expected = "a packet number used twice")]
fn a_packet_number_is_never_given_out_twice() {
    let [(mut tx, _), _] = connect(&sealed());
    tx.claim(5..=5);
    tx.claim(5..=5);
}

#[test]
#[should_panic(expected = "another epoch's key")]
fn no_key_seals_for_another_epoch() {
    let [(mut tx, _), _] = connect(&sealed());
    let key = tx.claim(5..=5);
    key.seal(EPOCH, PRELUDE, &mut [0; 20]);
}

/// What the key does to a packet, and what is then taken of it.
fn goes_on(rx: &mut SealRx, key: &PacketKey, packet_number: u64, packet: &[u8]) -> bool {
    let mut packet = packet.to_vec();
    let opening = match key.open(packet_number, PRELUDE, &mut packet) {
        Ok(_) => Opening::Opened,
        Err(_) => Opening::Forged,
    };
    rx.go_on(opening, packet_number, PRELUDE, &mut packet)
        .is_ok_and(|body| body == b"body")
}

#[test]
fn packets_opened_elsewhere_count_as_long_as_their_key_does() {
    let [(mut tx, _), (_, mut rx)] = connect(&sealed());
    let old = rx.key();
    let sent: Vec<_> = [0, 1, 2, 3, EPOCH, EPOCH + LATE_PACKETS]
        .map(|number| (number, packet(&mut tx, number, b"body")))
        .into();
    let [first, late, later, forged, renewed, far] = &sent[..] else {
        unreachable!("six packets");
    };
    assert!(goes_on(&mut rx, &old, first.0, &first.1));
    assert!(!goes_on(&mut rx, &old, forged.0, &first.1));
    assert_eq!(rx.failures(), 1);

    assert!(!old.covers(renewed.0), "stays sealed");
    assert!(opens(&mut rx, renewed.0, &renewed.1));
    assert!(goes_on(&mut rx, &old, late.0, &late.1), "not forgotten yet");
    let new = rx.key();
    assert!(goes_on(&mut rx, &new, far.0, &far.1));
    assert!(
        epochs(&rx).previous().is_none(),
        "forgotten as if it had been opened here"
    );
    assert!(!goes_on(&mut rx, &old, later.0, &later.1));
    assert_eq!(rx.failures(), 2);

    rx.failures = INTEGRITY_LIMIT;
    assert!(!goes_on(&mut rx, &new, far.0, &far.1));
}

#[test]
fn forged_packet_numbers_change_no_keys() {
    let [(mut tx, _), (_, mut rx)] = connect(&sealed());
    let sent = packet(&mut tx, 3, b"body");
    for far in [2 * EPOCH, 5 * EPOCH + 3, (1 << 48) - 1, u64::MAX] {
        assert!(!opens(&mut rx, far, &sent));
        assert!(next(&rx).is_none(), "nothing is derived for it");
    }
    for _ in 0..3 {
        assert!(!opens(&mut rx, EPOCH + 3, &sent));
        assert_eq!(epochs(&rx).current.number(), 0);
        assert!(next(&rx).is_some(), "derived once");
    }
    assert!(opens(&mut rx, 3, &sent));
    let honest = packet(&mut tx, EPOCH + 3, b"body");
    assert!(opens(&mut rx, EPOCH + 3, &honest));
    assert!(next(&rx).is_none());
    assert_eq!(epochs(&rx).current.number(), 1);
    assert_eq!(rx.failures(), 7);
}

#[test]
fn too_many_forgeries_end_a_connection() {
    let [(mut tx, _), (_, mut rx)] = connect(&sealed());
    let sent = packet(&mut tx, 0, b"body");
    rx.failures = INTEGRITY_LIMIT - 1;
    assert!(opens(&mut rx, 0, &sent));
    assert!(!opens(&mut rx, 1, &sent));
    assert!(!opens(&mut rx, 0, &sent));
}

#[test]
fn an_idle_connection_is_small() {
    // That, and 72 bytes on the heap for each: a key is 16 bytes, without tables.
    assert!(size_of::<SealTx>() + size_of::<SealRx>() <= 48);
    assert!(size_of::<Epoch>() <= 72);
    let [(_, rx), _] = connect(&sealed());
    let epochs = epochs(&rx);
    assert!(epochs.neighbours.is_none());
}

#[test]
fn debug_shows_no_secret() {
    let [(tx, rx), _] = connect(&sealed());
    assert_eq!(
        format!("{tx:?}"),
        "SealTx { fresh: 0, key: Sealed(Epoch(0)) }"
    );
    assert!(format!("{rx:?}").contains("current: Epoch(0)"));
}

proptest! {
    #[test]
    fn packets_open_in_any_order(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1500), 1..20),
        first in 0..EPOCH,
        shuffle in any::<prop::sample::Selector>(),
    ) {
        for mode in modes() {
            let [(mut tx, _), (_, mut rx)] = connect(&mode);
            let mut sent: Vec<_> = bodies
                .iter()
                .zip(first..)
                .map(|(body, number)| (number, body, packet(&mut tx, number, body)))
                .collect();
            while !sent.is_empty() {
                let pick = shuffle.select(0..sent.len());
                let (number, body, mut packet) = sent.swap_remove(pick);
                prop_assert_eq!(rx.open(number, PRELUDE, &mut packet).unwrap(), &body[..]);
            }
        }
    }

    #[test]
    fn garbage_never_opens(
        packet_number in any::<u64>(),
        prelude in prop::collection::vec(any::<u8>(), 0..32),
        mut garbage in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let [(_, mut rx), _] = connect(&sealed());
        prop_assert_eq!(rx.open(packet_number, &prelude, &mut garbage), Err(Forged));
    }
}
