//! Messages: the sender's log of envelopes and its bodies ([`Outgoing`]), the receiver's side of
//! it ([`Incoming`]), and what the program sees of arriving messages ([`Mailbox`]).

mod body;
mod budget;
mod incoming;
mod mailbox;
mod matching;
mod outgoing;
mod pool;
mod room;
mod spans;
#[cfg(test)]
mod tests;
mod tickets;
mod unread;
mod value;

use crate::wire::{Entry, EntryMode};
pub use body::{Body, Outbound};
pub(crate) use budget::Budget;
pub(crate) use incoming::{Expiry, Inbox, Incoming, Landing, LogCredit, Violation};
pub(crate) use mailbox::{Arrived, Cancelled, LinkRef, Mailbox, Taken};
pub use mailbox::{Envelope, Message, RecvError, RecvTicket};
pub use matching::Match;
pub(crate) use matching::Matcher;
pub(crate) use outgoing::{Content, Outgoing, SendWindow};
pub use pool::{Buffer, Pool};
pub(crate) use room::{Room, Turn};
pub(crate) use spans::Spans;
pub use tickets::Ticket;
pub(crate) use tickets::Tickets;
pub(crate) use unread::{Unread, charge_if_inline};
pub use value::Value;
pub(crate) use value::Worth;
/// Names a send whose arrival was asked for.
pub type SendTicket = Ticket;

/// What the log credit charges for an entry, beside its body: the memory that an envelope nobody
/// has asked for yet takes at the receiver.
pub(crate) const ENTRY_CHARGE: u64 = 128;

/// Log credit that has to be left for a body of so many bytes to come unasked: small ones behind it must not wait for what it
/// would use up.
#[inline]
pub(crate) fn unasked_needs(len: u64) -> u64 {
    ENTRY_CHARGE.saturating_add(len).saturating_mul(2)
}

/// Log credit is given back in whole ones of these.
pub(crate) const RETURN_UNIT: u64 = 64 << 10;

/// What the log credit charges for an entry: also for its body, unless that waits for a grant.
#[inline]
pub(crate) fn entry_charge(entry: &Entry<'_>) -> u64 {
    match entry.mode {
        EntryMode::Granted => ENTRY_CHARGE,
        EntryMode::Inline | EntryMode::Eager => ENTRY_CHARGE.saturating_add(entry.len),
    }
}

/// A body's id is ahead of the next message's by less than this: each one before it takes credit.
const IDS_AHEAD: u64 = 1 << 24;
/// Messages from the oldest body that is not all there to the next message; of more, the low 32 bits would not tell one from another.
pub(crate) const MOST_IDS: u64 = (1 << 32) - 2 * IDS_AHEAD;

/// Restores a body's id from its low 32 bits. It may have waited for long, while others passed it.
#[inline]
pub(crate) fn expand_body_id(low: u32, next: u64) -> u64 {
    expand_id(low, (next + IDS_AHEAD).saturating_sub(1 << 31))
}

/// Restores a message id from its low 32 bits, as the one nearest to `near`.
#[inline]
pub(crate) fn expand_id(low: u32, near: u64) -> u64 {
    let offset = low.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(i64::from(offset))
}
