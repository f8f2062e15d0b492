//! The public handle.

mod flows;
pub(crate) mod sends;
pub(crate) mod vain;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sabani_proto::{RecvTicket, SendError};
use sabani_udp::{Capabilities, Counters as SocketCounters};

use crate::address;
use crate::engine::Leave;
use crate::pending::{PostedInto, copy_out};
use crate::shared::{Guard, Shared, State};
use crate::timing::{Stage, Timings};
use crate::{
    Builder, Envelope, Error, Event, LinkState, Match, Message, NodeStats, PeerId, PeerStats,
    Posted,
};
use vain::{IN_VAIN_EVERY, Vain};

/// After everything has been acknowledged, saying goodbye takes at most this long.
const GOODBYE: Duration = Duration::from_millis(200);

/// A process's end of all its connections. Cheap to clone, usable from several threads. Dropping
/// the last one closes it; a [`Posted`], [`PostedInto`] or [`Sent`](crate::Sent) counts as one.
///
/// A send returns before its message has arrived. End with [`Node::close`], which says if some have not: dropping
/// waits for them as well, at most [`Builder::linger`], but has nobody to tell, and `process::exit` does not
/// even wait.
#[derive(Clone, Debug)]
pub struct Node(Arc<Handle>);

/// What the clones share; ends the node when the last one goes.
#[derive(Debug)]
pub(crate) struct Handle {
    pub shared: Arc<Shared>,
    helper: Mutex<Option<JoinHandle<()>>>,
    id: PeerId,
    linger: Duration,
}

impl From<Handle> for Node {
    fn from(handle: Handle) -> Self {
        Node(Arc::new(handle))
    }
}

#[cfg(test)]
impl Node {
    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }
}

impl Node {
    /// Begins opening a node for the process with this id.
    pub fn builder(id: PeerId) -> Builder {
        Builder::new(id)
    }

    /// This process's id.
    pub fn id(&self) -> PeerId {
        self.0.id
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.shared.lock_raw().engine.below.local_addr()
    }

    /// What the socket can do here.
    pub fn capabilities(&self) -> Capabilities {
        self.0.shared.lock_raw().engine.below.capabilities().clone()
    }

    /// Adds a peer, or corrects the address of one without a connection.
    ///
    /// # Errors
    /// [`Error::BadAddress`] if no single process can be there: port 0, `0.0.0.0` or `[::]`, broadcast,
    /// multicast; [`Error::Closed`], [`Error::Forked`].
    pub fn add_peer(&self, peer: PeerId, addr: SocketAddr) -> Result<(), Error> {
        let addr = address::of_peer(peer, addr)?;
        let mut state = self.0.shared.lock()?;
        state.engine.node.add_peer(peer, addr);
        Ok(())
    }

