//! The secret that the members of a job share.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

/// The secret that every process of a job holds: 32 random bytes, wiped when dropped.
///
/// Written as 64 hexadecimal digits. It proves membership, not which member speaks.
#[derive(Clone)]
pub struct JobKey(Zeroizing<[u8; JobKey::LEN]>);

impl JobKey {
    /// Bytes of a key.
    pub const LEN: usize = 32;

    /// A key of these bytes, which must come from a good source of randomness: not a password.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        JobKey(Zeroizing::new(bytes))
    }

    /// Reads 64 hexadecimal digits of either case; white space around them is ignored.
    ///
    /// # Errors
    /// [`JobKeyError`] says what is wrong, without repeating any part of the key.
    pub fn from_hex(text: &str) -> Result<Self, JobKeyError> {
        // Some editors put a mark in front.
        let digits = text.trim_start_matches('\u{feff}').trim();
        if let Some(at) = digits.chars().position(|c| !c.is_ascii_hexdigit()) {
            return Err(JobKeyError::NotHex { position: at + 1 });
        }
        if digits.len() != 2 * Self::LEN {
            return Err(JobKeyError::Length {
                digits: digits.len(),
            });
        }
        let mut bytes = Zeroizing::new([0; Self::LEN]);
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
        }
        Ok(JobKey(bytes))
    }

    /// The key as 64 lower-case hexadecimal digits, for a key file.
    pub fn to_hex(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(2 * Self::LEN));
        for byte in self.0.iter() {
            for nibble in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(u32::from(nibble), 16));
            }
        }
        text
    }

    /// The secret itself.
    pub(super) fn bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

/// The value of a hexadecimal digit that was checked before.
fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

impl FromStr for JobKey {
    type Err = JobKeyError;

    fn from_str(text: &str) -> Result<Self, JobKeyError> {
        JobKey::from_hex(text)
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(..)")
    }
}

/// The key that a node speaks with, and one more that it still, or already, understands.
///
/// # Rotation
///
/// A job changes its key without a break in three steps, each done on every node before the next:
///
/// 1. add the new key as `previous`: all still speak the old one and understand both;
/// 2. swap: the new key is `current`, the old one `previous`;
/// 3. drop the old key.
///
/// Connections already made are not touched: their keys no longer depend on the job key.
#[derive(Clone, Debug)]
pub struct JobKeys {
    /// Opens connections, and is tried first on handshakes that come in.
    pub current: JobKey,
    /// Tried second on handshakes that come in.
    pub previous: Option<JobKey>,
}

impl From<JobKey> for JobKeys {
    /// One key alone, outside of a rotation.
    fn from(current: JobKey) -> Self {
        JobKeys {
            current,
            previous: None,
        }
    }
}

/// Why a text is no job key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKeyError {
    /// Too few or too many digits.
    Length {
        /// How many there were.
        digits: usize,
    },
    /// Something else than a hexadecimal digit.
    NotHex {
        /// Which character, counted from 1 after the white space in front.
        position: usize,
    },
}

impl fmt::Display for JobKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobKeyError::Length { digits } => write!(f, "the job key has {digits} digits")?,
            JobKeyError::NotHex { position } => {
                write!(
                    f,
                    "character {position} of the job key is no hexadecimal digit"
                )?;
            }
        }
        write!(
            f,
            "; a job key is 64 hexadecimal digits on one line, as `sabani key` writes them"
        )
    }
}

impl std::error::Error for JobKeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "00112233445566778899aAbBcCdDeEfF0123456789abcdef0123456789ABCDEF";

    #[test]
    fn hex_there_and_back() {
        let key: JobKey = format!(" \t{HEX}\r\n").parse().unwrap();
        assert_eq!(key.bytes()[..4], [0x00, 0x11, 0x22, 0x33]);
        assert_eq!(key.bytes()[10..16], [0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]);
        assert_eq!(*key.to_hex(), HEX.to_lowercase());
    }

    #[test]
    fn a_mark_in_front_is_no_part_of_a_key() {
        let marked = format!("\u{feff}{HEX}\r\n");
        let key = JobKey::from_hex(&marked).unwrap();
        assert_eq!(key.bytes(), JobKey::from_hex(HEX).unwrap().bytes());
    }

    #[test]
    fn errors_name_the_cause() {
        let length = |digits| JobKeyError::Length { digits };
        let not_hex = |position| JobKeyError::NotHex { position };
        assert_eq!(JobKey::from_hex("").unwrap_err(), length(0));
        assert_eq!(JobKey::from_hex(&HEX[1..]).unwrap_err(), length(63));
        assert_eq!(JobKey::from_hex(&HEX.repeat(2)).unwrap_err(), length(128));
        let typo = HEX.replace('8', "g");
        assert_eq!(JobKey::from_hex(&typo).unwrap_err(), not_hex(17));
        assert_eq!(JobKey::from_hex("é").unwrap_err(), not_hex(1));
        assert_eq!(
            not_hex(17).to_string(),
            "character 17 of the job key is no hexadecimal digit; \
             a job key is 64 hexadecimal digits on one line, as `sabani key` writes them"
        );
    }

    #[test]
    fn debug_shows_nothing() {
        let keys = JobKeys::from(JobKey::from_hex(HEX).unwrap());
        assert_eq!(
            format!("{keys:?}"),
            "JobKeys { current: JobKey(..), previous: None }"
        );
    }
}
