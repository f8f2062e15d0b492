//! Messages that the program hands over for sending.

use super::Node;
use super::hub::SendState;
use super::peers::{self, Link};
use crate::PeerId;
use crate::error::{ConnectError, SendError, Undelivered};
use crate::message::{Arrived, LinkRef, Outbound, Outgoing, SendTicket, Tickets};
use crate::wire::INLINE_MAX;

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

/// A message's length, and whether it must wait for room.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub len: usize,
    pub bounded: bool,
}

impl Size {
    pub fn bounded(len: usize) -> Self {
        Size { len, bounded: true }
    }
}

impl Node {
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

    /// Like [`Node::send`], for a program that wants to know when the message has left
    /// ([`Node::keeps_back`]) and does not wait for its arrival: acknowledgements take their time.
    ///
    /// # Errors
    /// [`SendError`]; nothing was taken then.
    pub fn send_followed(
        &mut self,
        now_ns: u64,
        to: PeerId,
        tag: u64,
        body: Outbound,
    ) -> Result<Option<SendTicket>, SendError> {
        let size = Size::bounded(body.bytes().len());
        self.send_with(now_ns, to, tag, size, true, |link, window, ticket| {
            match ticket {
                Some(ticket) => link.outgoing.push_followed(tag, body, ticket, window),
                None => link.outgoing.push_body(tag, body, None, window),
            };
        })
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
    pub(super) fn send_with(
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
            if self.catch_up() {
                return self.send_with(now_ns, to, tag, size, want_ticket, push);
            }
            return Err(self.full(index));
        }
        let ticket = want_ticket.then(|| self.hub.sends.insert(SendState::Pending));
        push(link, &window, ticket);
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
                self.hub.mailbox.keep(source, tag, arrived, false);
            }
        }
        want_ticket.then(|| self.hub.sends.insert(SendState::Arrived))
    }

    /// Whether a message of `len` bytes would be accepted now.
    ///
    /// # Errors
    /// The [`SendError`] that [`Node::send`] would give, but for [`SendError::PeerLost`], which is said
    /// to a send alone.
    pub fn has_room(&mut self, to: PeerId, len: usize) -> Result<(), SendError> {
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
        if self.catch_up() {
            return self.has_room(to, len);
        }
        Err(self.full(index))
    }

    /// What waits to be sent to a peer.
    #[inline]
    pub fn waiting(&self, to: PeerId) -> Waiting {
        let Some(index) = self.peers.index(to) else {
            return Waiting::NOTHING;
        };
        let Some(link) = &self.peers[index].link else {
            return Waiting::NOTHING;
        };
        let flow = link.session.as_ref().map(|session| &session.channel);
        Waiting {
            bytes: link.outgoing.unsent_bytes(),
            idle: (link.session.as_ref())
                .is_none_or(|session| self.is_idle(index, session) || session.is_prompt()),
            late: flow.is_some_and(|flow| flow.is_peer_late()),
            rtt_ns: flow.map_or(0, |flow| flow.rtt.smoothed_ns()),
        }
    }

    /// Whether a body for a peer waits until its receiver asks for it.
    pub fn asks(&self, to: PeerId) -> bool {
        self.outgoing(to).is_some_and(Outgoing::asks)
    }

    /// Whether the message of a send with a ticket is long, and a part of it has not left yet.
    pub fn keeps_back(&self, to: PeerId, ticket: SendTicket) -> bool {
        self.outgoing(to)
            .is_some_and(|outgoing| outgoing.keeps_back(ticket))
    }

    /// Whether no short message for a peer can leave before the peer's program takes some.
    pub fn is_blocked(&self, to: PeerId) -> bool {
        self.outgoing(to).is_some_and(Outgoing::is_blocked)
    }

    fn outgoing(&self, to: PeerId) -> Option<&Outgoing> {
        let link = self.peers[self.peers.index(to)?].link.as_ref()?;
        Some(&link.outgoing)
    }

    /// What became of a send with a ticket: `None` while it is under way. The ticket is stale
    /// once this has returned something.
    pub fn take_sent(&mut self, ticket: SendTicket) -> Option<Result<(), Undelivered>> {
        let pends = |sends: &mut Tickets<_>| {
            let state = sends.get_mut(ticket);
            state.is_some_and(|state| *state == SendState::Pending)
        };
        if pends(&mut self.hub.sends) {
            self.catch_up();
            if pends(&mut self.hub.sends) {
                return None;
            }
        }
        match self.hub.sends.remove(ticket) {
            Some(SendState::Lost { peer, end, why }) => {
                if let Some(ended) = self.ended(peer) {
                    ended.on_send_told(end);
                }
                Some(Err(Undelivered::PeerLost(why)))
            }
            Some(SendState::Expired) => Some(Err(Undelivered::Expired)),
            _ => Some(Ok(())),
        }
    }

    /// Nobody will ask any more what became of a send.
    pub fn forget_sent(&mut self, ticket: SendTicket) {
        self.hub.sends.remove(ticket);
    }

    /// A peer that has not acknowledged everything yet.
    pub fn unsettled(&mut self) -> Option<PeerId> {
        self.catch_up();
        let waits = |peer: &&peers::Peer| {
            let link = peer.link.as_ref();
            link.is_some_and(|link| !link.outgoing.is_settled())
        };
        self.peers.iter().find(waits).map(|peer| peer.id)
    }

    /// Why there is no connection to this peer so far, as far as is known, if one is being made.
    pub fn unconnected(&self, now_ns: u64, peer: PeerId) -> Option<ConnectError> {
        let link = self.peers[self.peers.index(peer)?].link.as_ref()?;
        let attempt = link.attempt.as_ref().filter(|_| link.session.is_none())?;
        Some(attempt.failure(now_ns.saturating_sub(attempt.began_ns)))
    }

    /// Whether everything accepted for sending has been acknowledged, or dropped with a connection
    /// ([`Node::take_dropped`]).
    pub fn is_settled(&mut self) -> bool {
        self.unsettled().is_none()
    }
}
