//! The set of packet numbers received: replay window and source of acknowledgements in one.

use crate::wire::{AckRange, Frame};

/// Most runs remembered. When more gaps than this are open, the lowest run is forgotten: what is
/// missing below it is refused from then on, and not reported, so that its data comes again under
/// new numbers.
const MAX_RUNS: usize = 64;

/// How a new packet number fits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The one after the largest so far.
    Next,
    /// Beyond a new gap.
    Gap,
    /// Into an old gap: it was late.
    Late,
}

/// Runs `[start, end)` of packet numbers received, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct PacketSet {
    /// Numbers below this are refused; which of them came may have been forgotten.
    floor: u64,
    runs: Vec<(u64, u64)>,
}

impl PacketSet {
    /// Whether the number was seen, or is too old to tell.
    #[inline]
    pub fn contains(&self, number: u64) -> bool {
        match self.runs.last() {
            Some(&(start, end)) if number >= start => number < end,
            None => false,
            Some(_) => number < self.floor || self.contains_below(number),
        }
    }

    fn contains_below(&self, number: u64) -> bool {
        let at = self.runs.partition_point(|&(start, _)| start <= number);
        at.checked_sub(1).is_some_and(|at| number < self.runs[at].1)
    }

    /// Adds a number that the set does not contain.
    #[inline]
    pub fn insert(&mut self, number: u64) -> Arrival {
        match self.runs.last_mut() {
            Some((_, end)) if number == *end => {
                *end += 1;
                Arrival::Next
            }
            Some((_, end)) if number < *end => {
                self.insert_below(number);
                Arrival::Late
            }
            last => {
                let in_order = last.is_none() && number == 0;
                self.push(number);
                if in_order {
                    Arrival::Next
                } else {
                    Arrival::Gap
                }
            }
        }
    }

    fn push(&mut self, number: u64) {
        self.runs.push((number, number + 1));
        self.forget_lowest();
    }

    /// Keeps the set small.
    fn forget_lowest(&mut self) {
        if self.runs.len() > MAX_RUNS {
            self.floor = self.runs.remove(0).1;
        }
    }

    fn insert_below(&mut self, number: u64) {
        let at = self.runs.partition_point(|&(_, end)| end < number);
        let (start, end) = &mut self.runs[at];
        if number == *end {
            *end += 1;
            let end = *end;
            if self.runs[at + 1].0 == end {
                self.runs[at].1 = self.runs[at + 1].1;
                self.runs.remove(at + 1);
            }
        } else if number + 1 == *start {
            *start = number;
        } else {
            self.runs.insert(at, (number, number + 1));
            self.forget_lowest();
        }
    }

    /// Everything below `floor` is settled at the sender: what is missing there never comes.
    pub fn settle_below(&mut self, floor: u64) {
        let Some(largest) = self.largest() else {
            return;
        };
        self.floor = self.floor.max(floor.min(largest));
        let settled = self.runs.partition_point(|&(_, end)| end <= self.floor);
        self.runs.drain(..settled);
    }

    /// Gives memory back that nothing needs while there are no gaps.
    pub fn shrink(&mut self) {
        self.runs.shrink_to_fit();
    }

    /// Largest number received.
    pub fn largest(&self) -> Option<u64> {
        self.runs.last().map(|&(_, end)| end - 1)
    }

    /// Length of the newest run, and the runs below it, newest first, as an acknowledgement
    /// lists them.
    pub fn report(&self) -> (u32, Vec<AckRange>) {
        let clip = |n: u64| n.min(u64::from(u32::MAX)) as u32;
        let mut newest_first = self.runs.iter().rev();
        let Some(&(mut above, end)) = newest_first.next() else {
            return (0, Vec::new());
        };
        let first = clip(end - above);
        let mut ranges = Vec::new();
        if end - above != u64::from(first) {
            return (first, ranges);
        }
        for &(start, end) in newest_first.take(Frame::MAX_ACK_RANGES) {
            let range = AckRange {
                gap: clip(above - end),
                len: clip(end - start),
            };
            // What a range can't say in 32 bits is left out, with all below it.
            if u64::from(range.gap) + u64::from(range.len) != above - start {
                break;
            }
            ranges.push(range);
            above = start;
        }
        (first, ranges)
    }
}
