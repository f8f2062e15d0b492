//! Broadcast down a k-nomial tree: log P rounds, each of the whole vector. For short ones.

use crate::algorithms::shared::tree::Tree;
use crate::{After, Buffer, Context, Round, Schedule};

/// Down a tree with this radix, or that of the parameters.
pub(in crate::algorithms) struct DownTree {
    pub(in crate::algorithms) radix: Option<usize>,
}

impl DownTree {
    fn tree(&self, cx: &Context) -> Tree {
        Tree::new(cx.size, self.radix.unwrap_or(cx.parameters.radix))
    }
}

impl Schedule for DownTree {
    fn rounds(&self, cx: &Context) -> usize {
        self.tree(cx).steps()
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let tree = self.tree(cx);
        let me = cx.relative(rank);
        let Some(edge) = tree.edge_down(me, k) else {
            return round;
        };
        let vector = cx.vector(Buffer::Output);
        if edge.child == me {
            round.recv(cx.absolute(edge.parent), vector, After::NOTHING);
        } else {
            round.send(cx.absolute(edge.child), vector, tree.after_parent(me, k));
        }
        round
    }
}
