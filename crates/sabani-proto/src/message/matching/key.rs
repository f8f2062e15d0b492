//! What the index looks entries up by, and its hash.

use crate::PeerId;

/// What the messages that a receive can take have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Sender and tag.
    Pair(PeerId, u64),
    /// The sender.
    Source(PeerId),
    /// The tag.
    Tag(u64),
    /// Nothing.
    Rest,
}

impl Key {
    /// How many kinds of keys there are.
    pub const KINDS: usize = 4;

    /// Which kind this is, below [`Key::KINDS`].
    #[inline]
    pub fn kind(&self) -> usize {
        match self {
            Key::Pair(..) => 0,
            Key::Source(_) => 1,
            Key::Tag(_) => 2,
            Key::Rest => 3,
        }
    }
}

/// Hashes keys under a secret seed: two folded 128-bit products, a few nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct KeyHash {
    secret: [u64; 4],
}

impl KeyHash {
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        KeyHash {
            secret: std::array::from_fn(|_| split_mix(&mut state)),
        }
    }

    #[inline]
    pub fn of(&self, key: &Key) -> u32 {
        let (source, tag) = match *key {
            Key::Pair(source, tag) => (source.0, tag),
            Key::Source(source) => (source.0, 0),
            Key::Tag(tag) => (0, tag),
            Key::Rest => (0, 0),
        };
        let source = (key.kind() as u64) << 32 | u64::from(source);
        let [a, b, c, d] = self.secret;
        let mixed = fold(tag ^ a, source ^ b);
        (fold(mixed ^ c, d | 1) >> 32) as u32
    }
}

/// The two halves of the product, xored.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The next output of the SplitMix64 generator.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
