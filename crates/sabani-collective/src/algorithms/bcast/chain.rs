//! Broadcast along a chain, segment by segment: each rank sends the vector once, and all at the same
//! time. For long ones; no scratch memory, whatever the length. Uses `segment_bytes` and `window`.

use crate::algorithms::shared::segments::Segments;
use crate::{After, Buffer, Context, Round, Schedule};

/// From the root to the next rank and so on.
pub(in crate::algorithms) struct Chain;

impl Schedule for Chain {
    fn rounds(&self, cx: &Context) -> usize {
        Segments::new(cx).count()
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let me = cx.relative(rank);
        let Some(segment) = Segments::new(cx).get(Buffer::Output, k) else {
            return round;
        };
        let mut after = After::rounds(cx.window());
        if me > 0 {
            after = round.recv(cx.absolute(me - 1), segment, after);
        }
        if me + 1 < cx.size {
            round.send(cx.absolute(me + 1), segment, after);
        }
        round
    }
}
