//! Queues that are empty most of the time, and take little memory then.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// A queue that takes 8 bytes until something is put in, and again after [`RareQueue::shrink`]: a
/// node may have thousands of connections, most of them idle.
#[derive(Debug)]
#[expect(
    clippy::box_collection,
    reason = "the head of a queue is four times a pointer"
)]
pub(crate) struct RareQueue<T>(Option<Box<VecDeque<T>>>);

impl<T> RareQueue<T> {
    /// Gives back the memory that its contents don't need.
    pub fn shrink(&mut self) {
        match &mut self.0 {
            Some(queue) if !queue.is_empty() => queue.shrink_to_fit(),
            queue => *queue = None,
        }
    }
}

impl<T> Default for RareQueue<T> {
    fn default() -> Self {
        RareQueue(None)
    }
}

impl<T: 'static> Deref for RareQueue<T> {
    type Target = VecDeque<T>;

    #[inline]
    fn deref(&self) -> &VecDeque<T> {
        self.0.as_deref().unwrap_or(const { &VecDeque::new() })
    }
}

impl<T: 'static> DerefMut for RareQueue<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut VecDeque<T> {
        self.0.get_or_insert_default()
    }
}

/// Room that a drained queue keeps, for the next few.
const KEPT: usize = 256;

/// Takes the oldest entry; a queue that was long gives its memory back with the last one.
#[inline]
pub(crate) fn pop_front<T>(queue: &mut VecDeque<T>) -> Option<T> {
    let front = queue.pop_front();
    if queue.is_empty() && queue.capacity() > KEPT {
        *queue = VecDeque::new();
    }
    front
}
