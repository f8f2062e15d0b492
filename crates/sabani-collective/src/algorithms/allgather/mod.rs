//! Allgather: all get the blocks of all ranks, in order.

pub(super) mod bruck;
pub(super) mod neighbour_exchange;
pub(super) mod recursive_doubling;
pub(super) mod ring;

use crate::{After, Buffer, Context, Round, Span};

/// A rank's own block, where it lies at first.
fn contribution(cx: &Context, rank: usize) -> Span {
    if cx.in_place {
        cx.block(Buffer::Output, rank)
    } else {
        Span::new(Buffer::Input, 0, cx.own_len(rank))
    }
}

/// A rank's own block goes to its place in the output, in round 0.
fn start(cx: &Context, rank: usize, round: &mut Round) -> After {
    if cx.in_place {
        return After::NOTHING;
    }
    let own = cx.block(Buffer::Output, rank);
    round.copy(contribution(cx, rank), own, After::NOTHING)
}
