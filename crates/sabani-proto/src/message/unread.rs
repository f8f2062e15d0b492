//! Small messages that have arrived and not been looked at: kept as the bytes they came in.
//!
//! A train of packets brings thousands of small messages. Spread out for matching they would take
//! twenty times the room, and be out of the cache before the program asks for them.

use std::collections::VecDeque;

use super::{Body, ENTRY_CHARGE, LinkRef, Match};
use crate::PeerId;
use crate::rare;
use crate::wire::{Entries, Entry, EntryMode, Reader};

/// Logs kept for use again.
const SPARE: usize = 64;

#[derive(Debug)]
struct Frame {
    source: PeerId,
    link: LinkRef,
    log: Vec<u8>,
    at: usize,
    left: u16,
}

/// A small message, read out of its frame.
#[derive(Debug)]
pub(crate) struct Small {
    pub source: PeerId,
    pub tag: u64,
    pub body: Body,
    pub link: LinkRef,
    pub log_charge: u64,
}

/// Frames of small messages in the order in which they arrived.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    frames: VecDeque<Frame>,
    spare: Vec<Vec<u8>>,
    messages: usize,
}

/// What the entries of a frame will cost, if all of them are small messages and well formed, with
/// nothing behind them that would be kept without a charge.
#[inline]
pub(crate) fn charge_if_inline(frame: &Entries<'_>) -> Option<u64> {
    let mut charge = 0;
    let mut reader = Reader(frame.log);
    for _ in 0..frame.count {
        let entry = Entry::read(&mut reader).ok()?;
        if entry.mode != EntryMode::Inline {
            return None;
        }
        charge += ENTRY_CHARGE + entry.len;
    }
    reader.is_empty().then_some(charge)
}

impl Unread {
    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.messages
    }

    /// Adds a frame for which [`charge_if_inline`] gave a charge.
    pub fn push(&mut self, source: PeerId, link: LinkRef, frame: &Entries<'_>) {
        if frame.count == 0 {
            return;
        }
        let mut log = self.spare.pop().unwrap_or_default();
        log.clear();
        log.extend_from_slice(frame.log);
        self.messages += usize::from(frame.count);
        self.frames.push_back(Frame {
            source,
            link,
            log,
            at: 0,
            left: frame.count,
        });
    }

    /// Takes the first message if it matches. Always inlined: a tenth of the work of receiving a
    /// small message was moving it from here to its place.
    #[inline(always)]
    pub fn take_if(&mut self, wanted: &Match) -> Option<Small> {
        let frame = self.frames.front_mut()?;
        let mut reader = Reader(&frame.log[frame.at..]);
        let entry = Entry::read(&mut reader).expect("checked when it arrived");
        if !wanted.matches(frame.source, entry.tag) {
            return None;
        }
        let small = Small {
            source: frame.source,
            tag: entry.tag,
            body: Body::copy_of(entry.body),
            link: frame.link,
            log_charge: ENTRY_CHARGE + entry.len,
        };
        frame.at = frame.log.len() - reader.0.len();
        frame.left -= 1;
        self.messages -= 1;
        if frame.left == 0 {
            self.drop_front();
        }
        Some(small)
    }

    fn drop_front(&mut self) {
        if let Some(frame) = rare::pop_front(&mut self.frames)
            && self.spare.len() < SPARE
        {
            self.spare.push(frame.log);
        }
    }
}
