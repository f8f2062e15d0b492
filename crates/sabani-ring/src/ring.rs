//! Rings from one thread to one other, without a lock.
//!
//! The ring itself is `rtrb`'s: a fixed array, head and tail on cache lines of their own, each written by one side
//! and cached by the other. What is added here is the one way in which layers move primitives: a batch at a time,
//! published by one store, and only as many as there is room for.

use rtrb::{Consumer, Producer, PushError, RingBuffer};

/// The end of a ring from which primitives are taken.
pub struct Inlet<P>(Consumer<P>);

/// The end of a ring into which primitives are put.
pub struct Outlet<P>(Producer<P>);

/// A ring with room for `slots` primitives. One without slots leads nowhere: it is always full, and always empty.
pub fn ring<P>(slots: usize) -> (Outlet<P>, Inlet<P>) {
    let (producer, consumer) = RingBuffer::new(slots);
    (Outlet(producer), Inlet(consumer))
}

impl<P> Outlet<P> {
    /// How many primitives there is room for, counted up to `wanted` at least.
    ///
    /// Looks at the other side's index, which may lie in the other core's cache, only if those known of are too few.
    pub fn room(&self, wanted: usize) -> usize {
        match self.0.cached_slots() {
            known if known >= wanted => known,
            _ => self.0.slots(),
        }
    }

    /// Puts one primitive in; gives it back if the ring is full.
    ///
    /// # Errors
    /// The primitive, if there is no room for it.
    pub fn put(&mut self, primitive: P) -> Result<(), P> {
        self.0
            .push(primitive)
            .map_err(|PushError::Full(primitive)| primitive)
    }

    /// Puts in up to `limit` primitives, as many as there is room for, and publishes them together. Says how many.
    pub fn fill(&mut self, limit: usize, primitives: impl IntoIterator<Item = P>) -> usize {
        let room = limit.min(self.room(limit));
        match self.0.write_chunk_uninit(room) {
            Ok(chunk) => chunk.fill_from_iter(primitives),
            Err(_) => 0,
        }
    }
}

impl<P> Inlet<P> {
    /// How many primitives there are, counted up to `wanted` at least; looks at the other side's index as
    /// [`Outlet::room`] does.
    pub fn waiting(&self, wanted: usize) -> usize {
        match self.0.cached_slots() {
            known if known >= wanted => known,
            _ => self.0.slots(),
        }
    }

    /// Takes one primitive.
    pub fn take(&mut self) -> Option<P> {
        self.0.pop().ok()
    }

    /// Takes up to `limit` primitives, as many as there are. Their slots become free together, when the iterator is
    /// dropped; what was not asked of it stays in the ring.
    pub fn drain(&mut self, limit: usize) -> impl ExactSizeIterator<Item = P> {
        let waiting = limit.min(self.waiting(limit));
        let chunk = self.0.read_chunk(waiting);
        chunk.expect("only this end takes out").into_iter()
    }
}

/// Moves up to `limit` primitives from one ring to the next, as many as there are and as there is room for, each
/// through `step`; those for which it says `None` end there. What there is no room for stays where it is. Says how
/// many were taken.
pub fn pass<P>(
    from: &mut Inlet<P>,
    to: &mut Outlet<P>,
    limit: usize,
    step: impl FnMut(P) -> Option<P>,
) -> usize {
    let limit = limit.min(from.waiting(limit));
    let limit = limit.min(to.room(limit));
    if limit == 0 {
        return 0;
    }
    // Each primitive makes one at most, so that the room suffices and all are taken.
    to.fill(limit, from.drain(limit).filter_map(step));
    limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_stop_at_the_room_there_is() {
        let (mut outlet, mut inlet) = ring(4);
        assert_eq!(outlet.fill(3, 0..), 3);
        assert_eq!(outlet.fill(3, 3..), 1);
        assert_eq!(outlet.put(9), Err(9));
        assert!(inlet.drain(2).eq([0, 1]));
        assert_eq!(outlet.fill(9, 4..), 2);
        assert!(inlet.drain(9).eq([2, 3, 4, 5]));
        assert_eq!(inlet.take(), None);
    }

    #[test]
    fn what_was_not_asked_for_stays() {
        let (mut outlet, mut inlet) = ring(4);
        outlet.fill(4, 0..);
        assert_eq!(inlet.drain(3).next(), Some(0));
        assert!(inlet.drain(4).eq([1, 2, 3]));
    }

    #[test]
    fn nothing_is_taken_without_room_for_it() {
        let ((mut first, mut from), (mut to, mut last)) = (ring(8), ring(2));
        first.fill(8, 0..);
        assert_eq!(pass(&mut from, &mut to, 8, Some), 2);
        assert_eq!(pass(&mut from, &mut to, 8, Some), 0);
        assert!(last.drain(8).eq([0, 1]));
        let even = |number: i32| (number % 2 == 0).then_some(number);
        assert_eq!(pass(&mut from, &mut to, 8, even), 2);
        assert_eq!(pass(&mut from, &mut to, 8, even), 1);
        assert!(last.drain(8).eq([2, 4]));
        assert!(from.drain(8).eq([5, 6, 7]));
    }

    #[test]
    fn the_edge_is_full_and_empty() {
        let (mut outlet, mut inlet) = ring(0);
        assert_eq!((outlet.fill(1, [1]), outlet.put(1)), (0, Err(1)));
        assert_eq!((inlet.take(), inlet.waiting(1)), (None, 0));
    }
}
