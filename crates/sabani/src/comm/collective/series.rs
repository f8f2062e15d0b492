//! Collectives that follow each other: those that the program calls itself, and those of each part that
//! it has started.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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
    pub progress: Mutex<Progress>,
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
        }
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