    /// Makes a connection now, rather than with the first message. There is always one to oneself.
    ///
    /// Where the peer's program had disconnected before there was a connection, this node can't know yet: this
    /// returns `Ok`, and the state becomes [`LinkState::DisconnectedByPeer`] once a packet of the peer's has told of it,
    /// as a rule milliseconds later. The peer's library has the connection a moment later than this one: until a packet
    /// has come, [`Node::peer_stats`] there may know nothing of it.
    ///
    /// The program begins anew: [`Node::send`] and receives say nothing any more of connections that had ended before. That
    /// messages were dropped with one is told by [`Event::Lost`], [`Node::wait_acknowledged`] and [`Node::close`].
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Disconnected`] if one of the two programs is known to have disconnected,
    /// [`Error::PeerLost`] with the reason; [`Error::Unconnected`] with what is known of it if the time is
    /// over sooner than [`Builder::connect_timeout`]: the handshake goes on. [`Error::Closed`],
    /// [`Error::Forked`].
    pub fn connect(&self, peer: PeerId, timeout: Duration) -> Result<(), Error> {
        {
            let mut state = self.0.shared.lock()?;
            let now_ns = state.engine.clock();
            state.engine.node.begin_anew(peer);
            state.engine.node.connect(now_ns, peer)?;
            if peer == self.0.id {
                return Ok(());
            }
        }
        let state_of = |state: &mut State| state.engine.node.peer_state(peer);
        let outcome = self
            .0
            .shared
            .wait_until(Some(timeout), |state| match state_of(state) {
                Some(LinkState::Open) => Some(Ok(())),
                Some(LinkState::Connecting | LinkState::Silent) => None,
                Some(LinkState::DisconnectedByPeer) => Some(Err(Error::Disconnected {
                    peer,
                    queued_bytes: 0,
                    by_peer: true,
                })),
                _ => {
                    let lost = state.engine.node.check_source(peer).err();
                    let unknown = Error::PeerLost { peer, why: None };
                    Some(Err(lost.map_or(unknown, Error::from)))
                }
            })?;
        outcome.unwrap_or_else(|| {
            let why = self.0.shared.lock()?.engine.node.unanswered(peer);
            Err(Error::Unconnected { peer, why })
        })
    }

    /// Breaks a connection off, until [`Node::reconnect`] and no sooner (U14:
    /// `datagram_disconnect`): messages to the peer are refused at once, and the peer's wait on its
    /// side. What was accepted and not acknowledged is kept, and goes on afterwards, exactly once: as much as
    /// [`Builder::send_queue`] says, one message of any size on an empty queue included. Messages that have come can be
    /// received meanwhile.
    ///
    /// The peer's library is told, and keeps its side for [`Builder::disconnected_max`] without a
    /// sign of life: time for this machine to be moved, or its network to be rebuilt. Does nothing
    /// if the program has disconnected already.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Closed`], [`Error::Forked`].
    pub fn disconnect(&self, peer: PeerId) -> Result<(), Error> {
        self.steer(|node, now_ns| node.disconnect(now_ns, peer))
    }

    /// Ends what [`Node::disconnect`] has begun (U14: `datagram_reconnect`), without waiting:
    /// [`Node::connect`] does that. The address may have been corrected with [`Node::add_peer`] in
    /// between. Does nothing if the program has not disconnected.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Closed`], [`Error::Forked`].
    pub fn reconnect(&self, peer: PeerId) -> Result<(), Error> {
        self.steer(|node, now_ns| node.reconnect(now_ns, peer))
    }

    /// Has the node do something that others may have to hear of at once.
    fn steer(
        &self,
        act: impl FnOnce(&mut sabani_proto::Node, u64) -> Result<(), SendError>,
    ) -> Result<(), Error> {
        let mut state = self.0.shared.lock()?;
        let now_ns = state.engine.clock();
        act(&mut state.engine.node, now_ns)?;
        state.engine.transmit(Leave::All);
        self.0.shared.call_others(&mut state, true);
        self.0.shared.progress_at_times(&mut state);
        Ok(())
    }

    /// Waits for a message that matches, and takes it.
    ///
    /// Those of one peer come in the order in which it sent them. Of several peers', the one that was here first
    /// is taken, so that a long one which is still coming, or a sender that has stopped in the middle of one, holds
    /// up nobody else's. One that does not come before somebody asks for it, for want of memory
    /// ([`Builder::memory`], [`Builder::peer_memory`]), has its turn when it is announced, and is then waited for.
    ///
    /// A receive from one peer waits if that has never been connected, for it may connect. When its
    /// connection has ended, whatever the reason, this says so each time, for as long as there is no
    /// other connection, nor one being made by a message sent there, by [`Node::connect`], or by the
    /// peer; messages that had come before can still be received. A receive that is posted
    /// ([`Node::post`]) waits for the next connection.
    ///
    /// A receive from any peer ends with nobody's connection, for another peer may still send. A program
    /// that waits so and must know who has gone calls [`Node::recv_timeout`] and looks at
    /// [`Node::next_event`] in between: [`Event::Lost`] names the peer and the reason, once the peer has
    /// closed, or has been silent for [`Builder::dead_after`].
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Expired`], [`Error::PeerLost`], [`Error::Backlog`], [`Error::Starved`],
    /// [`Error::Closed`]; [`Error::UnknownPeer`] if the peer is not known and
    /// [`Builder::accept_unknown`] lets no such one in.
    // Never inlined: see [`take_ready`].
    #[inline(never)]
    pub fn recv(&self, wanted: Match) -> Result<Message, Error> {
        let mut state = self.0.shared.lock()?;
        state.engine.lap(Stage::Program);
        let ready = take_ready(&mut state, &wanted);
        if let Some(message) = ready {
            return Ok(message);
        }
        let mut vain = Vain::default();
        loop {
            if let Some(message) = self.recv_later(state, wanted, IN_VAIN_EVERY)? {
                return Ok(message);
            }
            self.check_in_vain(&[wanted], &mut vain)?;
            state = self.0.shared.lock()?;
        }
    }

    /// Like [`Node::recv`]; `None` when nothing came in time, and that is all it is: whoever has a time for it
    /// may come again, and nothing is said of waiting in vain. If it was for want of memory,
    /// [`PeerStats::shortage`] of the peer says so, and [`PeerStats::posted_bytes`] of others who holds it.
    ///
    /// # Errors
    /// As [`Node::recv`], but for [`Error::Backlog`] and [`Error::Starved`].
    // Never inlined: see [`take_ready`].
    #[inline(never)]
    pub fn recv_timeout(&self, wanted: Match, timeout: Duration) -> Result<Option<Message>, Error> {
        let mut state = self.0.shared.lock()?;
        state.engine.lap(Stage::Program);
        let ready = take_ready(&mut state, &wanted);
        if ready.is_some() {
            return Ok(ready);
        }
        self.recv_later(state, wanted, timeout)
    }

    /// Waits for a message that is not here.
    fn recv_later(
        &self,
        mut state: Guard<'_>,
        wanted: Match,
        timeout: Duration,
    ) -> Result<Option<Message>, Error> {
        check_source(&self.0.shared, &mut state, &wanted)?;
        if wanted.source().is_none() {
            return self.recv_from_any(state, wanted, u64::MAX, timeout);
        }
        let ticket = state.engine.node.post(wanted, None);
        self.wait_received(state, ticket, timeout)
    }

    /// Waits for a message of at most `max` bytes from anybody: for one that is here, whoever sent it.
    fn recv_from_any(
        &self,
        state: Guard<'_>,
        wanted: Match,
        max: u64,
        timeout: Duration,
    ) -> Result<Option<Message>, Error> {
        let begun = Instant::now();
        let mut next = Some(state);
        loop {
            let state = match next.take() {
                Some(state) => state,
                None => self.0.shared.lock()?,
            };
            let left = timeout.saturating_sub(begun.elapsed());
            if let Some(received) = self.recv_first(state, wanted, max, left)? {
                return Ok(received);
            }
        }
    }

    /// The same; `None` if the message that it waits for was to be asked for, and its sender has gone: others may still send.
    fn recv_first(
        &self,
        state: Guard<'_>,
        wanted: Match,
        max: u64,
        timeout: Duration,
    ) -> Result<Option<Option<Message>>, Error> {
        let begun = Instant::now();
        let found = |state: &mut State| {
            let node = &mut state.engine.node;
            if max == u64::MAX
                && let Some(message) = node.try_take_small(&wanted)
            {
                return Some(Some(message));
            }
            node.is_time_to_post(&wanted, max).then_some(None)
        };
        let (mut state, found) = self.0.shared.wait_on(state, Some(timeout), found)?;
        let Some(taken) = found else {
            return Ok(Some(None));
        };
        if taken.is_some() {
            return Ok(Some(after_take(&mut state, taken)));
        }
        let node = &mut state.engine.node;
        let ticket = node.post_within(wanted, max);
        if node.has_ended(ticket) {
            let result = node.take_received(ticket).transpose();
            let message = result.map_err(Error::from)?;
            return Ok(Some(after_take(&mut state, message)));
        }
        state.engine.send_queued();
        let left = timeout.saturating_sub(begun.elapsed());
        let (mut state, ended) = self.wait_ended(state, ticket, left)?;
        if state.engine.node.has_lost_its_peer(ticket) {
            // Nobody has been told of that end, and whoever asks that peer will be.
            state.engine.node.abandon(ticket);
            return Ok(None);
        }
        self.end_receive(state, ticket, ended).map(Some)
    }

    /// Takes a message that matches one of these: of several that are here, one that the first of them
    /// matches. `None` when nothing came in time. What all of them wait for is let come at the same time.
    ///
    /// Costs a look for each of them whenever something has come.
    ///
    /// # Errors
    /// If none of them gets a message at once, and one of them waits in vain: [`Error::TooLarge`],
    /// [`Error::PeerLost`] and [`Error::UnknownPeer`], as [`Node::recv`]. [`Error::Closed`],
    /// [`Error::Forked`].
    pub fn recv_one_of(
        &self,
        wanted: &[Match],
        timeout: Duration,
    ) -> Result<Option<Message>, Error> {
        self.recv_one_of_unless(wanted, timeout, |_| false)
    }

    /// The same, which also ends, without a message, when something else has happened.
    pub(crate) fn recv_one_of_unless(
        &self,
        wanted: &[Match],
        timeout: Duration,
        mut happened: impl FnMut(&mut State) -> bool,
    ) -> Result<Option<Message>, Error> {
        let mut take = |state: &mut State| {
            let node = &mut state.engine.node;
            let message = wanted.iter().find_map(|wanted| node.try_take(wanted));
            let found = message.map(|message| Ok(Some(message))).or_else(|| {
                let oversized = wanted.iter().find_map(|wanted| node.oversized(wanted));
                oversized.map(|why| Err(Error::from(why)))
            });
            state.engine.send_queued();
            found.or_else(|| happened(state).then_some(Ok(None)))
        };
        {
            let mut state = self.0.shared.lock()?;
            if let Some(found) = take(&mut state) {
                return found;
            }
            for wanted in wanted {
                check_source(&self.0.shared, &mut state, wanted)?;
            }
        }
        let found = self.0.shared.wait_until(Some(timeout), take)?;
        found.unwrap_or(Ok(None))
    }

    /// Waits for a receive that is posted, and withdraws it when the time is over.
    fn wait_received(
        &self,
        state: Guard<'_>,
        ticket: RecvTicket,
        timeout: Duration,
    ) -> Result<Option<Message>, Error> {
        let (state, ended) = self.wait_ended(state, ticket, timeout)?;
        self.end_receive(state, ticket, ended)
    }

    /// Waits until a receive has ended, or the time is over.
    fn wait_ended<'s>(
        &'s self,
        state: Guard<'s>,
        ticket: RecvTicket,
        timeout: Duration,
    ) -> Result<(Guard<'s>, bool), Error> {
        let has_ended = |state: &mut State| state.engine.node.has_ended(ticket).then_some(());
        let (state, ended) = self.0.shared.wait_on(state, Some(timeout), has_ended)?;
        Ok((state, ended.is_some()))
    }

    /// Takes the result of a receive, or withdraws it.
    fn end_receive(
        &self,
        mut state: Guard<'_>,
        ticket: RecvTicket,
        ended: bool,
    ) -> Result<Option<Message>, Error> {
        if !ended {
            let shared = &self.0.shared;
            let (result, _) = shared.withdraw(&mut state, ticket, sabani_proto::Node::cancel);
            return result.transpose().map_err(Error::from);
        }
        let result = state.engine.node.take_received(ticket);
        state.engine.lap(Stage::MessagesIn);
        result.transpose().map_err(Error::from)
    }

    /// Takes the message that [`Node::recv`] would take if it is here; makes progress otherwise.
    ///
    /// # Errors
    /// As [`Node::recv`], but for [`Error::Backlog`] and [`Error::Starved`].
    // Never inlined: see [`take_ready`].
    #[inline(never)]
    pub fn try_recv(&self, wanted: Match) -> Result<Option<Message>, Error> {
        let mut state = self.0.shared.lock()?;
        let ready = take_ready(&mut state, &wanted);
        if ready.is_some() {
            return Ok(ready);
        }
        check_source(&self.0.shared, &mut state, &wanted)?;
        if let Some(fd) = &state.engine.poll_fd {
            fd.set_ready(false);
        }
        self.0.shared.progress(&mut state);
        let node = &mut state.engine.node;
        match node.try_take(&wanted) {
            None => node
                .oversized(&wanted)
                .map_or(Ok(None), |why| Err(why.into())),
            message => Ok(message),
        }
    }

    /// Receives into a borrowed buffer.
    ///
    /// # Errors
    /// [`Error::TooSmall`] if the message does not fit; it stays receivable. Those of
    /// [`Node::recv`].
    pub fn recv_into(&self, wanted: Match, buffer: &mut [u8]) -> Result<Envelope, Error> {
        let max = buffer.len() as u64;
        let mut vain = Vain::default();
        loop {
            let mut state = self.0.shared.lock()?;
            if state.engine.node.probe(&wanted).is_none() {
                check_source(&self.0.shared, &mut state, &wanted)?;
            }
            let message = if wanted.source().is_none() {
                self.recv_from_any(state, wanted, max, IN_VAIN_EVERY)?
            } else {
                let ticket = state.engine.node.post_within(wanted, max);
                self.wait_received(state, ticket, IN_VAIN_EVERY)?
            };
            if let Some(message) = message {
                return Ok(copy_out(&message, buffer));
            }
            self.check_in_vain(&[wanted], &mut vain)?;
        }
    }

    /// Posts a receive. With a buffer, the message goes straight into it, whatever its length up to
    /// the buffer's, or up to the capacity of one that is empty, which is filled with zeros first; without one,
    /// into memory of the node's. A receive from one peer ends with the
    /// connection to it ([`Error::PeerLost`]); if there is none now, it waits for the next. A receive from any peer
    /// is given one that is here, else the one that is or will be announced first, and waits for all of that.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn post(&self, wanted: Match, mut buffer: Option<Vec<u8>>) -> Result<Posted, Error> {
        // Others wait for the node while it is locked.
        if let Some(empty) = buffer.as_mut().filter(|buffer| buffer.is_empty()) {
            empty.resize(empty.capacity(), 0);
        }
        self.post_with(|node| node.post(wanted, buffer))
    }

    fn post_with(
        &self,
        post: impl FnOnce(&mut sabani_proto::Node) -> RecvTicket,
    ) -> Result<Posted, Error> {
        let mut state = self.0.shared.lock()?;
        let ticket = post(&mut state.engine.node);
        state.engine.send_queued();
        Ok(Posted {
            handle: self.0.clone(),
            ticket: Some(ticket),
        })
    }

    /// Posts a receive into a borrowed buffer.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn post_into<'a>(
        &self,
        wanted: Match,
        buffer: &'a mut [u8],
    ) -> Result<PostedInto<'a>, Error> {
        let max = buffer.len() as u64;
        let posted = self.post_with(|node| node.post_within(wanted, max))?;
        Ok(PostedInto { posted, buffer })
    }

    /// Throws away a message that matches, the one that [`Node::probe`] shows (of several senders' it may be another one
    /// meanwhile: name source and tag), and returns its envelope; makes progress if there is none. For messages that the program does not want, or
    /// has no room for: that of an [`Error::TooLarge`] or [`Error::TooSmall`] is discarded by its
    /// source and tag.
    ///
    /// No memory is taken, whatever the length. What is not here yet still crosses the network, and is
    /// dropped as it comes; to its sender the message has arrived once all of it has ([`Sent::wait`](crate::Sent::wait)).
    /// Later messages of the sender don't wait for that. A message that a posted receive has been given
    /// is out of reach until that receive is withdrawn ([`Posted::cancel`]).
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn discard(&self, wanted: Match) -> Result<Option<Envelope>, Error> {
        let mut state = self.0.shared.lock()?;
        let mut envelope = state.engine.node.discard(&wanted);
        if envelope.is_none() {
            self.0.shared.progress(&mut state);
            envelope = state.engine.node.discard(&wanted);
        }
        if envelope.is_some() {
            self.0.shared.after_return(&mut state);
        }
        state.engine.send_queued();
        Ok(envelope)
    }

    /// Throws away all messages that nobody wants and that are known by now; whether there were any. Makes no progress, and
    /// looks at all messages that wait.
    pub(crate) fn discard_all(
        &self,
        is_unwanted: impl Fn(PeerId, u64) -> bool,
    ) -> Result<bool, Error> {
        self.discard_by(|node| node.discard_all(is_unwanted))
    }

    /// The same for those with one of these tags, however much waits.
    pub(crate) fn discard_tags(&self, tags: &[u64]) -> Result<bool, Error> {
        self.discard_by(|node| {
            let mut any = false;
            for tag in tags {
                while node.discard(&Match::any().tag(*tag)).is_some() {
                    any = true;
                }
            }
            any
        })
    }

    fn discard_by(
        &self,
        discard: impl FnOnce(&mut sabani_proto::Node) -> bool,
    ) -> Result<bool, Error> {
        let mut state = self.0.shared.lock()?;
        let any = discard(&mut state.engine.node);
        if any {
            self.0.shared.after_return(&mut state);
        }
        Ok(any)
    }

    /// Looks at the message that [`Node::recv`] would take, without taking it (U8: `datagram_ready`): one that
    /// is here, else the one that was announced first. Makes progress if there is none.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn probe(&self, wanted: Match) -> Result<Option<Envelope>, Error> {
        let mut state = self.0.shared.lock()?;
        if let Some(envelope) = state.engine.node.probe(&wanted) {
            return Ok(Some(envelope));
        }
        self.0.shared.progress(&mut state);
        Ok(state.engine.node.probe(&wanted))
    }

    /// Waits until a message matches, without taking it.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn probe_timeout(
        &self,
        wanted: Match,
        timeout: Duration,
    ) -> Result<Option<Envelope>, Error> {
        self.0
            .shared
            .wait_until(Some(timeout), |state| state.engine.node.probe(&wanted))
    }

    /// Whether a message of `len` bytes to the peer would be accepted now; makes progress if not.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Disconnected`], [`Error::Closed`], [`Error::Forked`].
    pub fn is_writable(&self, to: PeerId, len: usize) -> Result<bool, Error> {
        let mut state = self.0.shared.lock()?;
        if room(&mut state, to, len).is_none() {
            self.0.shared.progress(&mut state);
        }
        Ok(room(&mut state, to, len).transpose()?.is_some())
    }

    /// Waits until a message of `len` bytes to the peer would be accepted at once (U8:
    /// `datagram_wait`); `false` when the time is over.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Disconnected`], [`Error::Closed`], [`Error::Forked`].
    pub fn wait_writable(&self, to: PeerId, len: usize, timeout: Duration) -> Result<bool, Error> {
        let shared = &self.0.shared;
        if let Some(room) = room(&mut *shared.lock()?, to, len) {
            room?;
            return Ok(true);
        }
        let room = shared.wait_until(Some(timeout), |state| room(state, to, len))?;
        Ok(room.transpose()?.is_some())
    }

    /// Waits until what was accepted for a peer has left, also what waits until the peer asks for it;
    /// `false` when the time is over. A program that stays away before that holds it up: its helper sends
    /// the rest, but takes a while to notice, and to wake up for each answer. What has left may still be
    /// lost, and what a connection's end has dropped waits no more ([`Event::Lost`]):
    /// [`Node::send_tracked`] tells what has arrived.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Closed`], [`Error::Forked`].
    pub fn wait_sent(&self, to: PeerId, timeout: Duration) -> Result<bool, Error> {
        let shared = &self.0.shared;
        {
            let state = shared.lock()?;
            if to != self.0.id && state.engine.node.peer_state(to).is_none() {
                return Err(Error::UnknownPeer(to));
            }
            if has_left(&state, to) {
                return Ok(true);
            }
        }
        let left = |state: &mut State| has_left(state, to).then_some(());
        Ok(shared.wait_until(Some(timeout), left)?.is_some())
    }

    /// Sends everything that waits for company in a packet.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn flush(&self) -> Result<(), Error> {
        let mut state = self.0.shared.lock()?;
        state.engine.clock();
        state.engine.transmit(Leave::All);
        self.0.shared.call_others(&mut state, false);
        self.0.shared.progress_at_times(&mut state);
        Ok(())
    }

    /// Does what is due, without waiting.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn progress(&self) -> Result<(), Error> {
        let mut state = self.0.shared.lock()?;
        self.0.shared.progress(&mut state);
        Ok(())
    }

    /// Waits until the peers have acknowledged everything sent so far; `false` when the time is
    /// over.
    ///
    /// # Errors
    /// [`Error::PeerLost`] if messages for a peer were dropped because a connection ended, and no other call
    /// has said that it did. It is said once: call again to wait for the other peers. [`Error::Closed`],
    /// [`Error::Forked`].
    pub fn wait_acknowledged(&self, timeout: Duration) -> Result<bool, Error> {
        let settled = |state: &mut State| {
            let node = &mut state.engine.node;
            let dropped = check_dropped(node).err();
            dropped.map(Err).or(node.is_settled().then_some(Ok(())))
        };
        let settled = self.0.shared.wait_until(Some(timeout), settled)?;
        Ok(settled.transpose()?.is_some())
    }

    /// What happened to connections since this was last called, oldest first; `None` when that was all.
    /// Of events that nobody fetches the latest 4,096 are kept; [`NodeStats::events_dropped`] counts the
    /// others.
    pub fn next_event(&self) -> Option<Event> {
        self.0.shared.lock_raw().engine.node.next_event()
    }

    /// A snapshot of the whole node.
    pub fn stats(&self) -> NodeStats {
        let mut state = self.0.shared.lock_raw();
        state.engine.node.catch_up();
        state.engine.node.stats()
    }

    /// Where the time of this node's calls went; `None` unless it was opened with
    /// [`Builder::timed`](crate::Builder::timed).
    pub fn timings(&self) -> Option<Timings> {
        self.0.shared.lock_raw().engine.timings()
    }

    /// A snapshot of the socket's counters.
    pub fn socket_counters(&self) -> SocketCounters {
        self.0.shared.lock_raw().engine.below.counters()
    }

    /// A snapshot of one peer's flow (U7); `None` if the peer is not known.
    pub fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        let mut state = self.0.shared.lock_raw();
        state.engine.node.catch_up();
        let mut stats = state.engine.node.peer_stats(peer)?;
        if state.engine.below.is_blocked() && stats.queued_bytes > 0 {
            stats.limit = crate::Limit::Socket;
        }
        Some(stats)
    }

    /// A descriptor for other event loops (poll, epoll): readable when a datagram has come, a message has that nobody
    /// has looked for since, or a posted receive has ended.
    ///
    /// Call [`Node::try_recv`] until it returns `None` then. That a receive has found nothing ends it, also if messages wait that
    /// this receive does not match: look for all that the program may want. Events ([`Node::next_event`]) are not told by it:
    /// look for them whenever it was readable, and every so often.
    ///
    /// # Errors
    /// [`Error::Io`] if descriptors have run out.
    pub fn poll_fd(&self) -> Result<OwnedFd, Error> {
        let mut state = self.0.shared.lock()?;
        let engine = &mut state.engine;
        let doing = "making a descriptor to wait on";
        let poll_fd = match engine.poll_fd.take() {
            Some(made) => made,
            None => engine.below.poll_fd().map_err(Error::io(doing))?,
        };
        let fd = poll_fd.duplicate().map_err(Error::io(doing))?;
        if engine.node.unmatched_messages() > 0 {
            poll_fd.set_ready(true);
        }
        engine.poll_fd = Some(poll_fd);
        Ok(fd)
    }

    /// Waits at most `linger` until everything sent has been acknowledged, tells the peers, and
    /// ends the node for all its handles. The socket, and with it the port, is there until the last handle is dropped. Without an error, the peers' libraries have all that was ever
    /// sent, but for what errors of other calls were about.
    ///
    /// That a peer's process was killed shows in nothing but its silence, and it may only be slow: what is owed
    /// to it is waited for all of `linger`, unless [`Builder::dead_after`] is over sooner. Where nothing is
    /// owed to anybody, this takes 200 ms at most, whether peers answer or not.
    ///
    /// # Errors
    /// The node is closed all the same. [`Error::PeerLost`] if messages for a peer were dropped because a
    /// connection ended, and no other call has said that it did: a receive that was waiting when the connection ended
    /// does not count, since what it says is nothing of messages to be sent. [`Error::Unacknowledged`] if something was
    /// not acknowledged in time. [`Error::Closed`] if it was closed before, or another thread was
    /// faster; [`Error::Forked`].
    pub fn close(&self, linger: Duration) -> Result<(), Error> {
        self.0.close(linger)
    }
}

