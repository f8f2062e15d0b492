//! A barrier with two sides: one that is passed often costs nothing, the other one makes up for it.

#[cfg(any(loom, miri))]
use crate::sync::{Ordering, fence};

/// Whether there is such a barrier here. Asks the kernel for it, which takes some microseconds.
pub(crate) fn is_there() -> bool {
    #[cfg(any(loom, miri))]
    return true;
    #[cfg(not(any(loom, miri)))]
    return membarrier(nix::libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

/// What was written before it and what is read after it stay in this order, as seen by whoever passes [`heavy`].
#[inline]
pub(crate) fn light() {
    #[cfg(any(loom, miri))]
    fence(Ordering::SeqCst);
    #[cfg(not(any(loom, miri)))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// The other side: has all threads of this process pass a full barrier (membarrier(2)). Takes some microseconds.
#[cold]
pub(crate) fn heavy() {
    #[cfg(any(loom, miri))]
    fence(Ordering::SeqCst);
    #[cfg(not(any(loom, miri)))]
    assert!(
        membarrier(nix::libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED),
        "the kernel has promised it"
    );
}

/// Whether the kernel does this.
#[cfg(not(any(loom, miri)))]
fn membarrier(command: i32) -> bool {
    // SAFETY: this call takes two numbers and touches no memory of the program.
    unsafe { nix::libc::syscall(nix::libc::SYS_membarrier, command, 0) == 0 }
}
