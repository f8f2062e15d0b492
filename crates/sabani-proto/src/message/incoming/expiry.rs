//! Bodies that never come because they have expired at their sender (U17).

use super::{Inbox, Incoming, Owner};
use crate::message::{Envelope, expand_body_id};

/// What became of a body that its sender has dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// It is all here, or its entry is not: none of the sender's business.
    Ignored,
    /// Its receive has been told, or nobody wanted it any more.
    Told,
    /// The message has disappeared, and the program must hear of it.
    Untold(Envelope),
}

impl Incoming {
    /// The sender has dropped this body.
    pub fn on_expire(&mut self, id: u32, inbox: &mut Inbox<'_>) -> Expiry {
        let id = expand_body_id(id, self.next_id);
        let known = |at: &usize| !matches!(self.bodies[*at].owner, Owner::Unknown);
        let Some(at) = self.body_at(id).filter(known) else {
            return Expiry::Ignored;
        };
        let body = self.remove_body(at);
        if body.is_starved() {
            self.leave(inbox.mailbox);
        }
        self.missing -= body.granted - body.received.bytes();
        self.aside_settle(body.charge.posted);
        let envelope = Envelope {
            source: inbox.source,
            tag: body.tag,
            len: body.total,
            complete: false,
        };
        let mailbox = &mut *inbox.mailbox;
        let is_untold = match body.owner {
            Owner::Posted(ticket) => {
                let given = body.has_room && !body.buffer.is_pooled();
                let buffer = given.then(|| body.buffer.into_given());
                mailbox.expire(ticket, envelope, buffer);
                false
            }
            Owner::Unmatched(key) => mailbox.drop_arrived(key),
            Owner::Parked => mailbox.drop_parked(inbox.link, id),
            Owner::Discarded | Owner::Unknown => false,
        };
        inbox.mailbox.settle(inbox.link, body.charge);
        self.on_taken(body.charge.log, body.charge.unmatched);
        if body.charge.unmatched > 0 {
            self.prefetch_left(inbox);
        }
        if self.aside.squeezed && body.charge.posted > 0 {
            self.retry_starved(inbox);
        }
        if is_untold {
            Expiry::Untold(envelope)
        } else {
            Expiry::Told
        }
    }
}
