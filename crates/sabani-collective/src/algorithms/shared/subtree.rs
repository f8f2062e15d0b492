//! The blocks of a subtree, for gather and scatter. Ranks are counted from the root.

use crate::{Buffer, Context, Span};

/// Where node `node` keeps the blocks `from..to` of its subtree: the root in the place of each, others
/// in scratch memory from their own on. At the root, the range must not go beyond the last rank.
pub(crate) fn held(cx: &Context, node: usize, from: usize, to: usize) -> Span {
    held_in(cx, node, from, to, Buffer::Output)
}

/// As [`held`]; the root keeps them in `at_root`.
pub(crate) fn held_in(cx: &Context, node: usize, from: usize, to: usize, at_root: Buffer) -> Span {
    let len = distance(cx, from, to);
    if node == 0 {
        Span::new(at_root, cx.offset(cx.absolute(from)), len)
    } else {
        Span::new(Buffer::Scratch, distance(cx, node, from), len)
    }
}

/// Elements of the blocks `from..to`.
fn distance(cx: &Context, from: usize, to: usize) -> usize {
    let offset = |node: usize| {
        let rank = cx.root + node;
        if rank < cx.size {
            cx.offset(rank)
        } else {
            cx.total() + cx.offset(rank - cx.size)
        }
    };
    offset(to) - offset(from)
}

/// The blocks `from..to`, cut where they would go beyond the last rank: each piece is a message.
pub(crate) fn runs(
    cx: &Context,
    from: usize,
    to: usize,
) -> impl IntoIterator<Item = (usize, usize)> {
    let turn = cx.size - cx.root;
    let whole = to <= turn || from >= turn;
    let first = (from, if whole { to } else { turn });
    let second = (!whole).then_some((turn, to));
    std::iter::once(first).chain(second)
}
