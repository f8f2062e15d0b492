//! The socket: setup, sending and receiving put together.

use crate::capabilities::Capabilities;
use crate::counters::Counters;
use crate::hints::{Hints, IcmpHint};
use crate::hot::{Hot, Thermometer};
use crate::options::Options;
use crate::receive::{Receiver, RecvBatch, Told};
use crate::send::{Context, Sender};
use crate::setup::{self, Opened};
use crate::sys;
use crate::train::{SendOutcome, Train};
use crate::wait::{Ready, Watch};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A non-blocking UDP socket for many peers.
#[derive(Debug)]
pub struct Socket {
    socket: Arc<UdpSocket>,
    hot: Option<Hot>,
    thermometer: Thermometer,
    local_addr: SocketAddr,
    capabilities: Capabilities,
    sender: Sender,
    receiver: Receiver,
    hints: Hints,
    counters: Counters,
    /// Kernel drops so far. The kernel's own count has 32 bits only and wraps.
    kernel_drops: AtomicU64,
}

impl Socket {
    /// Opens a socket. An IPv6 wildcard address serves IPv4 peers too. Missing capabilities are no error
    /// but show in [`Socket::capabilities`], and a clamped buffer is warned of through `tracing`.
    ///
    /// # Errors
    ///
    /// The operating system's, when the address is in use, is not this host's, or may not be bound.
    pub fn bind(addr: SocketAddr, options: &Options) -> io::Result<Self> {
        let Opened {
            socket,
            local_addr,
            family,
            capabilities,
        } = setup::open(addr, options)?;
        Ok(Self {
            sender: Sender::new(family, capabilities.max_segments),
            receiver: Receiver::new(&capabilities),
            hints: Hints::new(),
            counters: Counters::default(),
            kernel_drops: AtomicU64::new(0),
            socket: Arc::new(socket),
            hot: None,
            // Where nothing is told beside the bytes, nothing is told of marks.
            thermometer: Thermometer::new(!capabilities.reports_ecn),
            local_addr,
            capabilities,
        })
    }

    /// Another handle of the same socket, for a thread that sends while this one receives, say. Each of them counts what it does itself,
    /// and everything is received through one descriptor from now on.
    #[must_use]
    pub fn another(&mut self) -> Self {
        self.keep_together();
        Self {
            socket: Arc::clone(&self.socket),
            hot: None,
            thermometer: Thermometer::new(false),
            local_addr: self.local_addr,
            capabilities: self.capabilities.clone(),
            sender: self.sender.another(),
            receiver: Receiver::new(&self.capabilities),
            hints: self.hints.another(),
            counters: Counters::default(),
            kernel_drops: AtomicU64::new(0),
        }
    }

    /// The address it is bound to, with the port that the kernel chose where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Whether it speaks the version of IP that this peer's address is of. Trains for others fail with
    /// `EAFNOSUPPORT`.
    pub fn speaks_to(&self, peer: IpAddr) -> bool {
        self.sender.speaks_to(peer)
    }

