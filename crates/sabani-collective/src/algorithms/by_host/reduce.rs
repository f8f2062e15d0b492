//! Reduce: to the leader of each host, then to the root. Other leaders collect in scratch memory.

use super::fits_vector;
use super::phase::{PHASES, Phase, Phases};
use crate::{Buffer, Context, Schedule};

/// Its parts.
pub(in crate::algorithms) struct Reduce {
    pub(in crate::algorithms) within: &'static dyn Schedule,
    pub(in crate::algorithms) across: &'static dyn Schedule,
}

impl Phases for Reduce {
    fn fits(&self, cx: &Context) -> bool {
        fits_vector(cx, !cx.commutative)
    }

    fn phases<'p>(&'p self, cx: &'p Context<'p>, rank: usize) -> [Option<Phase<'p>>; PHASES] {
        let is_root = rank == cx.root;
        let separate = Context {
            in_place: cx.in_place && is_root,
            ..*cx
        };
        // The root has its host's part of the result in place by then.
        let in_place = Context {
            in_place: true,
            ..*cx
        };
        let within = Phase::within(self.within, &separate, rank);
        let across = Phase::across(self.across, &in_place, rank);
        if is_root {
            return [Some(within), Some(across), None];
        }
        let len = cx.total();
        let within = within.output(Buffer::Scratch, 0).scratch_from(len);
        let across = across.input(Buffer::Scratch, 0).scratch_from(len);
        [Some(within), Some(across), None]
    }
}
