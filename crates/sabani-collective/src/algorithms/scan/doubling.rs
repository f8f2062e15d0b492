//! Scan by recursive doubling: in round `k` each rank sends what it has to the rank `2^k` further. log P
//! rounds of the whole vector. Keeps the order of ranks.

use super::Kind;
use crate::algorithms::shared::log2_ceil;
use crate::{After, Buffer, Context, Round, Schedule, Side, Span};

/// What was combined covers `2^k` ranks before round `k`.
pub(in crate::algorithms) struct Doubling(pub(in crate::algorithms) Kind);

impl Doubling {
    /// Where the combination with the own vector is.
    fn with_own(&self, cx: &Context) -> Span {
        match self.0 {
            Kind::Inclusive => cx.vector(Buffer::Output),
            Kind::Exclusive => Span::new(Buffer::Scratch, cx.total(), cx.total()),
        }
    }
}

impl Schedule for Doubling {
    fn rounds(&self, cx: &Context) -> usize {
        log2_ceil(cx.size).max(1)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let (with_own, result) = (self.with_own(cx), cx.vector(Buffer::Output));
        let arrival = cx.vector(Buffer::Scratch);
        let own = cx.vector(cx.contribution());
        let mut before = After::PREVIOUS;
        if k == 0 && own != with_own && (self.0 == Kind::Inclusive || rank + 1 < cx.size) {
            before = round.copy(own, with_own, After::NOTHING);
        }
        let distance = 1 << k;
        let mut sent = before;
        if rank + distance < cx.size {
            sent = round.send(rank + distance, with_own, before);
        }
        if rank >= distance && cx.size > 1 {
            let got = round.recv(rank - distance, arrival, After::PREVIOUS);
            let free = got.and(sent).and(before);
            let goes_on = rank + 2 * distance < cx.size;
            if self.0 == Kind::Inclusive || goes_on {
                round.reduce(arrival, with_own, Side::Left, free);
            }
            if self.0 == Kind::Exclusive && k == 0 {
                round.copy(arrival, result, free);
            } else if self.0 == Kind::Exclusive {
                round.reduce(arrival, result, Side::Left, free);
            }
        }
        round
    }

    fn scratch(&self, cx: &Context, _: usize) -> usize {
        match self.0 {
            Kind::Inclusive => cx.total(),
            Kind::Exclusive => 2 * cx.total(),
        }
    }
}
