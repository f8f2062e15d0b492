//! What a packet says beside its messages, and what can wait until the program has those: the answer to a message may
//! leave before the acknowledgement that came with it is taken in.

use super::Node;
use super::peers::chunk_max;
use super::session::Session;
use crate::message::Outgoing;
use crate::wire::Ack;

/// The acknowledgement that came last, if it is still to be taken in.
#[derive(Debug)]
pub(crate) struct LateAck {
    /// Whose.
    pub peer: u32,
    pub ack: Ack,
    pub came_ns: u64,
}

impl Session {
    /// Whether an acknowledgement may be taken in later: it leaves nothing missing, nothing waits for what it gives,
    /// and nobody for what it settles.
    #[inline]
    pub fn may_be_late(&self, ack: &Ack, outgoing: &Outgoing) -> bool {
        self.channel.is_plain(ack)
            && !self.is_resting()
            && !self.is_closing()
            && !outgoing.is_awaited()
            && !outgoing.has_sendable()
    }

    /// Whether this settles all that is on its way.
    #[inline]
    fn is_settled_by(&self, ack: &Ack) -> bool {
        ack.largest + 1 == self.channel.sent.next_number()
    }

    /// Whether what waits leaves in one packet, and nothing else before it, however late the peer's last
    /// acknowledgement is.
    #[inline]
    fn may_answer(&mut self, outgoing: &Outgoing, now_ns: u64) -> bool {
        let (unsent, full) = (outgoing.unsent_bytes(), self.channel.mtu.current());
        unsent == 0
            || (unsent <= chunk_max(full)
                && self.channel.may_send(full, 1)
                && self.channel.mtu.wanted(now_ns).is_none())
    }
}

impl Node {
    /// Takes in an acknowledgement that was put off, so that statistics know of it; `false` if there is none.
    #[inline]
    pub fn catch_up(&mut self) -> bool {
        let late = self.hub.late_ack.take();
        if let Some(late) = &late {
            self.take_in_late(late);
        }
        late.is_some()
    }

    /// The same if this peer's connection is to change.
    #[inline]
    pub(super) fn catch_up_with(&mut self, index: u32) {
        if let Some(late) = self.hub.late_ack.take_if(|late| late.peer == index) {
            self.take_in_late(&late);
        }
    }

    /// The same unless an answer to this peer may leave first, or nothing waits.
    #[inline]
    pub(super) fn catch_up_before_sending(&mut self, index: u32, now_ns: u64) {
        if self.hub.late_ack.is_none() {
            return;
        }
        if let Some(link) = self.peers[index].link.as_mut()
            && let Some(session) = link.session.as_mut()
            && !session.may_answer(&link.outgoing, now_ns)
        {
            self.catch_up_with(index);
        }
    }

    fn take_in_late(&mut self, late: &LateAck) {
        let peer = &mut self.peers[late.peer];
        let id = peer.id;
        let Some(link) = peer.link.as_mut() else {
            return;
        };
        let Some(session) = link.session.as_mut() else {
            return;
        };
        let (outgoing, hub) = (&mut link.outgoing, &mut self.hub);
        if let Err(why) = session.on_ack(outgoing, &late.ack, id, hub, late.came_ns) {
            return self.break_off(late.peer, why, late.came_ns);
        }
        // What has been sent meanwhile may have waited for what this gives.
        if session.wants_to_send(outgoing, late.came_ns) {
            self.enqueue(late.peer);
        }
    }

    /// Whether nothing is on its way to a peer, as far as has been heard.
    #[inline]
    pub(super) fn is_idle(&self, index: u32, session: &Session) -> bool {
        let late = self.hub.late_ack.as_ref();
        let late = late.filter(|late| late.peer == index);
        session.channel.sent.in_flight() == 0
            || late.is_some_and(|late| session.is_settled_by(&late.ack))
    }
}
