//! Messages that are worth something for some time only, or that are sent once (U17).

use super::Node;
use super::sends::Size;
use crate::PeerId;
use crate::error::SendError;
use crate::message::{Outbound, SendTicket, Value, Worth};
use crate::wire::Hello;

impl Node {
    /// Like [`Node::send`], for a message that need not arrive: `value` says how far to go for it. It
    /// travels apart from its envelope, however small it is: 24 bytes more than a small message takes
    /// otherwise. A message to this process itself always arrives, and so does one to a peer of an
    /// older version.
    ///
    /// # Errors
    /// [`SendError`]; nothing was taken then.
    pub fn send_valued(
        &mut self,
        now_ns: u64,
        to: PeerId,
        tag: u64,
        body: Outbound,
        value: Value,
        want_ticket: bool,
    ) -> Result<Option<SendTicket>, SendError> {
        if value == Value::Reliable || to == self.id() {
            return self.send(now_ns, to, tag, body, want_ticket);
        }
        let worth = Worth::of(value, self.hub.clock.lived(now_ns));
        let size = Size::bounded(body.bytes().len());
        let sent = self.send_with(
            now_ns,
            to,
            tag,
            size,
            want_ticket,
            |link, window, ticket| {
                link.outgoing.push_worth(tag, body, worth, ticket, window);
                let session = link.session.as_ref();
                if session.is_some_and(|session| session.features & Hello::EXPIRE == 0) {
                    link.outgoing.make_reliable();
                }
            },
        )?;
        if let Some(index) = self.peers.index(to) {
            self.arm_later(index);
        }
        Ok(sent)
    }
}
