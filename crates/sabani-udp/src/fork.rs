//! Knowing that this process is a forked child.

use crate::sys;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The generation of this process: a number that differs between a process and the children it forks.
///
/// Whoever owns something that must not be shared between processes (keys with packet counters, say)
/// notes the generation when it is made and compares it on each use. Costs about 1 ns.
///
/// ```
/// let born = sabani_udp::fork_generation();
/// assert_eq!(born, sabani_udp::fork_generation(), "still the same process");
/// ```
#[inline]
pub fn fork_generation() -> u32 {
    let word = word();
    match word.load(Relaxed) {
        0 => next_generation(word),
        generation => generation,
    }
}

/// The current generation, zero until somebody asks. The kernel wipes it in children; where it cannot
/// (Linux before 4.14, some sandboxes), the C library's `fork` calls a handler that does.
fn word() -> &'static AtomicU32 {
    static WORD: OnceLock<&'static AtomicU32> = OnceLock::new();
    WORD.get_or_init(|| {
        sys::shared_with_nobody().unwrap_or_else(|_| {
            sys::call_in_forked_children(wipe)
                .expect("registering a fork handler takes a few bytes of memory");
            &HANDLED
        })
    })
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn wipe() {
    HANDLED.store(0, Relaxed);
}

/// First use in this process. A child has inherited its parent's count, so it gets a number that none of
/// its ancestors had.
#[cold]
fn next_generation(word: &AtomicU32) -> u32 {
    static LATEST: AtomicU32 = AtomicU32::new(0);
    let fresh = LATEST.fetch_add(1, Relaxed) + 1;
    match word.compare_exchange(0, fresh, Relaxed, Relaxed) {
        Ok(_) => fresh,
        Err(generation) => generation,
    }
}
