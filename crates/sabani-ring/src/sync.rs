//! Atomics, locks and cells: the real ones, or those of the model checker (`cargo xtask loom`).

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicUsize, Ordering, fence},
    },
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicUsize, Ordering, fence},
};

/// The cell of the standard library with the model checker's calls.
#[cfg(not(loom))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// A number for this thread, other than zero: no two that run have the same.
#[inline]
pub(crate) fn here() -> usize {
    #[cfg(not(loom))]
    thread_local!(static HERE: u8 = const { 0 });
    #[cfg(loom)]
    loom::thread_local!(static HERE: Box<u8> = Box::new(0));
    HERE.with(|here| std::ptr::from_ref::<u8>(here).addr())
}

/// Lets others go on, for a while if one is given.
pub(crate) fn pause(nap: Option<std::time::Duration>) {
    #[cfg(loom)]
    let _ = (nap, loom::thread::yield_now());
    #[cfg(not(loom))]
    nap.map_or_else(std::thread::yield_now, std::thread::sleep);
}

/// Runs a test, or under the model checker all interleavings of it.
#[cfg(test)]
pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
    #[cfg(loom)]
    loom::model(test);
    #[cfg(not(loom))]
    test();
}

#[cfg(all(test, loom))]
pub(crate) use loom::{sync::Arc, thread};
#[cfg(all(test, not(loom)))]
pub(crate) use std::{sync::Arc, thread};
