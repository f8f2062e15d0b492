//! A round: the handful of steps that a rank has at one place of a schedule.

use std::ops::Deref;

use crate::context::Context;
use crate::step::{Action, After, Mode, Repeat, Side, Span, Step};

/// The steps of one rank in one round, in the order in which they may depend on each other.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    steps: [Step; Round::MOST],
    len: u8,
    lane: u8,
    mode: Mode,
}

impl Round {
    /// The most steps that a round has.
    pub const MOST: usize = 8;

    /// A round without steps, whose messages have the context's mode.
    pub fn new(cx: &Context) -> Self {
        const NONE: Step = Step {
            action: Action::Reduce {
                from: Span::EMPTY,
                into: Span::EMPTY,
                side: Side::Left,
            },
            after: After::NOTHING,
        };
        Round {
            steps: [NONE; Round::MOST],
            len: 0,
            lane: 0,
            mode: cx.parameters.mode,
        }
    }

    /// Messages from here on have this lane.
    pub fn lane(&mut self, lane: u8) -> &mut Self {
        self.lane = lane;
        self
    }

    /// Sends `from` to rank `to`. Returns, as all that follow, what waits for this step.
    pub fn send(&mut self, to: usize, from: Span, after: After) -> After {
        let (lane, mode) = (self.lane, self.mode);
        self.push(
            Action::Send {
                to,
                from,
                lane,
                mode,
            },
            after,
        )
    }

    /// Receives from rank `from` to `into`.
    pub fn recv(&mut self, from: usize, into: Span, after: After) -> After {
        let (lane, mode) = (self.lane, self.mode);
        self.push(
            Action::Recv {
                from,
                into,
                lane,
                mode,
            },
            after,
        )
    }

    /// Copies; nothing if there are no elements.
    pub fn copy(&mut self, from: Span, into: Span, after: After) -> After {
        self.copy_times(from, into, Repeat::ONCE, after)
    }

    /// Copies several times; nothing if there are no elements.
    pub fn copy_times(&mut self, from: Span, into: Span, repeat: Repeat, after: After) -> After {
        if from.len == 0 || repeat.times == 0 {
            return after;
        }
        self.push(Action::Copy { from, into, repeat }, after)
    }

    /// Combines; nothing if there are no elements.
    pub fn reduce(&mut self, from: Span, into: Span, side: Side, after: After) -> After {
        if from.len == 0 {
            return after;
        }
        self.push(Action::Reduce { from, into, side }, after)
    }

    /// Adds a step.
    ///
    /// # Panics
    /// If the round is full: an algorithm's mistake.
    pub fn push(&mut self, action: Action, after: After) -> After {
        let index = self.len;
        self.steps[usize::from(index)] = Step { action, after };
        self.len += 1;
        After {
            steps: 1 << index,
            back: 0,
        }
    }
}

impl Deref for Round {
    type Target = [Step];

    fn deref(&self) -> &[Step] {
        &self.steps[..usize::from(self.len)]
    }
}

impl std::ops::DerefMut for Round {
    fn deref_mut(&mut self) -> &mut [Step] {
        &mut self.steps[..usize::from(self.len)]
    }
}
