//! What happens when.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Things ordered by time; those of the same time in the order in which they were put in.
pub struct Agenda<T> {
    entries: BinaryHeap<Reverse<Entry<T>>>,
    next: u64,
}

struct Entry<T> {
    at_ns: f64,
    number: u64,
    what: T,
}

impl<T> Agenda<T> {
    /// Nothing is to happen.
    pub fn new() -> Self {
        Agenda {
            entries: BinaryHeap::new(),
            next: 0,
        }
    }

    /// Adds something.
    pub fn push(&mut self, at_ns: f64, what: T) {
        let number = self.next;
        self.next += 1;
        self.entries.push(Reverse(Entry {
            at_ns,
            number,
            what,
        }));
    }

    /// When the next thing happens; infinite if nothing does.
    pub fn next_ns(&self) -> f64 {
        let first = self.entries.peek();
        first.map_or(f64::INFINITY, |Reverse(entry)| entry.at_ns)
    }

    /// Takes the next thing that happens no later than this.
    pub fn pop(&mut self, until_ns: f64) -> Option<T> {
        let due = self.next_ns() <= until_ns;
        let Reverse(entry) = due.then(|| self.entries.pop()).flatten()?;
        Some(entry.what)
    }

    /// Puts other things in place of all.
    pub fn replace(&mut self, entries: impl Iterator<Item = (f64, T)>) {
        let mut old = std::mem::take(&mut self.entries).into_vec();
        old.clear();
        let next = &mut self.next;
        old.extend(entries.map(|(at_ns, what)| {
            *next += 1;
            Reverse(Entry {
                at_ns,
                number: *next,
                what,
            })
        }));
        self.next += 1;
        self.entries = BinaryHeap::from(old);
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let times = self.at_ns.total_cmp(&other.at_ns);
        times.then(self.number.cmp(&other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_early_comes_first_and_equals_in_order() {
        let mut agenda = Agenda::new();
        for (at_ns, what) in [(2.0, 'c'), (1.0, 'a'), (2.0, 'd'), (1.5, 'b'), (9.0, 'e')] {
            agenda.push(at_ns, what);
        }
        let taken: String = std::iter::from_fn(|| agenda.pop(2.0)).collect();
        assert_eq!(taken, "abcd");
        agenda.replace([(7.0, 'y'), (6.0, 'x')].into_iter());
        assert_eq!(agenda.next_ns(), 6.0);
        let taken: String = std::iter::from_fn(|| agenda.pop(10.0)).collect();
        assert_eq!(taken, "xy");
    }
}
