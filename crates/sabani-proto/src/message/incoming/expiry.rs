//! Bodies that never come because they have expired at their sender (U17).

use super::{Inbox, Incoming, Owner};
use crate::message::{Envelope, expand_id};

impl Incoming {
    /// The sender has dropped this body. Its receive is told, if there is one; otherwise the message
    /// disappears, and the program must hear of it: returns its envelope. A body that is all here, or
    /// whose entry is not, is none of the sender's business: ignored.
    pub fn on_expire(&mut self, id: u32, inbox: &mut Inbox<'_>) -> Option<Envelope> {
        let id = expand_id(id, self.next_id);
        let at = self.body_at(id)?;
        if matches!(self.bodies[at].owner, Owner::Unknown) {
            return None;
        }
        let body = self.remove_body(at);
        self.missing -= body.granted - body.received.bytes();
        self.aside_settle(body.charge.posted);
        let envelope = Envelope {
            source: inbox.source,
            tag: body.tag,
            len: body.total,
            complete: false,
        };
        let mailbox = &mut *inbox.mailbox;
        let unheard = match body.owner {
            Owner::Posted(ticket) => {
                let given = body.has_room && !body.buffer.is_pooled();
                let buffer = given.then(|| body.buffer.into_given());
                mailbox.expire(ticket, envelope, buffer);
                None
            }
            Owner::Unmatched(key) => mailbox.drop_arrived(key).then_some(envelope),
            Owner::Parked => mailbox.drop_parked(inbox.link, id).then_some(envelope),
            Owner::Discarded | Owner::Unknown => None,
        };
        mailbox.settle(inbox.link, body.charge);
        self.on_taken(body.charge.log, body.charge.unmatched);
        if self.aside.squeezed && body.charge.posted > 0 {
            self.retry_starved(inbox);
        }
        unheard
    }
}
