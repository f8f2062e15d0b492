//! Moving datagrams.

use super::{Errno, check};
use crate::address::RawAddr;
use crate::control::{Control, DATA_SPACE};
use libc::{c_void, iovec, mmsghdr, msghdr};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Messages that one system call moves at most. Headers for this many fit on the stack; a longer batch
/// would save nothing more, since the call itself is a small part of the cost by then.
pub(crate) const BATCH: usize = 32;

/// Where a message goes, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub to: RawAddr,
    pub control: Control<DATA_SPACE>,
}

impl Head {
    /// A head to be filled in.
    pub const EMPTY: Self = Self {
        to: RawAddr::EMPTY,
        control: Control::EMPTY,
    };
}

/// What the kernel says about a message that was received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<const N: usize> {
    pub from: RawAddr,
    pub control: Control<N>,
    /// Bytes in the buffer.
    pub len: usize,
    /// The message was longer than the buffer.
    pub truncated: bool,
}

impl<const N: usize> Incoming<N> {
    /// Room for the kernel to write into.
    pub const EMPTY: Self = Self {
        from: RawAddr::EMPTY,
        control: Control::EMPTY,
        len: 0,
        truncated: false,
    };

    /// Takes over the lengths and flags that the kernel left in a header.
    #[allow(
        clippy::unnecessary_cast,
        reason = "some C libraries have narrower lengths"
    )]
    fn note(&mut self, header: &msghdr, len: usize) {
        self.from.set_len(header.msg_namelen);
        self.control.set_len(header.msg_controllen as usize);
        self.truncated = header.msg_flags & libc::MSG_TRUNC != 0;
        self.len = len;
    }
}

/// Sends one datagram, on a connected socket without an address. Like [`recv_plainly`], this goes past the
/// C library: its functions are points where threads may be cancelled, which costs 10 ns a call to allow.
pub(crate) fn send_plainly(
    fd: BorrowedFd<'_>,
    to: Option<&RawAddr>,
    body: &[u8],
) -> Result<usize, Errno> {
    let (to, to_len) = to.map_or((ptr::null(), 0), |to| (to.as_ptr(), to.len()));
    // SAFETY: the kernel reads `body` and the address, both borrowed and of the lengths given.
    check(unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd.as_raw_fd(),
            body.as_ptr(),
            body.len(),
            0,
            to,
            to_len,
        ) as isize
    })
}

/// Sends one message.
pub(crate) fn send_one(fd: BorrowedFd<'_>, head: &Head, body: &[u8]) -> Result<usize, Errno> {
    if head.control.bytes().is_empty() {
        return send_plainly(fd, Some(&head.to), body);
    }
    let mut piece = borrowed_iovec(body);
    let header = outgoing_header(head, &mut piece);
    // SAFETY: `header` points to `piece`, `head` and `body`, which outlive the call; the kernel only
    // reads them.
    check(unsafe {
        libc::syscall(libc::SYS_sendmsg, fd.as_raw_fd(), &raw const header, 0) as isize
    })
}

/// Sends up to [`BATCH`] messages, one per head, and returns how many the kernel took. The error is that
/// of the first message.
pub(crate) fn send_many<'a>(
    fd: BorrowedFd<'_>,
    heads: &[Head],
    bodies: impl Iterator<Item = &'a [u8]>,
) -> Result<usize, Errno> {
    let mut pieces = [const { MaybeUninit::<iovec>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<mmsghdr>::uninit() }; BATCH];
    let mut count = 0;
    for (((head, body), piece), header) in
        heads.iter().zip(bodies).zip(&mut pieces).zip(&mut headers)
    {
        header.write(mmsghdr {
            msg_hdr: outgoing_header(head, piece.write(borrowed_iovec(body))),
            msg_len: 0,
        });
        count += 1;
    }
    // SAFETY: the first `count` headers were written above and point to `pieces`, `heads` and the
    // bodies, which outlive the call. The kernel writes only `msg_len`.
    check(unsafe {
        libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr().cast(), count as u32, 0) as isize
    })
}

/// Receives one message into `buffer` without waiting.
pub(crate) fn recv_one<const N: usize>(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    incoming: &mut Incoming<N>,
    control_len: usize,
) -> Result<(), Errno> {
    recv_with(fd, buffer, incoming, control_len, libc::MSG_DONTWAIT)
}

