//! A short code that tells the first messages of members from those of others.

use std::fmt;

use aws_lc_rs::hmac;

use super::keys::expand;
use super::{JobKey, Mode};

/// Bits of a code.
const BITS: u32 = 24;

/// Makes and checks the codes of first messages: 24 bits of a MAC under the job key.
///
/// To open a forged message 1 takes 5 µs, so a flood of them would take all of a core. Its code takes
/// 0.3 µs, and who doesn't hold the job key finds the right one once in 16 million tries. The right code
/// gets a message looked at, no more: it still has to open.
pub struct InitMac {
    current: hmac::Key,
    previous: Option<hmac::Key>,
}

impl InitMac {
    /// For the job keys of `mode`; `None` in plain mode.
    pub fn new(mode: &Mode) -> Option<Self> {
        let Mode::Sealed(keys) = mode else {
            return None;
        };
        Some(InitMac {
            current: mac_key(&keys.current),
            previous: keys.previous.as_ref().map(mac_key),
        })
    }

    /// The code of one's own message 1.
    pub fn code(&self, message1: &[u8]) -> u64 {
        code(&self.current, message1)
    }

    /// Whether this is the code of somebody's message 1 under one of the job keys.
    pub fn verify(&self, message1: &[u8], claimed: u64) -> bool {
        let keys = [Some(&self.current), self.previous.as_ref()];
        keys.into_iter()
            .flatten()
            .any(|key| code(key, message1) == claimed)
    }
}

fn mac_key(key: &JobKey) -> hmac::Key {
    let derived = expand::<32>(key.bytes(), b"sabani init");
    hmac::Key::new(hmac::HMAC_SHA256, &derived[..])
}

fn code(key: &hmac::Key, message1: &[u8]) -> u64 {
    let mac = hmac::sign(key, message1);
    let first = mac.as_ref().first_chunk().expect("a MAC has 32 bytes");
    u64::from_le_bytes(*first) & ((1 << BITS) - 1)
}

impl fmt::Debug for InitMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InitMac(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::key;
    use super::super::{Checksum, JobKeys};
    use super::*;

    fn macs(current: u8, previous: Option<u8>) -> InitMac {
        let keys = JobKeys {
            current: key(current),
            previous: previous.map(key),
        };
        InitMac::new(&Mode::Sealed(keys)).unwrap()
    }

    #[test]
    fn a_code_is_for_one_message_and_one_job() {
        let (ours, theirs) = (macs(1, None), macs(2, None));
        let code = ours.code(b"hello");
        assert!(ours.verify(b"hello", code));
        assert!(!ours.verify(b"hellO", code));
        assert!(!ours.verify(b"hello", code ^ 1));
        assert!(!theirs.verify(b"hello", code));
        let plain = Mode::Plain {
            checksum: Checksum::None,
        };
        assert!(InitMac::new(&plain).is_none());
    }

    #[test]
    fn both_keys_count_while_a_job_changes_its_key() {
        let (old, new) = (macs(1, None), macs(2, Some(1)));
        assert!(new.verify(b"hello", old.code(b"hello")));
        assert!(new.verify(b"hello", new.code(b"hello")));
        assert!(!old.verify(b"hello", new.code(b"hello")));
    }

    /// The value that `docs/protocol.md` gives to test with.
    #[test]
    fn the_code_is_the_documented_one() {
        let bytes = std::array::from_fn(|at| at as u8);
        let keys = JobKeys::from(JobKey::from_bytes(bytes));
        let macs = InitMac::new(&Mode::Sealed(keys)).unwrap();
        assert_eq!(format!("{:06x}", macs.code(b"sabani")), "219b54");
    }
}
