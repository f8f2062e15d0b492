//! What a node tells of its flows (U7).

use std::time::Duration;

use super::Node;
use super::peers::{Link, Peer};
use super::session::Session;
use crate::error::ConnectError;
use crate::message::Outgoing;
use crate::state::LinkState;
use crate::stats::{Counters, Limit, NodeStats, PeerStats};
use crate::{Obstacle, PeerId};

impl Node {
    /// A snapshot of one peer's flow (U7).
    pub fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        let peer = &self.peers[self.peers.index(peer)?];
        let held = self.hub.mailbox.held();
        let held = held.filter(|(_, envelope, _)| envelope.source == peer.id);
        let withdrawn_bytes = held.map(|(.., bytes)| bytes).sum();
        let mut stats = PeerStats {
            peer: peer.id,
            address: Some(peer.addr),
            state: peer.state,
            quality: peer.wants.quality,
            posted_bytes: withdrawn_bytes,
            withdrawn_bytes,
            ..PeerStats::default()
        };
        let Some(link) = &peer.link else {
            return Some(stats);
        };
        stats.limit = peer.limit(link);
        stats.queued_bytes = link.outgoing.queued_bytes();
        stats.held_resends = link.outgoing.kept();
        stats.queued_messages = link.outgoing.pending_messages();
        stats.counters = link.counters();
        stats.obstacle = link.obstacle();
        if let Some(session) = &link.session {
            session.describe(&mut stats);
            stats.shortage = session.incoming.shortage(&self.hub.mailbox);
        }
        Some(stats)
    }

    /// The state of the connection to a peer; `None` if the peer is not known.
    pub fn peer_state(&self, peer: PeerId) -> Option<LinkState> {
        Some(self.peers[self.peers.index(peer)?].state)
    }

    /// Why there is no connection to a peer yet, or why it is silent, as far as is known by now: what a
    /// handshake would fail with, were its time over.
    pub fn unanswered(&self, peer: PeerId) -> ConnectError {
        let index = self.peers.index(peer);
        let link = index.and_then(|index| self.peers[index].link.as_ref());
        let attempt = link.and_then(|link| link.attempt.as_ref());
        let session = link.and_then(|link| link.session.as_ref());
        let now_ns = self.hub.clock.latest();
        match (attempt, session) {
            (Some(attempt), None) => attempt.failure(now_ns - attempt.began_ns),
            (_, session) => ConnectError::NoAnswer {
                time: session.map_or(Duration::ZERO, |session| {
                    Duration::from_nanos(now_ns - session.channel.last_heard_ns)
                }),
                obstacle: session.and_then(Session::obstacle),
            },
        }
    }

    /// What is on its way to a peer, in bytes as its kernel charges them.
    pub fn in_flight_bytes(&self, peer: PeerId) -> u32 {
        let peer = self.peers.index(peer).map(|index| &self.peers[index]);
        let session = peer.and_then(|peer| peer.session());
        session.map_or(0, |session| session.channel.sent.in_flight())
    }

    /// A snapshot of the whole node.
    pub fn stats(&self) -> NodeStats {
        let mut stats = NodeStats {
            peers: self.peers.len(),
            unmatched_messages: self.hub.mailbox.arrived_len(),
            unmatched_bytes: self.hub.mailbox.unmatched.used + self.hub.mailbox.logs.used,
            posted_bytes: self.hub.mailbox.posted.used(),
            credit: self.hub.granter.stats(),
            counters: self.hub.past,
            dropped: self.dropped,
            rejected_last: self.rejected_last,
            stalled_ns: self.hub.clock.stalled_ns,
            events_dropped: self.hub.events_dropped,
            ..NodeStats::default()
        };
        for link in self.peers.iter().filter_map(|peer| peer.link.as_ref()) {
            stats.connections += usize::from(link.session.is_some());
            stats.counters.add(&link.counters());
        }
        stats
    }
}

impl Peer {
    /// What limits the flow to it now.
    pub fn limit(&self, link: &Link) -> Limit {
        let limit = link
            .session
            .as_ref()
            .map(|session| session.limit(&link.outgoing));
        match limit {
            Some(Limit::Application) if self.deferred => Limit::OwnLink,
            Some(limit) => limit,
            None if self.state == LinkState::Barred => Limit::Disconnected,
            None => Limit::Handshake,
        }
    }
}

impl Link {
    /// What is in the way, as far as this machine or the network has said.
    pub fn obstacle(&self) -> Option<Obstacle> {
        match &self.session {
            Some(session) => session.obstacle(),
            None => self.attempt.as_ref()?.obstacle,
        }
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        let session = self.session.as_ref();
        let counters = session.map_or_else(Counters::default, |session| session.counters);
        Counters {
            messages_sent: self.outgoing.messages(),
            messages_received: session.map_or(0, |session| session.incoming.messages()),
            ..counters
        }
    }
}

impl Session {
    /// What limits the flow now.
    fn limit(&self, outgoing: &Outgoing) -> Limit {
        let bytes = self.channel.mtu.current();
        if outgoing.is_held() {
            Limit::Disconnected
        } else if outgoing.has_sendable() && !self.channel.has_credit(bytes, 1) {
            Limit::Window
        } else if outgoing.has_sendable() && !self.channel.may_send(bytes, 1) {
            Limit::Congestion
        } else if !outgoing.has_sendable()
            && !outgoing.is_settled()
            && self.channel.sent.in_flight() == 0
        {
            match outgoing.kept() {
                0 => Limit::Grant,
                _ => Limit::HeldResends,
            }
        } else {
            Limit::Application
        }
    }

    /// Fills in what the connection knows of its flow.
    fn describe(&self, stats: &mut PeerStats) {
        stats.window_bytes = self.channel.credit;
        if let Some(governor) = self.channel.governor() {
            stats.congestion_window_bytes = governor.own_window().unwrap_or(0);
            stats.pacing_rate = governor.rate();
        }
        stats.in_flight_bytes = self.channel.sent.in_flight();
        stats.backlog_bytes = self.incoming.backlog_bytes();
        stats.granted = self.granted();
        if let Some(seldom) = &self.seldom {
            stats.expired_sent = seldom.expired_sent;
            stats.expired_received = seldom.expired_received;
        }
        stats.posted_bytes += self.incoming.asked_bytes();
        stats.withdrawn_bytes += self.incoming.withdrawn_bytes();
        stats.rtt_ns = self.channel.rtt.smoothed_ns();
        stats.rtt_variation_ns = self.channel.rtt.variation_ns();
        stats.rtt_min_ns = self.channel.rtt.min_ns();
        stats.datagram_bytes = self.channel.mtu.current();
    }
}
