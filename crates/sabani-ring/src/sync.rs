//! Atomics, locks and cells: the real ones, or those of the model checker (`cargo xtask loom`).

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicUsize, Ordering, fence},
    },
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex,
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
