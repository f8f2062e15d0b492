//! Barrier: up each host's tree, between the leaders, down again.

use super::fits;
use super::phase::{PHASES, Phase, Phases};
use crate::{Context, Schedule};

/// Its parts.
pub(in crate::algorithms) struct Barrier {
    pub(in crate::algorithms) up: &'static dyn Schedule,
    pub(in crate::algorithms) across: &'static dyn Schedule,
    pub(in crate::algorithms) down: &'static dyn Schedule,
}

impl Phases for Barrier {
    fn fits(&self, cx: &Context) -> bool {
        fits(cx, false)
    }

    fn phases<'p>(&'p self, cx: &'p Context<'p>, rank: usize) -> [Option<Phase<'p>>; PHASES] {
        [
            Some(Phase::within(self.up, cx, rank)),
            Some(Phase::across(self.across, cx, rank)),
            Some(Phase::within(self.down, cx, rank)),
        ]
    }
}
