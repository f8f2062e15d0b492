//! Waiting, and being woken.

use super::{Errno, check, last_errno};
use libc::{pollfd, timespec};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

/// Waits until one of `fds` is ready or `timeout` has passed; returns how many are ready.
pub(crate) fn poll(fds: &mut [pollfd], timeout: Option<Duration>) -> Result<usize, Errno> {
    let limit = timeout.map(|timeout| timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos() as _,
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `fds` is borrowed exclusively and its length is given; `limit` is null or points to a
    // value that outlives the call; a null signal mask leaves the mask alone.
    let returned = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as _, limit, ptr::null()) };
    check(returned as isize)
}

/// A new event counter, non-blocking and closed on `exec`.
pub(crate) fn event_fd() -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: the kernel has just opened this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds one to an event counter.
pub(crate) fn write_counter(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let one = 1_u64;
    // SAFETY: the kernel reads eight bytes from `one`, which is that long.
    let returned =
        unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    check(returned).map(drop)
}

/// Takes an event counter back to zero.
pub(crate) fn read_counter(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut count = 0_u64;
    // SAFETY: the kernel writes at most eight bytes to `count`, which is that long.
    let returned = unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    check(returned).map(|_| count)
}
