//! Finds the oldest entry of a queue that matches, without looking at those with other keys.

use super::key::{Key, KeyHash};
use super::queue::{NONE, Queue, Slot, Slots, some};
use super::steps::step;
use super::table::Table;

/// How many entries at the front are tried before the rest is indexed. Trying one takes two
/// or three nanoseconds, indexing one and forgetting it again fifty to a hundred.
const TRIED: usize = 16;

/// An entry's neighbours among the entries with the same key.
#[derive(Clone, Copy)]
struct Link {
    /// The oldest one's is the youngest, so that both ends of a chain can be reached from its one
    /// table cell. [`NONE`]: not indexed.
    older: Slot,
    /// The youngest one's is [`NONE`].
    younger: Slot,
}

const UNLINKED: Link = Link {
    older: NONE,
    younger: NONE,
};

/// For each key the chain of its entries, from oldest to youngest.
///
/// The index lags behind its queue: it covers the entries up to `last`, none after it. So whatever
/// matches among the indexed ones is older than anything that matches among the others, and
/// entries that come and go quickly are never indexed at all.
pub(super) struct Index<T> {
    key_of: fn(&T) -> Key,
    hash: KeyHash,
    /// The oldest entry of each chain.
    table: Table,
    /// By slot; may be shorter than the queue's slots.
    links: Vec<Link>,
    /// The youngest indexed entry, or [`NONE`].
    last: Slot,
    /// How many chains there are with each kind of key.
    chains: [u32; Key::KINDS],
}

impl<T> Index<T> {
    pub fn new(seed: u64, key_of: fn(&T) -> Key) -> Self {
        Index {
            key_of,
            hash: KeyHash::new(seed),
            table: Table::new(),
            links: Vec::new(),
            last: NONE,
            chains: [0; Key::KINDS],
        }
    }

    /// The oldest entry of `queue` for which `matches` holds, which must imply one of `keys`.
    #[inline]
    pub fn oldest<const N: usize>(
        &mut self,
        slots: &Slots<T>,
        queue: &Queue,
        keys: [Key; N],
        matches: impl Fn(&T) -> bool,
    ) -> Option<Slot> {
        let indexed = self.oldest_indexed(slots, &keys, &matches);
        if indexed.is_some() {
            return indexed;
        }
        let mut next = self.first_unindexed(slots, queue);
        for _ in 0..TRIED {
            let slot = next?;
            step();
            if matches(slots.get(slot)) {
                return next;
            }
            next = slots.younger(slot);
        }
        next?;
        self.catch_up(slots, queue);
        self.oldest_indexed(slots, &keys, &matches)
    }

    /// Takes the entry in `slot` out, if it is in; to be called before the queue removes it.
    #[inline]
    pub fn forget(&mut self, slots: &Slots<T>, slot: Slot) {
        if self.last != NONE {
            self.unlink(slots, slot);
        }
    }

    /// The memory that the index takes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        size_of_val(self.links.as_slice()) + self.table.bytes()
    }

    /// Gives all memory back. The queue must be empty.
    #[cold]
    pub fn clear(&mut self) {
        *self = Index {
            hash: self.hash,
            ..Index::new(0, self.key_of)
        };
    }

    #[inline]
    fn oldest_indexed<const N: usize>(
        &self,
        slots: &Slots<T>,
        keys: &[Key; N],
        matches: &impl Fn(&T) -> bool,
    ) -> Option<Slot> {
        if self.last == NONE {
            return None;
        }
        let mut best = None;
        let mut best_stamp = u64::MAX;
        for key in keys {
            let mut next = self.chain(slots, key);
            while let Some(slot) = next.filter(|&slot| slots.stamp(slot) < best_stamp) {
                step();
                if matches(slots.get(slot)) {
                    best = next;
                    best_stamp = slots.stamp(slot);
                    break;
                }
                next = some(self.links[slot as usize].younger);
            }
        }
        best
    }

    /// The oldest indexed entry with this key.
    fn chain(&self, slots: &Slots<T>, key: &Key) -> Option<Slot> {
        if self.chains[key.kind()] == 0 {
            return None;
        }
        let equal = |slot| (self.key_of)(slots.get(slot)) == *key;
        let place = self.table.find(self.hash.of(key), equal)?;
        Some(self.table.get(place))
    }

    #[inline]
    fn first_unindexed(&self, slots: &Slots<T>, queue: &Queue) -> Option<Slot> {
        match self.last {
            NONE => queue.oldest(),
            last => slots.younger(last),
        }
    }

    /// Indexes all entries of the queue that are not yet.
    #[cold]
    fn catch_up(&mut self, slots: &Slots<T>, queue: &Queue) {
        if self.links.len() < slots.slots() {
            self.links.resize(slots.slots(), UNLINKED);
        }
        while let Some(slot) = self.first_unindexed(slots, queue) {
            step();
            self.link(slots, slot);
            self.last = slot;
        }
    }

    /// Appends to the chain of its key.
    fn link(&mut self, slots: &Slots<T>, slot: Slot) {
        let key = (self.key_of)(slots.get(slot));
        let equal = |other| (self.key_of)(slots.get(other)) == key;
        let older = match self.table.find_or_insert(self.hash.of(&key), slot, equal) {
            Some(oldest) => {
                let youngest = self.link_of(oldest).older;
                self.link_of(oldest).older = slot;
                self.link_of(youngest).younger = slot;
                youngest
            }
            None => {
                self.chains[key.kind()] += 1;
                slot
            }
        };
        *self.link_of(slot) = Link {
            older,
            younger: NONE,
        };
    }

    /// Takes out of the chain of its key, if it is in one.
    fn unlink(&mut self, slots: &Slots<T>, slot: Slot) {
        let Some(link) = self.links.get_mut(slot as usize) else {
            return;
        };
        let Link { older, younger } = std::mem::replace(link, UNLINKED);
        if older == NONE {
            return;
        }
        if slot == self.last {
            self.last = slots.older(slot).unwrap_or(NONE);
        }
        let oldest = older == slot || self.link_of(older).younger == NONE;
        if oldest {
            self.unlink_oldest(slots, slot, older, younger);
        } else {
            self.unlink_other(slots, slot, older, younger);
        }
    }

    /// Takes the oldest of a chain out, and the chain with it if it was the only one.
    fn unlink_oldest(&mut self, slots: &Slots<T>, slot: Slot, youngest: Slot, younger: Slot) {
        let key = (self.key_of)(slots.get(slot));
        let place = self.table.find(self.hash.of(&key), |other| other == slot);
        let place = place.expect("the oldest of a chain is in the table");
        if younger == NONE {
            self.table.remove(place);
            self.chains[key.kind()] -= 1;
        } else {
            self.table.set(place, younger);
            self.link_of(younger).older = youngest;
        }
    }

    /// Takes an entry out that is not the oldest of its chain.
    fn unlink_other(&mut self, slots: &Slots<T>, slot: Slot, older: Slot, younger: Slot) {
        self.link_of(older).younger = younger;
        let successor = if younger == NONE {
            let key = (self.key_of)(slots.get(slot));
            let oldest = self.chain(slots, &key);
            oldest.expect("a chain has an oldest entry")
        } else {
            younger
        };
        self.link_of(successor).older = older;
    }

    #[inline]
    fn link_of(&mut self, slot: Slot) -> &mut Link {
        &mut self.links[slot as usize]
    }
}
