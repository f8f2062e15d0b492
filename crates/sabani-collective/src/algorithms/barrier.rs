//! Barrier: nobody leaves before all have come.

use super::shared::log2_ceil;
use crate::{After, Context, Round, Schedule, Span};

/// In round `k` each rank tells the one `2^k` further: log2 P rounds.
pub(super) struct Dissemination;

impl Schedule for Dissemination {
    fn rounds(&self, cx: &Context) -> usize {
        log2_ceil(cx.size)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let distance = 1 << k;
        let (to, from) = (rank + distance, rank + cx.size - distance);
        round.recv(from % cx.size, Span::EMPTY, After::NOTHING);
        round.send(to % cx.size, Span::EMPTY, After::PREVIOUS);
        round
    }
}
