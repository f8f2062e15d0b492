use super::super::testing::bytes;
use super::*;

/// Test case 4 of the specification of GCM (McGrew and Viega).
const GCM_KEY: &str = "feffe9928665731c6d6a8f9467308308";
const GCM_IV: &str = "cafebabefacedbaddecaf888";
const GCM_AAD: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
const GCM_PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
const GCM_SEALED: &str = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
                          21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091\
                          5bc94fbc3221a5db94fae95ae7121a47";

/// An epoch with the vector's key, and the mask under which `packet_number` gets the vector's nonce.
fn gcm_epoch(packet_number: u64) -> Epoch {
    let mut iv: [u8; NONCE_LEN] = bytes(GCM_IV).try_into().unwrap();
    for (byte, number) in iv[4..].iter_mut().zip(packet_number.to_be_bytes()) {
        *byte ^= number;
    }
    Epoch {
        number: 0,
        secret: Zeroizing::default(),
        iv,
        key: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &bytes(GCM_KEY)).unwrap()),
    }
}

#[test]
fn packets_are_aes_gcm() {
    for packet_number in [0, 1, 0x0123_4567_89ab] {
        let epoch = gcm_epoch(packet_number);
        let mut packet = bytes(GCM_PLAIN);
        packet.extend([0; TAG_LEN]);
        epoch.seal(packet_number, &bytes(GCM_AAD), &mut packet);
        assert_eq!(packet, bytes(GCM_SEALED));
        let body = epoch.open(packet_number, &bytes(GCM_AAD), &mut packet);
        assert_eq!(body.unwrap(), bytes(GCM_PLAIN));
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
    assert_eq!(epoch.iv[..], bytes("382b082058f1438a995109d3"));
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
