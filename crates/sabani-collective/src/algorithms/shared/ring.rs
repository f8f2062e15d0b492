//! Blocks that go around a ring.

/// What one rank does in one step: which block goes to the right, which comes from the left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) right: usize,
    pub(crate) left: usize,
    pub(crate) outgoing: usize,
    pub(crate) incoming: usize,
}

impl Turn {
    /// Step `step` of `size - 1`, at `me`, which begins with block `first`.
    pub(crate) fn new(size: usize, me: usize, first: usize, step: usize) -> Self {
        Turn {
            right: (me + 1) % size,
            left: (me + size - 1) % size,
            outgoing: (first + size - step) % size,
            incoming: (first + size - step - 1) % size,
        }
    }
}
