//! Disconnecting and reconnecting (U14). A connection outlives both: keys, packet numbers and
//! message ids stay, so that what was not acknowledged goes on where it stopped, and what the peer
//! has is not sent again. Only messages are held back; acknowledgements and signs of life pass.

use super::Node;
use super::session::Session;
use crate::event::Event;
use crate::message::Outgoing;
use crate::state::{Happening, LinkState};
use crate::{Config, Limit, PeerId, SendError};

/// How often each side's program has disconnected or reconnected: an odd number while it is
/// disconnected. A number, so that neither loss nor reordering can confuse the peer.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    mine: u64,
    theirs: u64,
    /// The peer has not been told the newest.
    pub due: bool,
}

fn is_odd(count: u64) -> bool {
    count % 2 == 1
}

impl Session {
    #[inline]
    fn apart(&self) -> Option<&Apart> {
        self.seldom.as_ref().map(|seldom| &seldom.apart)
    }

    /// This program is disconnected, or is not.
    fn set_apart(&mut self, disconnected: bool) {
        if disconnected != self.apart().is_some_and(|apart| is_odd(apart.mine)) {
            let apart = &mut self.seldom.get_or_insert_default().apart;
            apart.mine += 1;
            apart.due = true;
        }
    }

    /// What to tell the peer, if it is to be told.
    pub fn take_turn(&mut self) -> Option<u64> {
        let apart = &mut self.seldom.as_mut()?.apart;
        std::mem::take(&mut apart.due).then_some(apart.mine)
    }

    /// What the peer was told is lost.
    pub fn tell_turn_again(&mut self) {
        self.seldom.get_or_insert_default().apart.due = true;
    }

    /// What the peer tells.
    pub fn hear_turn(&mut self, changes: u64) {
        let apart = &mut self.seldom.get_or_insert_default().apart;
        apart.theirs = apart.theirs.max(changes);
    }

    /// Whether the peer's program is disconnected, as far as it has told.
    #[inline]
    fn is_peer_apart(&self) -> bool {
        self.apart().is_some_and(|apart| is_odd(apart.theirs))
    }

    /// Whether either program is disconnected.
    pub fn is_apart(&self) -> bool {
        let apart = self.apart();
        apart.is_some_and(|apart| is_odd(apart.mine) || is_odd(apart.theirs))
    }

    /// How long the peer may be silent although it was asked to answer.
    pub fn patience_ns(&self, outgoing: &Outgoing, config: &Config) -> u64 {
        if outgoing.is_held() {
            config.disconnected_max_ns
        } else {
            config.dead_after_ns
        }
    }

    /// Whether the peer owes an answer for longer than one should take.
    fn is_unanswered(&self, config: &Config, now_ns: u64) -> bool {
        self.channel.sent.in_flight_packets() > 0
            && now_ns >= self.channel.last_heard_ns + config.dead_after_ns / 2
    }

    /// What packets have told, or their absence, that `state` does not say yet.
    fn news(&self, state: LinkState, config: &Config, now_ns: u64) -> Option<Happening> {
        let what = match (state.is_disconnected_by_peer(), self.is_peer_apart()) {
            _ if state == LinkState::Silent && self.channel.last_heard_ns == now_ns => {
                Some(Happening::Heard)
            }
            (false, true) => Some(Happening::PeerDisconnect),
            (true, false) => Some(Happening::PeerReconnect),
            _ if state == LinkState::Open && self.is_unanswered(config, now_ns) => {
                Some(Happening::Unanswered)
            }
            _ => None,
        };
        what.filter(|&what| state.after(what) != state)
    }
}

impl Node {
    /// Breaks a connection off until [`Node::reconnect`]: messages to the peer are refused, and it
    /// is asked to send none. What was accepted and not acknowledged is kept, and goes on then;
    /// messages that have come can still be taken. Does nothing if that has been done already.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`], [`SendError::Closed`].
    pub fn disconnect(&mut self, now_ns: u64, peer: PeerId) -> Result<(), SendError> {
        let now_ns = self.hub.clock.lived(now_ns);
        let index = self.steerable(peer)?;
        self.drop_attempt(index);
        self.happen(index, Happening::Disconnect, now_ns);
        Ok(())
    }

