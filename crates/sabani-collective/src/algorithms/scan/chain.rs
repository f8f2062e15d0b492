//! Scan along the chain of ranks, segment by segment: each rank sends the vector once. For long vectors.
//! Keeps the order of ranks. Uses `segment_bytes` and `window`.

use super::Kind;
use crate::algorithms::shared::segments::Segments;
use crate::{After, Buffer, Context, Round, Schedule, Side};

/// From each rank to the next.
pub(in crate::algorithms) struct Chain(pub(in crate::algorithms) Kind);

impl Schedule for Chain {
    fn rounds(&self, cx: &Context) -> usize {
        Segments::new(cx).count()
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let segments = Segments::new(cx);
        let window = segments.window(cx);
        let Some(own) = segments.get(cx.contribution(), k) else {
            return round;
        };
        let free = After::rounds(window);
        let (slot, result) = (segments.slot(k, 0, window), own.within(Buffer::Output));
        let next = (rank + 1 < cx.size).then_some(rank + 1);
        let (mut sum, mut after) = (own, free);
        match self.0 {
            Kind::Inclusive => {
                let mut has = free;
                if own != result {
                    has = round.copy(own, result, free);
                }
                (sum, after) = (result, has);
                if rank > 0 {
                    let got = round.recv(rank - 1, slot, free);
                    after = round.reduce(slot, sum, Side::Left, got.and(has));
                }
            }
            Kind::Exclusive if rank > 0 && next.is_some() => {
                // The own vector may lie where the result goes, so it is put aside first.
                let aside = round.copy(own, slot, free);
                let got = round.recv(rank - 1, result, aside);
                (sum, after) = (slot, round.reduce(result, slot, Side::Left, got));
            }
            Kind::Exclusive if rank > 0 => {
                round.recv(rank - 1, result, free);
            }
            Kind::Exclusive => {}
        }
        if let Some(next) = next {
            round.send(next, sum, after);
        }
        round
    }

    fn scratch(&self, cx: &Context, _: usize) -> usize {
        let segments = Segments::new(cx);
        segments.room(segments.window(cx))
    }
}
