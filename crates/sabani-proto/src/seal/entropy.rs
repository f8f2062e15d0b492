//! Randomness from a seed.

use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The protocol's only source of randomness: ChaCha20 keyed with a seed.
///
/// The same seed gives the same bytes, so a simulation replays exactly. In production the seed comes
/// from the operating system and is never used twice: ephemeral keys, cookies and connection
/// identifiers are as unguessable as the seed. Not `Clone`, because a copy would repeat itself.
pub struct Entropy(ChaCha20Rng);

impl Entropy {
    /// Starts from `seed`.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Entropy(ChaCha20Rng::from_seed(seed))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Fills `bytes` with randomness.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// The next `N` random bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_everything() {
        let draw = |seed| {
            let mut entropy = Entropy::from_seed(seed);
            let mut bytes = [0; 100];
            entropy.fill(&mut bytes);
            (entropy.next_u64(), bytes, entropy.array::<7>())
        };
        assert_eq!(draw([1; 32]), draw([1; 32]));
        assert_ne!(draw([1; 32]), draw([2; 32]));
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
}
