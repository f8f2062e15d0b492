//! Allgather around a ring: P - 1 rounds of one block each, to a neighbour. For long blocks.

use super::start;
use crate::algorithms::shared::ring::Turn;
use crate::{After, Buffer, Context, Round, Schedule};

/// Blocks go to the right.
pub(in crate::algorithms) struct Ring;

impl Schedule for Ring {
    fn rounds(&self, cx: &Context) -> usize {
        (cx.size - 1).max(1)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let mut before = After::PREVIOUS;
        if k == 0 {
            before = start(cx, rank, &mut round);
        }
        if cx.size > 1 {
            let turn = Turn::new(cx.size, rank, rank, k);
            let block = |index| cx.block(Buffer::Output, index);
            round.recv(turn.left, block(turn.incoming), After::NOTHING);
            round.send(turn.right, block(turn.outgoing), before);
        }
        round
    }
}
