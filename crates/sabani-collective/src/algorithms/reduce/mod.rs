//! Reduce: the root gets the combination of all ranks' vectors.

pub(super) mod chain;
pub(super) mod tree;

use crate::{Buffer, Context};

/// Where a rank's contribution lies: only the root can have it in place.
fn contribution(cx: &Context, rank: usize) -> Buffer {
    if rank == cx.root {
        cx.contribution()
    } else {
        Buffer::Input
    }
}
