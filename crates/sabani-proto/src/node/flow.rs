//! Who may send how much to this node, and what the program says to that.

use std::cmp::Reverse;
use std::num::NonZeroU64;

use super::session::Session;
use super::{GRANT_TIMER, Node};
use crate::channel::datagram_cost;
use crate::credit::{Arrival, Owed};
use crate::error::SendError;
use crate::{Congestion, PeerId};

/// A peer does not miss less than this part of its credit.
const MISSED_PART: u32 = 64;

/// Bytes a second to which a program may keep what it sends to a peer, at least: a full datagram of
/// Ethernet in 15 ms, so that no window lapses (100 ms) between two of them.
const LEAST_PACING_RATE: u64 = 100_000;

impl Node {
    /// Gives a peer `weight` parts of this node's link where others have one, if several want to
    /// send here; 1…1,000, default 1, and the nearest of these for any other. It stays if the connection ends.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`].
    pub fn set_weight(&mut self, now_ns: u64, peer: PeerId, weight: u32) -> Result<(), SendError> {
        let now_ns = self.hub.clock.lived(now_ns);
        let index = self.known(peer)?;
        self.hub
            .granter
            .set_weight(index, weight.clamp(1, 1_000), now_ns);
        Ok(())
    }

    /// Fixes what a peer may have on its way here, in bytes as the kernel charges them
    /// ([`crate::datagram_cost`]), whatever the path carries (U9); `None` leaves it to the node
    /// again. Below a full datagram only short messages come, a packet of them in each round trip; the
    /// peer's [`PeerStats::limit`](crate::PeerStats::limit) says so. It stays if the connection ends.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`].
    pub fn set_window(
        &mut self,
        now_ns: u64,
        peer: PeerId,
        window: Option<u32>,
    ) -> Result<(), SendError> {
        let now_ns = self.hub.clock.lived(now_ns);
        let index = self.known(peer)?;
        self.hub.granter.set_window(index, window, now_ns);
        self.grant(now_ns);
        Ok(())
    }

    /// What keeps packets for a peer to what the path carries, beside the peer's credit; `None`: as
    /// [`crate::Config::congestion`] says. It begins anew, and stays if the connection ends.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`].
    pub fn set_congestion(
        &mut self,
        now_ns: u64,
        peer: PeerId,
        kind: Option<Congestion>,
    ) -> Result<(), SendError> {
        let now_ns = self.hub.clock.lived(now_ns);
        let index = self.known(peer)?;
        self.peers[index].wants.congestion = kind;
        let kind = kind.unwrap_or(self.hub.config.congestion);
        if let Some(session) = self.peers[index].session_mut() {
            session.channel.set_congestion(kind, now_ns);
            self.enqueue(index);
        }
        Ok(())
    }

    /// Bytes that leave for a peer in a second at most, in full datagrams (U10, U12: slow write); 100,000
    /// at least, which is taken for less. A smaller datagram counts as the part of a full
    /// one that its charge is ([`crate::datagram_cost`]). `None`: no limit of one's own. Acknowledgements, credit and POLLs don't wait.
    /// It stays if the connection ends.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`].
    pub fn set_max_pacing_rate(
        &mut self,
        now_ns: u64,
        peer: PeerId,
        rate: Option<u64>,
    ) -> Result<(), SendError> {
        let now_ns = self.hub.clock.lived(now_ns);
        let index = self.known(peer)?;
        let rate = rate.and_then(|rate| NonZeroU64::new(rate.max(LEAST_PACING_RATE)));
        self.peers[index].wants.max_pacing_rate = rate;
        if let Some(session) = self.peers[index].session_mut() {
            session.channel.set_max_pacing_rate(rate, now_ns);
            self.enqueue(index);
        }
        Ok(())
    }

    pub(super) fn known(&self, peer: PeerId) -> Result<u32, SendError> {
        self.peers.index(peer).ok_or(SendError::UnknownPeer(peer))
    }

