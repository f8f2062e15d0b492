//! Buffers that one layer takes and any layer may give back, from any core.

use std::{
    ops::Deref,
    ptr::{self, NonNull},
};

use crate::sync::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering, UnsafeCell};

/// What a pool holds.
pub trait Recycle {
    /// Called when the last reference goes, on whichever thread that is: lets go of what must not wait until
    /// the buffer is taken again. All else stays as it is.
    fn recycle(&mut self) {}
}

impl<T> Recycle for Box<[T]> {}

/// A pool of buffers that belongs to one thread, or to one layer that moves between threads.
///
/// [`take`](Pool::take) needs no synchronisation while the pool has buffers at hand: it takes one from a list that
/// nobody else sees. Buffers that come back by being dropped, wherever that happens, wait in a second list, to which
/// each is added with one atomic exchange; when the first list is empty, the pool takes all of the second with one
/// more. [`give`](Pool::give) puts a buffer back into the first. If both are empty, a slab of new ones is allocated:
/// who must bound memory bounds how many buffers are out.
///
/// Buffers may outlive the pool. Its memory goes with the last of them.
pub struct Pool<T: Recycle> {
    /// Free slots, linked by `Slot::next`.
    free: *mut Slot<T>,
    home: NonNull<Home<T>>,
    slab_slots: usize,
    make: Box<dyn FnMut() -> T + Send>,
}

/// A shared reference to a buffer of a pool. The buffer goes back when the last one is dropped.
pub struct Item<T: Recycle> {
    slot: NonNull<Slot<T>>,
}

/// One buffer. It is in exactly one of these states: in the pool's own list, in the list of what came back, or out with
/// as many [`Item`]s as `refs` says.
#[repr(align(64))]
struct Slot<T> {
    refs: AtomicUsize,
    /// The next in the list that it is in. Belongs to whoever may put it into a list or take it out.
    next: UnsafeCell<*mut Slot<T>>,
    home: NonNull<Home<T>>,
    value: UnsafeCell<T>,
}

/// What the pool and its buffers share.
#[repr(align(128))]
struct Home<T> {
    /// The list of what came back, or [`closed`] once the pool is gone.
    returned: AtomicPtr<Slot<T>>,
    /// Once the pool is gone: how many buffers are still out. Negative while those that came back just then have been
    /// counted and the pool has not yet said how many there were.
    outside: AtomicIsize,
    /// All slots. Belongs to the pool, and once it is gone to whoever frees them.
    slabs: UnsafeCell<Vec<*mut [Slot<T>]>>,
}

/// Stands for the end of the pool. Never dereferenced, and no slot lies there.
fn closed<T>() -> *mut Slot<T> {
    ptr::without_provenance_mut(1)
}

impl<T: Recycle> Pool<T> {
    /// An empty pool that allocates `slab_slots` buffers at a time, each made by `make`.
    ///
    /// # Panics
    /// If `slab_slots` is 0.
    pub fn new(slab_slots: usize, make: impl FnMut() -> T + Send + 'static) -> Self {
        assert!(slab_slots > 0, "a slab holds at least one buffer");
        let home = Box::new(Home {
            returned: AtomicPtr::new(ptr::null_mut()),
            outside: AtomicIsize::new(0),
            slabs: UnsafeCell::new(Vec::new()),
        });
        Self {
            free: ptr::null_mut(),
            home: NonNull::from(Box::leak(home)),
            slab_slots,
            make: Box::new(make),
        }
    }

    /// Takes a buffer and has it filled; afterwards it can only be read, unless it has no second reference.
    pub fn take(&mut self, fill: impl FnOnce(&mut T)) -> Item<T> {
        if self.free.is_null() {
            self.refill();
        }
        let slot = NonNull::new(self.free).expect("was refilled");
        // SAFETY: a slot in the pool's own list is valid, and only the pool looks at it.
        unsafe {
            let slot = slot.as_ref();
            self.free = slot.next.with(|next| *next);
            slot.refs.store(1, Ordering::Relaxed);
        }
        let mut item = Item { slot };
        fill(item.get_mut().expect("nobody else has it"));
        item
    }

