//! Broadcast as scatter and allgather: the root's part goes down a binomial tree, each rank getting
//! what its subtree needs, and then around a ring. Each rank sends the vector about twice, whatever
//! their number. For long vectors, where a chain's latency is too much.

use crate::algorithms::shared::ring::Turn;
use crate::algorithms::shared::tree::Tree;
use crate::{After, Buffer, Context, Round, Schedule, Span};

/// A binomial scatter, then a ring.
pub(in crate::algorithms) struct ScatterAllgather;

/// The parts of the ranks `from..to`, counted from the root.
fn parts(cx: &Context, from: usize, to: usize) -> Span {
    cx.blocks(Buffer::Output, from, to)
}

impl Schedule for ScatterAllgather {
    fn rounds(&self, cx: &Context) -> usize {
        Tree::new(cx.size, 2).steps() + cx.size - 1
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let tree = Tree::new(cx.size, 2);
        let me = cx.relative(rank);
        match k.checked_sub(tree.steps()) {
            None => scatter(cx, tree, me, k),
            Some(step) => allgather(cx, me, step),
        }
    }
}

fn scatter(cx: &Context, tree: Tree, me: usize, k: usize) -> Round {
    let mut round = Round::new(cx);
    if let Some(edge) = tree.edge_down(me, k) {
        let part = parts(cx, edge.child, edge.end);
        if edge.child == me {
            round.recv(cx.absolute(edge.parent), part, After::NOTHING);
        } else {
            round.send(cx.absolute(edge.child), part, tree.after_parent(me, k));
        }
    }
    round
}

fn allgather(cx: &Context, me: usize, step: usize) -> Round {
    let mut round = Round::new(cx);
    let turn = Turn::new(cx.size, me, me, step);
    let part = |index| parts(cx, index, index + 1);
    // A part may lie where the scatter still sends from.
    let scattered = After::rounds(step + 1);
    round.recv(cx.absolute(turn.left), part(turn.incoming), scattered);
    round.send(
        cx.absolute(turn.right),
        part(turn.outgoing),
        After::PREVIOUS,
    );
    round
}
