//! Allreduce around a ring: each part of the vector goes around once to be combined and once to be
//! told to all. 2 (P - 1) rounds, and each rank sends the vector about twice. For long vectors. Each part
//! begins at another rank: commutative operations only.

use super::start;
use crate::algorithms::shared::ring::Turn;
use crate::{After, Buffer, Context, Round, Schedule, Side, Span};

/// A reduce-scatter and an allgather, each around the ring.
pub(in crate::algorithms) struct Ring;

impl Schedule for Ring {
    fn fits(&self, cx: &Context) -> bool {
        cx.commutative
    }

    fn rounds(&self, cx: &Context) -> usize {
        (2 * (cx.size - 1)).max(1)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let mut before = After::PREVIOUS;
        if k == 0 {
            before = start(cx, &mut round);
        }
        let part = |index| cx.block(Buffer::Output, index);
        match k.checked_sub(cx.size - 1) {
            None => {
                let turn = Turn::new(cx.size, rank, rank, k);
                let sum = part(turn.incoming);
                let arrival = Span::new(Buffer::Scratch, 0, sum.len);
                round.send(turn.right, part(turn.outgoing), before);
                let got = round.recv(turn.left, arrival, After::PREVIOUS);
                round.reduce(arrival, sum, Side::of(turn.left, rank), got.and(before));
            }
            Some(step) if step + 1 < cx.size => {
                let turn = Turn::new(cx.size, rank, rank + 1, step);
                round.send(turn.right, part(turn.outgoing), After::PREVIOUS);
                round.recv(turn.left, part(turn.incoming), After::PREVIOUS);
            }
            Some(_) => {}
        }
        round
    }

    fn scratch(&self, cx: &Context, _: usize) -> usize {
        cx.total().div_ceil(cx.size)
    }
}
