//! Scatter: each rank gets its block of what the root has.

pub(super) mod linear;
pub(super) mod tree;

use crate::{After, Buffer, Context, Round, Span};

/// Where a rank's block goes.
fn result(cx: &Context, rank: usize) -> Span {
    Span::new(Buffer::Output, 0, cx.own_len(rank))
}

/// The root's own block, unless it stays where it is.
fn start(cx: &Context, round: &mut Round) {
    if !cx.in_place {
        let own = cx.block(Buffer::Input, cx.root);
        round.copy(own, result(cx, cx.root), After::NOTHING);
    }
}
