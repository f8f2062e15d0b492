//! Which of the bodies goes next, and how much of it.

use super::{Content, Outgoing};
use crate::message::expand_body_id;
use crate::wire::Fragment;

/// While bodies of both kinds wait, one piece in so many is of one that was granted; while entries and bodies do, one
/// packet in so many begins with a body.
const TURNS: u8 = 4;

/// A body is passed by later ones of at most so many times its own length: an endless stream of shorter ones must not hold
/// it back for ever.
const PASSES: u64 = 4;

/// Who was passed by how often, both in a byte: there are many idle peers.
#[derive(Debug, Default)]
pub(super) struct Turns(u8);

/// Who has a turn in [`TURNS`]: a granted body among eager ones, a body among packets of entries.
#[derive(Clone, Copy)]
enum Turn {
    Granted = 0,
    Body = 4,
}

impl Turns {
    /// Passes it by, or, now and then, says that it has its turn.
    fn take(&mut self, whose: Turn) -> bool {
        let count = ((self.0 >> whose as u8 & 0xf) + 1) % TURNS;
        self.set(whose, count);
        count == 0
    }

    fn set(&mut self, whose: Turn, count: u8) {
        self.0 = self.0 & !(0xf << whose as u8) | count << whose as u8;
    }
}

impl Outgoing {
    /// Whether the log's limit lets the next eager body go.
    #[inline]
    pub(super) fn may_send_eager(&self) -> bool {
        let Some(&id) = self.eager.front() else {
            return false;
        };
        self.body_at(id)
            .is_none_or(|at| self.bodies[at].charge_end <= self.log_limit)
    }

    /// Whether a body's bytes go before new entries. Nearly always entries do, for they are short; yet a receiver gives
    /// credit for what it knows of, and where that is the last piece of a body, entries would use it up for ever.
    pub fn is_body_next(&mut self) -> bool {
        let unsent = self.chunks.len() - self.unsent;
        let Some(entries) = self.chunks.get(unsent).map(|chunk| chunk.first_id) else {
            return false;
        };
        // Its own entry has gone.
        let eager = self.may_send_eager() && self.eager.front().is_some_and(|&id| id < entries);
        if !eager && self.granted.is_empty() {
            return false;
        }
        let is_next = self.turns.take(Turn::Body);
        if is_next && !eager {
            // Of the two kinds, it is the turn of the one that may go.
            self.turns.set(Turn::Granted, TURNS - 1);
        }
        is_next
    }

    /// Whether an eager body goes next. Most are short and new; yet those that were granted get on, however many there
    /// are that need no grant.
    #[inline]
    fn is_eager_next(&mut self) -> bool {
        let eager = self.may_send_eager();
        if !eager || self.granted.is_empty() {
            return eager;
        }
        !self.is_granted_first() && !self.turns.take(Turn::Granted)
    }

    /// Whether the granted body that is next is older than the eager one, and has no more left: it waits for no turn. All
    /// that its receiver reads in order is behind it.
    fn is_granted_first(&self) -> bool {
        let left = |id: Option<&u64>| {
            let body = &self.bodies[self.body_at(*id?)?];
            Some((body.total - body.next, body.id))
        };
        match (left(self.granted.front()), left(self.eager.front())) {
            (Some((granted, old)), Some((eager, new))) => granted <= eager && old < new,
            _ => false,
        }
    }

    /// The next bytes of a body never sent, at most `max` of them.
    #[inline]
    pub fn next_fragment(&mut self, max: usize) -> Option<(Content, Fragment<'_>)> {
        loop {
            let eager = self.is_eager_next();
            let next = if eager { &self.eager } else { &self.granted };
            let at = self.body_at(*next.front()?);
            let queue = match eager {
                true => &mut self.eager,
                false => &mut self.granted,
            };
            let Some(at) = at.filter(|&at| self.bodies[at].sendable()) else {
                queue.pop_front();
                continue;
            };
            self.sending = at as u32;
            let body = &mut self.bodies[at];
            let offset = body.next;
            let len = (body.granted.min(body.total) - offset).min(max as u64);
            body.next += len;
            if !body.sendable() {
                queue.pop_front();
            }
            self.unsent_bytes -= len as usize;
            return Some(self.bodies[at].fragment(offset, len));
        }
    }

    /// Up to `most` pieces of `len` bytes each from the middle of a body never sent, if nothing
    /// else comes first; more of the body is left behind them.
    #[inline]
    pub fn next_bulk(&mut self, len: usize, most: usize) -> Option<(Content, Fragment<'_>)> {
        if self.held || !self.resend.is_empty() || (self.unsent > 0 && !self.is_blocked()) {
            return None;
        }
        let queue = match (self.may_send_eager(), self.granted.is_empty()) {
            (true, true) => &self.eager,
            // They take turns.
            (true, false) if !self.is_granted_first() => return None,
            _ => &self.granted,
        };
        let body = self.bodies.get_mut(self.sending as usize)?;
        let left = (body.granted.min(body.total) - body.next) as usize;
        let bytes = (left.saturating_sub(1) / len).min(most) * len;
        if queue.front() != Some(&body.id) || bytes == 0 {
            return None;
        }
        let offset = body.next;
        body.next += bytes as u64;
        self.unsent_bytes -= bytes;
        Some(self.bodies[self.sending as usize].fragment(offset, bytes as u64))
    }

    /// Bytes of a body that went before, at most `max` of them; the rest goes again behind.
    pub fn fragment_again(
        &mut self,
        id: u64,
        offset: u64,
        len: u32,
        max: usize,
    ) -> Option<(Content, Fragment<'_>)> {
        let at = self.body_at(id)?;
        let now = u64::from(len).min(max as u64);
        if now < u64::from(len) {
            self.resend.push_front(Content::Body {
                id,
                offset: offset + now,
                len: len - now as u32,
            });
        }
        Some(self.bodies[at].fragment(offset, now))
    }

    /// The receiver grants a body.
    pub fn on_grant(&mut self, id: u32, upto: u64) {
        let id = expand_body_id(id, self.next_id);
        let Some(at) = self.body_at(id) else {
            return;
        };
        let body = &mut self.bodies[at];
        let was_sendable = body.sendable();
        let before = body.granted;
        body.granted = body.granted.max(upto.min(body.total));
        self.unsent_bytes += (body.granted - before) as usize;
        let left = body.total - body.next;
        if body.sendable() && !was_sendable {
            self.queue_granted(id, left);
        }
    }

    /// Queues a body behind those with as little left to send, and those that were passed often: a short one must not
    /// wait for a long one, yet long ones get on however many short ones there are.
    fn queue_granted(&mut self, id: u64, left: u64) {
        let mut at = self.granted.len();
        while at > 0 && self.pass(self.granted[at - 1], left) {
            at -= 1;
        }
        self.granted.insert(at, id);
    }

    /// Whether so many bytes pass a body; if so, that is counted.
    fn pass(&mut self, id: u64, bytes: u64) -> bool {
        let Some(at) = self.body_at(id) else {
            return true;
        };
        let body = &mut self.bodies[at];
        let passed = body.passed.saturating_add(bytes);
        let passes = body.total - body.next > bytes && passed <= body.total.saturating_mul(PASSES);
        if passes {
            body.passed = passed;
        }
        passes
    }
}
