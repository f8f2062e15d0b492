//! Which bytes of a body have come.

const FEW_GAPS: u64 = 64;
/// Senders cut smaller pieces than this only at the end of what they have to send again.
const LEAST_PIECE: u64 = 128;
/// More than any window has packets.
const MOST_GAPS: u64 = 1 << 16;

/// A prefix, and spans beyond it in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    prefix: u64,
    beyond: Vec<(u64, u64)>,
}

impl Spans {
    /// Adds `[start, end)`; returns how many bytes of it were missing.
    #[inline]
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start <= self.prefix && self.beyond.is_empty() {
            let new = end.saturating_sub(self.prefix);
            self.prefix += new;
            return new;
        }
        self.insert_beyond(start, end)
    }

    fn insert_beyond(&mut self, mut start: u64, mut end: u64) -> u64 {
        if end <= self.prefix || start >= end {
            return 0;
        }
        start = start.max(self.prefix);
        let from = self.beyond.partition_point(|&(_, e)| e < start);
        let to = self.beyond.partition_point(|&(s, _)| s <= end);
        let mut known = 0;
        if let Some(&(s, e)) = self.beyond[from..to].first() {
            if s <= start && end <= e {
                return 0;
            }
            start = start.min(s);
            end = end.max(self.beyond[to - 1].1);
            known = self.beyond[from..to].iter().map(|(s, e)| e - s).sum();
        }
        self.beyond.splice(from..to, [(start, end)]);
        if self.beyond[0].0 <= self.prefix {
            self.prefix = self.beyond.remove(0).1;
        }
        end - start - known
    }

    /// How many bytes have come.
    pub fn bytes(&self) -> u64 {
        let beyond = self.beyond.iter().map(|(start, end)| end - start);
        self.prefix + beyond.sum::<u64>()
    }

    /// Whether there are more gaps in a body of `total` bytes than any loss explains: the work and
    /// memory that each costs is only worth it for pieces of a packet's size.
    #[inline]
    pub fn is_absurd(&self, total: u64) -> bool {
        self.beyond.len() as u64 > (FEW_GAPS + total / LEAST_PIECE).min(MOST_GAPS)
    }

    /// Whether every byte before `total` has come.
    #[inline]
    pub fn covers(&self, total: u64) -> bool {
        self.prefix >= total
    }
}

#[cfg(test)]
mod tests {
    use super::Spans;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(spans in prop::collection::vec((0u64..200, 0u64..40), 1..60)) {
            let mut set = Spans::default();
            let mut bitmap = [false; 256];
            for (start, len) in spans {
                let range = start as usize..(start + len) as usize;
                let new = bitmap[range.clone()].iter().filter(|&&seen| !seen).count() as u64;
                bitmap[range].fill(true);
                prop_assert_eq!(set.insert(start, start + len), new);
                prop_assert_eq!(set.bytes(), bitmap.iter().filter(|&&seen| seen).count() as u64);
                let prefix = bitmap.iter().position(|&seen| !seen).unwrap_or(256) as u64;
                prop_assert!(set.covers(prefix));
                prop_assert!(!set.covers(prefix + 1));
            }
        }
    }
}
