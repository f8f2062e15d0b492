//! A lock that nearly always the same thread takes.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::barrier;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, UnsafeCell, here, pause};

/// After so many turns in a row a thread is favoured.
const FAVOURED_AFTER: u32 = if cfg!(test) { 2 } else { 64 };
/// Each time that another one comes it takes twice as many, up to this: what it costs to come between is then one
/// part in a thousand of what was saved.
const FAVOURED_AFTER_MOST: u32 = 4_096;
/// Who waits for the favoured thread looks so often before it sleeps, ...
const LOOKS: u32 = 64;
/// ... for this long at a time.
const NAP: Duration = Duration::from_micros(50);

/// A mutual exclusion lock for a value of which one thread has nearly all turns (a biased lock: Dice, Moir, Scherer: Quickly
/// reacquirable locks, 2003).
///
/// The first thread that takes it many times in a row is favoured: from then on it takes and leaves the lock with plain
/// writes, where every other mutex costs it two atomic exchanges, each of which waits for all that the processor has
/// still to write. Others may come at any time; the first of them waits for some microseconds until the favoured thread
/// knows (membarrier(2)), and then both are treated alike until one of them, the same as before, has had many turns
/// again. Where the kernel has no such barrier nobody is favoured.
///
/// Nothing is poisoned by a panic.
pub struct BiasedMutex<T> {
    /// The favoured thread; zero if there is none.
    favoured: AtomicUsize,
    /// It has the value. Written by that thread alone.
    inside: AtomicBool,
    /// Of all who are not favoured, one at a time.
    ordinary: Mutex<Turns>,
    /// What belongs to whoever has the lock.
    held: UnsafeCell<Held<T>>,
}

struct Held<T> {
    /// The turn of a thread that is not favoured, kept here so that a guard is one word: more is passed on in memory, where
    /// reading it back at once takes as long as an atomic exchange.
    turn: ManuallyDrop<Option<MutexGuard<'static, Turns>>>,
    value: T,
}

/// Who has had it, while nobody was favoured.
struct Turns {
    last: usize,
    in_a_row: u32,
    /// So many in a row, and a thread is favoured.
    enough: u32,
    /// The only thread that may be. Were it another each time, one that has just lost the favour could still write to `inside`.
    favourite: usize,
    can_favour: bool,
}

// SAFETY: whoever has a guard has the value for itself, so it may be handed from thread to thread like that of a `Mutex`.
unsafe impl<T: Send> Sync for BiasedMutex<T> {}
// SAFETY: all of it may be, if the value may.
unsafe impl<T: Send> Send for BiasedMutex<T> {}

impl<T> BiasedMutex<T> {
    /// A lock for this value.
    pub fn new(value: T) -> Self {
        BiasedMutex {
            favoured: AtomicUsize::new(0),
            inside: AtomicBool::new(false),
            ordinary: Mutex::new(Turns {
                last: 0,
                in_a_row: 0,
                enough: FAVOURED_AFTER,
                favourite: 0,
                can_favour: barrier::is_there(),
            }),
            held: UnsafeCell::new(Held {
                turn: ManuallyDrop::new(None),
                value,
            }),
        }
    }

    /// Waits until nobody else has the value.
    ///
    /// # Panics
    /// If this thread has it already, or waits for ever then, as with any mutex.
    #[inline]
    pub fn lock(&self) -> BiasedGuard<'_, T> {
        if !self.enter() {
            self.wait();
        }
        BiasedGuard {
            mutex: self,
            stays: PhantomData,
        }
    }

    /// Takes it if this thread is favoured.
    #[inline]
    fn enter(&self) -> bool {
        let here = here();
        if self.favoured.load(Ordering::Relaxed) != here {
            return false;
        }
        assert!(
            !self.inside.load(Ordering::Relaxed),
            "this thread has the lock already"
        );
        self.inside.store(true, Ordering::Relaxed);
        // With the barrier in `wait`: either this sees that the favour is gone, or whoever has taken it away sees that this
        // thread is inside.
        barrier::light();
        if self.favoured.load(Ordering::Relaxed) == here {
            return true;
        }
        self.inside.store(false, Ordering::Relaxed);
        false
    }

    /// Takes it like any other mutex, and the favour from whoever has it.
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut turns = self
            .ordinary
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if self.favoured.load(Ordering::Relaxed) != 0 {
            self.favoured.store(0, Ordering::Relaxed);
            barrier::heavy();
            // With the store of the guard that leaves: all that the favoured thread has written is seen from here on.
            let mut looks = 0;
            while self.inside.load(Ordering::Acquire) {
                looks += 1;
                pause((looks > LOOKS).then_some(NAP));
            }
            turns.in_a_row = 0;
            turns.enough = (2 * turns.enough).min(FAVOURED_AFTER_MOST);
        }
        // SAFETY: the lifetime says how long `ordinary` may not move. The turn ends in `leave`, called by a `BiasedGuard` that
        // borrows this lock; where that guard is forgotten, nothing ever looks at the turn again, not even to drop it.
        let turn: MutexGuard<'static, Turns> = unsafe { std::mem::transmute(turns) };
        // SAFETY: nobody else has the lock: those who are not favoured have not got `ordinary`, and nobody is favoured.
        self.held
            .with_mut(|held| unsafe { (*held).turn = ManuallyDrop::new(Some(turn)) });
    }

    /// Ends the turn of a thread that is not favoured.
    #[cold]
    #[inline(never)]
    fn leave(&self, mut turn: MutexGuard<'static, Turns>) {
        if let Some(here) = turn.end() {
            // Under the ordinary lock still: who comes next sees it.
            self.favoured.store(here, Ordering::Relaxed);
        }
    }
}

impl Turns {
    /// One more has ended: the thread that is favoured now, if one is.
    fn end(&mut self) -> Option<usize> {
        let here = here();
        self.in_a_row = match self.last == here {
            true => self.in_a_row.saturating_add(1),
            false => 1,
        };
        self.last = here;
        let may_be = self.can_favour && [0, here].contains(&self.favourite);
        if !may_be || self.in_a_row < self.enough {
            return None;
        }
        self.favourite = here;
        Some(here)
    }
}

/// The value of a [`BiasedMutex`], until it is dropped.
pub struct BiasedGuard<'a, T> {
    mutex: &'a BiasedMutex<T>,
    /// On its thread, like that of any mutex.
    stays: PhantomData<*const ()>,
}

// SAFETY: a reference to the guard gives no more than one to the value.
unsafe impl<T: Sync> Sync for BiasedGuard<'_, T> {}

impl<T> BiasedGuard<'_, T> {
    /// There is one guard at a time. Those of threads that are not favoured exclude each other by `ordinary`. The favoured
    /// thread is inside only while `favoured` names it: `wait` returns only once it does not, having seen that the thread
    /// has left, and names nobody before the guard that it has made is gone. The favoured thread enters just once.
    #[inline]
    fn held(&self) -> *mut Held<T> {
        self.mutex.held.with_mut(|held| held)
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: see `held`; the value is not touched.
        match unsafe { (*self.held()).turn.take() } {
            None => self.mutex.inside.store(false, Ordering::Release),
            Some(turn) => self.mutex.leave(turn),
        }
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: see `held`.
        unsafe { &(*self.held()).value }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: see `held`, and this guard is borrowed exclusively.
        unsafe { &mut (*self.held()).value }
    }
}

impl<T> fmt::Debug for BiasedMutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let favoured = self.favoured.load(Ordering::Relaxed) != 0;
        formatter
            .debug_struct("BiasedMutex")
            .field("favoured", &favoured)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "biased_tests.rs"]
mod tests;
