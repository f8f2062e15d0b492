//! The system calls, behind safe functions. All `unsafe` code of the crate is here.
//!
//! The functions take slices and plain structures, hand the kernel pointers into them for the length of
//! one call, and return the error number as it is.

mod memory;
mod options;
mod poll;
mod transfer;

pub(crate) use memory::{call_in_forked_children, shared_with_nobody};
pub(crate) use options::{drops, get_int, has_room_for_errors, network, set_int, unsent};
pub(crate) use poll::{event_fd, poll, read_counter, write_counter};
pub(crate) use transfer::{
    BATCH, Head, Incoming, recv_error, recv_many, recv_one, recv_plainly, send_many, send_one,
    send_plainly,
};

/// An `errno` value.
pub(crate) type Errno = i32;

/// The error number that the last failed call on this thread left behind.
fn last_errno() -> Errno {
    // SAFETY: the C library returns a valid pointer to this thread's own error number.
    unsafe { *libc::__errno_location() }
}

/// Turns a C return value, where anything negative means failure, into a result.
fn check(returned: isize) -> Result<usize, Errno> {
    usize::try_from(returned).map_err(|_| last_errno())
}
