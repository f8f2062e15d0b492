//! A queue in order of age whose entries stay where they are and can be removed anywhere.

use super::steps::step;

/// Where an entry lies. Reused after the entry is gone.
pub(super) type Slot = u32;

/// Stands for "no slot" in links.
pub(super) const NONE: Slot = Slot::MAX;

/// More slots than these are given back when the queue is empty, so that a node which once had a large
/// backlog does not keep its memory. Up to here, some 200 KiB, growing again would cost more than
/// the memory is worth.
const KEPT: usize = 4096;

/// Keeps slots clear of [`NONE`], and the index's tables within 2³² cells.
const MOST: usize = 1 << 31;

/// Names one entry for good: stamps are never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// A doubly linked list in one block of memory. All operations but [`find`](Queue::find) are O(1).
pub(super) struct Queue<T> {
    slots: Vec<Held<T>>,
    oldest: Slot,
    youngest: Slot,
    free: Slot,
    len: usize,
    next_stamp: u64,
}

impl<T> Queue<T> {
    pub fn new() -> Self {
        Queue {
            slots: Vec::new(),
            oldest: NONE,
            youngest: NONE,
            free: NONE,
            len: 0,
            next_stamp: 1,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many slots there are, in use or free; every slot is below this.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The memory that the slots take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        size_of_val(self.slots.as_slice())
    }

    /// Appends the youngest entry.
    #[inline]
    pub fn push(&mut self, value: T) -> Handle {
        let held = Held {
            stamp: self.next_stamp,
            older: self.youngest,
            younger: NONE,
            value: Some(value),
        };
        let slot = self.free;
        let slot = match self.slots.get_mut(slot as usize) {
            Some(place) => {
                self.free = place.younger;
                *place = held;
                slot
            }
            None => self.push_slot(held),
        };
        match self.youngest {
            NONE => self.oldest = slot,
            youngest => self.slots[youngest as usize].younger = slot,
        }
        self.youngest = slot;
        self.len += 1;
        self.next_stamp += 1;
        Handle {
            slot,
            stamp: self.next_stamp - 1,
        }
    }

    fn push_slot(&mut self, held: Held<T>) -> Slot {
        assert!(self.slots.len() < MOST, "too many entries are waiting");
        self.slots.push(held);
        (self.slots.len() - 1) as Slot
    }

    /// Takes away the entry in `slot`, which must be in use.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> T {
        let held = &mut self.slots[slot as usize];
        let value = held.value.take().expect("slot in use");
        let (older, younger) = (held.older, held.younger);
        held.stamp = 0;
        held.younger = self.free;
        self.free = slot;
        self.len -= 1;
        match older {
            NONE => self.oldest = younger,
            older => self.slots[older as usize].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => self.slots[younger as usize].older = older,
        }
        value
    }

    /// Gives back the memory of a queue that is empty after having been large; whether it did.
    #[inline]
    pub fn shrink_if_drained(&mut self) -> bool {
        let shrink = self.len == 0 && self.slots.len() > KEPT;
        if shrink {
            self.slots = Vec::new();
            self.free = NONE;
        }
        shrink
    }

    /// Where the entry is, if it is still here.
    #[inline]
    pub fn locate(&self, handle: Handle) -> Option<Slot> {
        let held = self.slots.get(handle.slot as usize)?;
        (held.stamp == handle.stamp).then_some(handle.slot)
    }

    /// The entry in `slot`, which must be in use.
    #[inline]
    pub fn get(&self, slot: Slot) -> &T {
        let value = &self.slots[slot as usize].value;
        value.as_ref().expect("slot in use")
    }

    /// The entry in `slot`, which must be in use.
    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> &mut T {
        let value = &mut self.slots[slot as usize].value;
        value.as_mut().expect("slot in use")
    }

    /// When the entry in `slot` came, in comparison with others.
    #[inline]
    pub fn stamp(&self, slot: Slot) -> u64 {
        self.slots[slot as usize].stamp
    }

    /// Uses up a stamp, for something that passes without being queued.
    #[inline]
    pub fn pass(&mut self) -> u64 {
        self.next_stamp += 1;
        self.next_stamp - 1
    }

    #[inline]
    pub fn oldest(&self) -> Option<Slot> {
        some(self.oldest)
    }

    /// The entry that came next after the one in `slot`.
    #[inline]
    pub fn younger(&self, slot: Slot) -> Option<Slot> {
        some(self.slots[slot as usize].younger)
    }

    /// The entry that came just before the one in `slot`.
    #[inline]
    pub fn older(&self, slot: Slot) -> Option<Slot> {
        some(self.slots[slot as usize].older)
    }

    /// The oldest entry for which `matches` holds, by a scan.
    #[inline]
    pub fn find(&self, matches: impl Fn(&T) -> bool) -> Option<Slot> {
        let mut next = self.oldest();
        while let Some(slot) = next {
            step();
            if matches(self.get(slot)) {
                break;
            }
            next = self.younger(slot);
        }
        next
    }
}

/// A link as an option.
#[inline]
pub(super) fn some(slot: Slot) -> Option<Slot> {
    (slot != NONE).then_some(slot)
}
