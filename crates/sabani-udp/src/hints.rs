//! ICMP errors, as hints about peers.
//!
//! With `IP_RECVERR` the kernel queues each ICMP error with the address of the peer it concerns, and
//! raises a pending error that the socket's next call returns instead of doing its work. So there is
//! nothing to do, and nothing to pay, as long as no call fails.

use crate::control::{Control, Fact, QueuedError, interpret, space};
use crate::sys::{self, Errno, Incoming};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// An ICMP error said something about a peer. Anybody can forge one, so it is a reason to ask the peer,
/// never a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpHint {
    /// Where the datagram at fault was sent to.
    pub to: SocketAddr,
    /// What is said to be wrong.
    pub kind: HintKind,
}

/// What an ICMP error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// Host, network, port or protocol is unreachable; holds the `errno`.
    Unreachable(i32),
    /// A datagram was too big for a hop on the way.
    TooBig {
        /// The hop's MTU in bytes, headers included; 0 when it did not say.
        mtu: u32,
    },
}

/// Hints that are kept until somebody takes them. More are counted but not kept: a hint only says that
/// a peer is worth asking, and a flood of them says no more than a few.
const KEPT: usize = 64;

/// Entries taken off the queue at one time, to bound the work. The kernel raises the pending error again
/// when more are left.
const DRAINED_AT_ONCE: usize = 64;

/// Extended error and offender's address, and room for a destination address.
const ERROR_SPACE: usize = space(16 + 28) + space(20) + space(20);

/// What was last taken off the queue of a socket with several handles: a call through one of them may fail by an error of which
/// another has taken the entry off.
#[derive(Debug, Default)]
struct Log {
    entries: VecDeque<(Option<SocketAddr>, Errno)>,
    /// Entries so far.
    count: u64,
}

impl Log {
    fn note(&mut self, of: Option<SocketAddr>, errno: Errno) {
        if self.entries.len() == DRAINED_AT_ONCE {
            self.entries.pop_front();
        }
        self.entries.push_back((of, errno));
        self.count += 1;
    }

    /// Those that came behind so many, as far as they are known.
    fn behind(&self, count: u64) -> impl Iterator<Item = (Option<SocketAddr>, Errno)> {
        let new = (self.count - count).min(self.entries.len() as u64) as usize;
        self.entries.iter().rev().take(new).copied()
    }
}

/// Collects hints.
#[derive(Debug)]
pub(crate) struct Hints {
    kept: Vec<IcmpHint>,
    /// Of a socket with several handles, and how many of its entries this one has seen.
    log: Option<Arc<Mutex<Log>>>,
    seen: u64,
}

impl Hints {
    pub fn new() -> Self {
        Self {
            kept: Vec::with_capacity(KEPT),
            log: None,
            seen: 0,
        }
    }

    /// Those of another handle of the same socket.
    pub fn another(&mut self) -> Self {
        Self {
            log: Some(Arc::clone(self.log.get_or_insert_default())),
            seen: self.seen,
            ..Self::new()
        }
    }

    pub fn take(&mut self, into: &mut Vec<IcmpHint>) {
        into.append(&mut self.kept);
    }

    /// Empties the error queue; tells of whom each ICMP error in it was, and its number, also of those that another handle has taken off
    /// it meanwhile. How many were in it.
    #[cold]
    pub fn drain(
        &mut self,
        fd: BorrowedFd<'_>,
        mut seen: impl FnMut(Option<SocketAddr>, Errno),
    ) -> u64 {
        let Some(log) = self.log.clone() else {
            return self.take_off(fd, seen);
        };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.take_off(fd, |of, errno| log.note(of, errno));
        log.behind(self.seen)
            .for_each(|(of, errno)| seen(of, errno));
        self.seen = log.count;
        count
    }

    fn take_off(
        &mut self,
        fd: BorrowedFd<'_>,
        mut seen: impl FnMut(Option<SocketAddr>, Errno),
    ) -> u64 {
        let mut count = 0;
        for _ in 0..DRAINED_AT_ONCE {
            let mut entry = Incoming::<ERROR_SPACE>::EMPTY;
            if sys::recv_error(fd, &mut entry).is_err() {
                break;
            }
            if let Some(error) = icmp_error(&entry.control) {
                let of = entry.from.decode();
                seen(of, error.errno);
                self.keep(of, error);
                count += 1;
            }
        }
        count
    }

    fn keep(&mut self, to: Option<SocketAddr>, error: QueuedError) {
        let Some(to) = to else { return };
        let kind = match error.errno {
            libc::EMSGSIZE => HintKind::TooBig { mtu: error.info },
            errno => HintKind::Unreachable(errno),
        };
        let hint = IcmpHint { to, kind };
        if self.kept.len() < KEPT && !self.kept.contains(&hint) {
            tracing::debug!(%to, ?kind, "ICMP error");
            self.kept.push(hint);
        }
    }
}

fn icmp_error<const N: usize>(control: &Control<N>) -> Option<QueuedError> {
    control
        .messages()
        .map(interpret)
        .find_map(|fact| match fact {
            Fact::Error(error) if error.from_icmp => Some(error),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_handle_sees_each_entry_once_as_far_as_they_are_known() {
        let mut log = Log::default();
        let peer = |port: u64| Some(SocketAddr::from(([127, 0, 0, 1], port as u16)));
        let entries = 2 * DRAINED_AT_ONCE as u64;
        for port in 0..entries {
            log.note(peer(port), libc::ECONNREFUSED);
        }
        assert_eq!(log.count, entries);
        assert_eq!(log.behind(0).count(), DRAINED_AT_ONCE);
        let last: Vec<_> = log.behind(entries - 2).map(|(of, _)| of).collect();
        assert_eq!(last, [peer(entries - 1), peer(entries - 2)]);
        assert_eq!(log.behind(entries).count(), 0);
    }
}
