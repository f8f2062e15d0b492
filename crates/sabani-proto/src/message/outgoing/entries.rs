//! Entries that go for the first time, as packets have room for them.

use super::Outgoing;
use crate::message::{Content, SendWindow};
use crate::wire::{Entries, Frame};

impl Outgoing {
    /// The next chunk never sent, if the log's limit and `room` let it go.
    #[inline]
    pub fn next_entries(&mut self, room: usize, window: &SendWindow) -> Option<(u64, Entries<'_>)> {
        if self.unsent == 0 || self.is_blocked() {
            return None;
        }
        let at = self.chunks.len() - self.unsent;
        let room = room.checked_sub(Frame::ENTRIES_HEADER)?;
        if self.chunks[at].log.len() > room {
            // Cut for a larger MTU than the path has now: go out in pieces, but only when a whole
            // packet is free, for a packet shared with other frames is small for other reasons.
            if room + 64 < window.chunk_max {
                return None;
            }
            let rest = self.cut(at, room, u64::MAX)?;
            self.resend.push_front(Content::Entries { first_id: rest });
            self.unsent_bytes -= self.chunks[at + 1].log.len();
        }
        self.unsent -= 1;
        let chunk = &self.chunks[at];
        self.unsent_bytes -= chunk.log.len();
        Some((chunk.first_id, chunk.frame()))
    }

    /// Bytes that the next of them take in a packet; 0: there are none to send.
    pub fn next_entries_bytes(&self) -> usize {
        if self.unsent == 0 || self.is_blocked() {
            return 0;
        }
        let next = &self.chunks[self.chunks.len() - self.unsent];
        Frame::ENTRIES_HEADER + next.log.len()
    }
}
