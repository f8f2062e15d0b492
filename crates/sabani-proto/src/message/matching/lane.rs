//! Waiting messages in one order, and the indexes through which a receive finds its own.

use super::index::Index;
use super::key::Key;
use super::queue::{Queue, Slot, Slots};
use super::{Arrived, Match};
use crate::PeerId;

/// A queue of waiting messages.
pub(super) struct Lane<A> {
    queue: Queue,
    by_pair: Index<Arrived<A>>,
    by_source: Index<Arrived<A>>,
    by_tag: Index<Arrived<A>>,
}

impl<A> Lane<A> {
    pub fn new(seed: u64) -> Self {
        Lane {
            queue: Queue::new(),
            by_pair: Index::new(seed, |entry| Key::Pair(entry.source, entry.tag)),
            by_source: Index::new(seed, |entry| Key::Source(entry.source)),
            by_tag: Index::new(seed, |entry| Key::Tag(entry.tag)),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The first message.
    pub fn oldest(&self) -> Option<Slot> {
        self.queue.oldest()
    }

    /// The first message that matches.
    #[inline]
    pub fn find(&mut self, slots: &Slots<Arrived<A>>, pattern: &Match) -> Option<Slot> {
        if self.is_empty() {
            return None;
        }
        let matches = |message: &Arrived<A>| pattern.matches(message.source, message.tag);
        let key = pattern.key();
        let index = match key {
            Key::Pair(..) => &mut self.by_pair,
            Key::Source(_) => &mut self.by_source,
            Key::Tag(_) => &mut self.by_tag,
            Key::Rest => return self.queue.find(slots, matches),
        };
        index.oldest(slots, &self.queue, [key], matches)
    }

    /// The first message for which `matches` holds, by a scan.
    pub fn scan(
        &self,
        slots: &Slots<Arrived<A>>,
        matches: impl Fn(&Arrived<A>) -> bool,
    ) -> Option<Slot> {
        self.queue.find(slots, matches)
    }

    /// The first message of this peer.
    #[inline]
    pub fn first_of(&mut self, slots: &Slots<Arrived<A>>, source: PeerId) -> Option<Slot> {
        self.find(slots, &Match::any().from(source))
    }

    /// Appends a message that is in no lane.
    #[inline]
    pub fn push(&mut self, slots: &mut Slots<Arrived<A>>, slot: Slot) {
        self.queue.push(slots, slot);
    }

    /// Takes a message out that is in this lane.
    #[inline]
    pub fn remove(&mut self, slots: &mut Slots<Arrived<A>>, slot: Slot) {
        for index in [&mut self.by_pair, &mut self.by_source, &mut self.by_tag] {
            index.forget(slots, slot);
        }
        self.queue.remove(slots, slot);
    }

    /// Gives all memory back. The lane must be empty.
    #[cold]
    pub fn clear(&mut self) {
        self.by_pair.clear();
        self.by_source.clear();
        self.by_tag.clear();
    }

    /// The memory that the indexes take: by source and tag, by source, by tag.
    #[cfg(test)]
    pub fn bytes(&self) -> [usize; 3] {
        [
            self.by_pair.bytes(),
            self.by_source.bytes(),
            self.by_tag.bytes(),
        ]
    }
}
