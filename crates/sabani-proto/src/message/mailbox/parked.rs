//! Messages whose receives were withdrawn: the next receive gets them.

use super::{Arrived, Charge, Envelope, LinkRef, Mailbox, Message, Pending, RecvTicket};
use crate::PeerId;
use crate::message::{Buffer, Room};

/// A message that a withdrawn receive had already been given.
#[derive(Debug)]
pub(super) struct Parked {
    /// Its age among the messages in the matcher.
    pub stamp: u64,
    pub source: PeerId,
    pub tag: u64,
    pub arrived: Arrived,
}

impl Mailbox {
    /// Puts back a message whose receive was withdrawn, in the place that its stamp gives it.
    fn park_at(&mut self, stamp: u64, source: PeerId, tag: u64, arrived: Arrived) {
        let at = self.parked.partition_point(|parked| parked.stamp < stamp);
        self.parked.insert(
            at,
            Parked {
                stamp,
                source,
                tag,
                arrived,
            },
        );
    }

    /// A message's receive was withdrawn while it was being filled. The next receive that waits for it gets it, and is returned; without
    /// one it is put back.
    pub fn park(
        &mut self,
        stamp: u64,
        source: PeerId,
        tag: u64,
        pending: Pending,
    ) -> Option<RecvTicket> {
        let next = self.arrive_again(stamp, source, tag, pending.len);
        if next.is_none() {
            self.park_at(stamp, source, tag, Arrived::Pending(pending));
        }
        next
    }

    /// Forgets a receive that nobody will look at again: a message that had come to it goes to the next one that waits for it, or can be
    /// received again.
    pub fn abandon(&mut self, stamp: u64, message: Message) {
        let Message { source, tag, body } = message;
        if let Some(ticket) = self.arrive_again(stamp, source, tag, body.len() as u64) {
            return self.complete_whole(ticket, source, tag, body);
        }
        // From now on it is the node's, as far as that has room: it is here.
        let len = body.len() as u64;
        let posted = if self.posted.charge(len) { len } else { 0 };
        let arrived = Arrived::Whole {
            body,
            link: LinkRef::SELF,
            charge: Charge {
                posted,
                ..Charge::default()
            },
        };
        self.park_at(stamp, source, tag, arrived);
    }

    /// The same for a message whose receive was withdrawn: it keeps its age.
    fn arrive_again(
        &mut self,
        stamp: u64,
        source: PeerId,
        tag: u64,
        len: u64,
    ) -> Option<RecvTicket> {
        let ticket = self.arrive(source, tag, len)?;
        self.receives.get_mut(ticket)?.stamp = stamp;
        Some(ticket)
    }

    /// A parked message will never be complete; returns whether it was there.
    pub fn drop_parked(&mut self, link: LinkRef, id: u64) -> bool {
        let at = self.parked_pending(link, id);
        at.map(|at| self.parked.remove(at)).is_some()
    }

    /// Messages that are all here, and hold memory of receives that the program does not wait with any more: those were withdrawn, or
    /// it has only looked. Their stamps, and the bytes that they hold.
    pub fn held(&self) -> impl Iterator<Item = (u64, Envelope, u64)> {
        let parked = self.parked.iter();
        let parked = parked.map(|one| (one.stamp, one.source, one.tag, &one.arrived));
        // Not all that wait: there may be many.
        let kept = self.looked_for.iter();
        let kept = kept.filter_map(|&key| self.matcher.get(key));
        parked
            .chain(kept)
            .filter_map(|(stamp, source, tag, arrived)| match arrived {
                Arrived::Whole { body, charge, .. } if charge.posted > 0 => {
                    let envelope = Envelope {
                        source,
                        tag,
                        len: body.len() as u64,
                        complete: true,
                    };
                    Some((stamp, envelope, charge.posted))
                }
                _ => None,
            })
    }

    /// Whether the receive that is next waits for memory which only the program can give back: then nobody waits for its turn.
    pub fn next_waits_in_vain(&self) -> bool {
        let Some(bytes) = self.posted.next_bytes() else {
            return false;
        };
        let mut room = Room::new(self.posted.limit());
        for (_, held, _) in self.held() {
            room.charge(held.len);
        }
        !room.charge(bytes)
    }

    /// The parked message that waits for this body.
    fn parked_pending(&self, link: LinkRef, id: u64) -> Option<usize> {
        let pending = |parked: &Parked| matches!(parked.arrived, Arrived::Pending(pending) if pending.link == link && pending.id == id);
        self.parked.iter().position(pending)
    }

    /// A parked message's body is complete.
    pub fn complete_parked(&mut self, link: LinkRef, id: u64, filled: Buffer, charge: Charge) {
        if let Some(at) = self.parked_pending(link, id) {
            self.parked[at].arrived = Arrived::Whole {
                body: filled.into(),
                link,
                charge,
            };
        }
    }
}