    /// Gives credit if that can't wait; returns how many bytes are still to come.
    #[inline]
    pub(super) fn give_pressing_credit(&mut self, index: u32, now_ns: u64) -> u64 {
        let Some(session) = self.peers[index].session_mut() else {
            return 0;
        };
        // What has decayed since is others' now: it must not be told again.
        session.credit = session.credit.min(self.hub.granter.window(index));
        let remaining = session.incoming.remaining_bytes();
        if session.is_credit_pressing(remaining) {
            self.give_credit(index, now_ns);
        }
        remaining
    }

    /// Takes into account what has come from a peer, and what it still has to send, and gives
    /// credit to whoever is next (U9, U11, H6).
    pub(super) fn give_credit(&mut self, index: u32, now_ns: u64) {
        // What it says of the round-trip time counts here.
        self.catch_up_with(index);
        let Some(session) = self.peers[index].session_mut() else {
            return;
        };
        if session.has_credit_news() {
            let given = session.credit_left();
            let arrival = session.take_arrival();
            let renewed = self.hub.granter.on_arrival(index, &arrival, now_ns);
            session.credit = self.hub.granter.window(index);
            if !session.credit_due {
                let received = &mut session.channel.received;
                received.owe_credit(arrival.remaining, given, renewed, now_ns);
            }
            self.grant(now_ns);
        }
    }

    /// Nothing waits to be read: what has come since this was said last is what the path carries.
    /// Without this a driver's backlog is told from a fast link only slowly. Costs nothing while
    /// nobody has something to send here.
    #[inline]
    pub fn handle_empty(&mut self, now_ns: u64) {
        let now_ns = self.hub.clock.lived(now_ns);
        self.hub.granter.on_empty(now_ns);
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

impl Session {
    /// What the peer may still send, for an acknowledgement.
    pub fn credit_left(&self) -> u32 {
        self.credit.saturating_sub(self.channel.received.used())
    }

    /// Whether credit is to be given before anything else: there is more to come, or the peer would
    /// miss what it has used. Otherwise an answer goes first.
    #[inline]
    fn is_credit_pressing(&self, remaining: u64) -> bool {
        self.incoming.has_grants()
            || remaining > 0
            || self.channel.received.used() > self.credit / MISSED_PART
    }

    /// Whether anything has come, or may come from now on, that credit depends on.
    #[inline]
    pub fn has_credit_news(&self) -> bool {
        self.channel.received.has_progress() || self.incoming.has_grants()
    }

    /// The datagrams into which the peer cuts what it sends, in bytes: those of ours, which are known sooner,
    /// where both are charged alike.
    fn peer_datagram(&self) -> usize {
        let (own, peer) = (self.channel.mtu.current(), self.channel.received.datagram());
        match datagram_cost(own) == datagram_cost(peer) {
            true => own,
            false => peer,
        }
    }

    /// What has come and what is still to come, for whoever gives credit.
    pub fn take_arrival(&mut self) -> Arrival {
        let progress = self.channel.received.take_progress();
        let bytes = self.peer_datagram();
        // Who is disconnected sends nothing, whatever there is (U14).
        let remaining = match self.is_apart() {
            true => 0,
            false => self.incoming.remaining_bytes(),
        };
        let packets = remaining.div_ceil(self.piece(bytes) as u64);
        Arrival {
            advanced: progress.advanced,
            charge: u64::from(progress.cost),
            bytes: u64::from(progress.bytes),
            packets: progress.packets,
            lost: progress.missing,
            late: progress.late,
            marked: progress.marked,
            data: self.channel.received.take_data(),
            remaining: packets * u64::from(datagram_cost(bytes)),
            full: datagram_cost(bytes),
            rtt_ns: self.channel.rtt.latest_ns(),
            least_rtt_ns: self.channel.rtt.min_ns(),
        }
    }
}
