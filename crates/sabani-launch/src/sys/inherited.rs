//! Descriptors that this process has inherited from its launcher.

use std::io::Result;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// A descriptor of our own for what the launcher has opened for this process under this number.
///
/// # Errors
/// If nothing is open there.
pub fn duplicate(fd: RawFd) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the number is not -1, and the borrow lives for one system call, which fails if the
    // number is not open. Whoever else uses it keeps it: nothing is closed here.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    borrowed.try_clone_to_owned()
}

/// The same, and programs that this process starts find nothing there any more.
///
/// # Errors
/// If nothing is open there.
pub fn take_over(fd: RawFd) -> Result<OwnedFd> {
    let taken = duplicate(fd)?;
    // SAFETY: the call takes numbers alone, and this one is open.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(taken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_open_is_duplicated_and_what_is_not_is_refused() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut copy = UnixStream::from(duplicate(ours.as_raw_fd()).unwrap());
        drop(ours);
        copy.write_all(b"still open").unwrap();
        assert!(take_over(copy.as_raw_fd()).is_ok());
        assert!(duplicate(-1).is_err());
        assert!(duplicate(1 << 20).is_err());
    }
}
