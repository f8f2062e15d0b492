//! Small messages that have arrived and not been looked at: kept as the bytes they came in.
//!
//! A train of packets brings thousands of small messages. Spread out for matching they would take
//! twenty times the room, and be out of the cache before the program asks for them.

use std::collections::VecDeque;

use super::{Body, ENTRY_CHARGE, LinkRef, Match, Message};
use crate::PeerId;
use crate::rare;
use crate::wire::{Entries, Entry, EntryMode, Reader};

/// Logs kept for use again: more than one look at the socket brings.
const SPARE: usize = 256;
/// Credit goes back to the sender in steps of about this many bytes: a step for each message would
/// cost more than the message. Far below the least window, so that no sender waits for it in vain.
const CREDIT_STEP: u64 = 2 << 10;

#[derive(Debug)]
struct Frame {
    source: PeerId,
    link: LinkRef,
    /// The entries, and [`Body::SLACK`] bytes behind them.
    log: Vec<u8>,
    at: usize,
    /// Messages not taken yet; a frame without any goes with the next look at the queue.
    left: u16,
    /// Credit of messages that were taken, not given back yet.
    owed: u64,
}

impl Frame {
    /// Takes the first message, if there is one and it matches. Always inlined, and the message is
    /// made last: moving it to where the program wants it took a fifth of the work of receiving it.
    #[inline(always)]
    fn take_if(
        &mut self,
        wanted: &Match,
        step: u64,
        settle: impl FnOnce(LinkRef, u64),
    ) -> Option<Message> {
        if self.left == 0 {
            return None;
        }
        let mut reader = Reader(&self.log[self.at..]);
        let entry = Entry::read(&mut reader).expect("checked when it arrived");
        if !wanted.matches(self.source, entry.tag) {
            return None;
        }
        let (tag, len) = (entry.tag, entry.body.len());
        self.at = self.log.len() - reader.0.len();
        self.left -= 1;
        self.owed += ENTRY_CHARGE + len as u64;
        if self.left == 0 || self.owed >= step {
            settle(self.link, std::mem::take(&mut self.owed));
        }
        Some(Message {
            source: self.source,
            tag,
            body: Body::first_of(&self.log[self.at - len..], len),
        })
    }
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
        let mut log = self.spare.pop().unwrap_or_default();
        log.clear();
        log.reserve(frame.log.len() + Body::SLACK);
        log.extend_from_slice(frame.log);
        log.extend_from_slice(&[0; Body::SLACK]);
        self.messages += usize::from(frame.count);
        self.frames.push_back(Frame {
            source,
            link,
            log,
            at: 0,
            left: frame.count,
            owed: 0,
        });
    }

    /// Takes the first message if it matches. `settle` is told what credit to give back, when it is
    /// time for that.
    #[inline]
    pub fn take_if(
        &mut self,
        wanted: &Match,
        settle: impl FnOnce(LinkRef, u64),
    ) -> Option<Message> {
        if self.frames.front()?.left == 0 {
            self.drop_front();
        }
        let message = self
            .frames
            .front_mut()?
            .take_if(wanted, CREDIT_STEP, settle);
        self.messages -= usize::from(message.is_some());
        message
    }

    /// Takes all messages: `keep` gets each with its connection and the credit to give back for it.
    pub fn drain(&mut self, mut keep: impl FnMut(Message, LinkRef, u64)) {
        while let Some(frame) = self.frames.front_mut() {
            let (link, mut credit) = (frame.link, 0);
            while let Some(message) = frame.take_if(&Match::any(), 0, |_, log| credit = log) {
                keep(message, link, credit);
            }
            self.drop_front();
        }
        self.messages = 0;
    }

    fn drop_front(&mut self) {
        if let Some(frame) = rare::pop_front(&mut self.frames)
            && self.spare.len() < SPARE
        {
            self.spare.push(frame.log);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkRef = LinkRef {
        peer: 3,
        generation: 1,
    };

    /// Unread frames of messages with these lengths, and what they cost.
    fn unread(frames: &[Vec<usize>]) -> (Unread, u64) {
        let mut unread = Unread::default();
        let mut charge = 0;
        for lens in frames {
            let mut log = Vec::new();
            for &len in lens {
                let body = vec![len as u8; len];
                Entry {
                    tag: len as u64,
                    len: len as u64,
                    mode: EntryMode::Inline,
                    body: &body,
                }
                .append(&mut log);
            }
            let frame = Entries {
                first_id: 0,
                count: lens.len() as u16,
                log: &log,
            };
            charge += charge_if_inline(&frame).unwrap();
            unread.push(PeerId(1), LINK, &frame);
        }
        (unread, charge)
    }

    #[test]
    fn bodies_of_all_lengths_come_out_whole_and_all_credit_goes_back() {
        let frames = [(0..200).collect(), vec![1], vec![300, 64, 65, 0]];
        let (mut unread, charge) = unread(&frames);
        let mut given = Vec::new();
        for &len in frames.iter().flatten() {
            let settle = |link, log| {
                assert_eq!(link, LINK);
                given.push(log);
            };
            let message = unread.take_if(&Match::any(), settle).unwrap();
            assert_eq!(message.tag, len as u64);
            assert_eq!(message.body(), vec![len as u8; len]);
        }
        assert_eq!(unread.len(), 0);
        assert!(unread.take_if(&Match::any(), |_, _| ()).is_none());
        assert_eq!(given.iter().sum::<u64>(), charge);
        let most = CREDIT_STEP + ENTRY_CHARGE + crate::wire::INLINE_MAX as u64;
        assert!(given.iter().all(|&log| log < most), "{given:?}");
        assert!(given.len() > frames.len(), "only at the end of each frame");
    }

    #[test]
    fn draining_gives_back_what_was_owed_for_messages_taken_before() {
        let (mut unread, charge) = unread(&[vec![4; 10], vec![4; 10]]);
        let mut given = 0;
        for _ in 0..3 {
            unread.take_if(&Match::any(), |_, log| given += log);
        }
        let mut left = 0;
        unread.drain(|message, _, log| {
            assert_eq!(message.body(), [4; 4]);
            left += 1;
            given += log;
        });
        assert_eq!((left, unread.len(), given), (17, 0, charge));
    }

    #[test]
    fn what_does_not_match_stays() {
        let (mut unread, _) = unread(&[vec![4, 5]]);
        let settle = |_, _| panic!("nothing was taken");
        assert!(unread.take_if(&Match::any().tag(5), settle).is_none());
        assert_eq!(unread.len(), 2);
    }
}
