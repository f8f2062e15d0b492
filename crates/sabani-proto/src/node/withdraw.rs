//! Receives that programs withdraw.

use super::Node;
use crate::message::{Cancelled, Message, RecvError, RecvTicket};

impl Node {
    /// Withdraws a receive. A message that has begun to fill it stays receivable. Returns the
    /// result if there is one already, or the buffer that was handed over; but a message that the system has
    /// no memory for elsewhere keeps it.
    pub fn cancel(
        &mut self,
        ticket: RecvTicket,
    ) -> (Option<Result<Message, RecvError>>, Option<Vec<u8>>) {
        match self.hub.mailbox.cancel(ticket) {
            Cancelled::Withdrawn(buffer) => (None, buffer),
            Cancelled::Done { result, .. } => (Some(result), None),
            Cancelled::Filling {
                link,
                id,
                buffer,
                stamp,
            } => {
                let inner =
                    self.with_incoming(link, |incoming, inbox| incoming.detach(id, stamp, inbox));
                (None, inner.flatten().or(buffer))
            }
        }
    }

    /// Withdraws a receive that nobody will look at again: a message that had come to it, or was
    /// coming, stays receivable in its place.
    pub fn abandon(&mut self, ticket: RecvTicket) {
        match self.hub.mailbox.cancel(ticket) {
            Cancelled::Done {
                result: Ok(message),
                stamp,
            } => self.hub.mailbox.abandon(stamp, message),
            Cancelled::Filling {
                link, id, stamp, ..
            } => {
                self.with_incoming(link, |incoming, inbox| incoming.detach(id, stamp, inbox));
            }
            _ => {}
        }
    }
}