/// Whether all has left.
fn has_left(state: &State, to: PeerId) -> bool {
    let node = &state.engine.node;
    node.waiting(to).bytes == 0 && !node.asks(to) && !state.engine.below.is_blocked()
}

/// Fails if messages were dropped with a connection.
fn check_dropped(node: &mut sabani_proto::Node) -> Result<(), Error> {
    node.take_dropped()
        .map_or(Ok(()), |(peer, why)| Err(Error::lost(peer, why)))
}

/// Fails if messages were dropped, or have not been acknowledged after `time`.
fn check_acknowledged(
    node: &mut sabani_proto::Node,
    now_ns: u64,
    time: Duration,
) -> Result<(), Error> {
    check_dropped(node)?;
    match node.unsettled() {
        None => Ok(()),
        Some(peer) => Err(Error::Unacknowledged {
            peer,
            time,
            unconnected: node.unconnected(now_ns, peer),
            state: node.peer_stats(peer).unwrap_or_default().state,
        }),
    }
}

/// Whether a message would be accepted; `None` if that is to be waited for.
fn room(state: &mut State, to: PeerId, len: usize) -> Option<Result<(), SendError>> {
    match state.engine.node.has_room(to, len) {
        Err(SendError::Full { .. }) => None,
        room => Some(room),
    }
}

