//! Reading an input as a script: one value after the other, zeros when it is used up.

use crate::rng::Rng;

/// Values near which arithmetic goes wrong.
const EDGES: [u64; 24] = [
    0,
    1,
    2,
    63,
    64,
    127,
    128,
    255,
    256,
    1_024,
    1_025,
    1_200,
    65_535,
    65_536,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 48) - 1,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// What is left of an input.
#[derive(Clone, Debug)]
pub struct Script<'a>(pub &'a [u8]);

impl Script<'_> {
    /// Whether all of it has been read.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// A number below `limit` (1…256).
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// A number: small, at an edge, near `near`, or anything.
    pub fn number(&mut self, near: u64) -> u64 {
        let kind = self.byte();
        match kind >> 6 {
            0 => u64::from(kind & 63),
            1 => EDGES[usize::from(kind & 63) % EDGES.len()],
            2 => near.wrapping_add(u64::from(kind & 63)).wrapping_sub(16),
            _ => (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte())),
        }
    }

    /// A step in time: nothing, or 1 µs to 4 s, in nanoseconds.
    pub fn time_step(&mut self) -> u64 {
        const STEPS: [u64; 8] = [
            0,
            1_000,
            20_000,
            200_000,
            2_000_000,
            30_000_000,
            400_000_000,
            4_000_000_000,
        ];
        STEPS[self.below(8)]
    }
}

/// A script of up to 4 KiB.
pub fn begin(rng: &mut Rng) -> Vec<u8> {
    let len = 1 << rng.below(13);
    rng.bytes(len)
}
