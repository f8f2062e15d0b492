//! A rank's buffers as bytes.

use crate::step::{Buffer, Repeat, Span};

/// Input, output and scratch memory of one rank.
#[derive(Debug)]
pub struct Memory<'a> {
    /// What the rank contributes; empty if that lies in the output.
    pub input: &'a [u8],
    /// What it gets.
    pub output: &'a mut [u8],
    /// As many elements as the schedule says.
    pub scratch: &'a mut [u8],
    /// Bytes of an element.
    pub element_bytes: usize,
}

impl Memory<'_> {
    /// The bytes of a span.
    pub fn bytes(&self, span: Span) -> &[u8] {
        let range = self.range(span);
        match span.buffer {
            _ if span.len == 0 => &[],
            Buffer::Input => &self.input[range],
            Buffer::Output => &self.output[range],
            Buffer::Scratch => &self.scratch[range],
        }
    }

    /// The bytes of a span that is written.
    ///
    /// # Panics
    /// If it is one of the input.
    pub fn bytes_mut(&mut self, span: Span) -> &mut [u8] {
        let range = self.range(span);
        match span.buffer {
            _ if span.len == 0 => &mut [],
            Buffer::Input => panic!("the input is never written"),
            Buffer::Output => &mut self.output[range],
            Buffer::Scratch => &mut self.scratch[range],
        }
    }

    /// Copies, as often as `repeat` says.
    pub fn copy(&mut self, from: Span, into: Span, repeat: Repeat) {
        for time in 0..repeat.times {
            let (from, into) = repeat.spans(time, from, into);
            let (from, into) = self.pair(from, into);
            into.copy_from_slice(from);
        }
    }

    /// The bytes of two spans that have nothing in common, the second one to be written.
    ///
    /// # Panics
    /// If they have, or the second is one of the input.
    pub fn pair(&mut self, from: Span, into: Span) -> (&[u8], &mut [u8]) {
        let (read, written) = (self.range(from), self.range(into));
        if from.len == 0 {
            return (&[], &mut []);
        }
        match (from.buffer, into.buffer) {
            (_, Buffer::Input) => panic!("the input is never written"),
            (Buffer::Input, Buffer::Output) => (&self.input[read], &mut self.output[written]),
            (Buffer::Input, Buffer::Scratch) => (&self.input[read], &mut self.scratch[written]),
            (Buffer::Output, Buffer::Scratch) => (&self.output[read], &mut self.scratch[written]),
            (Buffer::Scratch, Buffer::Output) => (&self.scratch[read], &mut self.output[written]),
            (Buffer::Output, Buffer::Output) => disjoint(self.output, read, written),
            (Buffer::Scratch, Buffer::Scratch) => disjoint(self.scratch, read, written),
        }
    }

    fn range(&self, span: Span) -> Range {
        span.start * self.element_bytes..span.end() * self.element_bytes
    }
}

type Range = std::ops::Range<usize>;

fn disjoint(buffer: &mut [u8], read: Range, written: Range) -> (&[u8], &mut [u8]) {
    let [read, written] = buffer
        .get_disjoint_mut([read, written])
        .expect("a schedule's steps never overlap");
    (read, written)
}
