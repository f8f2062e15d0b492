//! Allgather by exchanging all that is there with ever more distant partners: log P rounds, for powers
//! of two.

use super::start;
use crate::{After, Buffer, Context, Round, Schedule};

/// Partners `2^k` apart.
pub(in crate::algorithms) struct RecursiveDoubling;

impl Schedule for RecursiveDoubling {
    fn fits(&self, cx: &Context) -> bool {
        cx.size.is_power_of_two()
    }

    fn rounds(&self, cx: &Context) -> usize {
        (cx.size.trailing_zeros() as usize).max(1)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let mut before = After::PREVIOUS;
        if k == 0 {
            before = start(cx, rank, &mut round);
        }
        let width = 1 << k;
        if width < cx.size {
            let partner = rank ^ width;
            let held = |rank: usize| {
                let first = rank & !(width - 1);
                cx.blocks(Buffer::Output, first, first + width)
            };
            round.recv(partner, held(partner), After::NOTHING);
            round.send(partner, held(rank), before);
        }
        round
    }
}
