//! Sleeping until there is something to do.

use crate::sys;
use libc::pollfd;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// What a wait ended with. Neither: the time is over, or a signal came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There is something to receive, an ICMP error, or, where that was waited for, room to send.
    pub socket: bool,
    /// The other descriptor is readable.
    pub other: bool,
}

/// What to sleep on while the [`Socket`](crate::Socket) is left to others. Asked for anew each time: which
/// descriptors belong to a socket changes.
#[derive(Clone, Debug)]
pub struct Watch {
    pub(crate) main: Arc<UdpSocket>,
    pub(crate) hot: Option<Arc<UdpSocket>>,
}

impl Watch {
    /// Sleeps until the socket is readable (or, with `room_to_send`, writable), until `other` is
    /// readable, or until `timeout` has passed; `None` waits for ever. The resolution is that of the
    /// kernel's timers, about 50 µs.
    ///
    /// # Errors
    ///
    /// Those of ppoll(2), except that an interruption by a signal ends the wait without an error.
    pub fn wait(
        &self,
        room_to_send: bool,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<Ready> {
        let direction = if room_to_send { libc::POLLOUT } else { 0 };
        self.poll(libc::POLLIN | direction, other, timeout)
    }

    pub(crate) fn poll(
        &self,
        events: libc::c_short,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<Ready> {
        // The kernel ignores negative descriptors.
        let watch = |fd: Option<BorrowedFd<'_>>, events| pollfd {
            fd: fd.map_or(-1, |fd| fd.as_raw_fd()),
            events,
            revents: 0,
        };
        let hot = self.hot.as_ref().map(|hot| hot.as_fd());
        let mut fds = [
            watch(Some(self.main.as_fd()), events),
            watch(hot, events & libc::POLLIN),
            watch(other, libc::POLLIN),
        ];
        match sys::poll(&mut fds, timeout) {
            Ok(_) => Ok(Ready {
                socket: fds[0].revents != 0 || fds[1].revents != 0,
                other: fds[2].revents != 0,
            }),
            Err(libc::EINTR) => Ok(Ready::default()),
            Err(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Wakes a thread that sleeps in [`Watch::wait`]. Pass its descriptor as the other one.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    /// A waker that nobody has rung yet.
    ///
    /// # Errors
    ///
    /// When the process has run out of file descriptors.
    pub fn new() -> io::Result<Self> {
        let event = sys::event_fd().map_err(io::Error::from_raw_os_error)?;
        Ok(Self { event })
    }

    /// Makes the descriptor readable, from any thread. Costs a system call (about 0.2 µs), so call it only
    /// when somebody sleeps.
    pub fn wake(&self) {
        // The only failure is a counter that is full, and then the descriptor is readable already.
        let _ = sys::write_counter(self.event.as_fd());
    }

    /// Sleeps until somebody has called [`Waker::wake`], or until `timeout` has passed; `None` waits for
    /// ever.
    ///
    /// # Errors
    ///
    /// Those of ppoll(2), except that an interruption by a signal ends the wait without an error.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        let mut fds = [pollfd {
            fd: self.event.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        match sys::poll(&mut fds, timeout) {
            Ok(_) | Err(libc::EINTR) => Ok(()),
            Err(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Makes the descriptor unreadable again and says whether anybody had called [`Waker::wake`].
    pub fn drain(&self) -> bool {
        sys::read_counter(self.event.as_fd()).is_ok()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
