//! Receives that wait in vain, and what for.

use super::Node;
use crate::PeerId;
use crate::error::{Backlog, Hindrance, Starvation};
use crate::message::{Envelope, LinkRef, Match, RecvTicket, Room};

impl Node {
    /// What is in the way of a receive of what matches, which then waits in vain until the program does something
    /// about it: untaken messages of the peers that may send it (of each one, if any may), or what keeps the node's memory
    /// from the oldest message that matches.
    pub fn hindrance(&mut self, wanted: &Match) -> Option<Hindrance> {
        match self.hub.mailbox.pending(wanted) {
            Some((link, id)) => self.starved_body(link, id).map(Hindrance::Starved),
            None => self.backlog(wanted).map(Hindrance::Backlog),
        }
    }

    /// The same for a receive that is posted.
    pub fn hindrance_of(&mut self, ticket: RecvTicket) -> Option<Hindrance> {
        if let Some(wanted) = self.hub.mailbox.waits_for(ticket) {
            return self.backlog(&wanted).map(Hindrance::Backlog);
        }
        let (link, id) = self.hub.mailbox.filling(ticket)?;
        self.starved_body(link, id).map(Hindrance::Starved)
    }

    /// The longest of those backlogs that keep all peers from sending what is wanted.
    fn backlog(&self, wanted: &Match) -> Option<Backlog> {
        let may_send = |peer: PeerId| wanted.source().is_none_or(|source| source == peer);
        let peers = self.peers.iter().filter(|peer| may_send(peer.id));
        let backlogs = peers.map(|peer| {
            let (bytes, taken) = peer.session()?.incoming.backlog()?;
            Some(Backlog {
                peer: peer.id,
                bytes,
                taken,
            })
        });
        let backlogs: Vec<_> = backlogs.collect::<Option<_>>()?;
        backlogs.into_iter().max_by_key(|backlog| backlog.bytes)
    }

    /// Messages that do not give theirs back by themselves keep the node's memory from this one, for which no
    /// receive has brought a buffer: all of such a message is here, and its receive was withdrawn, or the program has only looked for it; or its peer, or
    /// this program, has disconnected. Or there would be room, but it comes after one for which there is none.
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
        let more_comes_back = self.hub.mailbox.posted.used() > held_bytes;
        if waiting.len > limit || (room.charge(waiting.len) && more_comes_back) {
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
        let held = self.hub.mailbox.held();
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
