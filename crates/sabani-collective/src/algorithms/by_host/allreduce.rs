//! Allreduce: to the leader of each host, between the leaders, and to all ranks of each host.

use super::fits_vector;
use super::phase::{PHASES, Phase, Phases};
use crate::{Buffer, Context, Schedule};

/// Its parts.
pub(in crate::algorithms) struct Allreduce {
    pub(in crate::algorithms) reduce: &'static dyn Schedule,
    pub(in crate::algorithms) across: &'static dyn Schedule,
    pub(in crate::algorithms) bcast: &'static dyn Schedule,
}

impl Phases for Allreduce {
    fn fits(&self, cx: &Context) -> bool {
        fits_vector(cx, !cx.commutative)
    }

    fn phases<'p>(&'p self, cx: &'p Context<'p>, rank: usize) -> [Option<Phase<'p>>; PHASES] {
        let in_place = Context {
            in_place: true,
            ..*cx
        };
        // Ranks that are no roots of a reduction know no contribution in place.
        let mut reduce = Phase::within(self.reduce, cx, rank);
        if cx.in_place {
            reduce = reduce.input(Buffer::Output, 0);
        }
        [
            Some(reduce),
            Some(Phase::across(self.across, &in_place, rank)),
            Some(Phase::within(self.bcast, cx, rank)),
        ]
    }
}
