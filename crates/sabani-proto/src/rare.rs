//! What is empty most of the time, and takes little memory then.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// Takes 8 bytes until something is put in, and again once it is [`Default`]: a node may have
/// thousands of connections, most of them idle.
#[derive(Debug)]
pub(crate) struct Rare<T>(Option<Box<T>>);

/// What is [`Rare`].
pub(crate) trait Empty: Default + 'static {
    /// One that stands for all that are empty.
    fn empty() -> &'static Self;
}

/// A queue that takes 8 bytes while it is not used.
pub(crate) type RareQueue<T> = Rare<VecDeque<T>>;

impl<T: 'static> Empty for VecDeque<T> {
    #[inline]
    fn empty() -> &'static Self {
        const { &VecDeque::new() }
    }
}

impl<T> RareQueue<T> {
    /// Gives back the memory that its contents don't need.
    pub fn shrink(&mut self) {
        match &mut self.0 {
            Some(queue) if !queue.is_empty() => queue.shrink_to_fit(),
            queue => *queue = None,
        }
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Rare(None)
    }
}

impl<T: Empty> Deref for Rare<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::empty())
    }
}

impl<T: Empty> DerefMut for Rare<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
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
