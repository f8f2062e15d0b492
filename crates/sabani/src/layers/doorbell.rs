//! Waking a thread that sleeps on descriptors, at the cost of a fence for those who find it awake.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use sabani_udp::Waker;

/// One thread sleeps on descriptors of its own and on the bell's; others wake it once they have put
/// something where it looks. Like [`sabani_ring::Bell`], for threads that wait for the kernel too.
#[derive(Debug)]
pub(crate) struct Doorbell {
    asleep: AtomicBool,
    waker: Waker,
}

impl Doorbell {
    pub fn new() -> io::Result<Self> {
        Ok(Doorbell {
            asleep: AtomicBool::new(false),
            waker: Waker::new()?,
        })
    }

    /// What to sleep on.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Wakes whoever sleeps here. Call it after what is waited for has been published.
    pub fn ring(&self) {
        // With the fence in `retire`: either the sleeper's last look sees what was published before,
        // or this sees that it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// Says that the caller is about to sleep, unless the last look before finds work; whether it did.
    pub fn retire(&self, last_look: impl FnOnce() -> bool) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let found = last_look();
        if found {
            self.asleep.store(false, Ordering::Relaxed);
        }
        found
    }

    /// Says that the sleeper is awake. It takes back what has woken it itself: nothing has, mostly, but the socket.
    pub fn rise(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}
