//! Barrier: up each host's tree, between the leaders, down again.

use super::fits;
use super::phase::{PHASES, Phase, Phases};
use crate::{Context, Counts, Schedule};

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
        let empty = Context {
            counts: Counts::Vector(0),
            ..*cx
        };
        [
            Some(Phase::within(self.up, &empty, rank)),
            Some(Phase::across(self.across, &empty, rank)),
            Some(Phase::within(self.down, &empty, rank)),
        ]
    }
}