    /// What the kernel granted when the socket was opened.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Sends trains in order, as many per system call as possible, without waiting.
    ///
    /// `report` is called once for each train that was tried, with its index. The return value is the
    /// number of trains that are settled (sent, too big or failed). When it is less than `trains.len()`,
    /// the train at that index was reported as [`SendOutcome::Blocked`] or [`SendOutcome::NoBuffers`], and
    /// nothing behind it was tried. One train's trouble never concerns another.
    ///
    /// # Errors
    ///
    /// Only when the descriptor itself is unusable.
    pub fn send(
        &mut self,
        trains: &[Train<'_>],
        report: &mut impl FnMut(usize, SendOutcome),
    ) -> io::Result<usize> {
        if let [train] = trains
            && self.send_hot(train)
        {
            report(0, SendOutcome::Sent);
            return Ok(1);
        }
        let context = Context {
            fd: self.socket.as_fd(),
            hints: &mut self.hints,
            counters: &mut self.counters,
        };
        let settled = self.sender.send(context, trains, report);
        if let Some(source) = self.sender.take_gone_source() {
            self.thermometer.leave(source, &mut self.hot);
        }
        settled
    }

    /// Sends a train to the hot peer; `false` if it is for another, or did not leave.
    #[inline]
    fn send_hot(&mut self, train: &Train<'_>) -> bool {
        let Some(hot) = &mut self.hot else {
            return false;
        };
        if !hot.serves(train.to, train.from) || hot.is_doubtful(train.cut() == 0) {
            return false;
        }
        if !self.sender.takes_connected(train) {
            return false;
        }
        let known = hot.knows_cut(train.cut());
        let context = Context {
            fd: hot.socket.as_fd(),
            hints: &mut self.hints,
            counters: &mut self.counters,
        };
        context.send_connected(train, known)
    }

    /// Receives what is there, without waiting, in one system call; returns how many of the batch's
    /// buffers were filled, 0 when nothing was there.
    ///
    /// A quiet socket is asked for one buffer, which has the lowest latency, and so is one that brings large
    /// trains; for small datagrams the number doubles while all are filled. So a result below the batch's
    /// size does not mean that the socket is empty. An empty poll costs 0.2 µs.
    ///
    /// A peer from which alone something keeps coming gets a connected socket of its own. Most polls look only
    /// there then, so 0 does not mean that nothing waits: see [`Socket::look_everywhere`].
    ///
    /// # Errors
    ///
    /// Only when the descriptor itself is unusable or the system is out of memory; ICMP errors become
    /// hints.
    #[inline]
    pub fn recv(&mut self, batch: &mut RecvBatch) -> io::Result<usize> {
        if self.hot.as_mut().is_some_and(Hot::stands_back) {
            let filled = self.recv_main(batch)?;
            if filled > 0 {
                return Ok(filled);
            }
        }
        if let Some(hot) = &mut self.hot {
            let (fd, told) = (hot.socket.as_fd(), hot.told());
            let filled =
                self.receiver
                    .recv(fd, batch, told, &mut self.hints, &mut self.counters)?;
            if filled > 0 {
                hot.note_filled(batch.is_large(), self.capabilities.gro);
                return Ok(filled);
            }
            if !hot.yields() {
                return Ok(0);
            }
        }
        self.recv_main(batch)
    }

    fn recv_main(&mut self, batch: &mut RecvBatch) -> io::Result<usize> {
        let fd = self.socket.as_fd();
        let filled =
            self.receiver
                .recv(fd, batch, Told::All, &mut self.hints, &mut self.counters)?;
        if filled == 0 {
            if let Some(hot) = &mut self.hot {
                hot.note_main_empty();
            }
        } else {
            let ends = batch.ends();
            let thermometer = &mut self.thermometer;
            let opened = thermometer.note(ends, filled, &self.socket, &mut self.hot);
            self.counters.hot_peers += u64::from(opened);
            if let Some(hot) = &mut self.hot
                && opened
                && batch.is_train()
            {
                hot.coalesce();
            }
        }
        Ok(filled)
    }

    /// Makes the next [`Socket::recv`] return 0 only if nothing waits at all.
    pub fn look_everywhere(&mut self) {
        if let Some(hot) = &mut self.hot {
            hot.look_at_both();
        }
    }

    /// Receives everything through one descriptor from now on, for those who watch it ([`AsFd`]).
    pub fn keep_together(&mut self) {
        self.thermometer.switch_off(&mut self.hot);
    }

    /// What to sleep on.
    pub fn watch(&self) -> Watch {
        Watch {
            main: Arc::clone(&self.socket),
            hot: self.hot.as_ref().map(|hot| Arc::clone(&hot.socket)),
        }
    }

    /// Sleeps until there is something to receive, until `other` (a [`Waker`](crate::Waker), say) is
    /// readable, or until `timeout` has passed. Use a [`Watch`] to wait for room to send as well.
    ///
    /// # Errors
    ///
    /// Those of ppoll(2), except that an interruption by a signal ends the wait without an error.
    pub fn wait(
        &self,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<Ready> {
        self.watch().wait(false, other, timeout)
    }

    /// Sleeps until there is room to send, until `other` is readable, or until `timeout` has passed: for a thread that leaves what comes
    /// to another one, which has [another](Socket::another) handle. An ICMP error ends it too, and is collected.
    ///
    /// # Errors
    ///
    /// Those of ppoll(2), except that an interruption by a signal ends the wait without an error.
    pub fn wait_for_room(
        &mut self,
        other: BorrowedFd<'_>,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let ready = self.watch().poll(libc::POLLOUT, Some(other), timeout)?;
        if ready.socket {
            let fd = self.socket.as_fd();
            self.counters.icmp_errors += self.hints.drain(fd, |_, _| ());
        }
        Ok(())
    }

    /// Moves the ICMP hints collected so far to the end of `into`. Free when there are none. Hints are
    /// collected while sending and receiving; at most 64 are kept.
    pub fn take_icmp_hints(&mut self, into: &mut Vec<IcmpHint>) {
        self.hints.take(into);
    }

    /// What was sent and waits for the host's own link still: in queue disciplines and cards, as far as those
    /// tell when something has left, in bytes as the kernel charges them (each train as some hundred more). What goes to this host
    /// itself, or leaves a container, has always left. Costs a system call or two of 0.2 µs.
    pub fn unsent_bytes(&self) -> u64 {
        let hot = self.hot.as_ref().map(|hot| hot.socket.as_fd());
        let sockets = [Some(self.socket.as_fd()), hot].into_iter().flatten();
        let waiting = |fd| sys::unsent(fd).map_or(0, u64::from);
        sockets.map(waiting).sum()
    }

    /// What the socket has done so far. Costs a system call (about 0.2 µs) to ask for the kernel's drops:
    /// having them reported with each message instead (`SO_RXQ_OVFL`) would cost 24 ns every time.
    pub fn counters(&self) -> Counters {
        Counters {
            kernel_drops: self.kernel_drops() + self.thermometer.drops(&self.hot),
            ..self.counters
        }
    }

    fn kernel_drops(&self) -> u64 {
        let Ok(drops) = sys::drops(self.socket.as_fd()) else {
            return self.kernel_drops.load(Relaxed);
        };
        let known = self.kernel_drops.load(Relaxed);
        let total = known + u64::from(drops.wrapping_sub(known as u32));
        self.kernel_drops.fetch_max(total, Relaxed).max(total)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
