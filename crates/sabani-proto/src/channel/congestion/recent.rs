//! The least, or greatest, of what was seen lately.

/// Remembers the best of two spans of time, the present one and the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recent {
    better: fn(u64, u64) -> u64,
    now: Option<u64>,
    before: Option<u64>,
    until_ns: u64,
}

impl Recent {
    /// The least of the last span or two.
    pub fn least() -> Self {
        Recent::new(u64::min)
    }

    /// The greatest of the last span or two.
    pub fn greatest() -> Self {
        Recent::new(u64::max)
    }

    fn new(better: fn(u64, u64) -> u64) -> Self {
        Recent {
            better,
            now: None,
            before: None,
            until_ns: 0,
        }
    }

    /// Takes in a value; spans last for `span_ns`. Returns the best.
    pub fn note(&mut self, value: u64, span_ns: u64, now_ns: u64) -> u64 {
        if now_ns >= self.until_ns {
            let long_ago = now_ns >= self.until_ns + span_ns;
            self.before = self.now.filter(|_| !long_ago);
            self.now = None;
            self.until_ns = now_ns + span_ns;
        }
        let now = self.now.map_or(value, |now| (self.better)(now, value));
        self.now = Some(now);
        self.before.map_or(now, |before| (self.better)(before, now))
    }
}
