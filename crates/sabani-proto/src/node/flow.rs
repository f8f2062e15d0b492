//! Who may send how much to this node, and what the program says to that.

use std::cmp::Reverse;

use super::{GRANT_TIMER, Node};
use crate::PeerId;
use crate::credit::Owed;
use crate::error::SendError;

impl Node {
    /// Gives a peer `weight` parts of this node's link where others have one, if several want to
    /// send here; 1…1,000, default 1. It stays if the connection ends.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`].
    pub fn set_weight(&mut self, now_ns: u64, peer: PeerId, weight: u32) -> Result<(), SendError> {
        let index = self.known(peer)?;
        self.hub
            .granter
            .set_weight(index, weight.clamp(1, 1_000), now_ns);
        Ok(())
    }

    /// Fixes what a peer may have on its way here, in bytes as the kernel charges them
    /// ([`crate::datagram_cost`]), whatever the path carries (U9); `None` leaves it to the node
    /// again. It stays if the connection ends.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`].
    pub fn set_window(
        &mut self,
        now_ns: u64,
        peer: PeerId,
        window: Option<u32>,
    ) -> Result<(), SendError> {
        let index = self.known(peer)?;
        self.hub.granter.set_window(index, window, now_ns);
        self.grant(now_ns);
        Ok(())
    }

    fn known(&self, peer: PeerId) -> Result<u32, SendError> {
        self.peers.index(peer).ok_or(SendError::UnknownPeer(peer))
    }

    /// Takes into account what has come from a peer, and what it still has to send, and gives
    /// credit to whoever is next (U9, U11, H6).
    #[inline]
    pub(super) fn give_credit(&mut self, index: u32, now_ns: u64) {
        let Some(session) = self.peers[index].session_mut() else {
            return;
        };
        if session.has_credit_news() {
            let arrival = session.take_arrival();
            self.hub.granter.on_arrival(index, &arrival, now_ns);
            session.credit = self.hub.granter.window(index);
            self.grant(now_ns);
        }
    }

    /// Gives the credit that may be given now.
    #[inline]
    pub(super) fn grant(&mut self, now_ns: u64) {
        let mut owed = std::mem::take(&mut self.owed);
        self.hub
            .granter
            .run(now_ns, &mut |index, what| owed.push((index, what)));
        for (index, what) in owed.drain(..) {
            if let Some(session) = self.peers[index].session_mut() {
                session.credit = self.hub.granter.window(index);
                match what {
                    Owed::Credit => session.credit_due = true,
                    Owed::Ack => session.channel.received.owe_now(now_ns),
                }
                self.enqueue(index);
            }
        }
        self.owed = owed;
        self.arm_grants();
    }

    /// Makes sure that the moment of the next grant is in the timer heap.
    #[inline]
    fn arm_grants(&mut self) {
        let Some(at) = self.hub.granter.next_deadline() else {
            return;
        };
        if at < self.grants_at_ns {
            self.grants_at_ns = at;
            self.timers.push(Reverse((at, GRANT_TIMER)));
        }
    }
}
