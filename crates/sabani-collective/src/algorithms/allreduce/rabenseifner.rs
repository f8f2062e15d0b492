//! Rabenseifner's allreduce: partners halve the vector between them until each rank has the result of
//! one part, then put the parts together the same way back. 2 log P rounds; each rank sends the vector
//! about twice, whatever their number. Partners are `2^k` apart from the nearest on, so that what is
//! combined are always neighbours: the order of ranks is kept.

use super::{fold_in, fold_out, start};
use crate::algorithms::shared::fold::{Fold, Role};
use crate::context::split;
use crate::{After, Buffer, Context, Round, Schedule, Side, Span};

/// Recursive halving and doubling.
pub(in crate::algorithms) struct Rabenseifner;

impl Schedule for Rabenseifner {
    fn rounds(&self, cx: &Context) -> usize {
        let fold = Fold::new(cx.size);
        (2 * fold.levels() + 2 * fold.rounds()).max(1)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let fold = Fold::new(cx.size);
        let Some(step) = k.checked_sub(fold.rounds()) else {
            return fold_in(cx, fold, rank);
        };
        if fold.aside > 0 && step == 2 * fold.levels() {
            return fold_out(cx, fold, rank);
        }
        let mut round = Round::new(cx);
        let mut before = After::PREVIOUS;
        if k == 0 {
            before = start(cx, &mut round);
        }
        if let Role::Takes(new, _) = fold.role(rank) {
            if step < fold.levels() {
                halve(cx, &mut round, fold, new, step, before);
            } else if step < 2 * fold.levels() {
                double(cx, &mut round, fold, new, 2 * fold.levels() - 1 - step);
            }
        }
        round
    }

    fn scratch(&self, cx: &Context, _: usize) -> usize {
        // A fold brings the whole vector, a partner half of it.
        cx.total()
    }
}

/// What `new` is responsible for once it has halved `level` times. The half kept is told by the bit of
/// its number that tells it from its partner.
fn held(cx: &Context, fold: Fold, new: usize, level: usize) -> Span {
    let reversed = new.reverse_bits() >> (usize::BITS as usize - fold.levels());
    let len = fold.size >> level;
    let first = reversed / len * len;
    let start = split(cx.total(), fold.size, first);
    let end = split(cx.total(), fold.size, first + len);
    Span::new(Buffer::Output, start, end - start)
}

fn halve(cx: &Context, round: &mut Round, fold: Fold, new: usize, level: usize, before: After) {
    let other = new ^ (1 << level);
    let (partner, rank) = (fold.rank(other), fold.rank(new));
    let kept = held(cx, fold, new, level + 1);
    let arrival = Span::new(Buffer::Scratch, 0, kept.len);
    round.send(partner, held(cx, fold, other, level + 1), before);
    let got = round.recv(partner, arrival, After::PREVIOUS);
    round.reduce(arrival, kept, Side::of(partner, rank), got.and(before));
}

fn double(cx: &Context, round: &mut Round, fold: Fold, new: usize, level: usize) {
    let other = new ^ (1 << level);
    let partner = fold.rank(other);
    round.send(partner, held(cx, fold, new, level + 1), After::PREVIOUS);
    round.recv(partner, held(cx, fold, other, level + 1), After::PREVIOUS);
}
