//! Bruck's allgather: log P rounds for any number of ranks. Blocks are collected in scratch memory,
//! from the rank's own on, and turned to their places at the end. For short blocks.

use super::contribution;
use crate::algorithms::shared::log2_ceil;
use crate::{After, Buffer, Context, Round, Schedule, Span};

/// Everything there is goes to the rank `2^k` before.
pub(in crate::algorithms) struct Bruck;

/// The blocks `from..to`, counted from the rank's own, in scratch memory.
fn collected(cx: &Context, rank: usize, from: usize, to: usize) -> Span {
    let offset = |index: usize| {
        let absolute = rank + index;
        if absolute < cx.size {
            cx.offset(absolute) - cx.offset(rank)
        } else {
            cx.total() - cx.offset(rank) + cx.offset(absolute - cx.size)
        }
    };
    Span::new(Buffer::Scratch, offset(from), offset(to) - offset(from))
}

impl Schedule for Bruck {
    fn rounds(&self, cx: &Context) -> usize {
        log2_ceil(cx.size) + 1
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let mut before = After::PREVIOUS;
        if k == 0 {
            let own = contribution(cx, rank);
            before = round.copy(own, collected(cx, rank, 0, 1), After::NOTHING);
        }
        let width = 1 << k;
        if width < cx.size {
            let count = width.min(cx.size - width);
            let (to, from) = (rank + cx.size - width, rank + width);
            let arrival = collected(cx, rank, width, width + count);
            round.recv(from % cx.size, arrival, After::NOTHING);
            let held = collected(cx, rank, 0, count);
            round.send(to % cx.size, held, before);
        } else {
            let turn = cx.size - rank;
            // The own block may be in its place already.
            let own = usize::from(cx.in_place);
            let high = collected(cx, rank, own, turn);
            let low = collected(cx, rank, turn, cx.size);
            let into = cx.blocks(Buffer::Output, rank + own, cx.size);
            round.copy(high, into, before);
            round.copy(low, cx.blocks(Buffer::Output, 0, rank), before);
        }
        round
    }

    fn scratch(&self, cx: &Context, _: usize) -> usize {
        cx.total()
    }
}
