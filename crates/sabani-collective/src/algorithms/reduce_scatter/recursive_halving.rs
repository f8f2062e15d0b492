//! Reduce-scatter by recursive halving: partners divide the vector between them, the most distant
//! first, until each has its own block. log P rounds; each rank sends the vector about once. What is
//! combined are not neighbours: commutative operations only.

use super::result;
use crate::algorithms::shared::fold::{Fold, Role};
use crate::{After, Buffer, Context, Round, Schedule, Side, Span};

/// Halves are exchanged.
pub(in crate::algorithms) struct RecursiveHalving;

impl Schedule for RecursiveHalving {
    fn fits(&self, cx: &Context) -> bool {
        cx.commutative
    }

    fn rounds(&self, cx: &Context) -> usize {
        let fold = Fold::new(cx.size);
        2 + fold.levels()
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let fold = Fold::new(cx.size);
        if k == 0 {
            return start(cx, fold, rank);
        }
        if k <= fold.levels() {
            return halve(cx, fold, rank, k - 1);
        }
        finish(cx, fold, rank)
    }

    fn scratch(&self, cx: &Context, _: usize) -> usize {
        2 * cx.total()
    }
}

/// Where what comes in is put.
fn arrival(cx: &Context, len: usize) -> Span {
    Span::new(Buffer::Scratch, cx.total(), len)
}

/// Those that stand aside give all they have to their neighbours.
fn start(cx: &Context, fold: Fold, rank: usize) -> Round {
    let mut round = Round::new(cx);
    let (own, sum) = (cx.vector(Buffer::Input), cx.vector(Buffer::Scratch));
    match fold.role(rank) {
        Role::Aside(to) => {
            round.send(to, own, After::NOTHING);
        }
        Role::Takes(_, helped) => {
            let copied = round.copy(own, sum, After::NOTHING);
            if let Some(from) = helped {
                let arrival = arrival(cx, own.len);
                let got = round.recv(from, arrival, After::NOTHING);
                round.reduce(arrival, sum, Side::Left, got.and(copied));
            }
        }
    }
    round
}

/// The blocks of those for whom `new` and `len - 1` behind it stand, once halved.
fn blocks(cx: &Context, fold: Fold, new: usize, len: usize) -> Span {
    let first = new & !(len - 1);
    cx.blocks(Buffer::Scratch, fold.first(first), fold.first(first + len))
}

fn halve(cx: &Context, fold: Fold, rank: usize, level: usize) -> Round {
    let mut round = Round::new(cx);
    if let Role::Takes(new, _) = fold.role(rank) {
        let len = fold.size >> (level + 1);
        let other = new ^ len;
        let partner = fold.rank(other);
        let kept = blocks(cx, fold, new, len);
        let arrival = arrival(cx, kept.len);
        round.send(partner, blocks(cx, fold, other, len), After::PREVIOUS);
        let got = round.recv(partner, arrival, After::PREVIOUS);
        round.reduce(arrival, kept, Side::of(partner, rank), got);
    }
    round
}

/// Each block goes where it belongs, to those that stood aside, too.
fn finish(cx: &Context, fold: Fold, rank: usize) -> Round {
    let mut round = Round::new(cx);
    match fold.role(rank) {
        Role::Aside(from) => {
            round.recv(from, result(cx, rank), After::NOTHING);
        }
        Role::Takes(_, helped) => {
            let own = cx.block(Buffer::Scratch, rank);
            round.copy(own, result(cx, rank), After::PREVIOUS);
            if let Some(helped) = helped {
                let block = cx.block(Buffer::Scratch, helped);
                round.send(helped, block, After::PREVIOUS);
            }
        }
    }
    round
}
