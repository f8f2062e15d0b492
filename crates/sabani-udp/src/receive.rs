//! Receiving: coalesced trains into owned buffers.

use crate::capabilities::Capabilities;
use crate::control::{DATA_SPACE, Fact, interpret, space};
use crate::counters::Counters;
use crate::hints::Hints;
use crate::hot::Ends;
use crate::sys::{self, Errno, Incoming};
use crate::train::{Ecn, datagrams};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Bytes that each buffer of a [`RecvBatch`] holds: the largest datagram or coalesced train.
pub const BUFFER_BYTES: usize = 65_536;

/// The most buffers that a [`RecvBatch`] may have.
pub const MAX_BUFFERS: usize = sys::BATCH;

/// Empty polls between looks at the error queue that no failed call has prompted. An entry left there
/// would end every sleep at once.
const POLLS_PER_LOOK: u64 = 256;

/// Bytes per buffer up to which several buffers are offered at once.
const LITTLE_BYTES: usize = 8_192;

/// Datagrams from this length on may be parts of a long message: what every path must carry.
const LARGE_BYTES: usize = 1_200;

/// Calls that are repeated because of pending ICMP errors before the caller gets its turn again.
const MAX_REPEATS: usize = 8;

/// Buffers to receive into, and what was received last.
pub struct RecvBatch {
    bytes: Vec<u8>,
    incoming: Vec<Incoming<DATA_SPACE>>,
    slots: Vec<Slot>,
    filled: usize,
    /// Buffers to offer in the next call.
    offer: usize,
    /// The last call filled all that it was offered.
    full: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    from: SocketAddr,
    to: Option<IpAddr>,
    len: usize,
    segment: usize,
    ecn: Ecn,
    truncated: bool,
}

impl Slot {
    const EMPTY: Self = Self {
        from: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        to: None,
        len: 0,
        segment: 1,
        ecn: Ecn::NotCapable,
        truncated: false,
    };

    /// One datagram between these ends, of which nothing else was told.
    #[inline]
    fn between(ends: &Ends, len: usize) -> Self {
        Self {
            from: ends.peer,
            to: ends.local,
            len,
            segment: len.max(1),
            ecn: Ecn::NotCapable,
            truncated: false,
        }
    }
}

/// One buffer's content: a datagram, or several of one sender in a row.
#[derive(Debug)]
pub struct Received<'a> {
    /// The sender's address; IPv4 senders are given as IPv4 on any socket.
    pub from: SocketAddr,
    /// The local address it was sent to, where the socket reports it
    /// ([`reports_destination`](crate::Capabilities::reports_destination)). Answer from this one.
    pub to: Option<IpAddr>,
    /// Bytes of each datagram, at least 1; the last may be shorter.
    pub segment: usize,
    /// What each of them says of congestion, where the socket reports it
    /// ([`reports_ecn`](crate::Capabilities::reports_ecn)).
    pub ecn: Ecn,
    /// The datagrams, one after another.
    pub bytes: &'a mut [u8],
    /// The end is missing because it was longer than the buffer.
    pub truncated: bool,
}

impl<'a> Received<'a> {
    /// The datagrams, one by one. An empty datagram is one too.
    pub fn into_datagrams(self) -> Datagrams<'a> {
        Datagrams {
            rest: Some(self.bytes),
            segment: self.segment,
        }
    }
}

/// The datagrams of one buffer. See [`Received::into_datagrams`].
#[derive(Debug)]
pub struct Datagrams<'a> {
    rest: Option<&'a mut [u8]>,
    segment: usize,
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = &'a mut [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.rest.take()?;
        if bytes.len() <= self.segment {
            return Some(bytes);
        }
        let (datagram, rest) = bytes.split_at_mut(self.segment);
        self.rest = Some(rest);
        Some(datagram)
    }
}

impl fmt::Debug for RecvBatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RecvBatch")
            .field("buffers", &self.slots.len())
            .field("filled", &self.filled)
            .finish_non_exhaustive()
    }
}

impl RecvBatch {
    /// `buffers` buffers (1 to [`MAX_BUFFERS`], clamped) of [`BUFFER_BYTES`] each. The memory is touched
    /// only as it is needed, first buffers first, so a lightly loaded socket stays within the cache.
    pub fn new(buffers: usize) -> Self {
        let buffers = buffers.clamp(1, MAX_BUFFERS);
        Self {
            bytes: vec![0; buffers * BUFFER_BYTES],
            incoming: vec![Incoming::EMPTY; buffers],
            slots: vec![Slot::EMPTY; buffers],
            filled: 0,
            offer: 1,
            full: false,
        }
    }

