//! Credit for what a peer may send without being asked.

use crate::message::{ENTRY_CHARGE, Mailbox, RETURN_UNIT, unasked_needs};
use crate::wire::INLINE_MAX;

/// Credit that every connection gets, whether or not the node's memory is used up.
const LEAST_WINDOW: u64 = 16 << 10;
/// What an entry is charged at most that the limit can hold back: longer bodies are asked for.
const LARGEST_CHARGE: u64 = ENTRY_CHARGE + INLINE_MAX as u64;

/// A limit at which the window grew counts as one so far behind the present one at most.
const GROWN_BEHIND: u32 = 1 << 30;

/// All of a charge, as a part of it.
const WHOLE: u64 = u8::MAX as u64;

/// Credit for envelopes, and for bodies that come unasked (U9): a limit on the cumulative charge.
#[derive(Debug)]
pub(crate) struct LogCredit {
    pub(super) arrived: u64,
    pub(super) taken: u64,
    pub(super) announced: u64,
    pub(super) window: u64,
    /// How much of the node's memory is reserved for it.
    reserved: u64,
    /// The sender has said that the limit in force holds it back.
    blocked: bool,
    /// The low bits of the limit from which on one that holds the sender back tells of the present window.
    grown_at: u32,
    /// What the sender has given back, in all: the low bits, in units.
    returned: u16,
    /// The part of the charge that what has come lately takes on the wire at most.
    sent_part: u8,
}

impl LogCredit {
    /// Credit of `window`, or of the little that is always given if the node's memory is used up.
    pub fn reserve(window: u64, mailbox: &mut Mailbox) -> Self {
        if !mailbox.logs.charge(window) {
            return Self::least(window);
        }
        LogCredit {
            reserved: window,
            ..Self::unreserved(window)
        }
    }

    /// The little that is always given; none of the node's memory is reserved for it.
    pub fn least(window: u64) -> Self {
        Self::unreserved(LEAST_WINDOW.min(window))
    }

    fn unreserved(window: u64) -> Self {
        LogCredit {
            arrived: 0,
            taken: 0,
            announced: window,
            window,
            reserved: 0,
            blocked: false,
            grown_at: window as u32,
            returned: 0,
            sent_part: u8::MAX,
        }
    }

    /// Gives the node's memory back.
    pub fn release(&mut self, mailbox: &mut Mailbox) {
        mailbox.logs.release(std::mem::take(&mut self.reserved));
    }

    /// The limit in force.
    pub fn limit(&self) -> u64 {
        self.announced
    }

    /// The limit to announce now.
    pub fn announce(&mut self) -> u64 {
        let limit = self.taken + self.window;
        if limit > self.announced {
            self.announced = limit;
            self.blocked = false;
            // It is compared by its low bits.
            let oldest = (limit as u32).wrapping_sub(GROWN_BEHIND);
            if (oldest.wrapping_sub(self.grown_at) as i32) > 0 {
                self.grown_at = oldest;
            }
        }
        self.announced
    }

    /// The sender says that this limit holds it back. It may be an older one, where the next is still on its way: the
    /// window is less than a round trip brings then. What was in force before the window last grew says nothing of it.
    pub fn on_blocked(&mut self, limit: u64, mailbox: &mut Mailbox) {
        if (limit as u32).wrapping_sub(self.grown_at) as i32 >= 0 {
            self.grow(mailbox);
            self.grown_at = (self.taken + self.window) as u32;
        }
        self.blocked |= limit >= self.announced;
    }

    /// A body of so many bytes begins to come that had to be asked for. It could have come unasked, had its sender known what the program
    /// has taken here by now: the window is less than a round trip brings. What it last grew to the sender may not have heard of.
    pub(super) fn on_asked(&mut self, len: u64, mailbox: &mut Mailbox) {
        let enough = self.arrived.saturating_add(unasked_needs(len));
        let heard = (enough as u32).wrapping_sub(self.grown_at) as i32 > 0;
        if len <= mailbox.eager_max && enough <= self.taken + self.window && heard {
            self.grow(mailbox);
            self.grown_at = (self.taken + self.window) as u32;
        }
    }

    /// How much of what waits up to this cumulative charge may come. Of the last entry before the limit only the
    /// sender knows whether it fits; it has said BLOCKED if it does not.
    #[inline]
    pub fn allowed(&self, upto: u64) -> u64 {
        let allowed = upto.min(self.announced).saturating_sub(self.arrived);
        let ends = self.blocked && upto > self.announced && allowed < LARGEST_CHARGE;
        if ends { 0 } else { allowed }
    }

    /// What so much charge takes on the wire, as far as what comes is like what has come: credit for the path that nobody
    /// can use for small messages would be kept, and let all that the next limit allows go at once.
    #[inline]
    pub fn on_wire(&self, charge: u64) -> u64 {
        (charge * u64::from(self.sent_part)).div_ceil(WHOLE)
    }

    /// So many entries, one at least, have come that are charged this, in a frame of so many bytes. Long ones count at
    /// once, short ones after a while.
    #[inline]
    pub(super) fn note(&mut self, count: u16, charge: u64, bytes: usize) {
        let (count, bytes) = (u64::from(count), bytes as u64);
        let bodies = charge.saturating_sub(count * ENTRY_CHARGE);
        // More than the frame holds travels beside it. Else there was no room for one more in the packet.
        let sent = match bodies > bytes {
            true => bodies + bytes,
            false => bytes + bytes / count,
        };
        let part = (sent * WHOLE).div_ceil(charge).min(WHOLE) as u8;
        self.sent_part = part.max(self.sent_part - self.sent_part / 16);
    }

