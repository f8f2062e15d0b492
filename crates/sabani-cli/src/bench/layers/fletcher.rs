//! The checksum of ISO transport protocols: two sums modulo 255, placed so that both are zero over the whole TPDU.

/// As many octets as the sums take without overflow.
const BLOCK: usize = 4096;
/// Octets that are added at the same time.
const LANES: usize = 16;

/// Both sums over what has been added so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fletcher {
    plain: u32,
    weighted: u32,
}

impl Fletcher {
    /// Over all these pieces, one after the other.
    pub fn over<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Self {
        pieces.fold(Self::default(), Self::add)
    }

    fn add(self, piece: &[u8]) -> Self {
        piece.chunks(BLOCK).fold(self, |sums, block| {
            let length = block.len() as u32;
            let (plain, weighted) = sums_of(block);
            Self {
                plain: (sums.plain + plain) % 255,
                weighted: (sums.weighted + length * sums.plain + weighted) % 255,
            }
        })
    }

    /// Whether the checksum among what was added fits it.
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// The two octets that make both sums zero, if they stand where there were zeros: the first of them with so many
    /// octets after it.
    pub fn check_octets(self, after_first: u32) -> [u8; 2] {
        let after_first = after_first % 255;
        let first = after_first * self.plain + 255 - self.weighted;
        let second = self.weighted + 255 * 255 - (after_first + 1) % 255 * self.plain;
        [(first % 255) as u8, (second % 255) as u8]
    }
}

/// The plain sum of a block, and that in which each octet counts as often as there are octets from it on. Octets in the
/// same place of each row are summed up together, for processors that add many at a time.
fn sums_of(block: &[u8]) -> (u32, u32) {
    let (rows, rest) = block.as_chunks::<LANES>();
    let (mut plain, mut weighted) = ([0u32; LANES], [0u32; LANES]);
    for row in rows {
        for ((octet, plain), weighted) in row.iter().zip(&mut plain).zip(&mut weighted) {
            *plain += u32::from(*octet);
            *weighted += *plain;
        }
    }
    let lanes = (0..).zip(plain.iter().zip(weighted));
    let weighted = lanes.map(|(lane, (plain, weighted))| LANES as u32 * weighted - lane * plain);
    let sums = (plain.iter().sum::<u32>(), weighted.sum::<u32>());
    rest.iter().fold(sums, |(plain, weighted), octet| {
        let plain = plain + u32::from(*octet);
        (plain, weighted + plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the standard says it.
    fn slowly(octets: &[u8]) -> Fletcher {
        octets.iter().fold(Fletcher::default(), |sums, octet| {
            let plain = (sums.plain + u32::from(*octet)) % 255;
            Fletcher {
                plain,
                weighted: (sums.weighted + plain) % 255,
            }
        })
    }

    #[test]
    fn blocks_make_no_difference() {
        let octets: Vec<u8> = (0..3 * BLOCK + 7).map(|at| (at * at % 251) as u8).collect();
        for cut in [0, 1, 255, BLOCK, BLOCK + 1, octets.len()] {
            let (one, two) = octets.split_at(cut);
            assert_eq!(Fletcher::over([one, two].into_iter()), slowly(&octets));
        }
        let worst = vec![0xff; BLOCK];
        assert_eq!(
            Fletcher::over([&worst[..]; 2].into_iter()),
            slowly(&[0xff; 2 * BLOCK])
        );
    }

    #[test]
    fn check_octets_make_both_sums_zero() {
        for length in [2, 3, 12, 255, 256, 1036, 9000] {
            for at in [0, length / 3, length - 2] {
                let mut octets: Vec<u8> = (0..length).map(|at| (at * 37 % 253) as u8).collect();
                octets[at..at + 2].fill(0);
                let sums = Fletcher::over([&octets[..]].into_iter());
                let check = sums.check_octets((length - at - 1) as u32);
                octets[at..at + 2].copy_from_slice(&check);
                assert!(slowly(&octets).is_zero(), "{length} {at}");
            }
        }
    }
}
