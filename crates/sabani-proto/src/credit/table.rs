//! The peers that hold credit, want some, or were steered: a slab, found by the peer's index.

use std::ops::{Index, IndexMut};

use super::share::Share;

const NONE: u32 = u32::MAX;

/// Slots of shares. Four bytes for a peer without one.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<u32>,
    shares: Vec<Option<Share>>,
    free: Vec<u32>,
}

impl Table {
    #[inline]
    pub fn find(&self, peer: u32) -> Option<u32> {
        let slot = *self.slots.get(peer as usize)?;
        (slot != NONE).then_some(slot)
    }

    /// The peer's slot, made if it has none.
    #[inline]
    pub fn slot(&mut self, peer: u32, now_ns: u64) -> u32 {
        match self.find(peer) {
            Some(slot) => slot,
            None => self.insert(peer, now_ns),
        }
    }

    fn insert(&mut self, peer: u32, now_ns: u64) -> u32 {
        let at = peer as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, NONE);
        }
        let share = Some(Share::new(peer, now_ns));
        let slot = if let Some(slot) = self.free.pop() {
            self.shares[slot as usize] = share;
            slot
        } else {
            self.shares.push(share);
            self.shares.len() as u32 - 1
        };
        self.slots[at] = slot;
        slot
    }

    pub fn remove(&mut self, slot: u32) {
        if let Some(share) = self.shares[slot as usize].take() {
            self.slots[share.peer as usize] = NONE;
            self.free.push(slot);
        }
    }

    /// Slots in use, and free ones below the last.
    pub fn end(&self) -> u32 {
        self.shares.len() as u32
    }

    pub fn get(&self, slot: u32) -> Option<&Share> {
        self.shares[slot as usize].as_ref()
    }

    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Share> {
        self.shares[slot as usize].as_mut()
    }
}

impl Index<u32> for Table {
    type Output = Share;

    #[inline]
    fn index(&self, slot: u32) -> &Share {
        self.get(slot).expect("a slot in use")
    }
}

impl IndexMut<u32> for Table {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Share {
        self.get_mut(slot).expect("a slot in use")
    }
}
