//! Entries that have come behind a gap, until it closes.

use std::collections::BTreeMap;

use super::Violation;
use crate::message::ENTRY_CHARGE;
use crate::wire::{Entries, Entry, Reader};

/// Frames of entries behind a gap, by their first message. None holds what another does, however a sender cuts what goes
/// again: what is here twice would be taken for more than is here.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Early {
    frames: BTreeMap<u64, Kept>,
    bytes: u64,
    charge: u64,
}

/// One of them.
#[derive(Debug, PartialEq)]
pub(super) struct Kept {
    pub count: u16,
    pub log: Box<[u8]>,
    charge: u64,
}

impl Kept {
    fn end(&self, first: u64) -> u64 {
        first + u64::from(self.count)
    }
}

impl Early {
    pub const EMPTY: Early = Early {
        frames: BTreeMap::new(),
        bytes: 0,
        charge: 0,
    };

    /// What they are charged, but for bodies that travel apart.
    pub fn charge(&self) -> u64 {
        self.charge
    }

    /// Keeps what is new of a frame, as long as all of them take no more than `most` bytes.
    pub fn keep(&mut self, first: u64, frame: &Entries<'_>, most: u64) -> Result<(), Violation> {
        let before = self.frames.range(..=first).next_back();
        let start = before.map_or(first, |(&at, kept)| kept.end(at).max(first));
        let mut end = first + u64::from(frame.count);
        while start < end
            && let Some((&next, kept)) = self.frames.range(start..end).next()
        {
            if kept.end(next) > end {
                end = next;
            } else {
                self.remove(next);
            }
        }
        if start >= end {
            return Ok(());
        }
        let (mut reader, mut log, mut charge) = (Reader(frame.log), frame.log, 0);
        for id in first..end {
            if id == start {
                (log, charge) = (reader.0, 0);
            }
            charge += ENTRY_CHARGE + Entry::read(&mut reader)?.body.len() as u64;
        }
        let kept = Kept {
            count: (end - start) as u16,
            log: log[..log.len() - reader.0.len()].into(),
            charge,
        };
        self.bytes += kept.log.len() as u64;
        self.charge += charge;
        self.frames.insert(start, kept);
        if self.bytes > most {
            return Err(Violation("more entries than the log's limit allows"));
        }
        Ok(())
    }

    /// The first of them, if its turn has come with this message.
    pub fn next(&self, id: u64) -> Option<u64> {
        let (&first, _) = self.frames.first_key_value()?;
        (first <= id).then_some(first)
    }

    pub fn remove(&mut self, first: u64) -> Option<Kept> {
        let kept = self.frames.remove(&first)?;
        self.bytes -= kept.log.len() as u64;
        self.charge -= kept.charge;
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::EntryMode;

    /// So many entries with bodies of their ids' last bytes.
    fn log(ids: std::ops::Range<u64>) -> Vec<u8> {
        let mut log = Vec::new();
        for id in ids {
            let entry = Entry {
                tag: id,
                len: 1,
                mode: EntryMode::Inline,
                body: &[id as u8],
            };
            entry.append(&mut log);
        }
        log
    }

    fn keep(early: &mut Early, ids: std::ops::Range<u64>) {
        let frame = Entries {
            first_id: ids.start as u32,
            count: (ids.end - ids.start) as u16,
            log: &log(ids.clone()),
        };
        early.keep(ids.start, &frame, 1 << 20).expect("it is sound");
    }

    #[test]
    fn what_is_cut_differently_when_it_goes_again_counts_once() {
        let mut early = Early::default();
        for ids in [10..15, 12..18, 30..40, 8..50, 20..25, 8..9, 49..52, 33..34] {
            keep(&mut early, ids);
        }
        let (mut ids, mut charge) = (Vec::new(), 0);
        assert_eq!((early.next(7), early.next(8)), (None, Some(8)));
        while let Some(first) = early.next(u64::MAX) {
            let kept = early.remove(first).expect("it is the first");
            charge += kept.charge;
            let mut reader = Reader(&kept.log);
            for id in first..kept.end(first) {
                let entry = Entry::read(&mut reader).expect("it is sound");
                assert_eq!((entry.tag, entry.body), (id, &[id as u8][..]));
                ids.push(id);
            }
            assert!(reader.is_empty());
        }
        assert!(ids.into_iter().eq(8..52), "each is here once, and in order");
        assert_eq!(charge, 44 * (ENTRY_CHARGE + 1));
        assert_eq!(early, Early::EMPTY);
    }

    #[test]
    fn no_more_is_kept_than_is_allowed() {
        let mut early = Early::default();
        let most = log(0..20).len() as u64;
        for (ids, fits) in [
            (1..11, true),
            (5..11, true),
            (11..21, true),
            (21..22, false),
        ] {
            let frame = Entries {
                first_id: ids.start as u32,
                count: (ids.end - ids.start) as u16,
                log: &log(ids.clone()),
            };
            let kept = early.keep(ids.start, &frame, most);
            assert_eq!(kept.is_ok(), fits, "{ids:?}");
        }
    }

    #[test]
    fn entries_that_are_cut_short_are_a_violation() {
        let log = log(3..6);
        let frame = Entries {
            first_id: 3,
            count: 3,
            log: &log[..log.len() - 1],
        };
        assert!(Early::default().keep(3, &frame, 1 << 20).is_err());
    }
}
