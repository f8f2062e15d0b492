//! Entries that stay where they are, and queues of them from which each can be removed anywhere.

use super::steps::step;

/// Where an entry lies. Reused after the entry is gone.
pub(super) type Slot = u32;

/// Stands for "no slot" in links.
pub(super) const NONE: Slot = Slot::MAX;

/// More slots than these are given back when all are free, so that a node which once had a large
/// backlog does not keep its memory. Up to here, some 200 KiB, growing again would cost more than
/// the memory is worth.
const KEPT: usize = 4096;

/// Keeps slots clear of [`NONE`], and the index's tables within 2³² cells.
const MOST: usize = 1 << 31;

/// Names one entry for good: stamps are never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Handle {
    slot: Slot,
    stamp: u64,
}

struct Held<T> {
    /// Ascends in the order of coming; 0 while the slot is free.
    stamp: u64,
    older: Slot,
    /// While the slot is free: the next free one.
    younger: Slot,
    value: Option<T>,
}

/// Entries, each with a stamp and with links to its neighbours in the queue that it is in.
pub(super) struct Slots<T> {
    held: Vec<Held<T>>,
    free: Slot,
    len: usize,
    next_stamp: u64,
}

impl<T> Slots<T> {
    pub fn new() -> Self {
        Slots {
            held: Vec::new(),
            free: NONE,
            len: 0,
            next_stamp: 1,
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many slots there are, in use or free; every slot is below this.
    pub fn slots(&self) -> usize {
        self.held.len()
    }

    /// The memory that the slots take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        size_of_val(self.held.as_slice())
    }

    /// Adds an entry, which is in no queue yet.
    #[inline]
    pub fn insert(&mut self, value: T) -> Slot {
        let held = Held {
            stamp: self.pass(),
            older: NONE,
            younger: NONE,
            value: Some(value),
        };
        self.len += 1;
        let slot = self.free;
        match self.held.get_mut(slot as usize) {
            Some(place) => {
                self.free = place.younger;
                *place = held;
                slot
            }
            None => self.push_slot(held),
        }
    }

    fn push_slot(&mut self, held: Held<T>) -> Slot {
        assert!(self.held.len() < MOST, "too many entries are waiting");
        self.held.push(held);
        (self.held.len() - 1) as Slot
    }

    /// Takes away the entry in `slot`, which must be in use and in no queue any more.
    #[inline]
    pub fn take(&mut self, slot: Slot) -> T {
        let held = &mut self.held[slot as usize];
        let value = held.value.take().expect("slot in use");
        held.stamp = 0;
        held.younger = self.free;
        self.free = slot;
        self.len -= 1;
        value
    }

    /// Gives back the memory of slots that were many and are all free; whether it did.
    #[inline]
    pub fn shrink_if_drained(&mut self) -> bool {
        let shrink = self.len == 0 && self.held.len() > KEPT;
        if shrink {
            self.held = Vec::new();
            self.free = NONE;
        }
        shrink
    }

    /// Names the entry in `slot` for good.
    #[inline]
    pub fn handle(&self, slot: Slot) -> Handle {
        Handle {
            slot,
            stamp: self.stamp(slot),
        }
    }

    /// Where the entry is, if it is still here.
    #[inline]
    pub fn locate(&self, handle: Handle) -> Option<Slot> {
        let held = self.held.get(handle.slot as usize)?;
        (held.stamp == handle.stamp).then_some(handle.slot)
    }

    /// The entry in `slot`, which must be in use.
    #[inline]
    pub fn get(&self, slot: Slot) -> &T {
        let value = &self.held[slot as usize].value;
        value.as_ref().expect("slot in use")
    }

    /// The entry in `slot`, which must be in use.
    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> &mut T {
        let value = &mut self.held[slot as usize].value;
        value.as_mut().expect("slot in use")
    }

    /// When the entry in `slot` came, in comparison with others.
    #[inline]
    pub fn stamp(&self, slot: Slot) -> u64 {
        self.held[slot as usize].stamp
    }

    /// Uses up a stamp, for something that passes without being kept.
    #[inline]
    pub fn pass(&mut self) -> u64 {
        self.next_stamp += 1;
        self.next_stamp - 1
    }

    /// The entry behind the one in `slot`, in its queue.
    #[inline]
    pub fn younger(&self, slot: Slot) -> Option<Slot> {
        some(self.held[slot as usize].younger)
    }

    /// The entry before the one in `slot`, in its queue.
    #[inline]
    pub fn older(&self, slot: Slot) -> Option<Slot> {
        some(self.held[slot as usize].older)
    }
}

/// A doubly linked list through some of the [`Slots`]. All operations but [`find`](Queue::find) are O(1).
pub(super) struct Queue {
    oldest: Slot,
    youngest: Slot,
}

impl Queue {
    pub fn new() -> Self {
        Queue {
            oldest: NONE,
            youngest: NONE,
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.oldest == NONE
    }

    /// The first entry.
    #[inline]
    pub fn oldest(&self) -> Option<Slot> {
        some(self.oldest)
    }

    /// Appends an entry that is in no queue.
    #[inline]
    pub fn push<T>(&mut self, slots: &mut Slots<T>, slot: Slot) {
        let held = &mut slots.held[slot as usize];
        (held.older, held.younger) = (self.youngest, NONE);
        match self.youngest {
            NONE => self.oldest = slot,
            youngest => slots.held[youngest as usize].younger = slot,
        }
        self.youngest = slot;
    }

    /// Takes out an entry that is in this queue.
    #[inline]
    pub fn remove<T>(&mut self, slots: &mut Slots<T>, slot: Slot) {
        let held = &slots.held[slot as usize];
        let (older, younger) = (held.older, held.younger);
        match older {
            NONE => self.oldest = younger,
            older => slots.held[older as usize].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => slots.held[younger as usize].older = older,
        }
    }

    /// The oldest entry for which `matches` holds, by a scan.
    #[inline]
    pub fn find<T>(&self, slots: &Slots<T>, matches: impl Fn(&T) -> bool) -> Option<Slot> {
        let mut next = self.oldest();
        while let Some(slot) = next {
            step();
            if matches(slots.get(slot)) {
                break;
            }
            next = slots.younger(slot);
        }
        next
    }
}

/// A link as an option.
#[inline]
pub(super) fn some(slot: Slot) -> Option<Slot> {
    (slot != NONE).then_some(slot)
}