/// Takes a message that is here, and sends what that makes due.
///
/// The calls that hand the message on are not inlined into the program: it would be taken apart there,
/// to be put together again behind them, and moving the pieces stalls for half of the time that receiving
/// a small message takes.
#[inline]
fn take_ready(state: &mut State, wanted: &Match) -> Option<Message> {
    let message = state.engine.node.try_take(wanted);
    if state.engine.is_watched() || state.engine.node.has_queued() {
        return after_take(state, message);
    }
    message
}

/// Does what seldom follows on taking a message. Apart, for a message that is held while something may panic is
/// moved once more.
#[cold]
#[inline(never)]
fn after_take(state: &mut State, message: Option<Message>) -> Option<Message> {
    if message.is_some() {
        state.engine.lap(Stage::MessagesIn);
    }
    state.engine.send_queued();
    message
}

/// Whether a receive whose message is not here may wait for it. If not, this makes progress: a program that
/// asks again and again would keep the helper away, and the peer that comes back out.
fn check_source(shared: &Shared, state: &mut State, wanted: &Match) -> Result<(), Error> {
    let Some(peer) = wanted.source() else {
        return Ok(());
    };
    let checked = state.engine.node.check_source(peer);
    if checked.is_err() {
        shared.progress(state);
    }
    Ok(checked?)
}