    /// What the last [`Socket::recv`](crate::Socket::recv) brought.
    pub fn received(&mut self) -> impl ExactSizeIterator<Item = Received<'_>> {
        let buffers = self.bytes.chunks_exact_mut(BUFFER_BYTES);
        self.slots[..self.filled]
            .iter()
            .zip(buffers)
            .map(|(slot, buffer)| Received {
                from: slot.from,
                to: slot.to,
                segment: slot.segment,
                ecn: slot.ecn,
                bytes: &mut buffer[..slot.len],
                truncated: slot.truncated,
            })
    }

    /// Bytes that the last call brought.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.slots[..self.filled].iter().map(|slot| slot.len).sum()
    }

    /// The ends of what the last call brought, if those are the same for all of it.
    #[inline]
    pub(crate) fn ends(&self) -> Option<Ends> {
        let (first, others) = self.slots[..self.filled].split_first()?;
        let ends = Ends {
            peer: first.from,
            local: first.to,
        };
        others
            .iter()
            .all(|slot| slot.from == ends.peer && slot.to == ends.local)
            .then_some(ends)
    }

    /// Whether the last call brought a coalesced train first.
    pub(crate) fn is_train(&self) -> bool {
        self.filled > 0 && self.slots[0].len > self.slots[0].segment
    }

    /// Whether the last call brought something large first, which may be part of a long message.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.filled > 0 && self.slots[0].len >= LARGE_BYTES
    }

    /// Makes one receiving call, and reads what it brought; returns how many buffers were filled.
    #[inline]
    fn fill(
        &mut self,
        fd: BorrowedFd<'_>,
        told: Told<'_>,
        control_len: usize,
    ) -> Result<usize, Errno> {
        if let (Told::Nothing(ends), 1) = (told, self.offer) {
            let len = sys::recv_plainly(fd, &mut self.bytes[..BUFFER_BYTES])?;
            self.slots[0] = Slot::between(ends, len);
            return Ok(1);
        }
        let filled = self.fill_told(fd, control_len)?;
        for (slot, incoming) in self.slots.iter_mut().zip(&self.incoming[..filled]) {
            *slot = read(incoming);
            match told {
                Told::All => {}
                Told::AllHere(ends) => slot.to = ends.local,
                Told::Nothing(ends) => (slot.from, slot.to) = (ends.peer, ends.local),
            }
        }
        Ok(filled)
    }

    /// The same, with what the kernel tells beside.
    fn fill_told(&mut self, fd: BorrowedFd<'_>, control_len: usize) -> Result<usize, Errno> {
        if self.offer == 1 {
            let buffer = &mut self.bytes[..BUFFER_BYTES];
            sys::recv_one(fd, buffer, &mut self.incoming[0], control_len)?;
            return Ok(1);
        }
        let buffers = self.bytes.chunks_exact_mut(BUFFER_BYTES);
        sys::recv_many(fd, buffers, &mut self.incoming[..self.offer], control_len)
    }

    /// Notes that a call brought nothing.
    fn clear(&mut self) {
        self.offer = 1;
        self.filled = 0;
        self.full = false;
    }

    /// Notes what a call brought: `filled` buffers.
    #[inline]
    fn settle(&mut self, filled: usize, counters: &mut Counters) {
        self.filled = filled;
        let full = filled == self.offer;
        let next = next_offer(self.offer, filled, self.bytes(), self.full);
        self.offer = next.min(self.slots.len());
        self.full = full;
        for slot in &self.slots[..filled] {
            counters.datagrams_received += datagrams(slot.len, slot.segment) as u64;
            counters.bytes_received += slot.len as u64;
            counters.truncated += u64::from(slot.truncated);
        }
    }
}

/// How many buffers to offer after a call that filled `filled` of `offered` with `bytes` bytes.
///
/// Asking for one is quickest when one datagram is expected, and best for large trains, each of which is
/// worth its own call and then finds the same buffer warm in the cache: sixteen buffers in turn take
/// half as long again. Small datagrams gain a tenth from sharing calls. So the number doubles as long as
/// all buffers are filled with little; but not after the first call that finds something (`again`: the one before did,
/// too), for an answer comes alone.
fn next_offer(offered: usize, filled: usize, bytes: usize, again: bool) -> usize {
    if bytes > filled * LITTLE_BYTES {
        1
    } else if filled == offered {
        offered * if again { 2 } else { 1 }
    } else {
        filled.max(1)
    }
}

