use super::super::testing::bytes;
use super::*;

/// Test vector 2 for AEGIS-128X4 of draft-irtf-cfrg-aegis-aead.
const VECTOR_KEY: &str = "000102030405060708090a0b0c0d0e0f";
const VECTOR_NONCE: &str = "101112131415161718191a1b1c1d1e1f";
const VECTOR_DATA: &str = "0102030401020304";
const VECTOR_PLAIN: &str = "04050607";
const VECTOR_REPEATS: usize = 30;
const VECTOR_SEALED: &str = "e836118562f4479c9d35c17356a833114c21f9aa39e4dda5e5c87f4152a00fce\
                             9a7c38f832eafe8b1c12f8a7cf12a81a1ad8a9c24ba9dedfbdaa586ffea67ddc\
                             801ea97d9ab4a872f42d0e352e2713dacd609f9442c17517c5a29daf3e2a3fac\
                             4ff6b1380c4e46df7b086af6ce6bc1ed594b8dd64aed2a7e\
                             0e56ab94e2e85db80f9d54010caabfb4";

/// An epoch with the vector's key, and the mask under which `packet_number` gets the vector's nonce.
fn vector_epoch(packet_number: u64) -> Epoch {
    let mut iv: Nonce = bytes(VECTOR_NONCE).try_into().unwrap();
    for (byte, number) in iv[8..].iter_mut().zip(packet_number.to_be_bytes()) {
        *byte ^= number;
    }
    Epoch {
        number: 0,
        secret: Zeroizing::default(),
        iv: Zeroizing::new(iv),
        key: Zeroizing::new(bytes(VECTOR_KEY).try_into().unwrap()),
    }
}

#[test]
fn packets_are_aegis_128x4() {
    let (plain, data) = (
        bytes(&VECTOR_PLAIN.repeat(VECTOR_REPEATS)),
        bytes(VECTOR_DATA),
    );
    for packet_number in [0, 1, 0x0123_4567_89ab] {
        let epoch = vector_epoch(packet_number);
        let mut packet = plain.clone();
        packet.extend([0; TAG_LEN]);
        epoch.seal(packet_number, &data, &mut packet);
        assert_eq!(packet, bytes(VECTOR_SEALED));
        let body = epoch.open(packet_number, &data, &mut packet);
        assert_eq!(body.unwrap(), plain);
    }
}

#[test]
fn keys_are_hkdf_expand_of_the_secret() {
    // Computed with Python's `hmac` after RFC 5869.
    let secret = Zeroizing::new(std::array::from_fn(|i| i as u8));
    assert_eq!(
        expand::<16>(&secret, b"sabani key")[..],
        bytes("479e26c9af9303e1c8a7823d0cb8587c")
    );
    let epoch = Epoch::first(secret);
    assert_eq!(epoch.iv[..], bytes("382b082058f1438a995109d32126b904"));
    let next = epoch.next();
    assert_eq!(next.number(), 1);
    assert_eq!(
        next.secret()[..],
        bytes("d5a733221b1048b945296d89a5b1562f24683ca59d5435fbfc3dab6c795ac0a5")
    );
}

#[test]
fn epochs_last_four_million_packets() {
    let last = (1 << EPOCH_BITS) - 1;
    assert_eq!((epoch_of(0), epoch_of(last), epoch_of(last + 1)), (0, 0, 1));
}

#[test]
fn debug_shows_no_secret() {
    let epoch = Epoch::first(Zeroizing::new([0xab; 32]));
    assert_eq!(format!("{epoch:?}"), "Epoch(0)");
}
