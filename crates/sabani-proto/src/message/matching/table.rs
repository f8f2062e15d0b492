//! A hash table of slots that leaves the keys where they are.

use super::queue::{NONE, Slot};
use super::steps::step;

/// Cells of the smallest table, a power of two.
const FEWEST: usize = 32;

#[derive(Clone, Copy)]
struct Cell {
    slot: Slot,
    /// Kept so that growing and removing need not look at the keys, and most wrong keys are never
    /// looked at either.
    hash: u32,
}

const FREE: Cell = Cell {
    slot: NONE,
    hash: 0,
};

/// Open addressing with linear probing, at most four fifths full; removal shifts cells back, so
/// nothing is left behind that would slow later look-ups down.
pub(super) struct Table {
    /// Empty, or a power of two of them.
    cells: Vec<Cell>,
    len: usize,
}

impl Table {
    pub fn new() -> Self {
        Table {
            cells: Vec::new(),
            len: 0,
        }
    }

    /// The memory that the cells take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        size_of_val(self.cells.as_slice())
    }

    /// The place of the slot with this hash for which `equal` holds; places are valid until the next
    /// insertion or removal.
    #[inline]
    pub fn find(&self, hash: u32, equal: impl Fn(Slot) -> bool) -> Option<usize> {
        if self.cells.is_empty() {
            return None;
        }
        let place = self.probe(hash, equal);
        (self.cells[place].slot != NONE).then_some(place)
    }

    /// The slot with this hash for which `equal` holds; if there is none, `slot` is inserted.
    #[inline]
    pub fn find_or_insert(
        &mut self,
        hash: u32,
        slot: Slot,
        equal: impl Fn(Slot) -> bool,
    ) -> Option<Slot> {
        if (self.len + 1) * 5 > self.cells.len() * 4 {
            self.grow();
        }
        let place = self.probe(hash, equal);
        let found = self.cells[place].slot;
        if found != NONE {
            return Some(found);
        }
        self.cells[place] = Cell { slot, hash };
        self.len += 1;
        None
    }

    #[inline]
    pub fn get(&self, place: usize) -> Slot {
        self.cells[place].slot
    }

    /// Puts another slot with the same key in the place of one.
    #[inline]
    pub fn set(&mut self, place: usize, slot: Slot) {
        self.cells[place].slot = slot;
    }

    /// Empties a place.
    pub fn remove(&mut self, place: usize) {
        let mut hole = place;
        let mut place = self.after(place);
        while self.cells[place].slot != NONE {
            step();
            let cell = self.cells[place];
            if self.distance(self.home(cell.hash), place) >= self.distance(hole, place) {
                self.cells[hole] = cell;
                hole = place;
            }
            place = self.after(place);
        }
        self.cells[hole] = FREE;
        self.len -= 1;
    }

    /// The place of the slot with this hash for which `equal` holds, else the free place for it. There
    /// must be cells.
    #[inline]
    fn probe(&self, hash: u32, equal: impl Fn(Slot) -> bool) -> usize {
        let mut place = self.home(hash);
        loop {
            step();
            let cell = self.cells[place];
            if cell.slot == NONE || (cell.hash == hash && equal(cell.slot)) {
                return place;
            }
            place = self.after(place);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let larger = (self.cells.len() * 2).max(FEWEST);
        let cells = std::mem::replace(&mut self.cells, vec![FREE; larger]);
        for cell in cells.into_iter().filter(|cell| cell.slot != NONE) {
            let place = self.probe(cell.hash, |_| false);
            self.cells[place] = cell;
        }
    }

    /// Where a probe for `hash` begins: its leading bits.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.cells.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.cells.len() - 1)
    }

    /// How far `to` lies behind `from`, around the end.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.cells.len() - 1)
    }
}
