//! Memory for bodies on their way to receives that bring no buffer.

use super::Budget;

/// Short bodies are those of at most one part in so many of the memory. As much beyond it is their own:
/// that costs little, and holds most messages of most programs.
const SHORT_PART: u64 = 8;

/// Memory that all such bodies share, and as much more as one short body may take, for short ones only: a long
/// one that does not come on can't keep all of it from them, nor can they keep all of it from a long one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// What long ones take, and short ones beyond their own.
    shared: Budget,
    /// Bytes of short ones.
    short: u64,
    /// Whose turn it is among those that have waited.
    pub turn: Turn,
    /// The peer from which the one comes that is next, and its bytes.
    next: Option<(u32, u64)>,
    /// Bytes that receives took which came later and found room, since one that waited was given some.
    overtaken: u64,
    /// What is free of the shared, and set aside for those that wait for nothing else than their peer's share.
    kept: u64,
}

/// Who of those that have waited may be given room now. It is given in turn, so that those who need little don't
/// keep it for ever from one that needs much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    Anybody,
    /// Some long one waits: short ones may take what is their own.
    Short,
    /// Some short one waits.
    Nobody,
}

impl Room {
    pub fn new(limit: u64) -> Self {
        Room {
            shared: Budget::new(limit),
            short: 0,
            turn: Turn::Anybody,
            next: None,
            overtaken: 0,
            kept: 0,
        }
    }

    /// Length of the longest body there can be room for.
    pub fn limit(&self) -> u64 {
        self.shared.limit
    }

    /// Bytes taken; at most the limit and an eighth of it.
    pub fn used(&self) -> u64 {
        self.shared.used + self.short.min(self.own())
    }

    /// What only short bodies may take, and the length of the longest of them.
    fn own(&self) -> u64 {
        self.limit() / SHORT_PART
    }

    fn is_short(&self, bytes: u64) -> bool {
        bytes <= self.own()
    }

    /// What one more body takes, or took as the last one, of the memory that all share.
    fn share_of(&self, bytes: u64) -> u64 {
        if self.is_short(bytes) {
            bytes.min((self.short + bytes).saturating_sub(self.own()))
        } else {
            bytes
        }
    }

    /// Whether there is room for a body.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.share_of(bytes) <= self.shared.free().saturating_sub(self.kept)
    }

    /// Sets room for a body aside, if there is some; returns how much of it.
    pub fn keep(&mut self, bytes: u64) -> Option<u64> {
        let share = self.has_room(bytes).then(|| self.share_of(bytes))?;
        self.kept += share;
        Some(share)
    }

    /// What was set aside is free again.
    pub fn unkeep(&mut self, share: u64) {
        debug_assert!(share <= self.kept);
        self.kept -= share;
    }

    /// Charges a body, if there is room for it.
    pub fn charge(&mut self, bytes: u64) -> bool {
        let fits = self.has_room(bytes) && self.shared.charge(self.share_of(bytes));
        if fits && self.is_short(bytes) {
            self.short += bytes;
        }
        fits
    }

    /// Whether one that has not waited may be given room, if there is some. While others wait it overtakes them, but not for ever: many
    /// that need little would keep it from one that needs much.
    pub fn may_overtake(&self, bytes: u64) -> bool {
        self.is_turn_of(bytes) || bytes <= self.limit().saturating_sub(self.overtaken)
    }

    /// It was given room before its turn.
    pub fn note_overtaking(&mut self, bytes: u64) {
        self.overtaken = self.overtaken.saturating_add(bytes);
    }

    /// Gives a body's room back.
    pub fn release(&mut self, bytes: u64) {
        if self.is_short(bytes) {
            debug_assert!(bytes <= self.short);
            self.short = self.short.saturating_sub(bytes);
        }
        self.shared.release(self.share_of(bytes));
        self.shared.freed |= bytes > 0;
    }

    /// Those that have waited are looked at anew; returns from which peer on.
    pub fn begin_turn(&mut self) -> Option<u32> {
        self.turn = Turn::Anybody;
        self.next.take().map(|(peer, _)| peer)
    }

    /// All that have waited have been looked at. If none waits still, nobody has been overtaken.
    pub fn end_turns(&mut self) {
        if self.turn == Turn::Anybody {
            self.overtaken = 0;
        }
    }

    /// Bytes of the one that is next, if that is known.
    pub fn next_bytes(&self) -> Option<u64> {
        self.next.map(|(_, bytes)| bytes)
    }

    /// Of a peer's bodies that have waited some were given room (`fed`), and one with so many bytes waits still. The next time it
    /// begins with the first peer that got nothing, or one with many would keep it from others.
    pub fn end_turn(&mut self, peer: u32, fed: bool, waits: Option<u64>) {
        match waits {
            _ if fed && self.next.is_none() => self.overtaken = 0,
            Some(bytes) if !fed => {
                self.next.get_or_insert((peer, bytes));
            }
            _ => {}
        }
    }

    /// Remembers that a receive waits for room for a body.
    pub fn wait(&mut self, bytes: u64) {
        let left = match self.is_short(bytes) {
            true => Turn::Nobody,
            false => Turn::Short,
        };
        self.turn = self.turn.max(left);
    }

    /// Whether a body that has waited may be given room, if there is some.
    pub fn is_turn_of(&self, bytes: u64) -> bool {
        match self.turn {
            Turn::Anybody => true,
            Turn::Short => self.share_of(bytes) == 0,
            Turn::Nobody => false,
        }
    }

    /// A body does not wait for room any more: others may be next.
    pub fn leave(&mut self) {
        self.shared.freed = true;
    }

    /// Whether some has come back since somebody looked.
    #[inline]
    pub fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.shared.freed)
    }
}