fn read(incoming: &Incoming<DATA_SPACE>) -> Slot {
    let mut slot = Slot {
        from: incoming.from.decode().unwrap_or(Slot::EMPTY.from),
        to: None,
        len: incoming.len,
        segment: incoming.len.max(1),
        ecn: Ecn::NotCapable,
        truncated: incoming.truncated,
    };
    for fact in incoming.control.messages().map(interpret) {
        match fact {
            Fact::Segment(segment) => slot.segment = segment.max(1),
            Fact::Destination(ip) => slot.to = Some(ip),
            Fact::Ecn(ecn) => slot.ecn = ecn,
            Fact::Error(_) | Fact::Other => {}
        }
    }
    slot
}

/// What the kernel tells beside what it hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told<'a> {
    /// The sender's address, and whatever the main socket was set up for.
    All,
    /// The same, but for the local address, which a connected socket knows.
    AllHere(&'a Ends),
    /// Not even the sender's address, which a connected socket knows, too.
    Nothing(&'a Ends),
}

/// The receiving half of a socket.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Room for the control messages that were asked for and no others.
    control_len: usize,
}

impl Receiver {
    pub fn new(capabilities: &Capabilities) -> Self {
        let room = |asked: bool, len| if asked { space(len) } else { 0 };
        Self {
            control_len: room(capabilities.gro, 4)
                + room(capabilities.reports_destination, 20)
                + room(capabilities.reports_ecn, 4),
        }
    }

    pub fn recv(
        &self,
        fd: BorrowedFd<'_>,
        batch: &mut RecvBatch,
        told: Told<'_>,
        hints: &mut Hints,
        counters: &mut Counters,
    ) -> io::Result<usize> {
        for _ in 0..MAX_REPEATS {
            counters.recv_calls += 1;
            match batch.fill(fd, told, self.control_len) {
                Ok(filled) => {
                    batch.settle(filled, counters);
                    return Ok(batch.filled);
                }
                Err(libc::EAGAIN) => break,
                Err(errno) if is_fatal(errno) => {
                    batch.clear();
                    return Err(io::Error::from_raw_os_error(errno));
                }
                Err(_) => {
                    counters.icmp_errors += hints.drain(fd, |_, _| ());
                    counters.repeated_calls += 1;
                }
            }
        }
        counters.empty_polls += 1;
        if counters.empty_polls.is_multiple_of(POLLS_PER_LOOK) {
            counters.icmp_errors += hints.drain(fd, |_, _| ());
        }
        batch.clear();
        Ok(0)
    }
}

/// Errors that say something about the socket or the process rather than about a peer.
fn is_fatal(errno: Errno) -> bool {
    matches!(
        errno,
        libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL | libc::ENOMEM | libc::ENOBUFS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offer_grows_while_small_datagrams_fill_it() {
        assert_eq!(next_offer(1, 1, 64, false), 1);
        assert_eq!(next_offer(1, 1, 64, true), 2);
        assert_eq!(next_offer(8, 8, 8 * 1_472, true), 16);
        assert_eq!(next_offer(16, 5, 5 * 64, true), 5);
        assert_eq!(next_offer(16, 0, 0, false), 1);
    }

    #[test]
    fn large_trains_come_one_at_a_time() {
        assert_eq!(next_offer(1, 1, 64_768, true), 1);
        assert_eq!(next_offer(16, 16, 16 * 64_768, true), 1);
    }

    #[test]
    fn an_empty_datagram_is_a_datagram() {
        let mut batch = RecvBatch::new(1);
        batch.filled = 1;
        let received = batch.received().next().unwrap();
        assert_eq!(received.into_datagrams().count(), 1);
    }

    #[test]
    fn only_the_last_datagram_may_be_short() {
        for (len, lengths) in [(6, &[3, 3][..]), (7, &[3, 3, 1]), (2, &[2])] {
            let datagrams = Datagrams {
                rest: Some(&mut [0; 7][..len]),
                segment: 3,
            };
            assert!(
                datagrams
                    .map(|bytes| bytes.len())
                    .eq(lengths.iter().copied())
            );
        }
    }
}