    /// Gives a buffer back, or one reference to it. For one of this pool, this costs no synchronisation if there
    /// is no second reference; another is dropped.
    pub fn give(&mut self, item: Item<T>) {
        if item.slot().home != self.home {
            return;
        }
        if let Some(slot) = item.release() {
            // SAFETY: the last reference is gone, so that nobody else looks at the slot, which is valid as
            // long as the pool is.
            unsafe { slot.as_ref().next.with_mut(|next| *next = self.free) };
            self.free = slot.as_ptr();
        }
    }

    /// Takes what came back, or else makes new buffers.
    #[cold]
    fn refill(&mut self) {
        // Acquire: what the threads that gave back did to the slots happened before.
        self.free = self
            .home()
            .returned
            .swap(ptr::null_mut(), Ordering::Acquire);
        if self.free.is_null() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let slots = (0..self.slab_slots).map(|_| Slot {
            refs: AtomicUsize::new(0),
            next: UnsafeCell::new(ptr::null_mut()),
            home: self.home,
            value: UnsafeCell::new((self.make)()),
        });
        let slab = Box::into_raw(slots.collect::<Box<[_]>>());
        // SAFETY: while the pool is there, nobody else looks at the slabs.
        self.home()
            .slabs
            .with_mut(|slabs| unsafe { (*slabs).push(slab) });
        for index in (0..self.slab_slots).rev() {
            // SAFETY: the index is within the slab that has just been allocated, and nobody else knows of it.
            unsafe {
                let slot = slab.cast::<Slot<T>>().add(index);
                (*slot).next.with_mut(|next| *next = self.free);
                self.free = slot;
            }
        }
    }

    fn home(&self) -> &Home<T> {
        // SAFETY: the home is freed after the pool is gone at the earliest.
        unsafe { self.home.as_ref() }
    }
}

impl<T: Recycle> Drop for Pool<T> {
    fn drop(&mut self) {
        // SAFETY: nobody frees the home, or looks at its slabs, before the count below.
        let slabs = self.home().slabs.with(|slabs| unsafe { (*slabs).len() });
        let slots = slabs * self.slab_slots;
        // From here on, buffers that come back are counted and not listed.
        let returned = self.home().returned.swap(closed(), Ordering::AcqRel);
        // SAFETY: both lists belong to the pool now.
        let inside = unsafe { length(self.free) + length(returned) };
        let outside = (slots - inside).cast_signed();
        // AcqRel: whoever frees sees all that was done to the slots and the home.
        let before = self.home().outside.fetch_add(outside, Ordering::AcqRel);
        if before + outside == 0 {
            // SAFETY: all buffers have come back, and the pool goes.
            unsafe { free(self.home) };
        }
    }
}

/// # Safety
/// The list must belong to the caller.
unsafe fn length<T>(mut list: *mut Slot<T>) -> usize {
    let mut length = 0;
    // SAFETY: slots of a list are valid, and its last has no next.
    while let Some(slot) = unsafe { list.as_ref() } {
        length += 1;
        // SAFETY: the links belong to whom the list belongs to.
        list = slot.next.with(|next| unsafe { *next });
    }
    length
}

/// # Safety
/// Nobody may use the home or its slots any more.
unsafe fn free<T>(home: NonNull<Home<T>>) {
    // SAFETY: it was leaked from a box by `Pool::new`, and the caller is the last who knows of it.
    let home = unsafe { Box::from_raw(home.as_ptr()) };
    // SAFETY: the home is no longer shared.
    let slabs = home
        .slabs
        .with_mut(|slabs| unsafe { std::mem::take(&mut *slabs) });
    for slab in slabs {
        // SAFETY: the slab was leaked from a box by `Pool::grow`.
        drop(unsafe { Box::from_raw(slab) });
    }
}

