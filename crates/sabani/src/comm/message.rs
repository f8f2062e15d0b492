//! Messages of elements from rank to rank.

use std::time::{Duration, Instant};

use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::lives::LOOK;
use super::tag::Kind;
use super::{Comm, Error};
use crate::node::vain::Vain;
use crate::{Error as NodeError, Match, Message, Posted};

/// What came, and from whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The sender's rank.
    pub rank: usize,
    /// How many elements.
    pub count: usize,
}

/// Elements are plain data: numbers, arrays of them, and types that derive `bytemuck::Pod`. They
/// travel as they lie in memory, so all hosts need the same byte order.
impl Comm {
    /// Sends elements to a rank; they are copied. Waits while 4 MiB wait for that rank already
    /// ([`crate::Builder::send_queue`]).
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::RankLost`], [`Error::Node`].
    pub fn send<T: Pod>(&self, to: usize, tag: u32, elements: &[T]) -> Result<(), Error> {
        self.send_bytes(to, Kind::Message, tag, cast_slice(elements))
    }

    /// Receives elements from a rank into a slice, and returns how many came: at most as many as it
    /// has.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::RankLost`], [`Error::Length`], [`Error::Node`], of which
    /// [`Starved`](crate::Error::Starved) says who holds the memory that the message waits for, and
    /// [`Backlog`](crate::Error::Backlog) that untaken messages of that rank keep it from coming.
    pub fn recv<T: Pod>(&self, from: usize, tag: u32, elements: &mut [T]) -> Result<usize, Error> {
        let message = self.recv_message(from, Kind::Message, tag)?;
        copy_out(&message, from, tag, elements)
    }

    /// Receives as many elements as a rank has sent.
    ///
    /// # Errors
    /// As [`Comm::recv`].
    pub fn recv_vec<T: Pod>(&self, from: usize, tag: u32) -> Result<Vec<T>, Error> {
        let message = self.recv_message(from, Kind::Message, tag)?;
        to_vec(&message, from, tag)
    }

    /// Receives elements from a rank if they come within this time; `None` if not. [`Duration::ZERO`] takes what is here.
    /// However short the times are, calls again and again find out as soon as [`Comm::recv`] that nothing can come any more,
    /// but not that untaken messages keep it from coming.
    ///
    /// # Errors
    /// As [`Comm::recv`], without [`Backlog`](crate::Error::Backlog) if the time is less than a second.
    pub fn recv_timeout<T: Pod>(
        &self,
        from: usize,
        tag: u32,
        elements: &mut [T],
        timeout: Duration,
    ) -> Result<Option<usize>, Error> {
        let message = self.wait_for(Some(from), Kind::Message, tag, Some(timeout))?;
        let copied = message.map(|message| copy_out(&message, from, tag, elements));
        copied.transpose()
    }

    /// Receives elements from whichever rank has sent some first.
    ///
    /// # Errors
    /// As [`Comm::recv`]. [`Error::RankLost`] if any rank has failed. [`Error::Alone`] if all others have
    /// ended in good order.
    pub fn recv_any<T: Pod>(&self, tag: u32, elements: &mut [T]) -> Result<Received, Error> {
        let message = self.wait_for(None, Kind::Message, tag, None)?;
        self.received(&message.expect("it waits for one"), tag, elements)
    }

    /// Receives elements from whichever rank has sent some, if any come within this time, as [`Comm::recv_timeout`] does.
    /// For programs that take what is here and do something else meanwhile.
    ///
    /// ```
    /// # fn main() -> Result<(), sabani::comm::Error> {
    /// use std::time::Duration;
    ///
    /// let comm = sabani::Comm::init()?;
    /// let mut task = [0_u32; 2];
    /// assert_eq!(comm.recv_any_timeout(7, &mut task, Duration::ZERO)?, None);
    /// comm.send(comm.rank(), 7, &[3_u32, 4])?;
    /// let received = comm.recv_any_timeout(7, &mut task, Duration::from_secs(1))?;
    /// assert_eq!(received.map(|it| (it.rank, it.count)), Some((comm.rank(), 2)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Comm::recv_any`] and [`Comm::recv_timeout`].
    pub fn recv_any_timeout<T: Pod>(
        &self,
        tag: u32,
        elements: &mut [T],
        timeout: Duration,
    ) -> Result<Option<Received>, Error> {
        let message = self.wait_for(None, Kind::Message, tag, Some(timeout))?;
        let received = message.map(|message| self.received(&message, tag, elements));
        received.transpose()
    }

    fn received<T: Pod>(
        &self,
        message: &Message,
        tag: u32,
        elements: &mut [T],
    ) -> Result<Received, Error> {
        let rank = self.rank_of(message.source)?;
        let count = copy_out(message, rank, tag, elements)?;
        Ok(Received { rank, count })
    }

    /// Throws away the oldest message from a rank that nobody has received, and returns its length in
    /// bytes; `None` if none is here. For messages that the program does not want, and for one that
    /// is longer than the node allocates ([`crate::Builder::memory`]): every receive of it fails with
    /// [`TooLarge`](crate::Error::TooLarge), and it holds up those behind it, until it is thrown away.
    ///
    /// As [`Node::discard`](crate::Node::discard), it takes no memory and does not wait. It works in a communicator that
    /// has ended, too.
    ///
    /// ```
    /// # fn main() -> Result<(), sabani::comm::Error> {
    /// let comm = sabani::Comm::init()?;
    /// let me = comm.rank();
    /// comm.send(me, 7, b"not wanted")?;
    /// assert_eq!(comm.discard(me, 7)?, Some(10));
    /// assert_eq!(comm.discard(me, 7)?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::Node`].
    pub fn discard(&self, from: usize, tag: u32) -> Result<Option<u64>, Error> {
        let source = self.peer(from)?;
        let wanted = self.group.context.matching(Kind::Message, tag);
        let discarded = self.node().discard(wanted.from(source));
        let discarded = discarded.map_err(|error| self.explained(error))?;
        Ok(discarded.map(|message| message.len))
    }

    /// Sends to one rank and receives from one, the same or another, with the same tag, and returns
    /// how many elements came. All ranks of a ring may call it at a time.
    ///
    /// # Errors
    /// As [`Comm::send`] and [`Comm::recv`].
    pub fn sendrecv<T: Pod, U: Pod>(
        &self,
        to: usize,
        sent: &[T],
        from: usize,
        received: &mut [U],
        tag: u32,
    ) -> Result<usize, Error> {
        let source = self.peer(from)?;
        // Posted first, so that a large message needs no round trip to be let come.
        let wanted = self.group.context.matching(Kind::Message, tag).from(source);
        let posted = self.node().post(wanted, None)?;
        self.send(to, tag, sent)?;
        let message = self.wait_posted(posted, from)?;
        copy_out(&message, from, tag, received)
    }

    pub(super) fn send_bytes(
        &self,
        to: usize,
        kind: Kind,
        tag: u32,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let peer = self.peer(to)?;
        self.usable()?;
        let wire_tag = self.group.context.tag(kind, tag);
        loop {
            match self.node().try_send(peer, wire_tag, bytes) {
                Err(NodeError::Full { .. }) => {}
                sent => return sent.map_err(|error| self.explained(error)),
            }
            let room = self.node().wait_writable(peer, bytes.len(), LOOK);
            if !room.map_err(|error| self.explained(error))? {
                self.check_alive(to)?;
            }
        }
    }

    pub(super) fn recv_message(&self, from: usize, kind: Kind, tag: u32) -> Result<Message, Error> {
        let message = self.wait_for(Some(from), kind, tag, None)?;
        Ok(message.expect("it waits for one"))
    }

    /// Waits for a message from a rank, or from anybody, and looks now and then whether it can still come. `None` once the
    /// time is over, if there is one.
    fn wait_for(
        &self,
        from: Option<usize>,
        kind: Kind,
        tag: u32,
        timeout: Option<Duration>,
    ) -> Result<Option<Message>, Error> {
        let mut wanted = self.group.context.matching(kind, tag);
        if let Some(from) = from {
            wanted = wanted.from(self.peer(from)?);
        }
        self.usable()?;
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut vain = Vain::default();
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let time = left.map_or(LOOK, |left| left.min(LOOK));
            let message = self.node().recv_timeout(wanted, time);
            if let Some(message) = message.map_err(|error| self.explained(error))? {
                return Ok(Some(message));
            }
            let is_over = left.is_some_and(|left| left <= LOOK);
            let checked = match is_over {
                true => self.check_at_times(from),
                false => {
                    self.check_in_vain(&[wanted], &mut vain)?;
                    self.check(from)
                }
            };
            if let Err(lost) = checked {
                // Whoever has ended has waited until its last messages were here.
                let message = self.node().try_recv(wanted);
                let message = message.map_err(|error| self.explained(error))?;
                return message.ok_or(lost).map(Some);
            }
            if is_over {
                return Ok(None);
            }
        }
    }

    /// Whether messages that match each of these are waited for in vain, and the program itself waits.
    pub(super) fn check_in_vain(&self, wanted: &[Match], vain: &mut Vain) -> Result<(), Error> {
        if self.is_awaited() {
            let hindered = self.node().check_in_vain(wanted, vain);
            hindered.map_err(|error| self.explained(error))?;
        }
        Ok(())
    }

    pub(super) fn wait_posted(&self, mut posted: Posted, from: usize) -> Result<Message, Error> {
        let mut vain = Vain::default();
        loop {
            let message = posted.wait(Some(LOOK));
            if let Some(message) = message.map_err(|error| self.explained(error))? {
                return Ok(message);
            }
            if self.is_awaited() {
                let hindered = posted.check_in_vain(&mut vain);
                hindered.map_err(|error| self.explained(error))?;
            }
            if let Err(lost) = self.check_alive(from) {
                let message = posted.test();
                return message.map_err(|error| self.explained(error))?.ok_or(lost);
            }
        }
    }
}

/// A message's elements.
pub(super) fn to_vec<T: Pod>(message: &Message, rank: usize, tag: u32) -> Result<Vec<T>, Error> {
    let mut elements = vec![T::zeroed(); message.body().len() / size_of::<T>().max(1)];
    copy_out(message, rank, tag, &mut elements)?;
    Ok(elements)
}

/// Copies a message's elements, and counts them.
fn copy_out<T: Pod>(
    message: &Message,
    rank: usize,
    tag: u32,
    elements: &mut [T],
) -> Result<usize, Error> {
    let body = message.body();
    let room: &mut [u8] = cast_slice_mut(elements);
    let element = size_of::<T>().max(1);
    let wrong = |expected| Error::Length {
        rank,
        tag,
        bytes: body.len(),
        expected,
    };
    if !body.len().is_multiple_of(element) {
        return Err(wrong(element));
    }
    let room_bytes = room.len();
    let room = room
        .get_mut(..body.len())
        .ok_or_else(|| wrong(room_bytes))?;
    room.copy_from_slice(body);
    Ok(body.len() / element)
}
