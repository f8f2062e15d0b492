//! The node: every peer of one process, driven by the contract at the crate's root.

mod apart;
mod arrivals;
mod clock;
mod ends;
mod flow;
mod gate;
mod handshake;
mod hub;
mod keyring;
mod path;
mod peers;
mod receive;
mod resend;
mod session;
mod snapshot;
mod spans;
mod terms;
mod transmit;
mod value;
mod withdraw;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use crate::credit::Owed;
use crate::error::{PeerLost, SendError, Undelivered};
use crate::event::Event;
use crate::message::{
    Arrived, Envelope, Inbox, LinkRef, Match, Message, Outbound, Pool, RecvError, RecvTicket,
    SendTicket, Taken,
};
use crate::seal::{CookieJar, Entropy};
use crate::state::Happening;
use crate::stats::Dropped;
use crate::wire::{CloseReason, INLINE_MAX};
use crate::{Config, PeerId};
use ends::Ended;
use gate::Gate;
use hub::{Hub, SendState};
pub use keyring::{KeyNews, Keyring, Unsealed};
use peers::{Link, Peers};
pub use receive::Opened;
use session::Session;
pub use transmit::Transmit;

/// Stands in the timer heap for handshakes that others have begun, in place of a peer's index.
const HALF_OPEN_TIMER: u32 = u32::MAX;
/// Stands there for the next grant of credit.
const GRANT_TIMER: u32 = u32::MAX - 1;

/// One process's end of all its connections. See the crate's driving contract.
#[derive(Debug)]
pub struct Node {
    incarnation: u64,
    peers: Peers,
    hub: Hub,
    /// Peers that may have something to send.
    queue: VecDeque<u32>,
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    /// Peers whose next deadline, or credit, may have changed since it was last looked at: that is
    /// done when somebody asks, which may be after the answer to a message has left.
    changed: Vec<u32>,
    /// Handshake packets to send.
    outbox: VecDeque<handshake::Letter>,
    gate: Gate,
    entropy: Entropy,
    cookies: CookieJar,
    /// When the entry for the next grant that counts is due.
    grants_at_ns: u64,
    /// Scratch: peers whose credit was raised.
    owed: Vec<(u32, Owed)>,
    next_stray_ns: u64,
    dropped: Dropped,
    closing: bool,
}

/// What waits to be sent to a peer, and how the way there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Bytes that could leave now, as far as the receiver's memory goes.
    pub bytes: usize,
    /// Whether it should leave at once: nothing is in flight, or the program wants it so
    /// ([`crate::Quality::Response`]).
    pub idle: bool,
    /// Whether acknowledgements come so late that something in flight says little of what is on its way.
    pub late: bool,
    /// The smoothed round-trip time in nanoseconds; 0 if it is not known.
    pub rtt_ns: u64,
}

impl Waiting {
    const NOTHING: Waiting = Waiting {
        bytes: 0,
        idle: true,
        late: false,
        rtt_ns: 0,
    };
}

/// Which way datagrams go: the peer's address, and the local one that it talks to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub peer: SocketAddr,
    pub local: Option<IpAddr>,
}

/// A message's length, and whether it must wait for room.
#[derive(Clone, Copy)]
struct Size {
    len: usize,
    bounded: bool,
}

impl Size {
    fn bounded(len: usize) -> Self {
        Size { len, bounded: true }
    }
}

