//! Gather: the root gets the blocks of all ranks, in order.

pub(super) mod linear;
pub(super) mod tree;

use crate::{After, Buffer, Context, Round, Span};

/// A rank's own block, where it lies at first.
fn contribution(cx: &Context, rank: usize) -> Span {
    Span::new(Buffer::Input, 0, cx.own_len(rank))
}

/// The root's own block goes to its place, unless it is there already.
fn start(cx: &Context, round: &mut Round) {
    if !cx.in_place {
        let own = cx.block(Buffer::Output, cx.root);
        round.copy(contribution(cx, cx.root), own, After::NOTHING);
    }
}
