//! Receives that wait in vain, and what for.

use super::Node;
use crate::PeerId;
use crate::error::Starvation;
use crate::message::{Envelope, Match, Room};

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
        if !self.with_incoming(link, |incoming, _| incoming.lacks_room(id))? {
            return None;
        }
        let waiting = self.hub.mailbox.peek(wanted)?;
        let limit = self.hub.mailbox.posted.limit();
        let mut room = Room::new(limit);
        let stuck = self.stuck();
        for holder in &stuck {
            room.charge(holder.len);
        }
        let held_bytes = room.used();
        if waiting.len > limit || room.charge(waiting.len) {
            return None;
        }
        let holder = stuck.into_iter().max_by_key(|holder| holder.len)?;
        Some(Starvation {
            waiting,
            holder,
            held_bytes,
            limit,
        })
    }

    /// Messages that keep memory of receives and do not give it back by themselves.
    fn stuck(&self) -> Vec<Envelope> {
        let withdrawn = self.hub.mailbox.withdrawn();
        let held = withdrawn.filter(|(_, charge)| charge.posted > 0);
        let apart = self.peers.iter().filter(|peer| peer.state.is_apart());
        let coming = apart.filter_map(|peer| Some((peer.id, &peer.session()?.incoming)));
        let coming = coming.flat_map(|(source, incoming)| {
            incoming.asked_bodies().map(move |(tag, len)| Envelope {
                source,
                tag,
                len,
                complete: false,
            })
        });
        held.map(|(envelope, _)| envelope).chain(coming).collect()
    }
}