impl Handle {
    pub fn new(shared: Arc<Shared>, helper: JoinHandle<()>, id: PeerId, linger: Duration) -> Self {
        Handle {
            shared,
            helper: Mutex::new(Some(helper)),
            id,
            linger,
        }
    }

    fn close(&self, linger: Duration) -> Result<(), Error> {
        self.shared.lock()?.engine.node.stop_sending();
        let settled = |state: &mut State| state.engine.node.is_settled().then_some(());
        self.shared.wait_until(Some(linger), settled)?;
        let acknowledged = {
            let mut state = self.shared.lock()?;
            if std::mem::replace(&mut state.closing, true) {
                return Err(Error::Closed);
            }
            let now_ns = state.engine.now_ns();
            let node = &mut state.engine.node;
            let acknowledged = check_acknowledged(node, now_ns, linger);
            node.close();
            acknowledged
        };
        let closed = |state: &mut State| state.engine.node.is_closed().then_some(());
        self.shared.wait_until(Some(GOODBYE), closed)?;
        self.stop();
        acknowledged
    }

    /// Ends the helper thread.
    fn stop(&self) {
        {
            let mut state = self.shared.lock_raw();
            self.shared.stop(&mut state);
            state.engine.below.stop();
        }
        let helper = self.helper.lock().map(|mut helper| helper.take());
        if let Ok(Some(helper)) = helper {
            let _ = helper.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A forked child has no helper thread, and must not speak.
        if self.shared.is_forked() {
            return;
        }
        match self.close(self.linger) {
            Ok(()) | Err(Error::Closed) => {}
            Err(error) => tracing::warn!(%error, "closing a node"),
        }
    }
}
