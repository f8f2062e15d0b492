//! Reduce along chains that end at the root, segment by segment: each rank sends the vector once, and
//! all at the same time. For long ones. Uses `segment_bytes` and `window`; scratch memory is two windows
//! of segments, whatever the length.
//!
//! A commutative operation has one chain, from the rank before the root backwards. Otherwise the ranks
//! below the root and those above it make one chain each, so that neighbours are combined in order.

use super::contribution;
use crate::algorithms::shared::segments::Segments;
use crate::{After, Buffer, Context, Round, Schedule, Side};

/// To the root from both sides, or from one.
pub(in crate::algorithms) struct Chain;

/// Where a rank's segments come from, each with the side on which they belong, and where they go.
struct Links {
    from: [Option<(usize, Side)>; 2],
    to: Option<usize>,
}

fn links(cx: &Context, rank: usize) -> Links {
    let (root, size) = (cx.root, cx.size);
    if cx.commutative {
        let me = cx.relative(rank);
        let from = (me + 1 < size).then(|| (cx.absolute(me + 1), Side::Right));
        let to = (me > 0).then(|| cx.absolute(me - 1));
        return Links {
            from: [from, None],
            to,
        };
    }
    let below = (rank > 0 && rank <= root).then(|| (rank.saturating_sub(1), Side::Left));
    let above = (rank + 1 < size && rank >= root).then_some((rank + 1, Side::Right));
    let to = match rank {
        _ if rank < root => Some(rank + 1),
        _ if rank > root => Some(rank - 1),
        _ => None,
    };
    Links {
        from: [below, above],
        to,
    }
}

impl Schedule for Chain {
    fn rounds(&self, cx: &Context) -> usize {
        Segments::new(cx).count()
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let segments = Segments::new(cx);
        let window = segments.window(cx);
        let Some(own) = segments.get(contribution(cx, rank), k) else {
            return round;
        };
        let links = links(cx, rank);
        let free = After::rounds(window);
        match links.to {
            Some(to) => {
                let (mut sum, mut after) = (own, free);
                if let Some((from, side)) = links.from.into_iter().flatten().next() {
                    sum = segments.slot(k, 0, window);
                    let got = round.recv(from, sum, free);
                    after = round.reduce(own, sum, side.other(), got);
                }
                round.send(to, sum, after);
            }
            None => {
                let sum = own.within(Buffer::Output);
                let mut after = After::NOTHING;
                if !cx.in_place {
                    after = round.copy(own, sum, free);
                }
                for (index, (from, side)) in links.from.into_iter().flatten().enumerate() {
                    let slot = segments.slot(k, index * window, window);
                    let got = round.recv(from, slot, free);
                    after = round.reduce(slot, sum, side, got.and(after));
                }
            }
        }
        round
    }

    fn scratch(&self, cx: &Context, rank: usize) -> usize {
        let streams = links(cx, rank).from.iter().flatten().count();
        let segments = Segments::new(cx);
        segments.room(streams * segments.window(cx))
    }
}
