//! What the program may want of a peer's flow.

use super::Node;
use crate::{Congestion, Error, PeerId, Quality};

impl Node {
    /// Gives a peer `weight` parts (1…1,000, default 1, and the nearest of these for any other) of what
    /// arrives here where others have one, if several want to send. Stays in force when the connection ends.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Closed`], [`Error::Forked`].
    pub fn set_weight(&self, peer: PeerId, weight: u32) -> Result<(), Error> {
        self.steer(|node, now_ns| node.set_weight(now_ns, peer, weight))
    }

    /// Fixes what a peer may have on its way here (U9), in bytes as the kernel charges them: 2,304
    /// for a datagram of 1,472. `None` leaves it to the library again, which is best unless the
    /// program knows more of the path. Below a full datagram nothing comes that needs more than the window,
    /// once what the peer already holds has lapsed, but short messages, a packet of them in each round trip: what waits is not
    /// lost, and the sender's [`PeerStats::limit`](crate::PeerStats::limit) is
    /// [`Limit::Window`](crate::Limit::Window) meanwhile. Stays in force when the connection ends.
    ///
    /// A window that grows is told at once, also to a peer that has nothing to send: so a request grants its answer in
    /// advance. Both ends forget it where nothing has come for 100 ms; who says it anew before each request has no round trip
    /// of credit before the answer (after a rest, 100 KB over a round trip of 10 ms: 10 ms in place of 30).
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Closed`], [`Error::Forked`].
    pub fn set_window(&self, peer: PeerId, bytes: Option<u32>) -> Result<(), Error> {
        self.steer(|node, now_ns| node.set_window(now_ns, peer, bytes))
    }

    /// What comes first in what this program sends to a peer (U10: `datagram_through`,
    /// `datagram_rapid`): a wish, which the peer's library is told at once, and answers with what it
    /// grants: [`PeerStats::granted`](crate::PeerStats::granted), a round trip later (U10:
    /// `datagram_getdestbuf`). May be switched at any time; stays in force when the connection ends.
    /// Costs a small packet there and back.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Closed`], [`Error::Forked`].
    pub fn set_quality(&self, peer: PeerId, quality: Quality) -> Result<(), Error> {
        self.steer(|node, _| node.set_quality(peer, quality))
    }

    /// What keeps packets for a peer to what the path carries, beside the peer's credit; `None`: as
    /// [`Builder::congestion`](crate::Builder::congestion) says. It begins anew, and stays in force
    /// when the connection ends.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Closed`], [`Error::Forked`].
    pub fn set_congestion(&self, peer: PeerId, kind: Option<Congestion>) -> Result<(), Error> {
        self.steer(|node, now_ns| node.set_congestion(now_ns, peer, kind))
    }

    /// Bytes that leave for a peer in a second at most (U10; U12: slow write), counted as full datagrams without their
    /// headers: 1,472 bytes each on Ethernet. Smaller ones count as the part of one that the kernel charges for them: a third
    /// up to 128 bytes. 100,000 at least, which is taken for less; `None`, the default: no limit of one's own. What
    /// leaves at once takes a millisecond of it at most, but may be two datagrams;
    /// acknowledgements, credit and requests for them neither wait nor count, and what asks for a lost tail
    /// does not wait: where a tenth of all is lost, some percent more leave. Holds beside the peer's credit and
    /// [`Node::set_congestion`]; stays in force when the connection ends.
    ///
    /// For a sender that must leave a part of its link to others, or that knows what a path carries which its receiver can't see.
    /// Costs a timer for each half of what may leave at once. Meanwhile [`PeerStats::limit`](crate::PeerStats::limit) is
    /// [`Limit::Congestion`](crate::Limit::Congestion).
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Closed`], [`Error::Forked`].
    pub fn set_max_pacing_rate(&self, peer: PeerId, rate: Option<u64>) -> Result<(), Error> {
        self.steer(|node, now_ns| node.set_max_pacing_rate(now_ns, peer, rate))
    }

    /// Whether what is lost on the way to a peer waits for [`Node::retransmit_now`], or goes again by
    /// itself, which is the default and nearly always best. Losses are found as ever; how many wait is
    /// [`PeerStats::held_resends`](crate::PeerStats::held_resends). Stays in force when the connection
    /// ends; ends when the node is closed.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Closed`], [`Error::Forked`].
    pub fn hold_resends(&self, peer: PeerId, hold: bool) -> Result<(), Error> {
        self.steer(|node, _| node.hold_resends(peer, hold))
    }

    /// Sends again what was lost on the way to a peer (U6: `datagram_retransmission`), as far as the
    /// peer gives credit, and returns how many pieces that are. Only what is known to be lost goes
    /// again, once: calling this often costs no more packets than calling it seldom.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Closed`], [`Error::Forked`].
    pub fn retransmit_now(&self, peer: PeerId) -> Result<usize, Error> {
        let mut pieces = 0;
        self.steer(|node, _| {
            pieces = node.retransmit_now(peer)?;
            Ok(())
        })?;
        Ok(pieces)
    }
}
