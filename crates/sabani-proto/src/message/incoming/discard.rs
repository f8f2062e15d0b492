//! Bodies that the program does not want: they come all the same, for their sender keeps them until
//! they have arrived, but nothing of them is kept.

use super::{Inbox, Incoming, Owner};
use crate::message::Buffer;
use crate::message::mailbox::{Charge, Taken};

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
}