impl Node {
    /// A node without peers. `seed` must be fresh randomness: keys and identifiers come from it.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        let config = config.within_limits();
        let mut entropy = Entropy::from_seed(seed);
        let cookies = CookieJar::new(&mut entropy);
        let gate = Gate::new(&config.mode);
        Node {
            incarnation: entropy.next_u64(),
            peers: Peers::default(),
            hub: Hub::new(config, entropy.next_u64()),
            queue: VecDeque::new(),
            timers: BinaryHeap::new(),
            changed: Vec::new(),
            outbox: VecDeque::new(),
            gate,
            cookies,
            entropy,
            grants_at_ns: u64::MAX,
            owed: Vec::new(),
            next_stray_ns: 0,
            dropped: Dropped::default(),
            closing: false,
        }
    }

    /// This process's id.
    pub fn id(&self) -> PeerId {
        self.hub.config.id
    }

    /// The random number that names this life of the process.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// How the node behaves.
    pub fn config(&self) -> &Config {
        &self.hub.config
    }

    /// Buffers of arriving messages; see [`Pool`].
    pub fn pool(&self) -> &Pool {
        &self.hub.mailbox.pool
    }

    /// Adds a peer, or corrects the address of one that has no connection, or that this program has
    /// disconnected from.
    pub fn add_peer(&mut self, peer: PeerId, addr: SocketAddr) {
        self.peers.add(peer, addr);
    }

    /// Peers known.
    pub fn peer_ids(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.peers.iter().map(|peer| peer.id)
    }

    /// Begins a connection, unless there is one or one is being made. A node needs none to itself.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`], [`SendError::Disconnected`], [`SendError::Closed`].
    pub fn connect(&mut self, now_ns: u64, peer: PeerId) -> Result<(), SendError> {
        if peer == self.id() {
            return Ok(());
        }
        let now_ns = self.hub.clock.lived(now_ns);
        let index = self.steerable(peer)?;
        self.check_connected(index)?;
        self.ensure_link(index, now_ns);
        Ok(())
    }

    /// Accepts a message for sending; it is kept until the peer has acknowledged it. `want_ticket`:
    /// [`Node::take_sent`] will tell when the peer's library has it.
    ///
    /// # Errors
    /// [`SendError`]; nothing was taken then.
    #[inline]
    pub fn send(
        &mut self,
        now_ns: u64,
        to: PeerId,
        tag: u64,
        body: Outbound,
        want_ticket: bool,
    ) -> Result<Option<SendTicket>, SendError> {
        self.send_body(now_ns, to, tag, body, want_ticket, true)
    }

    /// Like [`Node::send`], however much waits for the peer already: for bodies whose memory the program
    /// has anyway, and bounds itself.
    ///
    /// # Errors
    /// [`SendError`], but for [`SendError::Full`]; nothing was taken then.
    pub fn send_unbounded(
        &mut self,
        now_ns: u64,
        to: PeerId,
        tag: u64,
        body: Outbound,
        want_ticket: bool,
    ) -> Result<Option<SendTicket>, SendError> {
        self.send_body(now_ns, to, tag, body, want_ticket, false)
    }

    #[inline]
    fn send_body(
        &mut self,
        now_ns: u64,
        to: PeerId,
        tag: u64,
        body: Outbound,
        want_ticket: bool,
        bounded: bool,
    ) -> Result<Option<SendTicket>, SendError> {
        let len = body.bytes().len();
        let size = Size { len, bounded };
        self.send_with(
            now_ns,
            to,
            tag,
            size,
            want_ticket,
            |link, window, ticket| {
                if len <= window.inline_max {
                    link.outgoing.push_inline(tag, body.bytes(), ticket, window);
                } else {
                    link.outgoing.push_body(tag, body, ticket, window);
                }
            },
        )
    }

    /// Like [`Node::send`], for a body that is copied: cheapest for small ones.
    ///
    /// # Errors
    /// [`SendError`]; nothing was taken then.
    #[inline]
    pub fn send_copy(
        &mut self,
        now_ns: u64,
        to: PeerId,
        tag: u64,
        body: &[u8],
        want_ticket: bool,
    ) -> Result<Option<SendTicket>, SendError> {
        if body.len() > INLINE_MAX {
            self.has_room(to, body.len())?;
            let body = self.pool().outbound(&[body])?;
            return self.send(now_ns, to, tag, body, want_ticket);
        }
        self.send_with(
            now_ns,
            to,
            tag,
            Size::bounded(body.len()),
            want_ticket,
            |link, window, ticket| {
                link.outgoing.push_whole(tag, body, ticket, window);
            },
        )
    }

    #[inline]
    fn send_with(
        &mut self,
        now_ns: u64,
        to: PeerId,
        tag: u64,
        size: Size,
        want_ticket: bool,
        push: impl FnOnce(&mut Link, &crate::message::SendWindow, Option<SendTicket>),
    ) -> Result<Option<SendTicket>, SendError> {
        if self.closing {
            return Err(SendError::Closed);
        }
        if to == self.hub.config.id {
            return Ok(self.send_to_self(tag, size.len, want_ticket, push));
        }
        let index = self.peers.index(to).ok_or(SendError::UnknownPeer(to))?;
        self.check_connected(index)?;
        if let Some(why) = self.peers[index].take_untold() {
            return Err(SendError::PeerLost { peer: to, why });
        }
        if self.peers[index].link.is_none() {
            let now_ns = self.hub.clock.lived(now_ns);
            self.ensure_link(index, now_ns);
        }
        let peer = &mut self.peers[index];
        let link = peer.link.as_mut().expect("a link was just made");
        let window = link.send_window(&self.hub.config);
        if size.bounded && !link.outgoing.has_room(size.len, &window) {
            return Err(self.full(index));
        }
        let ticket = want_ticket.then(|| self.hub.sends.insert(SendState::Pending));
        push(link, &window, ticket);
        if let Some(session) = &mut link.session {
            session.counters.messages_sent += 1;
        }
        if !std::mem::replace(&mut peer.queued, true) {
            self.queue.push_back(index);
        }
        Ok(ticket)
    }

    /// A message to this process itself: through the same queues, but not over the wire.
    fn send_to_self(
        &mut self,
        tag: u64,
        len: usize,
        want_ticket: bool,
        push: impl FnOnce(&mut Link, &crate::message::SendWindow, Option<SendTicket>),
    ) -> Option<SendTicket> {
        let mut link = Link::default();
        link.outgoing.set_log_limit(u64::MAX);
        let window = link.send_window(&self.hub.config);
        push(&mut link, &window, None);
        let body = link.outgoing.take_single();
        let source = self.hub.config.id;
        match self.hub.mailbox.arrive(source, tag, len as u64) {
            Some(ticket) => self.hub.mailbox.complete_inline(ticket, source, tag, &body),
            None => {
                let arrived = Arrived::Whole {
                    body: crate::Body::copy_of(&body),
                    link: LinkRef::SELF,
                    charge: Default::default(),
                };
                self.hub.mailbox.keep(source, tag, arrived);
            }
        }
        want_ticket.then(|| self.hub.sends.insert(SendState::Arrived))
    }

    /// Whether a message of `len` bytes would be accepted now.
    ///
    /// # Errors
    /// The [`SendError`] that [`Node::send`] would give, but for [`SendError::PeerLost`], which is said
    /// to a send alone.
    pub fn has_room(&self, to: PeerId, len: usize) -> Result<(), SendError> {
        if self.closing {
            return Err(SendError::Closed);
        }
        if to == self.id() {
            return Ok(());
        }
        let index = self.known(to)?;
        self.check_connected(index)?;
        let Some(link) = &self.peers[index].link else {
            return Ok(());
        };
        if link
            .outgoing
            .has_room(len, &link.send_window(&self.hub.config))
        {
            return Ok(());
        }
        Err(self.full(index))
    }

    /// What waits to be sent to a peer.
    #[inline]
    pub fn waiting(&self, to: PeerId) -> Waiting {
        let link = self.peers.index(to).map(|index| &self.peers[index].link);
        let Some(Some(link)) = link else {
            return Waiting::NOTHING;
        };
        let flow = link.session.as_ref().map(|session| &session.channel);
        Waiting {
            bytes: link.outgoing.unsent_bytes(),
            idle: flow.is_none_or(|flow| flow.sent.in_flight() == 0)
                || link.session.as_ref().is_some_and(Session::is_prompt),
            late: flow.is_some_and(|flow| flow.is_peer_late()),
            rtt_ns: flow.map_or(0, |flow| flow.rtt.smoothed_ns()),
        }
    }

    /// Whether a body for a peer waits until its receiver asks for it.
    pub fn asks(&self, to: PeerId) -> bool {
        let index = self.peers.index(to);
        let link = index.and_then(|index| self.peers[index].link.as_ref());
        link.is_some_and(|link| link.outgoing.asks())
    }

    /// Whether [`Node::poll_transmit`] or [`Node::take_key_news`] may have something.
    #[inline]
    pub fn has_queued(&self) -> bool {
        !self.queue.is_empty() || !self.outbox.is_empty() || !self.hub.keys.news.is_empty()
    }

    /// Moves to the end of `into` what a [`Keyring`] is to hear. Never anything, unless
    /// [`crate::Config::seal_below`] asks for that.
    #[inline]
    pub fn take_key_news(&mut self, into: &mut Vec<KeyNews>) {
        into.append(&mut self.hub.keys.news);
    }

    /// Receives that have ended so far: when it grows, a posted receive has something to say.
    pub fn ended_receives(&self) -> u64 {
        self.hub.mailbox.ended
    }

    /// Messages that nobody has asked for yet.
    pub fn unmatched_messages(&self) -> usize {
        self.hub.mailbox.arrived_len()
    }

    /// What became of a send with a ticket: `None` while it is under way. The ticket is stale
    /// once this has returned something.
    pub fn take_sent(&mut self, ticket: SendTicket) -> Option<Result<(), Undelivered>> {
        match self.hub.sends.get_mut(ticket) {
            Some(SendState::Pending) => None,
            _ => match self.hub.sends.remove(ticket) {
                Some(SendState::Lost { peer, end, why }) => {
                    if let Some(ended) = self.ended(peer) {
                        ended.on_send_told(end);
                    }
                    Some(Err(Undelivered::PeerLost(why)))
                }
                Some(SendState::Expired) => Some(Err(Undelivered::Expired)),
                _ => Some(Ok(())),
            },
        }
    }

    /// Posts a receive: the oldest message that matches, here already or still to come, goes to
    /// it, into `buffer` if one is handed over: as many bytes as that has, or, if it is empty, as it has
    /// room for. One that takes messages of one peer only ends with the
    /// connection to it; if there is none, it waits for the next.
    #[inline]
    pub fn post(&mut self, wanted: Match, mut buffer: Option<Vec<u8>>) -> RecvTicket {
        if let Some(buffer) = &mut buffer
            && buffer.is_empty()
        {
            buffer.resize(buffer.capacity(), 0);
        }
        self.post_receive(wanted, buffer, u64::MAX)
    }

    /// Posts a receive into memory of the node's, for a message of at most `max` bytes.
    pub fn post_within(&mut self, wanted: Match, max: u64) -> RecvTicket {
        self.post_receive(wanted, None, max)
    }

    #[inline]
    fn post_receive(&mut self, wanted: Match, buffer: Option<Vec<u8>>, max: u64) -> RecvTicket {
        let (ticket, taken) = self.hub.mailbox.post(wanted, buffer, max);
        if let Some(taken) = taken {
            self.settle(taken);
        }
        ticket
    }

    /// The result of a receive; `None` while it waits. The ticket is stale once this has returned
    /// something.
    #[inline]
    pub fn take_received(&mut self, ticket: RecvTicket) -> Option<Result<Message, RecvError>> {
        let result = self.hub.mailbox.result(ticket);
        if let Some(Err(RecvError::PeerLost { peer, why, .. })) = &result
            && let Some(ended) = self.ended(*peer)
        {
            ended.on_receive_told(why);
        }
        result
    }

    /// Takes the oldest message that matches, if all of it is here.
    #[inline]
    pub fn try_take(&mut self, wanted: &Match) -> Option<Message> {
        let Node {
            hub, peers, queue, ..
        } = self;
        let settle = |link, log| give_back(peers, queue, link, log, 0);
        match hub.mailbox.try_take_unread(wanted, settle) {
            None => self.try_take_kept(wanted),
            message => message,
        }
    }

    fn try_take_kept(&mut self, wanted: &Match) -> Option<Message> {
        if let Some((message, taken)) = self.hub.mailbox.try_take(wanted) {
            self.settle(taken);
            return Some(message);
        }
        if let Some((link, id)) = self.hub.mailbox.pending(wanted) {
            self.with_incoming(link, |incoming, inbox| incoming.want(id, inbox));
            self.enqueue(link.peer);
        }
        None
    }

    /// Throws the oldest message that matches away, and returns its envelope. What is not here yet
    /// comes all the same, for its sender keeps it until it has arrived, but takes no memory: the
    /// message may be of any length. To its sender it has arrived when all of it has come. A message
    /// that a posted receive has been given is out of reach until that is withdrawn.
    pub fn discard(&mut self, wanted: &Match) -> Option<Envelope> {
        let (envelope, taken) = self.hub.mailbox.discard(wanted)?;
        self.settle(taken);
        Some(envelope)
    }

    /// The error with which a receive without a buffer would end at once: the oldest message that
    /// matches is longer than the node may allocate. [`Node::try_take`] never returns that one.
    #[inline]
    pub fn oversized(&mut self, wanted: &Match) -> Option<RecvError> {
        if self.unmatched_messages() == 0 {
            return None;
        }
        self.hub.mailbox.oversized(wanted)
    }

    /// Looks at the oldest message that matches, without taking it.
    pub fn probe(&mut self, wanted: &Match) -> Option<Envelope> {
        self.hub.mailbox.peek(wanted)
    }

    fn settle(&mut self, taken: Taken) {
        match taken {
            Taken::Credit { link, log, unasked } => {
                give_back(&mut self.peers, &mut self.queue, link, log, unasked);
                if unasked > 0 {
                    let prefetched =
                        self.with_incoming(link, |incoming, inbox| incoming.prefetch_left(inbox));
                    if prefetched == Some(true) {
                        self.enqueue(link.peer);
                    }
                }
                self.use_freed_memory();
            }
            Taken::Bind { link, id, ticket } => {
                self.with_incoming(link, |incoming, inbox| incoming.bind(id, ticket, inbox));
                self.enqueue(link.peer);
            }
            Taken::Discard { link, id } => {
                let freed = self.with_incoming(link, |incoming, inbox| incoming.discard(id, inbox));
                self.enqueue(link.peer);
                if let Some(freed) = freed.flatten() {
                    self.settle(freed);
                }
            }
        }
    }

    /// Lets bodies come that wait for memory which has come back since somebody looked.
    #[inline]
    fn use_freed_memory(&mut self) {
        if self.hub.mailbox.may_feed() {
            self.feed_starved();
        }
        if self.hub.mailbox.may_prefetch() {
            self.prefetch_left();
        }
    }

    /// Looks again for receives that wait for memory.
    fn feed_starved(&mut self) {
        self.hub.mailbox.starved = false;
        self.hub.mailbox.denied = false;
        for index in self.peers.indices() {
            let link = self.peers[index].reference(index);
            self.with_incoming(link, |incoming, inbox| incoming.retry_starved(inbox));
            self.enqueue(index);
        }
    }

    /// Asks for bodies that nobody has asked for and that had to be left, one peer's after the other's,
    /// until there is no memory again.
    fn prefetch_left(&mut self) {
        while let Some(index) = self.hub.mailbox.left.pop_front() {
            let left = self.hub.mailbox.left.len();
            let link = self.peers[index].reference(index);
            self.with_incoming(link, |incoming, inbox| incoming.prefetch_left(inbox));
            self.enqueue(index);
            if self.hub.mailbox.left.len() > left {
                // Still none: it stays the first.
                self.hub.mailbox.left.rotate_right(1);
                return;
            }
        }
    }

    fn with_incoming<T>(
        &mut self,
        link: LinkRef,
        act: impl FnOnce(&mut crate::message::Incoming, &mut Inbox<'_>) -> T,
    ) -> Option<T> {
        let peer = self.peers.get_mut(link.peer)?;
        let source = peer.id;
        if peer.generation != link.generation {
            return None;
        }
        let session = peer.link.as_mut()?.session.as_mut()?;
        let mut inbox = Inbox {
            mailbox: &mut self.hub.mailbox,
            source,
            link,
        };
        Some(act(&mut session.incoming, &mut inbox))
    }

    #[inline]
    fn enqueue(&mut self, index: u32) {
        enqueue(&mut self.peers, &mut self.queue, index);
    }

    /// When [`Node::handle_deadline`] must be called, if nothing else happens before.
    #[inline]
    pub fn next_deadline(&mut self) -> Option<u64> {
        let queued = self.queue.len();
        self.arm_changed();
        let at = if self.queue.len() > queued {
            // Credit has been given, and must be told at once.
            Some(self.hub.clock.called_ns)
        } else {
            let timer = self.timers.peek();
            timer.map(|Reverse((at, _))| at + self.hub.clock.stalled_ns)
        };
        self.hub.clock.promised_ns = at;
        at
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, now_ns: u64) {
        let now_ns = self.hub.clock.lived(now_ns);
        self.arm_changed();
        let mut came_due = false;
        while let Some(&Reverse((at, index))) = self.timers.peek() {
            if at > now_ns {
                break;
            }
            self.timers.pop();
            if index == HALF_OPEN_TIMER {
                self.on_half_open_timer(now_ns);
            } else if index == GRANT_TIMER {
                if self.grants_at_ns == at {
                    self.grants_at_ns = u64::MAX;
                    self.grant(now_ns);
                }
            } else if self.peers[index].timer_at_ns == at {
                self.peers[index].timer_at_ns = u64::MAX;
                self.on_timer(index, now_ns);
                self.arm(index, now_ns);
                came_due = true;
            }
        }
        // Nobody tells when the system has memory again.
        if came_due && self.hub.mailbox.denied {
            self.feed_starved();
        }
        self.use_freed_memory();
    }

    fn on_timer(&mut self, index: u32, now_ns: u64) {
        let peer = &mut self.peers[index];
        let Some(link) = peer.link.as_mut() else {
            return;
        };
        if let Some(session) = &mut link.session {
            let result = session.on_deadline(&mut link.outgoing, peer.id, &mut self.hub, now_ns);
            if session.is_closed() {
                self.lose(index, PeerLost::ClosedHere);
            } else if let Err(why) = result {
                self.lose(index, why);
            } else {
                self.note_news(index, now_ns);
                self.enqueue(index);
            }
        } else if link.attempt.is_some() {
            self.retry_handshake(index, now_ns);
        }
    }

    /// The peer's next deadline may have changed.
    #[inline]
    fn arm_later(&mut self, index: u32) {
        if !std::mem::replace(&mut self.peers[index].changed, true) {
            self.changed.push(index);
        }
    }

    /// Does for the peers of which something has come what was not pressing.
    #[inline]
    fn arm_changed(&mut self) {
        let now_ns = self.hub.clock.latest();
        while let Some(index) = self.changed.pop() {
            self.peers[index].changed = false;
            self.give_credit(index, now_ns);
            self.arm(index, now_ns);
        }
    }

    /// Makes sure that the peer's next deadline is in the timer heap. An acknowledgement that is due
    /// already needs no timer: the peer is queued for sending.
    fn arm(&mut self, index: u32, now_ns: u64) {
        let session = self.peers[index].session();
        let received = session.map(|session| &session.channel.received);
        if received
            .and_then(|received| received.deadline())
            .is_some_and(|at| at <= now_ns)
        {
            self.enqueue(index);
        }
        let peer = &mut self.peers[index];
        let Some(link) = &peer.link else {
            return;
        };
        let at = match (&link.session, &link.attempt) {
            (Some(session), _) => session.deadline(&link.outgoing, &self.hub.config, now_ns),
            (None, Some(attempt)) => attempt.next_ns,
            (None, None) => return,
        };
        let at = at.max(now_ns + 1);
        if at < peer.timer_at_ns {
            peer.timer_at_ns = at;
            self.timers.push(Reverse((at, index)));
        }
        if self.timers.len() > 64 + self.peers.len() * 3 / 2 {
            self.drop_stale_timers();
        }
    }

    /// Takes out the entries that nearer ones have replaced, before they outnumber those that count.
    #[cold]
    fn drop_stale_timers(&mut self) {
        let peers = &self.peers;
        self.timers.retain(|&Reverse((at, index))| {
            index == HALF_OPEN_TIMER || index == GRANT_TIMER || peers[index].timer_at_ns == at
        });
    }

    /// What happened since this was last called, oldest first. Of events that nobody fetches the
    /// latest 4,096 are kept; [`NodeStats::events_dropped`](crate::NodeStats::events_dropped) counts
    /// the others.
    pub fn next_event(&mut self) -> Option<Event> {
        self.hub.pop_event()
    }

    /// Ends a peer's connection, and tells the program.
    fn lose(&mut self, index: u32, why: PeerLost) {
        let peer = &mut self.peers[index];
        let Some(mut link) = peer.link.take() else {
            return;
        };
        let id = peer.id;
        let reference = peer.reference(index);
        peer.generation = peer.generation.wrapping_add(1);
        peer.timer_at_ns = u64::MAX;
        peer.farewell = matches!(why, PeerLost::Closed);
        let mut inbox = Inbox {
            mailbox: &mut self.hub.mailbox,
            source: id,
            link: reference,
        };
        if let Some(session) = &mut link.session {
            session.incoming.on_lost(&mut inbox, &why);
            self.hub.granter.forget(index);
            self.hub.past.add(&session.counters);
            self.hub.keys.remove(session.local);
            self.peers.free_slot(session.local);
        }
        if let Some(attempt) = &mut link.attempt {
            attempt.log_credit.release(inbox.mailbox);
            self.peers.free_slot(attempt.local);
        }
        self.hub.mailbox.on_link_lost(id, reference, &why);
        self.happen(index, Happening::End, self.hub.clock.latest());
        self.hub.ends += 1;
        let end = self.hub.ends;
        for ticket in link.outgoing.drain_tickets() {
            if let Some(state) = self.hub.sends.get_mut(ticket) {
                let (peer, why) = (id, why.clone());
                *state = SendState::Lost { peer, end, why };
            }
        }
        tracing::info!(parent: link.span_id(), peer = %id, %why, "connection lost");
        let unsent_messages = link.outgoing.pending_messages();
        let last = self.peers[index].lost.take();
        let ended = Ended::after(last, end, &why, unsent_messages > 0);
        self.peers[index].lost = Some(Box::new(ended));
        self.hub.push_event(Event::Lost {
            peer: id,
            why,
            unsent_messages,
        });
    }

    /// Whether everything accepted for sending has been acknowledged, or dropped with a connection
    /// ([`Node::take_dropped`]).
    pub fn is_settled(&self) -> bool {
        self.unsettled().is_none()
    }

    /// A peer that has not acknowledged everything yet.
    pub fn unsettled(&self) -> Option<PeerId> {
        let waits = |peer: &&peers::Peer| {
            let link = peer.link.as_ref();
            link.is_some_and(|link| !link.outgoing.is_settled())
        };
        self.peers.iter().find(waits).map(|peer| peer.id)
    }

    /// Takes no more messages for sending.
    pub fn stop_sending(&mut self) {
        self.closing = true;
        self.release_all();
        for index in self.peers.indices() {
            if let Some(session) = self.peers[index].session_mut() {
                session.hurry();
                self.enqueue(index);
            }
        }
    }

    /// Ends all connections. Peers are told, and asked to confirm: drive the node until
    /// [`Node::is_closed`], or as long as you care to.
    pub fn close(&mut self) {
        self.closing = true;
        self.outbox.retain(|letter| !letter.is_init());
        self.drop_handshakes();
        for index in self.peers.indices() {
            if let Some(session) = self.peers[index].session_mut() {
                session.close(CloseReason::Finished);
                self.happen(index, Happening::Close, self.hub.clock.latest());
                self.enqueue(index);
            } else if self.peers[index].link.is_some() {
                self.lose(index, PeerLost::ClosedHere);
            }
        }
    }

    /// Whether all connections have ended, and the peers have been told what they wait to hear.
    pub fn is_closed(&self) -> bool {
        self.outbox.is_empty() && self.peers.iter().all(|peer| peer.link.is_none())
    }

    /// A peer whose messages fill its credit, so that nothing more can come from it until the
    /// program takes some: a receive that waits for something else from there waits in vain.
    pub fn backlogged(&self, wanted: &Match) -> Option<(PeerId, u64)> {
        self.peers
            .iter()
            .filter(|peer| wanted.source().is_none_or(|source| source == peer.id))
            .filter_map(|peer| Some((peer.id, peer.session()?)))
            .find(|(_, session)| session.incoming.is_full())
            .map(|(id, session)| (id, session.incoming.backlog_bytes()))
    }
}

/// Queues a peer that may have something to send.
#[inline]
fn enqueue(peers: &mut Peers, queue: &mut VecDeque<u32>, index: u32) {
    if let Some(peer) = peers.get_mut(index)
        && !std::mem::replace(&mut peer.queued, true)
    {
        queue.push_back(index);
    }
}

/// Gives log credit and room back to a connection, if it is still there.
fn give_back(peers: &mut Peers, queue: &mut VecDeque<u32>, link: LinkRef, log: u64, unasked: u64) {
    let Some(peer) = peers.get_mut(link.peer) else {
        return;
    };
    if peer.generation == link.generation
        && let Some(session) = peer.session_mut()
    {
        session.incoming.on_taken(log, unasked);
        if session.incoming.log.is_pressing() {
            enqueue(peers, queue, link.peer);
        }
    }
}

#[cfg(test)]
mod tests;