impl<T: Recycle> Item<T> {
    /// The buffer, to be changed, if this is the only reference.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        if !self.is_alone() {
            return None;
        }
        // SAFETY: this is the only reference, and it is borrowed for as long as the result is.
        Some(self.slot().value.with_mut(|value| unsafe { &mut *value }))
    }

    /// Acquire: what others did before they dropped their references happened before.
    fn is_alone(&self) -> bool {
        self.slot().refs.load(Ordering::Acquire) == 1
    }

    fn slot(&self) -> &Slot<T> {
        // SAFETY: a slot lives at least as long as the references to it.
        unsafe { self.slot.as_ref() }
    }

    /// Gives this reference up. The slot, recycled, if it was the last.
    fn release(self) -> Option<NonNull<Slot<T>>> {
        let slot = self.slot;
        // Without the exchange if there is nobody who could drop or make another reference meanwhile.
        let last = self.is_alone() || self.slot().refs.fetch_sub(1, Ordering::AcqRel) == 1;
        std::mem::forget(self);
        // SAFETY: without references nobody else looks at the slot until it is in a list.
        last.then(|| unsafe {
            slot.as_ref().value.with_mut(|value| (*value).recycle());
            slot
        })
    }
}

impl<T: Recycle> Deref for Item<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: while there is a reference, the value is changed only through `get_mut`, which borrows the only one.
        self.slot().value.with(|value| unsafe { &*value })
    }
}

impl<T: Recycle> Clone for Item<T> {
    fn clone(&self) -> Self {
        // Relaxed: whoever has a reference may make another; only giving up has to be ordered.
        let before = self.slot().refs.fetch_add(1, Ordering::Relaxed);
        assert!(
            before < isize::MAX.cast_unsigned(),
            "references were forgotten without end"
        );
        Self { slot: self.slot }
    }
}

impl<T: Recycle> Drop for Item<T> {
    fn drop(&mut self) {
        let last = Self { slot: self.slot }.release();
        if let Some(slot) = last {
            // SAFETY: `release` says that the slot belongs to nobody else.
            unsafe { give_back(slot) };
        }
    }
}

/// Puts a slot into the list of what came back.
///
/// # Safety
/// The slot must be in no list, and nobody else may look at it.
unsafe fn give_back<T>(slot: NonNull<Slot<T>>) {
    // SAFETY: the slot counts as outside, so that neither it nor its home has been freed.
    let (place, home) = unsafe { (slot.as_ref(), slot.as_ref().home) };
    // SAFETY: as above; the reference ends before `free`.
    let shared = unsafe { home.as_ref() };
    let mut head = shared.returned.load(Ordering::Relaxed);
    while head != closed() {
        // SAFETY: the slot is in no list yet.
        place.next.with_mut(|next| unsafe { *next = head });
        // Release: the pool, taking the list, sees what was done to the slot. No harm comes from a head that went
        // and came back meanwhile, since the pool takes the whole list: it is the same list again.
        let pushed = shared.returned.compare_exchange_weak(
            head,
            slot.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        match pushed {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
    // AcqRel: the last one, who frees, sees all that was done before.
    if shared.outside.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: the pool is gone, and this was the last buffer outside.
        unsafe { free(home) };
    }
}

// SAFETY: whoever has the pool has its lists alone, and the buffers in them; slots that come back are handed over by
// release and acquire. Values move between threads with them.
unsafe impl<T: Recycle + Send> Send for Pool<T> {}
// SAFETY: references to one value on several threads, any of which may be the last: as for `Arc`.
unsafe impl<T: Recycle + Send + Sync> Send for Item<T> {}
// SAFETY: as above.
unsafe impl<T: Recycle + Send + Sync> Sync for Item<T> {}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
