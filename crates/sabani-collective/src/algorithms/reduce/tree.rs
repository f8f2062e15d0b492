//! Reduce up a k-nomial tree: log P rounds, each of the whole vector. For short ones.
//!
//! Ranks below a node follow each other, so what a node gets belongs behind what it has. An operation
//! that is not commutative is reduced to rank 0, which sends the result to the root.

use super::contribution;
use crate::algorithms::shared::tree::Tree;
use crate::{After, Buffer, Context, Round, Schedule, Side, Span};

/// Up a tree with this radix, or that of the parameters.
pub(in crate::algorithms) struct UpTree {
    pub(in crate::algorithms) radix: Option<usize>,
}

impl UpTree {
    fn tree(&self, cx: &Context) -> Tree {
        Tree::new(cx.size, self.radix.unwrap_or(cx.parameters.radix))
    }
}

/// The rank at the tree's root.
fn top(cx: &Context) -> usize {
    if cx.commutative { cx.root } else { 0 }
}

/// Where a node with children collects.
fn collected(cx: &Context, rank: usize) -> Span {
    if rank == cx.root && rank == top(cx) {
        cx.vector(Buffer::Output)
    } else {
        cx.vector(Buffer::Scratch)
    }
}

/// Where a node's children's vectors arrive.
fn arrival(cx: &Context) -> Span {
    let len = cx.total();
    Span::new(Buffer::Scratch, len, len)
}

impl Schedule for UpTree {
    fn rounds(&self, cx: &Context) -> usize {
        // The last one takes the result to the root; the first one copies, even if there is no edge.
        self.tree(cx).steps().max(1) + usize::from(top(cx) != cx.root)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let (tree, top) = (self.tree(cx), top(cx));
        let place = |rank: usize| (rank + cx.size - top) % cx.size;
        let rank_at = |place: usize| (place + top) % cx.size;
        let (me, sum) = (place(rank), collected(cx, rank));
        let is_leaf = tree.end(me) == me + 1;
        let own = cx.vector(contribution(cx, rank));
        let mut before = After::PREVIOUS;
        if k == 0 && own.buffer != sum.buffer && (!is_leaf || cx.size == 1) {
            before = round.copy(own, sum, After::NOTHING);
        }
        if k >= tree.steps() {
            if top != cx.root && rank == top {
                round.send(cx.root, sum, After::PREVIOUS);
            } else if top != cx.root && rank == cx.root {
                round.recv(top, cx.vector(Buffer::Output), After::PREVIOUS);
            }
            return round;
        }
        let Some(edge) = tree.edge_up(me, k) else {
            return round;
        };
        if edge.child == me {
            let from = if is_leaf { own } else { sum };
            round.send(rank_at(edge.parent), from, After::PREVIOUS);
        } else {
            let got = round.recv(rank_at(edge.child), arrival(cx), After::PREVIOUS);
            round.reduce(arrival(cx), sum, Side::Right, got.and(before));
        }
        round
    }

    fn scratch(&self, cx: &Context, _: usize) -> usize {
        2 * cx.total()
    }
}
