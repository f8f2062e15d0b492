//! Receives that wait in vain, and what for.

use super::Node;
use crate::PeerId;
use crate::error::Starvation;
use crate::message::{Envelope, LinkRef, Match, RecvTicket, Room};

impl Node {
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

    /// What keeps the node's memory from the oldest message that matches, so that a receive without a buffer for it
    /// waits in vain: messages that do not give theirs back by themselves. All of such a message is here, and
    /// its receive was withdrawn; or its peer, or this program, has disconnected.
    pub fn starved(&mut self, wanted: &Match) -> Option<Starvation> {
        let (link, id) = self.hub.mailbox.pending(wanted)?;
        self.starved_body(link, id)
    }

    /// The same for a receive that is posted.
    pub fn starved_receive(&mut self, ticket: RecvTicket) -> Option<Starvation> {
        let (link, id) = self.hub.mailbox.filling(ticket)?;
        self.starved_body(link, id)
    }

    fn starved_body(&mut self, link: LinkRef, id: u64) -> Option<Starvation> {
        let waiting = self.with_incoming(link, |incoming, inbox| {
            let (tag, len) = incoming.lacks_room(id)?;
            Some(envelope(inbox.source, tag, len))
        })??;
        let limit = self.hub.mailbox.posted.limit();
        let mut room = Room::new(limit);
        let stuck = self.stuck();
        for (holder, _) in &stuck {
            room.charge(holder.len);
        }
        let held_bytes = room.used();
        if waiting.len > limit || room.charge(waiting.len) {
            return None;
        }
        let (holder, holder_id) = stuck.into_iter().max_by_key(|(holder, _)| holder.len)?;
        Some(Starvation {
            waiting,
            holder,
            held_bytes,
            limit,
            holder_id,
        })
    }

    /// Messages that keep memory of receives and do not give it back by themselves, and what tells each from
    /// others like it.
    fn stuck(&self) -> Vec<(Envelope, u64)> {
        let withdrawn = self.hub.mailbox.withdrawn();
        let held = withdrawn.filter(|(.., charge)| charge.posted > 0);
        let held = held.map(|(stamp, envelope, _)| (envelope, stamp));
        let apart = self.peers.iter().filter(|peer| peer.state.is_apart());
        let coming = apart.filter_map(|peer| Some((peer.id, &peer.session()?.incoming)));
        let coming = coming.flat_map(|(source, incoming)| {
            let bodies = incoming.asked_bodies();
            bodies.map(move |(id, tag, len)| (envelope(source, tag, len), id))
        });
        held.chain(coming).collect()
    }
}

/// Of a message that is not all here.
fn envelope(source: PeerId, tag: u64, len: u64) -> Envelope {
    Envelope {
        source,
        tag,
        len,
        complete: false,
    }
}
