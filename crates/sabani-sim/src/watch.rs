//! How far a run is, for whoever waits for it in another thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// Told from time to time while a network runs. It changes nothing there.
#[derive(Debug, Default)]
pub struct Watch {
    now_ns: AtomicU64,
    delivered: AtomicU64,
}

impl Watch {
    /// Virtual time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Messages that programs have received.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    pub(crate) fn tell(&self, now_ns: u64, delivered: u64) {
        self.now_ns.store(now_ns, Ordering::Relaxed);
        self.delivered.store(delivered, Ordering::Relaxed);
    }
}
