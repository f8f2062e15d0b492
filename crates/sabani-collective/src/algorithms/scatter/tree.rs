//! Scatter down a binomial tree: log P rounds; a node gets the blocks of its subtree into scratch
//! memory. For short blocks.

use super::{result, start};
use crate::algorithms::shared::subtree::{held_in, runs};
use crate::algorithms::shared::tree::Tree;
use crate::{After, Buffer, Context, Counts, Round, Schedule, Span};

/// Parents send to subtrees.
pub(in crate::algorithms) struct DownTree;

/// Where a node has the blocks `from..to`, counted from the root.
fn held(cx: &Context, node: usize, from: usize, to: usize) -> Span {
    held_in(cx, node, from, to, Buffer::Input)
}

impl Schedule for DownTree {
    fn fits(&self, cx: &Context) -> bool {
        !matches!(cx.counts, Counts::Own(_))
    }

    fn rounds(&self, cx: &Context) -> usize {
        Tree::new(cx.size, 2).steps().max(1)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let tree = Tree::new(cx.size, 2);
        let me = cx.relative(rank);
        if k == 0 && me == 0 {
            start(cx, &mut round);
        }
        if k >= tree.steps() {
            return round;
        }
        let Some(edge) = tree.edge_down(me, k) else {
            return round;
        };
        let is_leaf = tree.end(me) == me + 1;
        let mut got = After::NOTHING;
        for (lane, (from, to)) in runs(cx, edge.child, edge.end).into_iter().enumerate() {
            round.lane(lane as u8);
            if edge.child != me {
                let after = tree.after_parent(me, k);
                round.send(cx.absolute(edge.child), held(cx, me, from, to), after);
            } else if is_leaf {
                round.recv(cx.absolute(edge.parent), result(cx, rank), After::NOTHING);
            } else {
                let arrival = held(cx, me, from, to);
                got = got.and(round.recv(cx.absolute(edge.parent), arrival, After::NOTHING));
            }
        }
        if edge.child == me && !is_leaf {
            round.copy(held(cx, me, me, me + 1), result(cx, rank), got);
        }
        round
    }

    fn scratch(&self, cx: &Context, rank: usize) -> usize {
        let me = cx.relative(rank);
        let end = Tree::new(cx.size, 2).end(me);
        if me == 0 || end == me + 1 {
            return 0;
        }
        held(cx, me, me, end).len
    }
}
