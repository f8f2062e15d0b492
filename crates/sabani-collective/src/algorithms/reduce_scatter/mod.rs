//! Reduce-scatter: each rank gets its block of the combination of all ranks' vectors.

pub(super) mod pairwise;
pub(super) mod recursive_halving;

use crate::{Buffer, Context, Span};

/// Where a rank's result goes.
fn result(cx: &Context, rank: usize) -> Span {
    Span::new(Buffer::Output, 0, cx.own_len(rank))
}
