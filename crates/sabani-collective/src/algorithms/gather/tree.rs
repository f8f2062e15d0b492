//! Gather up a binomial tree: log P rounds; a node collects the blocks of its subtree in scratch
//! memory. For short blocks.

use super::{contribution, start};
use crate::algorithms::shared::subtree::{held, runs};
use crate::algorithms::shared::tree::Tree;
use crate::{After, Context, Counts, Round, Schedule};

/// Subtrees send to their parents.
pub(in crate::algorithms) struct UpTree;

impl Schedule for UpTree {
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
        let is_leaf = tree.end(me) == me + 1;
        if k == 0 && me == 0 {
            start(cx, &mut round);
        } else if k == 0 && !is_leaf {
            round.copy(
                contribution(cx, rank),
                held(cx, me, me, me + 1),
                After::NOTHING,
            );
        }
        let Some(edge) = tree.edge_up(me, k) else {
            return round;
        };
        for (lane, (from, to)) in runs(cx, edge.child, edge.end).into_iter().enumerate() {
            round.lane(lane as u8);
            if edge.child != me {
                let arrival = held(cx, me, from, to);
                round.recv(cx.absolute(edge.child), arrival, After::NOTHING);
            } else if is_leaf {
                let own = contribution(cx, rank);
                round.send(cx.absolute(edge.parent), own, After::NOTHING);
            } else {
                let collected = held(cx, me, from, to);
                round.send(cx.absolute(edge.parent), collected, After::PREVIOUS);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn only_inner_nodes_need_memory() {
        let cx = Context::new(8, Counts::Each(3));
        let scratch: Vec<_> = (0..8).map(|rank| UpTree.scratch(&cx, rank)).collect();
        assert_eq!(scratch, [0, 0, 6, 0, 12, 0, 6, 0]);
        assert_eq!(held(&cx, 4, 4, 8).buffer, Buffer::Scratch);
    }
}
