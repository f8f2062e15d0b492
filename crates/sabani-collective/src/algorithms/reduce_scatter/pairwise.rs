//! Reduce-scatter straight between all pairs: in round `k` each rank sends the rank `k` further what
//! belongs there. P - 1 rounds of one block. For long blocks. Uses `window`.
//!
//! A rank's block comes from the rank before it first, then from further and further below; then from
//! the last rank downwards. An operation that is not commutative collects the latter apart and adds
//! them behind at the end.

use super::result;
use crate::{After, Buffer, Context, Round, Schedule, Side, Span};

/// Everybody with everybody.
pub(in crate::algorithms) struct Pairwise;

impl Schedule for Pairwise {
    fn rounds(&self, cx: &Context) -> usize {
        cx.size
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let own = result(cx, rank);
        if k == 0 {
            round.copy(cx.block(Buffer::Input, rank), own, After::NOTHING);
            return round;
        }
        let window = window(cx);
        let place = |index| Span::new(Buffer::Scratch, index * own.len, own.len);
        let above = place(window);
        let (to, from) = ((rank + k) % cx.size, (rank + cx.size - k) % cx.size);
        round.send(to, cx.block(Buffer::Input, to), After::rounds(window));
        let arrival = place(k % window);
        let got = round.recv(from, arrival, After::rounds(window));
        let in_turn = got.and(After::PREVIOUS);
        let sum = match cx.commutative || from < rank {
            true => own,
            false => above,
        };
        let done = if sum == above && from + 1 == cx.size {
            round.copy(arrival, above, in_turn)
        } else {
            round.reduce(arrival, sum, Side::Left, in_turn)
        };
        if sum == above && from == rank + 1 {
            round.reduce(above, own, Side::Right, done);
        }
        round
    }

    fn scratch(&self, cx: &Context, rank: usize) -> usize {
        (window(cx) + 1) * cx.own_len(rank)
    }
}

/// Rounds under way: no more than there are.
fn window(cx: &Context) -> usize {
    cx.window().min(cx.size)
}
