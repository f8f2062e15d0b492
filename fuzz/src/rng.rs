//! Inputs from a seed.

/// SplitMix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit as u64) as usize
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.draw() as u8).collect()
    }

    /// Changes an input in one to four places.
    pub fn mutate(&mut self, input: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if input.is_empty() {
                *input = self.bytes(16);
            }
            let at = self.below(input.len());
            let end = (at + 1 + self.below(32)).min(input.len());
            match self.below(7) {
                0 => input[at] ^= 1 << self.below(8),
                1 => input[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                2 => input[at..end].fill(0xff),
                3 => input.truncate(at),
                4 => drop(input.drain(at..end)),
                5 => {
                    let copy = input[at..end].to_vec();
                    let to = self.below(input.len());
                    input.splice(to..to, copy);
                }
                _ => {
                    let len = 1 + self.below(16);
                    let fresh = self.bytes(len);
                    input.splice(at..at, fresh);
                }
            }
        }
    }
}
