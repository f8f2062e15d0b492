//! Memory that tells a forked child from its parent.

use super::{Errno, check, last_errno};
use std::ptr;
use std::sync::atomic::AtomicU32;

/// A word of memory, zero at first, that is zero again in every child process, however it was forked.
pub(crate) fn shared_with_nobody() -> Result<&'static AtomicU32, Errno> {
    let len = size_of::<AtomicU32>();
    // SAFETY: a new anonymous mapping at an address of the kernel's choice affects no existing memory.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return Err(last_errno());
    }
    // SAFETY: `page` is the start of the mapping made above, and wiping concerns only children.
    check(unsafe { libc::madvise(page, len, libc::MADV_WIPEONFORK) } as isize)?;
    // SAFETY: the mapping is page-aligned, at least one page long, zeroed (valid for an `AtomicU32`),
    // never unmapped and reached only through the reference returned here.
    Ok(unsafe { &*page.cast::<AtomicU32>() })
}

/// Has the C library's `fork` call `handler` in the child. The handler must restrict itself to what is
/// allowed in a signal handler.
pub(crate) fn call_in_forked_children(handler: extern "C" fn()) -> Result<(), Errno> {
    // SAFETY: `handler` is a function and hence valid forever; declared `extern "C"`, it has the
    // expected calling convention and cannot unwind.
    let errno = unsafe { libc::pthread_atfork(None, None, Some(handler)) };
    if errno == 0 { Ok(()) } else { Err(errno) }
}
