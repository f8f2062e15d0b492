//! Log credit that is not used goes back to the receiver, who has reserved memory for it.

use super::Outgoing;
use crate::message::RETURN_UNIT;

/// Of the log's credit a sender keeps so much that it does not use: what a receiver gives at first.
const LOG_KEPT: u64 = 256 << 10;
/// No more is given back at a time, so that the low bits tell what is new of it.
const RETURN_MOST: u64 = 512 << 20;
/// Credit of which less than this part was used for a while is not needed: round trips are shorter.
const USED_PART: u64 = 8;

impl Outgoing {
    /// Gives back the log's credit beyond `kept`, and beyond what is always kept, if hardly any was used since this was
    /// last asked: the receiver reserves memory for it. It counts as used, so that no limit ever goes down. Returns
    /// whether there was any.
    pub fn return_credit(&mut self, kept: u64) -> bool {
        let now = (self.charge / RETURN_UNIT) as u16;
        let used = now.wrapping_sub(std::mem::replace(&mut self.looked_at, now));
        let used = u64::from(used) * RETURN_UNIT;
        let free = self.log_limit.saturating_sub(self.charge);
        let more = free.saturating_sub(kept.max(LOG_KEPT)).min(RETURN_MOST) / RETURN_UNIT;
        if more == 0 || used > free / USED_PART || !self.chunks.is_empty() {
            return false;
        }
        self.charge += more * RETURN_UNIT;
        self.returned = self.returned.wrapping_add(more as u16);
        self.looked_at = self.looked_at.wrapping_add(more as u16);
        true
    }

    /// How much of the log's credit was given back, in all: the low bits, in [`RETURN_UNIT`]s.
    pub fn returned(&self) -> u16 {
        self.returned
    }
}
