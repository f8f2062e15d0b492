//! What is to happen, in order of time, and of scheduling where times are equal.

use std::collections::VecDeque;

/// A radix heap: a queue for times that never go back behind what has been taken out. An entry
/// lies in the bucket of the highest bit in which its time differs from the present; it moves to
/// lower ones as the present comes nearer, a few times in its life and always together with its
/// neighbours in memory. Entries of equal time stay in the order in which they came.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    /// The time of what was taken out last.
    present_ns: u64,
    due: VecDeque<T>,
    buckets: Vec<Vec<(u64, T)>>,
    /// The earliest time in each bucket.
    earliest: [u64; BUCKETS],
    /// One bit for each bucket that is not empty.
    filled: u64,
}

const BUCKETS: usize = u64::BITS as usize;

impl<T> Agenda<T> {
    /// Nothing to do.
    pub fn new() -> Self {
        Agenda {
            present_ns: 0,
            due: VecDeque::new(),
            buckets: (0..BUCKETS).map(|_| Vec::new()).collect(),
            earliest: [u64::MAX; BUCKETS],
            filled: 0,
        }
    }

    /// Adds an entry, not earlier than what was taken out last.
    #[inline]
    pub fn push(&mut self, at_ns: u64, entry: T) {
        debug_assert!(at_ns >= self.present_ns, "time never goes back");
        if at_ns <= self.present_ns {
            return self.due.push_back(entry);
        }
        let bucket = (at_ns ^ self.present_ns).ilog2() as usize;
        self.earliest[bucket] = self.earliest[bucket].min(at_ns);
        self.filled |= 1 << bucket;
        self.buckets[bucket].push((at_ns, entry));
    }

    /// Takes out the next entry, if its time is not after `until_ns`.
    #[inline]
    pub fn pop_until(&mut self, until_ns: u64) -> Option<(u64, T)> {
        if self.due.is_empty() {
            self.advance(until_ns);
        }
        if self.present_ns > until_ns {
            return None;
        }
        let entry = self.due.pop_front()?;
        Some((self.present_ns, entry))
    }

    /// When the next entry is due; never, if there is none.
    pub fn next_ns(&self) -> u64 {
        match (self.due.is_empty(), self.filled) {
            (false, _) => self.present_ns,
            (true, 0) => u64::MAX,
            (true, filled) => self.earliest[filled.trailing_zeros() as usize],
        }
    }

    /// Moves the present to the time of the next entry, unless that is after `until_ns`.
    fn advance(&mut self, until_ns: u64) {
        if self.filled == 0 {
            return;
        }
        let nearest = self.filled.trailing_zeros() as usize;
        if self.earliest[nearest] > until_ns {
            return;
        }
        self.present_ns = self.earliest[nearest];
        self.earliest[nearest] = u64::MAX;
        self.filled &= !(1 << nearest);
        let mut entries = std::mem::take(&mut self.buckets[nearest]);
        for (at_ns, entry) in entries.drain(..) {
            self.push(at_ns, entry);
        }
        // Its memory stays for the next ones.
        self.buckets[nearest] = entries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn entries_come_in_order_of_time_and_then_of_scheduling() {
        let mut rng = Rng::new(1);
        let (mut agenda, mut pushed, mut popped) = (Agenda::new(), Vec::new(), Vec::new());
        let mut now_ns = 0;
        for number in 0..20_000u64 {
            let reach = 1 << rng.below(30);
            let at_ns = now_ns + rng.below(reach);
            agenda.push(at_ns, number);
            pushed.push((at_ns, number));
            if rng.chance(0.4)
                && let Some((at_ns, number)) = agenda.pop_until(u64::MAX)
            {
                now_ns = at_ns;
                popped.push((at_ns, number));
            }
        }
        popped.extend(std::iter::from_fn(|| agenda.pop_until(u64::MAX)));
        pushed.sort_unstable();
        assert_eq!(popped, pushed);
    }

    #[test]
    fn what_is_later_stays_and_earlier_entries_may_still_come() {
        let mut agenda = Agenda::new();
        agenda.push(1_000, 'b');
        assert_eq!(agenda.pop_until(999), None);
        assert_eq!(agenda.next_ns(), 1_000);
        agenda.push(999, 'a');
        assert_eq!(agenda.next_ns(), 999);
        assert_eq!(agenda.pop_until(1_000), Some((999, 'a')));
        assert_eq!(agenda.pop_until(998), None);
        assert_eq!(agenda.pop_until(1_000), Some((1_000, 'b')));
        assert_eq!(agenda.pop_until(u64::MAX), None);
        assert_eq!(agenda.next_ns(), u64::MAX);
    }
}
