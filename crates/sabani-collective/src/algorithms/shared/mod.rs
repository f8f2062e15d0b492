//! What several algorithms share.

pub(crate) mod fold;
pub(crate) mod ring;
pub(crate) mod segments;
pub(crate) mod subtree;
pub(crate) mod tree;

/// The smallest `k` with `2^k >= n`.
pub(crate) fn log2_ceil(n: usize) -> usize {
    n.next_power_of_two().trailing_zeros() as usize
}
