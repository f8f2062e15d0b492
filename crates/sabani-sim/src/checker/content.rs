//! What is in messages: a function of their names, cheap to make and to compare.

use std::sync::LazyLock;

use crate::{HostId, Rng};

/// Random bytes that messages are pieces of: no two places in it look alike.
static TAPE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut tape = vec![0; TAPE_LEN];
    Rng::new(TAPE_LEN as u64).fill(&mut tape);
    tape
});
const TAPE_LEN: usize = 4 << 20;
/// Longer messages are made for themselves.
const LONGEST_PIECE: usize = TAPE_LEN / 2;

/// The bytes of a message.
#[derive(Debug)]
pub enum Content {
    /// A piece of the tape.
    Piece(&'static [u8]),
    /// Bytes of its own.
    Made(Vec<u8>),
}

impl Content {
    /// What a message with this name and length is made of.
    pub fn of(from: HostId, to: HostId, tag: u64, len: usize) -> Self {
        let name = tag ^ u64::from(from.0) << 20 ^ u64::from(to.0) << 40;
        let mut rng = Rng::new(name);
        if len > LONGEST_PIECE {
            return Content::Made(sequence(rng.next_u64(), len));
        }
        let start = rng.below((TAPE_LEN - len) as u64) as usize;
        Content::Piece(&TAPE[start..start + len])
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        match self {
            Content::Piece(bytes) => bytes,
            Content::Made(bytes) => bytes,
        }
    }
}

/// Words of which no two are alike.
fn sequence(first: u64, len: usize) -> Vec<u8> {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let words = (0..).map(|place: u64| first.wrapping_add(place.wrapping_mul(STEP)));
    let mut bytes = vec![0; len.next_multiple_of(8)];
    for (chunk, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *chunk = word.to_le_bytes();
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_messages_are_alike() {
        for len in [8, 1_000, LONGEST_PIECE, LONGEST_PIECE + 1] {
            let message = |from, to, tag| {
                Content::of(HostId(from), HostId(to), tag, len)
                    .as_ref()
                    .to_vec()
            };
            let first = message(0, 1, 7);
            assert_eq!(first.len(), len);
            assert_eq!(first, message(0, 1, 7), "it is a function of its name");
            for other in [message(1, 0, 7), message(0, 2, 7), message(0, 1, 8)] {
                assert_ne!(first, other, "{len} bytes");
            }
        }
    }

    #[test]
    fn a_piece_out_of_its_place_shows() {
        let content = Content::of(HostId(0), HostId(1), 3, 100_000);
        let bytes = content.as_ref();
        for at in (0..90_000).step_by(1_000) {
            assert_ne!(bytes[at..at + 1_000], bytes[at + 1_000..at + 2_000]);
        }
    }
}
