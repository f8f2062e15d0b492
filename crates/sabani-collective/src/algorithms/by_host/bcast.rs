//! Broadcast: from the root to the leader of each host, then to all ranks there.

use super::fits_vector;
use super::phase::{PHASES, Phase, Phases};
use crate::{Context, Schedule};

/// Its parts.
pub(in crate::algorithms) struct Bcast {
    pub(in crate::algorithms) across: &'static dyn Schedule,
    pub(in crate::algorithms) within: &'static dyn Schedule,
}

impl Phases for Bcast {
    fn fits(&self, cx: &Context) -> bool {
        fits_vector(cx, false)
    }

    fn phases<'p>(&'p self, cx: &'p Context<'p>, rank: usize) -> [Option<Phase<'p>>; PHASES] {
        [
            Some(Phase::across(self.across, cx, rank)),
            Some(Phase::within(self.within, cx, rank)),
            None,
        ]
    }
}
