//! Messages that the program takes, receives that it posts and withdraws, and what becomes of the
//! memory that comes back.

use std::collections::VecDeque;

use super::peers::Peers;
use super::{Node, enqueue};
use crate::PeerId;
use crate::message::{
    Cancelled, Envelope, Inbox, LinkRef, Match, Message, RecvError, RecvTicket, Taken,
};

impl Node {
    /// Receives that have ended so far: when it grows, a posted receive has something to say.
    pub fn ended_receives(&self) -> u64 {
        self.hub.mailbox.ended
    }

    /// Messages that nobody has asked for yet.
    pub fn unmatched_messages(&self) -> usize {
        self.hub.mailbox.arrived_len()
    }

    /// Posts a receive: the oldest message that matches and is here, or the one that is announced first, goes to
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

    /// Whether [`Node::take_received`] has a result.
    #[inline]
    pub fn has_ended(&mut self, ticket: RecvTicket) -> bool {
        self.hub.mailbox.is_done(ticket)
    }

    /// Whether there is a message for it, all or a part of which is here.
    pub fn has_begun(&mut self, ticket: RecvTicket) -> bool {
        let mailbox = &mut self.hub.mailbox;
        mailbox.is_done(ticket) || mailbox.filling(ticket).is_some()
    }

    /// Whether it has ended with the connection over which its message was coming. Who withdraws it then
    /// has not been told of that end.
    pub fn has_lost_its_peer(&mut self, ticket: RecvTicket) -> bool {
        self.hub.mailbox.has_lost_its_peer(ticket)
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

    /// Takes the oldest message that matches, if all of it is here. Those of one peer have the order in which it
    /// sent them; those of several have that in which they were here, or, if they do not come unasked for want of memory,
    /// announced.
    #[inline]
    pub fn try_take(&mut self, wanted: &Match) -> Option<Message> {
        match self.try_take_small(wanted) {
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

    /// Takes the oldest message that matches, if it is a small one, no other kind is here, and no receive was withdrawn.
    #[inline]
    pub fn try_take_small(&mut self, wanted: &Match) -> Option<Message> {
        let Node {
            hub, peers, queue, ..
        } = self;
        let settle = |link, log| give_back(peers, queue, link, log, 0);
        hub.mailbox.try_take_unread(wanted, settle)
    }

    /// Whether a receive of at most `max` bytes is to be posted now: it ends at once, or its message comes only then. If not, it
    /// would be given the message that was announced first, and have to wait for that.
    pub fn is_time_to_post(&mut self, wanted: &Match, max: u64) -> bool {
        let Some(envelope) = self.probe(wanted) else {
            return false;
        };
        if envelope.complete || self.hub.mailbox.is_misfit(&envelope, max) {
            return true;
        }
        let pending = self.hub.mailbox.pending(wanted);
        let lacks_room = pending.and_then(|(link, id)| {
            self.with_incoming(link, |incoming, _| incoming.lacks_room(id).is_some())
        });
        lacks_room == Some(true)
    }

    /// Throws the message away that [`Node::probe`] shows, and returns its envelope. What is not here yet
    /// comes all the same, for its sender keeps it until it has arrived, but takes no memory: the
    /// message may be of any length. To its sender it has arrived when all of it has come. A message
    /// that a posted receive has been given is out of reach until that is withdrawn.
    pub fn discard(&mut self, wanted: &Match) -> Option<Envelope> {
        let (envelope, taken) = self.hub.mailbox.discard(wanted)?;
        self.settle(taken);
        Some(envelope)
    }

    /// Throws away all messages that nobody wants, of those that are known by now; whether there were any. Looks at each once, at
    /// those whose receives were withdrawn once for each of them that goes.
    pub fn discard_all(&mut self, is_unwanted: impl Fn(PeerId, u64) -> bool) -> bool {
        let mut any = false;
        while let Some(taken) = self.hub.mailbox.discard_parked(&is_unwanted) {
            self.settle(taken);
            any = true;
        }
        for unwanted in self.hub.mailbox.all_kept(&is_unwanted) {
            if let Some(taken) = self.hub.mailbox.discard_kept(unwanted) {
                self.settle(taken);
                any = true;
            }
        }
        any
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

    /// Looks at the message that would be taken: the oldest that matches and is here, else the one that was announced
    /// first.
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
                self.use_freed_memory();
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
    pub(super) fn use_freed_memory(&mut self) {
        if self.hub.mailbox.may_feed() {
            self.feed_starved();
        }
        if self.hub.mailbox.may_prefetch() {
            self.prefetch_left();
        }
    }

    /// Looks again for receives that wait for memory.
    pub(super) fn feed_starved(&mut self) {
        let first = self.hub.mailbox.posted.begin_turn();
        self.hub.mailbox.denied = false;
        let indices = self.peers.indices();
        let first = first.unwrap_or(0);
        for index in (first..indices.end).chain(0..first) {
            let link = self.peers[index].reference(index);
            self.with_incoming(link, |incoming, inbox| incoming.retry_starved(inbox));
            self.enqueue(index);
        }
        self.hub.mailbox.posted.end_turns();
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

    pub(super) fn with_incoming<T>(
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

    /// Withdraws a receive. A message that has begun to fill it stays receivable. Returns the
    /// result if there is one already, or the buffer that was handed over; but a message keeps it for which
    /// there is no memory elsewhere ([`Config::memory_bytes`](crate::Config::memory_bytes)).
    pub fn cancel(
        &mut self,
        ticket: RecvTicket,
    ) -> (Option<Result<Message, RecvError>>, Option<Vec<u8>>) {
        match self.hub.mailbox.cancel(ticket) {
            Cancelled::Withdrawn(buffer) => (None, buffer),
            Cancelled::Done { result, .. } => (Some(result), None),
            Cancelled::Filling { link, id, stamp } => (None, self.detach(link, id, stamp)),
        }
    }

    /// Withdraws a receive that nobody will look at again: a message that had come to it, or was
    /// coming, stays receivable in its place.
    pub fn abandon(&mut self, ticket: RecvTicket) {
        match self.hub.mailbox.cancel(ticket) {
            Cancelled::Done {
                result: Ok(message),
                stamp,
            } => self.hub.mailbox.abandon(stamp, message),
            Cancelled::Filling { link, id, stamp } => {
                self.detach(link, id, stamp);
            }
            _ => {}
        }
    }

    fn detach(&mut self, link: LinkRef, id: u64, stamp: u64) -> Option<Vec<u8>> {
        let inner = self.with_incoming(link, |incoming, inbox| incoming.detach(id, stamp, inbox));
        self.enqueue(link.peer);
        self.use_freed_memory();
        inner.flatten()
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
        let log = &session.incoming.log;
        if log.is_pressing() || log.is_blocked() {
            enqueue(peers, queue, link.peer);
        }
    }
}
