//! Waking a thread that sleeps, at no cost for those who find it awake but a fence.

use std::time::Duration;

use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, fence};

/// One thread sleeps, others wake it once they have put something where it looks.
pub struct Bell {
    asleep: AtomicBool,
    lock: Mutex<()>,
    awake: Condvar,
}

impl Bell {
    /// A bell at which nobody sleeps.
    pub fn new() -> Self {
        Self {
            asleep: AtomicBool::new(false),
            lock: Mutex::new(()),
            awake: Condvar::new(),
        }
    }

    /// Wakes those who sleep at any of these bells. Call it after what they wait for has been published.
    pub fn ring_all<'a>(bells: impl IntoIterator<Item = &'a Bell>) {
        // With the fence in `sleep`: either the sleeper's last look sees what was published before, or this
        // sees that it sleeps.
        fence(Ordering::SeqCst);
        for bell in bells {
            if bell.asleep.load(Ordering::Relaxed) {
                bell.wake();
            }
        }
    }

    #[cold]
    fn wake(&self) {
        let _turn = self.lock.lock().unwrap();
        self.asleep.store(false, Ordering::Relaxed);
        self.awake.notify_one();
    }

    /// Sleeps until the bell rings, at most for `limit`, unless the last look before finds work. Says whether it did.
    pub fn sleep(&self, limit: Duration, last_look: impl FnOnce() -> bool) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let found = last_look();
        if !found {
            let turn = self.lock.lock().unwrap();
            if self.asleep.load(Ordering::Relaxed) {
                drop(self.awake.wait_timeout(turn, limit));
            }
        }
        self.asleep.store(false, Ordering::Relaxed);
        found
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "bell_tests.rs"]
mod tests;
