//! Allgather by exchanging with the left and the right neighbour in turn: P / 2 rounds, of two blocks
//! each after the first, and only neighbours talk. For long blocks and an even number of ranks.
//!
//! Ranks `2i` and `2i + 1` are a pair. In round 0 a pair exchanges its own blocks. From then on each rank
//! passes on the pair of blocks that it got last, and what comes is one pair further away each time,
//! from alternating directions.

use super::start;
use crate::{After, Buffer, Context, Round, Schedule};

/// Left and right in turn.
pub(in crate::algorithms) struct NeighbourExchange;

/// The pair of blocks that comes in round `k >= 1`; in round 0, the rank's own pair.
fn pair_of_round(cx: &Context, rank: usize, k: usize) -> usize {
    let pairs = cx.size / 2;
    let away = k.div_ceil(2);
    // An even rank exchanges with its left neighbour in odd rounds, whose pairs come from the left.
    let from_left = rank.is_multiple_of(2) == (k % 2 == 1);
    let own = rank / 2;
    if from_left {
        (own + pairs - away % pairs) % pairs
    } else {
        (own + away) % pairs
    }
}

impl Schedule for NeighbourExchange {
    fn fits(&self, cx: &Context) -> bool {
        cx.size.is_multiple_of(2)
    }

    fn rounds(&self, cx: &Context) -> usize {
        cx.size / 2
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let to_right = rank.is_multiple_of(2) == k.is_multiple_of(2);
        let distance = if to_right { 1 } else { cx.size - 1 };
        let partner = (rank + distance) % cx.size;
        if k == 0 {
            let started = start(cx, rank, &mut round);
            let block = |rank| cx.block(Buffer::Output, rank);
            round.recv(partner, block(partner), After::NOTHING);
            round.send(partner, block(rank), started);
            return round;
        }
        let pair = |index: usize| cx.blocks(Buffer::Output, 2 * index, 2 * index + 2);
        let arrival = pair(pair_of_round(cx, rank, k));
        round.recv(partner, arrival, After::NOTHING);
        let held = pair(pair_of_round(cx, rank, k - 1));
        round.send(partner, held, After::PREVIOUS);
        round
    }
}
