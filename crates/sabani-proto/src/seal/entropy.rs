//! Randomness from a seed.

use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::keys::{Secret, expand};

/// The protocol's only source of randomness: ChaCha20 keyed with a seed for numbers, and beside it a
/// secret that is replaced whenever another one has come of it.
///
/// The same seeds give the same bytes, so a simulation replays exactly. In production they come
/// from the operating system and are never used twice: ephemeral keys, cookies and connection
/// identifiers are as unguessable as they are. Not `Clone`, because a copy would repeat itself.
pub struct Entropy {
    /// Holds its seed for as long as it lives: who reads it knows all numbers that were ever drawn.
    numbers: ChaCha20Rng,
    /// What the next secret comes of. It tells nothing of those before.
    next: Secret,
}

impl Entropy {
    /// Starts from one seed, for runs that are to repeat: secrets come of it, too, and it stays in memory.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Entropy::with_secrets(seed, &expand(&seed, b"sabani secrets"))
    }

    /// Starts from a seed for numbers, which stays in memory, and another one for secrets, which does not:
    /// nobody can tell from it there which secrets have been drawn. They must not depend on each other.
    pub fn with_secrets(seed: [u8; 32], secrets: &[u8; 32]) -> Self {
        Entropy {
            numbers: ChaCha20Rng::from_seed(seed),
            next: expand(secrets, b"sabani next"),
        }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.numbers.next_u64()
    }

    /// Fills `bytes` with randomness.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.numbers.fill_bytes(bytes);
    }

    /// The next `N` random bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A secret of which nothing is left here: what it protected stays secret, also from who reads the memory of
    /// this process later. Keys that live as long as the process, as that of cookies, gain nothing by it.
    pub(super) fn secret(&mut self) -> Secret {
        let mut secret: Secret = expand(&self.next, b"sabani secret");
        self.next = expand(&self.next, b"sabani next");
        // Numbers are a part of it as well: who knows but one of the two sources knows nothing.
        for (byte, number) in secret.iter_mut().zip(self.array::<32>()) {
            *byte ^= number;
        }
        secret
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy(..)")
    }
}

#[cfg(test)]
#[path = "entropy_tests.rs"]
mod tests;
