//! Collectives that follow each other: those that the program calls itself, and those of each part that
//! it has started.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use sabani_collective::execute::Fingerprint;

use super::chooser::Chooser;
use crate::comm::locked;
use crate::{Message, Sent};

/// So many collectives that are over are remembered, for peers that still wait in one of them.
pub const REMEMBERED: usize = 64;

/// A row of collectives of a communicator. Those of different rows don't meet.
pub struct Series {
    /// In the tags of its messages: 0 is the program's own.
    pub number: u32,
    /// What decides which algorithms are used.
    pub chooser: Mutex<Chooser>,
    /// The program waits for it, and does nothing else until it is over.
    awaited: AtomicBool,
    /// Held by whoever is in a collective of the row.
    progress: Mutex<Progress>,
    /// Who that is.
    inside: Mutex<Option<ThreadId>>,
}

/// A row, for as long as a thread is in a collective of it.
pub struct Entered<'s> {
    progress: MutexGuard<'s, Progress>,
    series: &'s Series,
}

impl Deref for Entered<'_> {
    type Target = Progress;

    fn deref(&self) -> &Progress {
        &self.progress
    }
}

impl DerefMut for Entered<'_> {
    fn deref_mut(&mut self) -> &mut Progress {
        &mut self.progress
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // Before others can enter.
        *locked(&self.series.inside) = None;
    }
}

/// How far a row has come.
#[derive(Default)]
pub struct Progress {
    /// The number of the next collective.
    sequence: u32,
    /// Messages whose turn has not come.
    pub early: VecDeque<Message>,
    /// Where short messages are put together.
    pub buffer: Vec<u8>,
    /// To whom something was sent, and what of it is long and may not have left yet.
    pub receivers: BTreeMap<usize, Vec<Sent>>,
    /// The last ones that are over, in order.
    past: VecDeque<Fingerprint>,
}

impl Series {
    pub fn new(number: u32, chooser: Chooser) -> Self {
        Series {
            number,
            chooser: Mutex::new(chooser),
            awaited: AtomicBool::new(number == 0),
            progress: Mutex::default(),
            inside: Mutex::default(),
        }
    }

    /// Enters a collective, once no other thread is in one. `None` if this thread is: it would wait for itself.
    pub fn enter(&self) -> Option<Entered<'_>> {
        let me = Some(thread::current().id());
        if *locked(&self.inside) == me {
            return None;
        }
        let progress = locked(&self.progress);
        *locked(&self.inside) = me;
        Some(Entered {
            progress,
            series: self,
        })
    }

    /// The program waits for it from now on.
    pub fn await_it(&self) {
        self.awaited.store(true, Relaxed);
    }

    /// Whether the program waits for it: else it may still do what a receive waits for.
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Relaxed)
    }

    /// What decides now.
    pub fn chooser(&self) -> Chooser {
        locked(&self.chooser).clone()
    }
}

impl Progress {
    /// Numbers the next collective.
    pub fn next_sequence(&mut self) -> u32 {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        sequence
    }

    /// A collective is over.
    pub fn leave(&mut self, fingerprint: Fingerprint) {
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(fingerprint);
    }

    /// What a collective was that is over, if it is remembered.
    pub fn left(&self, sequence: u32) -> Option<Fingerprint> {
        let mut past = self.past.iter().rev();
        past.find(|past| past.sequence == sequence).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_in_a_collective_enters_no_other_and_other_threads_wait() {
        let series = Series::new(0, Chooser::default());
        let mut entered = series.enter().unwrap();
        assert!(series.enter().is_none());
        thread::scope(|scope| {
            let other = scope.spawn(|| series.enter().unwrap().next_sequence());
            entered.next_sequence();
            drop(entered);
            assert_eq!(other.join().unwrap(), 1);
        });
        assert_eq!(series.enter().unwrap().next_sequence(), 2);
    }
}
