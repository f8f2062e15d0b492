//! Bodies that can be checked without being sent twice.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The body of a message with this tag.
pub fn fill(tag: u64, len: usize) -> Vec<u8> {
    let mut body = vec![0; len];
    for (at, bytes) in body.chunks_mut(8).enumerate() {
        bytes.copy_from_slice(&word(tag, at)[..bytes.len()]);
    }
    body
}

/// Whether a body is what [`fill`] makes.
pub fn is_intact(tag: u64, body: &[u8]) -> bool {
    let mut words = body.chunks(8).enumerate();
    words.all(|(at, bytes)| bytes == &word(tag, at)[..bytes.len()])
}

fn word(tag: u64, at: usize) -> [u8; 8] {
    (tag ^ (at as u64).wrapping_mul(STEP)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_noticed() {
        for len in [0, 1, 7, 8, 1_000] {
            let mut body = fill(3, len);
            assert!(is_intact(3, &body));
            if let Some(last) = body.last_mut() {
                *last ^= 1;
                assert!(!is_intact(3, &body));
            }
        }
    }
}
