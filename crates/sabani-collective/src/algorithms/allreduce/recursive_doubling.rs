//! Allreduce by exchanging whole vectors with ever more distant partners: log P rounds. For short ones.
//! Keeps the order of ranks.

use super::{fold_in, fold_out, start};
use crate::algorithms::shared::fold::{Fold, Role};
use crate::{After, Buffer, Context, Round, Schedule, Side};

/// Partners `2^k` apart, each way.
pub(in crate::algorithms) struct RecursiveDoubling;

impl Schedule for RecursiveDoubling {
    fn rounds(&self, cx: &Context) -> usize {
        let fold = Fold::new(cx.size);
        (fold.levels() + 2 * fold.rounds()).max(1)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let fold = Fold::new(cx.size);
        let Some(level) = k.checked_sub(fold.rounds()) else {
            return fold_in(cx, fold, rank);
        };
        if fold.aside > 0 && level == fold.levels() {
            return fold_out(cx, fold, rank);
        }
        let mut round = Round::new(cx);
        let mut before = After::PREVIOUS;
        if k == 0 {
            before = start(cx, &mut round);
        }
        if let Role::Takes(new, _) = fold.role(rank)
            && level < fold.levels()
        {
            let partner = fold.rank(new ^ (1 << level));
            let (sum, arrival) = (cx.vector(Buffer::Output), cx.vector(Buffer::Scratch));
            let sent = round.send(partner, sum, before);
            let got = round.recv(partner, arrival, After::PREVIOUS);
            round.reduce(arrival, sum, Side::of(partner, rank), sent.and(got));
        }
        round
    }

    fn scratch(&self, cx: &Context, _: usize) -> usize {
        cx.total()
    }
}
