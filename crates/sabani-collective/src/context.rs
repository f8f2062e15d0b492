//! What a schedule is asked with: the same on all ranks, but for counts that only one rank knows.

use crate::hosts::Hosts;
use crate::step::{Buffer, Mode, Span};

/// How many elements each rank gives or gets.
#[derive(Clone, Copy, Debug)]
pub enum Counts<'a> {
    /// One vector of so many elements (broadcast, reduce, allreduce, scan). An algorithm that cuts
    /// it gives each rank a part, and the parts differ by one element at most.
    Vector(usize),
    /// So many for each rank; for an all-to-all, for each pair of ranks.
    Each(usize),
    /// Different ones, known to all: rank `i` has the elements from `offsets[i]` to `offsets[i + 1]`.
    Offsets(&'a [usize]),
    /// Different ones, of which this rank knows its own only: a rank other than the root of a gather
    /// or scatter.
    Own(usize),
    /// Different ones for each pair, of which this rank knows those that it takes part in: what it
    /// sends to rank `i` are the elements from `outgoing[i]` to `outgoing[i + 1]` of its input, what
    /// it gets from there those from `incoming[i]` to `incoming[i + 1]` of its output.
    Pairs {
        /// Offsets in the input.
        outgoing: &'a [usize],
        /// Offsets in the output.
        incoming: &'a [usize],
    },
    /// Those of some ranks that follow each other, from `first`.
    Part {
        /// Those of all.
        of: &'a Context<'a>,
        /// The first of the ranks.
        first: usize,
    },
    /// Those of groups of ranks: group `i` has the ranks from `firsts[i]` to `firsts[i + 1]`.
    Groups {
        /// Those of all.
        of: &'a Context<'a>,
        /// Where the groups begin.
        firsts: &'a [usize],
    },
}

/// What may be tuned. Equal on all ranks; each algorithm's description says what it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// Children of a tree's node for each level, and one: 2 or more.
    pub radix: usize,
    /// Bytes of a pipeline's segment; an element at least.
    pub segment_bytes: usize,
    /// Rounds that a windowed algorithm has under way: 1 or more.
    pub window: usize,
    /// When messages may leave.
    pub mode: Mode,
}

impl Default for Parameters {
    /// A binary tree, segments of 64 KiB (a train of datagrams), four under way, nothing waits for
    /// its receiver.
    fn default() -> Self {
        Parameters {
            radix: 2,
            segment_bytes: 64 << 10,
            window: 4,
            mode: Mode::Eager,
        }
    }
}

/// The situation of a collective.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Number of ranks: 1 or more.
    pub size: usize,
    /// The root, where the collective has one; else 0.
    pub root: usize,
    /// How many elements.
    pub counts: Counts<'a>,
    /// Bytes of an element: 1 or more.
    pub element_bytes: usize,
    /// Whether the operation is commutative. Its order is that of the ranks otherwise.
    pub commutative: bool,
    /// Whether what a rank gives lies in its output already: allreduce, allgather, scan; at the root
    /// only: reduce and gather; a scatter leaves the root's part where it is.
    pub in_place: bool,
    /// Who shares a host, for the algorithms that care.
    pub hosts: Option<&'a Hosts>,
    /// What may be tuned.
    pub parameters: Parameters,
}

impl<'a> Context<'a> {
    /// Root 0, elements of one byte, a commutative operation, defaults.
    pub fn new(size: usize, counts: Counts<'a>) -> Self {
        Context {
            size,
            root: 0,
            counts,
            element_bytes: 1,
            commutative: true,
            in_place: false,
            hosts: None,
            parameters: Parameters::default(),
        }
    }

    /// Where rank `index`'s elements begin among those of all; `size` gives the end of all.
    pub fn offset(&self, index: usize) -> usize {
        match self.counts {
            Counts::Vector(len) => split(len, self.size, index),
            Counts::Each(len) => len * index,
            Counts::Offsets(offsets) => offsets[index],
            Counts::Own(len) => len * usize::from(index > 0),
            Counts::Pairs { incoming, .. } => incoming[index],
            Counts::Part { of, first } => of.offset(first + index) - of.offset(first),
            Counts::Groups { of, firsts } => of.offset(firsts[index]),
        }
    }

    /// The number of elements of all ranks together.
    pub fn total(&self) -> usize {
        self.offset(self.size)
    }

    /// How many elements `rank` has; another one may not know.
    pub(crate) fn own_len(&self, rank: usize) -> usize {
        match self.counts {
            Counts::Own(len) => len,
            _ => self.offset(rank + 1) - self.offset(rank),
        }
    }

    /// Rank `index`'s elements, in a buffer that holds those of all.
    pub(crate) fn block(&self, buffer: Buffer, index: usize) -> Span {
        self.blocks(buffer, index, index + 1)
    }

    /// The elements of ranks `from..to`, in a buffer that holds those of all.
    pub(crate) fn blocks(&self, buffer: Buffer, from: usize, to: usize) -> Span {
        let start = self.offset(from);
        Span::new(buffer, start, self.offset(to) - start)
    }

    /// What this rank sends to rank `to` in an all-to-all.
    pub(crate) fn outgoing(&self, to: usize) -> Span {
        match self.counts {
            Counts::Pairs { outgoing, .. } => {
                let start = outgoing[to];
                Span::new(Buffer::Input, start, outgoing[to + 1] - start)
            }
            _ => self.block(Buffer::Input, to),
        }
    }

    /// All elements of a vector, in a buffer.
    pub(crate) fn vector(&self, buffer: Buffer) -> Span {
        Span::new(buffer, 0, self.total())
    }

    /// Elements of a segment.
    pub(crate) fn segment_len(&self) -> usize {
        (self.parameters.segment_bytes / self.element_bytes).max(1)
    }

    /// Rounds under way.
    pub(crate) fn window(&self) -> usize {
        self.parameters.window.max(1)
    }

    /// Rank's number when the root is counted as 0.
    pub(crate) fn relative(&self, rank: usize) -> usize {
        (rank + self.size - self.root) % self.size
    }

    /// The rank with such a number.
    pub(crate) fn absolute(&self, relative: usize) -> usize {
        (relative + self.root) % self.size
    }

    /// Where a rank's contribution lies, for collectives in which all may have it in place.
    pub(crate) fn contribution(&self) -> Buffer {
        if self.in_place {
            Buffer::Output
        } else {
            Buffer::Input
        }
    }
}

/// Where part `index` of `len` elements in `parts` parts begins: the first `len % parts` parts have one
/// element more.
pub(crate) fn split(len: usize, parts: usize, index: usize) -> usize {
    index * (len / parts) + index.min(len % parts)
}
