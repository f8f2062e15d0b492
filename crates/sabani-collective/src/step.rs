//! What a schedule is made of: steps on spans of a rank's buffers.

use std::fmt;

/// A rank's memory, as a schedule sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// What the rank contributes. Never written.
    Input,
    /// What the rank gets. With a contribution in place, and for a broadcast, also what it gives.
    Output,
    /// Memory for the time of the collective; [`Schedule::scratch`](crate::Schedule::scratch) says
    /// how much.
    Scratch,
}

/// A range of elements in one of the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where.
    pub buffer: Buffer,
    /// First element.
    pub start: usize,
    /// Number of elements.
    pub len: usize,
}

impl Span {
    /// No elements: what a message of a barrier carries.
    pub const EMPTY: Span = Span::new(Buffer::Scratch, 0, 0);

    /// `len` elements of `buffer` from `start`.
    pub const fn new(buffer: Buffer, start: usize, len: usize) -> Self {
        Span { buffer, start, len }
    }

    /// The element behind the last one.
    pub const fn end(&self) -> usize {
        self.start + self.len
    }

    /// As long and as far from its buffer's begin, in another buffer.
    pub const fn within(self, buffer: Buffer) -> Self {
        Span { buffer, ..self }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}[{}..{}]", self.buffer, self.start, self.end())
    }
}

/// When a message may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// As soon as what it waits for is complete.
    #[default]
    Eager,
    /// Once its receiver has posted the receive, too.
    Rendezvous,
}

/// On which side of the operation what comes in is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `into = from ∘ into`: `from` belongs to lower ranks.
    Left,
    /// `into = into ∘ from`: `from` belongs to higher ranks.
    Right,
}

impl Side {
    /// The side on which what comes from `peer` belongs at `rank`.
    pub(crate) fn of(peer: usize, rank: usize) -> Self {
        if peer < rank { Side::Left } else { Side::Right }
    }

    /// The other one.
    pub(crate) fn other(self) -> Self {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// A copy done several times, each time so many elements further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// How many times.
    pub times: usize,
    /// How far the source moves each time, in elements.
    pub from_stride: isize,
    /// How far the target moves each time, in elements.
    pub into_stride: isize,
}

impl Repeat {
    pub(crate) const ONCE: Repeat = Repeat {
        times: 1,
        from_stride: 0,
        into_stride: 0,
    };

    /// The spans of time `index`, of those of the first time.
    pub fn spans(&self, index: usize, from: Span, into: Span) -> (Span, Span) {
        let moved = |span: Span, stride: isize| Span {
            start: span.start.wrapping_add_signed(stride * index as isize),
            ..span
        };
        (moved(from, self.from_stride), moved(into, self.into_stride))
    }
}

/// One thing to do. A message is known by its two ranks, the round, which is the same at both, and its
/// lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send to a rank.
    Send {
        /// To whom.
        to: usize,
        /// What.
        from: Span,
        /// Tells apart two messages to one rank in one round.
        lane: u8,
        /// When it may leave.
        mode: Mode,
    },
    /// Receive from a rank.
    Recv {
        /// From whom.
        from: usize,
        /// Where to; exactly as long as the message.
        into: Span,
        /// The message's lane.
        lane: u8,
        /// The message's mode.
        mode: Mode,
    },
    /// Copy here.
    Copy {
        /// From where, the first time.
        from: Span,
        /// To where, the first time; as long.
        into: Span,
        /// How often.
        repeat: Repeat,
    },
    /// Apply the operation, element by element.
    Reduce {
        /// What comes in.
        from: Span,
        /// What it is combined with, and where the result goes; as long.
        into: Span,
        /// On which side it comes in.
        side: Side,
    },
}

/// What must be complete before a step may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// Steps of the same round: bit `i` stands for step `i`, which is an earlier one.
    pub steps: u8,
    /// How many rounds back everything must be complete: all steps of round `k - back` and of those
    /// before it, for a step of round `k`. 0 waits for no round.
    pub back: u32,
}

impl After {
    /// May start at once.
    pub const NOTHING: After = After { steps: 0, back: 0 };
    /// Waits for all rounds before its own.
    pub const PREVIOUS: After = After { steps: 0, back: 1 };

    /// Waits for all rounds up to the one `distance` rounds back (at least 1).
    pub fn rounds(distance: usize) -> Self {
        let back = u32::try_from(distance.max(1)).unwrap_or(u32::MAX);
        After { steps: 0, back }
    }

    /// Waits for both.
    #[must_use]
    pub fn and(self, other: After) -> Self {
        let back = match (self.back, other.back) {
            (0, back) | (back, 0) => back,
            (one, other) => one.min(other),
        };
        After {
            steps: self.steps | other.steps,
            back,
        }
    }
}

/// Something to do, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub action: Action,
    /// What must be complete before.
    pub after: After,
}