    /// Whether the sender waits for the limit to move.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether the sender waits, and may send something more: little counts as well then, if not at once.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.blocked && self.has_moved(0)
    }

    /// Whether the limit has moved far enough to be worth telling with something else. What it allows may leave at once: in
    /// small steps it follows what comes, and a queue of the path's takes them.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.has_moved(self.window / 32)
    }

    /// Whether it has moved far enough to be worth a packet of its own.
    #[inline]
    pub fn is_pressing(&self) -> bool {
        self.has_moved(self.window / 2)
    }

    /// Whether it has moved, and as far as this: to tell the same limit again would never end.
    #[inline]
    fn has_moved(&self, far: u64) -> bool {
        self.taken + self.window >= self.announced + far.max(1)
    }

    /// Whether the sender may soon have to wait for the limit.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.announced - self.arrived < self.window / 4
    }

    /// Credit that the sender has at least once everything is taken.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Doubles the window until it is `wanted`, as far as that is allowed; returns whether it has
    /// grown.
    pub fn widen(&mut self, wanted: u64, mailbox: &mut Mailbox) -> bool {
        let before = self.window;
        let mut reached = 0;
        while self.window < wanted && self.window > reached {
            reached = self.window;
            self.grow(mailbox);
        }
        self.window > before
    }

    /// Doubles the window, if the node's memory allows, or if it is less than is always given: a
    /// message that does not fit into it would never come. As much must stay free as it is then: where memory is short,
    /// those with small windows need it more.
    pub(super) fn grow(&mut self, mailbox: &mut Mailbox) {
        let more = self
            .window
            .min(mailbox.log_windows.end().saturating_sub(self.window));
        if more <= mailbox.logs.free() / 3 && mailbox.logs.charge(more) {
            self.reserved += more;
        } else if self.window >= LEAST_WINDOW {
            return;
        }
        self.window += more;
    }

    /// The sender has given back so many units, in all: a packet that is late tells of fewer. What is left is the window,
    /// or the first one if that is more, and the node's memory beyond that is free again. Returns whether it had so much.
    pub(super) fn take_back(&mut self, units: u16, mailbox: &mut Mailbox) -> bool {
        let new = units.wrapping_sub(self.returned) as i16;
        let unused = u64::from(new.max(0) as u16) * RETURN_UNIT;
        if unused > self.announced - self.arrived {
            return false;
        }
        if unused > 0 {
            self.returned = units;
            self.arrived += unused;
            self.taken += unused;
            let first = self.window.min(*mailbox.log_windows.start());
            self.window = (self.announced - self.taken).max(first);
            self.grown_at = self.announced as u32;
            let kept = self.reserved.min(self.window);
            mailbox
                .logs
                .release(std::mem::replace(&mut self.reserved, kept) - kept);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over a path whose round trip brings more than the window, the limit has moved on before a sender can say that it is
    /// held back.
    #[test]
    fn who_is_held_back_by_an_older_limit_has_too_small_a_window() {
        let mut mailbox = Mailbox::new(1, 64 << 20, 8 << 20, 64 << 10..=8 << 20, 16 << 10);
        let mut credit = LogCredit::reserve(64 << 10, &mut mailbox);
        let first = credit.limit();
        credit.taken += 32 << 10;
        assert!(credit.announce() > first);
        credit.on_blocked(first, &mut mailbox);
        assert_eq!(credit.window(), 128 << 10);
        assert!(!credit.is_blocked(), "it will hear of the next");
        // That says nothing of the window as it is now.
        credit.on_blocked(first, &mut mailbox);
        assert_eq!(credit.window(), 128 << 10);
        let second = credit.announce();
        credit.on_blocked(second, &mut mailbox);
        assert_eq!(credit.window(), 256 << 10);
        assert!(credit.is_blocked());
    }

    /// One that asks again before it can have heard of the larger window doesn't make it larger still.
    #[test]
    fn who_asks_for_what_could_come_unasked_has_too_small_a_window() {
        let mut mailbox = Mailbox::new(1, 64 << 20, 8 << 20, 64 << 10..=8 << 20, 16 << 10);
        let mut credit = LogCredit::reserve(64 << 10, &mut mailbox);
        let (small, large) = (16 << 10, 17 << 10);
        credit.arrived += 40 << 10;
        credit.on_asked(small, &mut mailbox);
        assert_eq!(credit.window(), 64 << 10, "nothing has been taken");
        credit.taken += 20 << 10;
        credit.on_asked(large, &mut mailbox);
        assert_eq!(credit.window(), 64 << 10, "larger bodies always ask");
        for window in [128 << 10, 256 << 10] {
            for _ in 0..3 {
                credit.on_asked(small, &mut mailbox);
                assert_eq!(credit.window(), window);
            }
            assert!(credit.announce() >= u64::from(credit.grown_at));
            credit.arrived += window;
            credit.taken += window - (20 << 10);
        }
        // Nor does it matter that it has not grown for long.
        let before = credit.window();
        for _ in 0..6 {
            credit.taken += 1 << 29;
            credit.arrived = credit.taken;
            credit.announce();
        }
        credit.on_asked(small, &mut mailbox);
        assert_eq!(credit.window(), 2 * before);
    }

    #[test]
    fn a_limit_that_has_not_moved_is_not_told_again() {
        for window in [0, 1, 3, 4 << 10] {
            let mut credit = LogCredit {
                arrived: 0,
                taken: 0,
                announced: window,
                window,
                reserved: 0,
                blocked: false,
                grown_at: 0,
                returned: 0,
                sent_part: u8::MAX,
            };
            assert!(!credit.is_due() && !credit.is_pressing(), "{window}");
            credit.taken += window.max(1);
            assert!(credit.is_due() && credit.is_pressing(), "{window}");
            credit.announce();
            assert!(!credit.is_due() && !credit.is_pressing(), "{window}");
        }
    }
}
