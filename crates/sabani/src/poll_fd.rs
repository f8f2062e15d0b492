//! One descriptor for other event loops: readable when the socket is, and when something waits in
//! user space already.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use sabani_udp::Waker;

/// An epoll descriptor over the socket and an event counter.
#[derive(Debug)]
pub(crate) struct PollFd {
    epoll: OwnedFd,
    here: Waker,
}

impl PollFd {
    pub fn new(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let here = Waker::new()?;
        for (fd, data) in [(socket, 0), (here.as_fd(), 1)] {
            let data = epoll::EventData::new_u64(data);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN)?;
        }
        Ok(PollFd { epoll, here })
    }

    /// Says whether something waits in user space.
    pub fn set_ready(&self, ready: bool) {
        if ready {
            self.here.wake();
        } else {
            self.here.drain();
        }
    }

    /// The descriptor.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }
}