/// The same on a connected socket with nothing told beside the message, not even whom it is from or that it
/// was longer than the buffer: 100 ns less. Returns the message's length.
#[inline]
pub(crate) fn recv_plainly(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes no more than the length given to `buffer`, borrowed exclusively for longer
    // than the call; it is not asked for an address.
    check(unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            fd.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
            libc::MSG_DONTWAIT,
            ptr::null_mut::<c_void>(),
            ptr::null_mut::<u32>(),
        ) as isize
    })
}

/// Takes one entry off the error queue; `from` is where the datagram at fault was sent to.
pub(crate) fn recv_error<const N: usize>(
    fd: BorrowedFd<'_>,
    incoming: &mut Incoming<N>,
) -> Result<(), Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE;
    recv_with(fd, &mut [], incoming, N, flags)
}

fn recv_with<const N: usize>(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    incoming: &mut Incoming<N>,
    control_len: usize,
    flags: i32,
) -> Result<(), Errno> {
    let mut piece = writable_iovec(buffer);
    let mut header = incoming_header(incoming, &mut piece, control_len);
    // SAFETY: `header` points to `piece`, `buffer` and `incoming`, all borrowed exclusively for longer
    // than the call, with their true lengths. The kernel writes no more than these lengths.
    let len = check(unsafe {
        libc::syscall(libc::SYS_recvmsg, fd.as_raw_fd(), &raw mut header, flags) as isize
    })?;
    incoming.note(&header, len);
    Ok(())
}

/// Receives up to [`BATCH`] messages without waiting, each into one of `buffers`, and returns how many.
pub(crate) fn recv_many<'a, const N: usize>(
    fd: BorrowedFd<'_>,
    buffers: impl Iterator<Item = &'a mut [u8]>,
    incoming: &mut [Incoming<N>],
    control_len: usize,
) -> Result<usize, Errno> {
    let mut pieces = [const { MaybeUninit::<iovec>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<mmsghdr>::uninit() }; BATCH];
    let mut count = 0;
    for (((room, buffer), piece), header) in incoming
        .iter_mut()
        .zip(buffers)
        .zip(&mut pieces)
        .zip(&mut headers)
    {
        header.write(mmsghdr {
            msg_hdr: incoming_header(room, piece.write(writable_iovec(buffer)), control_len),
            msg_len: 0,
        });
        count += 1;
    }
    // SAFETY: the first `count` headers were written above and point to `pieces`, `incoming` and the
    // buffers, all borrowed exclusively for longer than the call, with their true lengths. The kernel
    // writes no more than these lengths. Without a timeout the last pointer may be null.
    let taken = check(unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as u32,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        ) as isize
    })?;
    for (room, header) in incoming.iter_mut().zip(&headers).take(taken.min(count)) {
        // SAFETY: one of the first `count` headers, all of which were written above.
        let header = unsafe { header.assume_init_ref() };
        room.note(&header.msg_hdr, header.msg_len as usize);
    }
    Ok(taken.min(count))
}

/// A piece that the kernel will only read, although the C type has no way to say so.
fn borrowed_iovec(body: &[u8]) -> iovec {
    iovec {
        iov_base: body.as_ptr().cast_mut().cast(),
        iov_len: body.len(),
    }
}

fn writable_iovec(buffer: &mut [u8]) -> iovec {
    iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    }
}

fn outgoing_header(head: &Head, piece: *mut iovec) -> msghdr {
    let control = head.control.bytes();
    header(
        head.to.as_ptr().cast_mut(),
        head.to.len(),
        piece,
        control.as_ptr().cast_mut().cast(),
        control.len(),
    )
}

fn incoming_header<const N: usize>(
    incoming: &mut Incoming<N>,
    piece: *mut iovec,
    control_len: usize,
) -> msghdr {
    header(
        incoming.from.as_mut_ptr(),
        RawAddr::EMPTY.len(),
        piece,
        incoming.control.room().as_mut_ptr().cast(),
        control_len.min(N),
    )
}

fn header(
    name: *mut c_void,
    name_len: u32,
    piece: *mut iovec,
    control: *mut c_void,
    control_len: usize,
) -> msghdr {
    // SAFETY: a `msghdr` consists of integers and pointers, for which all zeroes are valid.
    let mut header: msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_name = name;
    header.msg_namelen = name_len;
    header.msg_iov = piece;
    header.msg_iovlen = 1;
    if control_len > 0 {
        header.msg_control = control;
        header.msg_controllen = control_len as _;
    }
    header
}
