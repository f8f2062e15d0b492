//! A vector in segments, for pipelines.

use crate::context::Context;
use crate::step::{Buffer, Span};

/// `len` elements from `start`, cut into segments; the last one may be shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    start: usize,
    len: usize,
    segment: usize,
}

impl Segments {
    /// Those of the whole vector.
    pub(crate) fn new(cx: &Context) -> Self {
        Segments::of(cx, 0, cx.total())
    }

    /// Those of a part of the vector.
    pub(crate) fn of(cx: &Context, start: usize, len: usize) -> Self {
        Segments {
            start,
            len,
            segment: cx.segment_len(),
        }
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.len.div_ceil(self.segment)
    }

    /// Rounds under way, of one segment each: no more than there are.
    pub(crate) fn window(&self, cx: &Context) -> usize {
        cx.window().min(self.count().max(1))
    }

    /// Segment `k`, in a buffer that holds the whole vector; none behind the last one.
    pub(crate) fn get(&self, buffer: Buffer, k: usize) -> Option<Span> {
        let start = k.saturating_mul(self.segment);
        (start < self.len).then(|| {
            let len = self.segment.min(self.len - start);
            Span::new(buffer, self.start + start, len)
        })
    }

    /// A place for segment `k` in scratch memory, the same for every `slots`-th one; `first` is the
    /// number of the first slot.
    pub(crate) fn slot(&self, k: usize, first: usize, slots: usize) -> Span {
        let len = self.get(Buffer::Scratch, k).map_or(0, |span| span.len);
        Span::new(
            Buffer::Scratch,
            (first + k % slots) * self.segment.min(self.len),
            len,
        )
    }

    /// Elements of `slots` slots.
    pub(crate) fn room(&self, slots: usize) -> usize {
        slots * self.segment.min(self.len)
    }
}