    /// Ends what [`Node::disconnect`] has begun: over the same connection if there is one still,
    /// else by making one. Does nothing if the program has not disconnected.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`], [`SendError::Closed`].
    pub fn reconnect(&mut self, now_ns: u64, peer: PeerId) -> Result<(), SendError> {
        let now_ns = self.hub.clock.lived(now_ns);
        let index = self.steerable(peer)?;
        self.happen(index, Happening::Reconnect, now_ns);
        if self.peers[index].state == LinkState::Connecting {
            self.ensure_link(index, now_ns);
        }
        Ok(())
    }

    /// The peer's index, unless the node is closing.
    pub(super) fn steerable(&self, peer: PeerId) -> Result<u32, SendError> {
        if self.closing {
            return Err(SendError::Closed);
        }
        let index = self.peers.index(peer);
        index.ok_or(SendError::UnknownPeer(peer))
    }

    /// Takes a step of the state machine, and does what the new state calls for.
    pub(super) fn happen(&mut self, index: u32, what: Happening, now_ns: u64) {
        let peer = &mut self.peers[index];
        let from = peer.state;
        let to = from.after(what);
        if from == to {
            return;
        }
        peer.state = to;
        let span = peer.link.as_ref().and_then(|link| link.span_id());
        tracing::debug!(parent: span, peer = %peer.id, ?from, ?to, "state changed");
        let begins_or_ends = matches!(
            what,
            Happening::Wanted | Happening::Made | Happening::Close | Happening::End
        );
        if !begins_or_ends {
            let peer = peer.id;
            self.hub.push_event(Event::Changed { peer, from, to });
        }
        self.hold(index, now_ns);
    }

    /// Holds messages back, or lets them go, as the state says; tells the peer.
    pub(super) fn hold(&mut self, index: u32, now_ns: u64) {
        let peer = &mut self.peers[index];
        let Some(link) = peer.link.as_mut() else {
            return;
        };
        let held = peer.state.is_apart();
        let was_held = link.outgoing.hold(held);
        link.outgoing.keep_lost(peer.wants.keeps_lost);
        if let Some(session) = &mut link.session {
            session.set_apart(peer.state.is_disconnected());
            if was_held && !held {
                session.channel.forgive(now_ns);
            }
        }
        self.enqueue(index);
        self.arm_later(index);
    }

    /// Notices what packets have told of the peer, or that none come.
    #[inline]
    pub(super) fn note_news(&mut self, index: u32, now_ns: u64) {
        while let Some(what) = self.news(index, now_ns) {
            self.happen(index, what, now_ns);
        }
    }

    #[inline]
    fn news(&self, index: u32, now_ns: u64) -> Option<Happening> {
        let peer = &self.peers[index];
        peer.session()?.news(peer.state, &self.hub.config, now_ns)
    }

    /// Why a message for this peer is not accepted, if that is not for want of room.
    #[inline]
    pub(super) fn check_connected(&self, index: u32) -> Result<(), SendError> {
        if self.peers[index].state.is_disconnected() {
            return Err(self.disconnected(index, false));
        }
        Ok(())
    }

    #[cold]
    fn disconnected(&self, index: u32, by_peer: bool) -> SendError {
        let peer = &self.peers[index];
        let link = peer.link.as_ref();
        SendError::Disconnected {
            peer: peer.id,
            queued_bytes: link.map_or(0, |link| link.outgoing.queued_bytes()),
            by_peer,
        }
    }

    /// Why a message is not accepted for which there is no room.
    #[cold]
    pub(super) fn full(&self, index: u32) -> SendError {
        let peer = &self.peers[index];
        if peer.state.is_disconnected_by_peer() {
            return self.disconnected(index, true);
        }
        let link = peer.link.as_ref();
        let outgoing = link.map(|link| &link.outgoing);
        SendError::Full {
            peer: peer.id,
            queued_bytes: outgoing.map_or(0, Outgoing::queued_bytes),
            limit: match link.map_or(Limit::Handshake, |link| peer.limit(link)) {
                // While the last of what may leave is still on its way.
                Limit::Application if outgoing.is_some_and(Outgoing::is_blocked) => Limit::Grant,
                Limit::Application => Limit::Window,
                limit => limit,
            },
            obstacle: link.and_then(|link| link.obstacle()),
        }
    }
}
