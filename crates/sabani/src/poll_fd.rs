//! One descriptor for other event loops: readable when the socket is, and when something waits in
//! user space already.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll;
use sabani_udp::Waker;

/// An epoll descriptor over an event counter and the socket, if that is read by those who wait.
#[derive(Debug)]
pub(crate) struct PollFd {
    epoll: OwnedFd,
    here: Arc<Waker>,
}

impl PollFd {
    pub fn new(socket: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let here = Arc::new(Waker::new()?);
        for (fd, data) in socket.into_iter().chain([here.as_fd()]).zip(0..) {
            let data = epoll::EventData::new_u64(data);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN)?;
        }
        Ok(PollFd { epoll, here })
    }

    /// Makes the descriptor readable, until [`PollFd::set_ready`] says otherwise.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.here)
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
