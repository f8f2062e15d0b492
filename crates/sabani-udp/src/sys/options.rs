//! Socket options that `socket2` does not know.

use super::{Errno, check};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an integer option.
pub(crate) fn set_int(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> Result<(), Errno> {
    let len = size_of::<i32>() as u32;
    // SAFETY: the kernel reads `len` bytes from `value`, which is that long.
    let returned =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    check(returned as isize).map(drop)
}

/// Reads an integer option.
pub(crate) fn get_int(fd: BorrowedFd<'_>, level: i32, name: i32) -> Result<i32, Errno> {
    let mut value = 0_i32;
    let mut len = size_of::<i32>() as u32;
    // SAFETY: the kernel writes at most `len` bytes to `value`, which is that long.
    let returned = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &mut len,
        )
    };
    check(returned as isize).map(|_| value)
}

/// The network namespace that a socket lives in; `None` before Linux 5.14.
pub(crate) fn network(fd: BorrowedFd<'_>) -> Option<u64> {
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as u32;
    // SAFETY: the kernel writes at most `len` bytes to `cookie`, which is that long.
    let returned = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &mut len,
        )
    };
    check(returned as isize).ok().map(|_| cookie)
}

const RECEIVED: usize = libc::SK_MEMINFO_RMEM_ALLOC as usize;
const RECV_BUFFER: usize = libc::SK_MEMINFO_RCVBUF as usize;
const UNSENT: usize = libc::SK_MEMINFO_WMEM_ALLOC as usize;
const DROPS: usize = libc::SK_MEMINFO_DROPS as usize;

/// How many messages the kernel has dropped on their way into this socket, modulo 2³².
pub(crate) fn drops(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    memory(fd).map(|info| info[DROPS])
}

/// Bytes, as the kernel charges them, of what was sent and has not left the host yet.
pub(crate) fn unsent(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    memory(fd).map(|info| info[UNSENT])
}

/// Whether the kernel can queue an ICMP error, which it charges to the receive buffer: as a page at most,
/// but small buffers hold small errors.
pub(crate) fn has_room_for_errors(fd: BorrowedFd<'_>) -> bool {
    const ERROR_BYTES: u32 = 8 << 10;
    memory(fd).is_ok_and(|info| {
        let room = info[RECV_BUFFER].saturating_sub(info[RECEIVED]);
        room > ERROR_BYTES.min(info[RECV_BUFFER] / 4)
    })
}

/// What the kernel says of a socket's memory.
fn memory(fd: BorrowedFd<'_>) -> Result<[u32; DROPS + 1], Errno> {
    let mut info = [0_u32; DROPS + 1];
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which is that long.
    let returned = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &mut len,
        )
    };
    check(returned as isize).map(|_| info)
}
