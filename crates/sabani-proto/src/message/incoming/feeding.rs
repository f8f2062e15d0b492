//! Memory for bodies that receives without a buffer wait for: who gets it, and in which order.

use super::{Inbox, Incoming};
use crate::message::{Mailbox, Turn};
use crate::stats::Shortage;

impl Incoming {
    /// Asks for a body that somebody waits for from now on, if there is memory for it. Others that wait already may be overtaken, but
    /// not for ever.
    pub(super) fn feed_new(&mut self, at: usize, mailbox: &mut Mailbox) -> Result<(), Shortage> {
        let total = self.bodies[at].total;
        let overtakes = self.aside.hungry;
        let fits_share = !overtakes
            || total <= mailbox.peer_share.saturating_sub(self.aside.overtaken)
            || !self.first_has_room(mailbox);
        let may_overtake = fits_share && mailbox.posted.may_overtake(total);
        if !may_overtake && !mailbox.next_waits_in_vain() {
            return Err(match fits_share || self.aside.asked == 0 {
                true => Shortage::Node,
                false => Shortage::Peer,
            });
        }
        // Before it is charged: what it takes then of what is its own is not left for it.
        let is_turn = mailbox.posted.is_turn_of(total);
        self.feed(at, mailbox)?;
        if !is_turn {
            mailbox.posted.note_overtaking(total);
        }
        if overtakes {
            self.aside.overtaken = self.aside.overtaken.saturating_add(total);
        }
        Ok(())
    }

    /// Whether the first that waits does so for the peer's share only. Else nothing of that peer is in its way.
    fn first_has_room(&self, mailbox: &Mailbox) -> bool {
        if self.aside.kept.is_some() {
            return true;
        }
        let first = self.bodies.iter().find(|body| body.is_starved());
        first.is_some_and(|first| mailbox.posted.has_room(first.total))
    }

    /// Whether others of this peer have overtaken those that wait by so much that some of the node's memory is set aside for the first, or that
    /// it has its turn with that, too: else other peers would have that whenever this one has its share.
    fn is_overtaken(&self, mailbox: &Mailbox) -> bool {
        self.aside.overtaken >= mailbox.peer_share / 2
    }

    /// Asks for a body that a receive waits for from now on, or lets it wait.
    pub(super) fn feed_or_starve(&mut self, at: usize, inbox: &mut Inbox<'_>) {
        if let Err(shortage) = self.feed_new(at, inbox.mailbox) {
            self.starve(at, shortage, inbox.mailbox);
            if shortage == Shortage::Node {
                let waits = Some(self.bodies[at].total);
                inbox.mailbox.posted.end_turn(inbox.link.peer, false, waits);
            }
        }
    }

    /// Asks for a body that somebody waits for, if there is memory for it.
    fn feed(&mut self, at: usize, mailbox: &mut Mailbox) -> Result<(), Shortage> {
        if self.is_beyond_share(self.bodies[at].total, mailbox) {
            return Err(Shortage::Peer);
        }
        let body = &mut self.bodies[at];
        if !mailbox.posted.charge(body.total) {
            return Err(Shortage::Node);
        }
        if !body.make_room_if_large(&mailbox.pool) {
            mailbox.posted.release(body.total);
            return Err(Shortage::System);
        }
        body.charge.posted = body.total;
        self.aside.asked += body.total;
        self.grant(at);
        Ok(())
    }

    /// Whether a body must wait until others of this peer have come. With none on its way one may always
    /// come: it can't wait for anything.
    fn is_beyond_share(&self, total: u64, mailbox: &Mailbox) -> bool {
        self.aside.asked > 0 && total > mailbox.peer_share.saturating_sub(self.aside.asked)
    }

    /// Remembers that a receive waits for memory for this body.
    pub(super) fn starve(&mut self, at: usize, shortage: Shortage, mailbox: &mut Mailbox) {
        self.aside.hungry |= shortage != Shortage::System;
        match shortage {
            Shortage::Peer => self.aside.squeezed = true,
            Shortage::Node => mailbox.posted.wait(self.bodies[at].total),
            Shortage::System => {
                self.aside.denied = true;
                mailbox.denied = true;
            }
        }
    }

    /// One that waits for memory does so no more: others may be next.
    pub(super) fn leave(&mut self, mailbox: &mut Mailbox) {
        self.unkeep(mailbox);
        mailbox.posted.leave();
    }

    /// Gives back what was set aside; for which body.
    pub(super) fn unkeep(&mut self, mailbox: &mut Mailbox) -> Option<u64> {
        let (id, kept) = self.aside.kept?;
        self.aside.kept = None;
        mailbox.posted.unkeep(kept);
        Some(id)
    }

    /// Looks again for posted bodies that had to wait for the node's memory.
    pub fn retry_starved(&mut self, inbox: &mut Inbox<'_>) {
        if self.aside.hungry || self.aside.denied {
            self.aside.squeezed = false;
            self.aside.hungry = false;
            self.aside.denied = false;
        }
        let peer = inbox.link.peer;
        let (fed, waits) = self.feed_waiting(inbox.mailbox);
        if (fed || !self.aside.hungry) && self.aside.overtaken > 0 {
            self.aside.overtaken = 0;
        }
        inbox.mailbox.posted.end_turn(peer, fed, waits);
    }

    /// Returns whether any was given memory, and the bytes of the first that waits for the node's still.
    fn feed_waiting(&mut self, mailbox: &mut Mailbox) -> (bool, Option<u64>) {
        let (mut fed, mut waits) = (false, None);
        let kept_for = self.unkeep(mailbox);
        for at in 0..self.bodies.len() {
            if !self.bodies[at].is_starved() {
                continue;
            }
            let (id, total) = (self.bodies[at].id, self.bodies[at].total);
            let result = match kept_for == Some(id) || mailbox.posted.is_turn_of(total) {
                true => self.feed(at, mailbox),
                false => Err(Shortage::Node),
            };
            let Err(shortage) = result else {
                fed = true;
                continue;
            };
            let mut waits_for_room = shortage == Shortage::Node;
            if shortage == Shortage::Peer && self.is_overtaken(mailbox) {
                self.aside.kept = mailbox.posted.keep(total).map(|kept| (id, kept));
                waits_for_room = self.aside.kept.is_none();
            }
            self.starve(at, shortage, mailbox);
            if waits_for_room {
                mailbox.posted.wait(total);
                waits.get_or_insert(total);
            }
            // One that the system has no memory for may never get it: others don't wait behind it.
            if shortage == Shortage::Peer || mailbox.posted.turn == Turn::Nobody {
                break;
            }
        }
        (fed, waits)
    }

    /// What bodies of this peer that the program has asked for have to wait for, if there are any.
    pub fn shortage(&self, mailbox: &Mailbox) -> Option<Shortage> {
        let mut bodies = self.bodies.iter();
        let first = bodies.find(|body| body.wanted && body.granted < body.total)?;
        Some(if self.is_beyond_share(first.total, mailbox) {
            Shortage::Peer
        } else if self.aside.denied {
            Shortage::System
        } else {
            Shortage::Node
        })
    }
}
