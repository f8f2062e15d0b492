//! Elements as symbols.

use crate::step::{Buffer, Side, Span};

use super::Wrong;

/// An element: which one of a contribution it is, and whose contributions are in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) index: usize,
    /// Bit for each rank; none for an element that nobody has written.
    pub(super) ranks: u128,
}

impl Value {
    /// Element `index` of what `rank` contributes.
    pub(super) fn of(rank: usize, index: usize) -> Self {
        Value {
            index,
            ranks: 1 << rank,
        }
    }

    /// Element `index` of all contributions of ranks `from..to`, combined.
    pub(super) fn combined(from: usize, to: usize, index: usize) -> Self {
        let ranks = (from..to).fold(0, |ranks, rank| ranks | 1 << rank);
        Value { index, ranks }
    }

    fn combine(self, from: Value, side: Side, commutative: bool) -> Result<Value, Wrong> {
        if self.ranks == 0 || from.ranks == 0 {
            return Err(Wrong::Undefined);
        }
        if self.index != from.index || self.ranks & from.ranks != 0 {
            return Err(Wrong::Mixed);
        }
        let (low, high) = match side {
            Side::Left => (from, self),
            Side::Right => (self, from),
        };
        // Each is a run of ranks; so must the two be together.
        let follows = low.ranks.leading_zeros() + high.ranks.trailing_zeros() == u128::BITS;
        if !commutative && !follows {
            return Err(Wrong::Unordered);
        }
        let ranks = self.ranks | from.ranks;
        Ok(Value { ranks, ..self })
    }
}

/// A rank's buffers.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) input: Vec<Value>,
    pub(super) output: Vec<Value>,
    pub(super) scratch: Vec<Value>,
}

impl Memory {
    pub(super) fn buffer(&self, buffer: Buffer) -> &[Value] {
        match buffer {
            Buffer::Input => &self.input,
            Buffer::Output => &self.output,
            Buffer::Scratch => &self.scratch,
        }
    }

    fn span_mut(&mut self, span: Span) -> &mut [Value] {
        let buffer = match span.buffer {
            Buffer::Input => &mut self.input,
            Buffer::Output => &mut self.output,
            Buffer::Scratch => &mut self.scratch,
        };
        &mut buffer[span.start..span.end()]
    }

    /// What is to be read from a span.
    pub(super) fn read(&self, span: Span) -> Result<Vec<Value>, Wrong> {
        let values = self.buffer(span.buffer)[span.start..span.end()].to_vec();
        match values.iter().any(|value| value.ranks == 0) {
            true => Err(Wrong::Undefined),
            false => Ok(values),
        }
    }

    /// Writes a span.
    pub(super) fn write(&mut self, span: Span, values: &[Value]) {
        self.span_mut(span).copy_from_slice(values);
    }

    /// Combines a span with what is in another.
    pub(super) fn reduce(
        &mut self,
        from: Span,
        into: Span,
        side: Side,
        commutative: bool,
    ) -> Result<(), Wrong> {
        let values = self.read(from)?;
        for (into, from) in self.span_mut(into).iter_mut().zip(values) {
            *into = into.combine(from, side, commutative)?;
        }
        Ok(())
    }
}
