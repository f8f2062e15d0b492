//! Bodies that the program does not want: their receives were withdrawn, and another one may have them; or it has thrown them away.
//! Those come all the same, for their sender keeps them until they have arrived, but nothing of them is kept.

use super::{Inbox, Incoming, Owner};
use crate::message::mailbox::{Charge, Pending, Taken};
use crate::message::{Buffer, ENTRY_CHARGE, Mailbox};

impl Incoming {
    /// Lets all of a body come and keeps none of it. Its memory comes back at once; what its entry
    /// takes of the log's credit does when the body is through, so that the number of such bodies is
    /// bounded.
    pub fn discard(&mut self, id: u64, inbox: &mut Inbox<'_>) -> Option<Taken> {
        let at = self.body_at(id)?;
        let body = &mut self.bodies[at];
        body.owner = Owner::Discarded;
        (body.buffer, body.has_room) = (Buffer::default(), true);
        let memory = Charge {
            log: 0,
            ..body.charge
        };
        body.charge = Charge {
            log: body.charge.log,
            ..Charge::default()
        };
        if body.granted < body.total {
            self.grant(at);
        }
        self.aside_settle(memory.posted);
        let taken = inbox.mailbox.settle(inbox.link, memory);
        if self.aside.squeezed && memory.posted > 0 {
            self.retry_starved(inbox);
        }
        Some(taken)
    }

    /// The receive that waited for this body was withdrawn: the message stays, for another one.
    /// Gives back the buffer that the receive had brought, if that was being filled.
    pub fn detach(&mut self, id: u64, stamp: u64, inbox: &mut Inbox<'_>) -> Option<Vec<u8>> {
        let at = self.body_at(id)?;
        let body = &mut self.bodies[at];
        let is_starved = body.is_starved();
        body.owner = Owner::Parked;
        let (tag, len) = (body.tag, body.total);
        if is_starved {
            self.leave(inbox.mailbox);
        }
        let given = self.hand_back(at, inbox.mailbox);
        let link = inbox.link;
        let next = inbox
            .mailbox
            .park(stamp, inbox.source, tag, Pending { link, id, len });
        let before = next.and_then(|ticket| self.bind(id, ticket, inbox));
        given.or(before)
    }

    /// A receive has brought a buffer: what has come of the body moves there now, as it would have to in the end, and what the body
    /// took of the node's memory comes back.
    /// Returns the buffer of an earlier receive, if it was there.
    pub(super) fn move_to(
        &mut self,
        at: usize,
        mut given: Vec<u8>,
        inbox: &mut Inbox<'_>,
    ) -> Option<Vec<u8>> {
        let body = &mut self.bodies[at];
        if body.received.bytes() > 0 {
            given[..body.buffer.len()].copy_from_slice(&body.buffer);
        }
        let given = Buffer::given(given, body.total as usize);
        let before = std::mem::replace(&mut body.buffer, given);
        let before = (body.has_room && !before.is_pooled()).then(|| before.into_given());
        body.has_room = true;
        let Charge {
            unmatched, posted, ..
        } = body.charge;
        body.charge = Charge {
            log: body.charge.log,
            ..Charge::default()
        };
        let memory = Charge {
            log: 0,
            unmatched,
            posted,
        };
        inbox.mailbox.settle(inbox.link, memory);
        self.aside_settle(posted);
        self.on_taken(0, unmatched);
        if unmatched > 0 {
            self.prefetch_left(inbox);
        }
        if self.aside.squeezed && posted > 0 {
            self.retry_starved(inbox);
        }
        before
    }

    /// Gives back a buffer that a body was filling, and goes on with a copy. Without memory for that the message keeps the buffer.
    fn hand_back(&mut self, at: usize, mailbox: &mut Mailbox) -> Option<Vec<u8>> {
        let body = &mut self.bodies[at];
        // An eager body is charged to the log, with its entry.
        let Charge {
            log,
            unmatched,
            posted,
        } = body.charge;
        let is_charged = posted > 0 || unmatched > 0 || log > ENTRY_CHARGE;
        if !body.has_room || body.buffer.is_pooled() {
            return None;
        }
        if !is_charged && !mailbox.posted.charge(body.total) {
            return None;
        }
        let Some(mut pooled) = mailbox.pool.take(body.buffer.len()) else {
            if !is_charged {
                mailbox.posted.release(body.total);
            }
            return None;
        };
        pooled.copy_from_slice(&body.buffer);
        if !is_charged {
            body.charge.posted = body.total;
            self.aside.asked += body.total;
        }
        Some(std::mem::replace(&mut body.buffer, pooled).into_given())
    }
}
