//! Counting and timing inside a turn.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// How long a turn lasts. Its first tenth is warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// By the clock.
    Time(Duration),
    /// By the number of messages.
    Count(u64),
}

impl Limit {
    /// The longest turn by the clock.
    pub const LONGEST: Duration = Duration::from_secs(60);

    /// The part that does not count.
    pub fn warm_up(self) -> Self {
        match self {
            Self::Time(time) => Self::Time(time / 10),
            Self::Count(count) => Self::Count(count / 10),
        }
    }

    /// Messages that a turn which has done `count` may still do.
    pub fn left(self, count: u64) -> u64 {
        match self {
            Self::Time(_) => u64::MAX,
            Self::Count(limit) => limit.saturating_sub(count),
        }
    }

    /// Whether a turn that began at `start` and has done `count` messages has reached the limit.
    pub fn reached(self, start: Instant, count: u64) -> bool {
        match self {
            Self::Time(time) => start.elapsed() >= time,
            Self::Count(limit) => count >= limit,
        }
    }
}

/// Tells a serving process, which spins in its main thread, that the turn is over.
#[derive(Default, Debug)]
pub struct Stop {
    raised: AtomicBool,
    messages: AtomicU64,
}

impl Stop {
    /// Ends the turn, in which the other side sent `messages`.
    pub fn raise(&self, messages: u64) {
        self.messages.store(messages, Ordering::Relaxed);
        self.raised.store(true, Ordering::Release);
    }

    /// Prepares for the next turn.
    pub fn lower(&self) {
        self.raised.store(false, Ordering::Relaxed);
    }

    /// Whether the turn is over.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// How many messages were sent, once that is known.
    pub fn messages(&self) -> Option<u64> {
        self.is_raised()
            .then(|| self.messages.load(Ordering::Relaxed))
    }
}

/// Counts polls that found nothing and looks at the clock just now and then, since that costs as
/// much as a poll.
#[derive(Default, Debug)]
pub struct Idle {
    polls: u32,
    since: Option<Instant>,
}

impl Idle {
    const POLLS_PER_LOOK: u32 = 256;

    /// Notes another fruitless poll; whether there was nothing else for longer than `limit`.
    pub fn longer_than(&mut self, limit: Duration) -> bool {
        self.polls += 1;
        if !self.polls.is_multiple_of(Self::POLLS_PER_LOOK) {
            return false;
        }
        let now = Instant::now();
        now - *self.since.get_or_insert(now) > limit
    }
}

/// What arrives at the receiver of a burst, and how fast.
///
/// The clock is read once per `BYTES_PER_MARK` or `ADDS_PER_MARK`, so that counting a small
/// message costs next to nothing; the rate is that between the first mark after warm-up and the last.
#[derive(Debug)]
pub struct Tally {
    size: u64,
    warm_up: Limit,
    bytes: u64,
    adds: u32,
    marked: u64,
    first: Option<Instant>,
    begin: Option<(Instant, u64)>,
    end: Option<(Instant, u64)>,
}

impl Tally {
    const BYTES_PER_MARK: u64 = 32 << 10;
    const ADDS_PER_MARK: u32 = 64;

    /// For a turn of messages of `size` bytes, limited by `limit`.
    pub fn new(size: usize, limit: Limit) -> Self {
        Self {
            size: size as u64,
            warm_up: limit.warm_up(),
            bytes: 0,
            adds: 0,
            marked: 0,
            first: None,
            begin: None,
            end: None,
        }
    }

    /// Counts bytes that have just arrived.
    #[inline]
    pub fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.adds += 1;
        if self.adds == Self::ADDS_PER_MARK || self.bytes - self.marked >= Self::BYTES_PER_MARK {
            self.mark(Instant::now());
        }
    }

    /// Notes that nothing is arriving: what did so far is timed now.
    pub fn pause(&mut self) {
        if self.bytes != self.marked {
            self.mark(Instant::now());
        }
    }

    /// All bytes that arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All messages that arrived.
    pub fn messages(&self) -> u64 {
        self.bytes / self.size
    }

    /// Bytes counted after warm-up, and the time they took.
    ///
    /// # Errors
    /// If the turn was too short to tell.
    pub fn rate(&self) -> Result<(u64, Duration)> {
        let too_short =
            "too little arrived to tell a rate: make the turns longer (--seconds or --iterations)";
        let ((begin, before), (end, after)) = self.begin.zip(self.end).context(too_short)?;
        Ok((after - before, end - begin))
    }

    fn mark(&mut self, now: Instant) {
        self.adds = 0;
        self.marked = self.bytes;
        let first = *self.first.get_or_insert(now);
        if self.begin.is_some() {
            self.end = Some((now, self.bytes));
            return;
        }
        let warm = match self.warm_up {
            Limit::Time(time) => now - first >= time,
            Limit::Count(count) => self.messages() >= count,
        };
        if warm {
            self.begin = Some((now, self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_leaves_warm_up_out() {
        let start = Instant::now();
        let mut tally = Tally::new(100, Limit::Time(Duration::from_millis(100)));
        for (millis, bytes) in [(0, 500), (5, 500), (10, 500), (20, 1000), (30, 1000)] {
            tally.bytes += bytes;
            tally.mark(start + Duration::from_millis(millis));
        }
        assert_eq!(tally.rate().unwrap(), (2000, Duration::from_millis(20)));
        assert_eq!(tally.messages(), 35);
    }

    #[test]
    fn rate_of_a_counted_turn() {
        let start = Instant::now();
        let mut tally = Tally::new(10, Limit::Count(100));
        for millis in 0..100 {
            tally.bytes += 10;
            tally.mark(start + Duration::from_millis(millis));
        }
        assert_eq!(tally.rate().unwrap(), (900, Duration::from_millis(90)));
    }

    #[test]
    fn too_little_is_an_error() {
        let mut tally = Tally::new(4, Limit::Time(Duration::ZERO));
        assert!(tally.rate().is_err());
        tally.add(4);
        tally.pause();
        assert!(tally.rate().is_err());
    }

    #[test]
    fn idle_looks_at_the_clock() {
        let mut idle = Idle::default();
        assert!(!idle.longer_than(Duration::ZERO));
        let start = Instant::now();
        while !idle.longer_than(Duration::from_millis(1)) {
            assert!(start.elapsed() < Duration::from_secs(5));
        }
    }

    #[test]
    fn stop_carries_the_count() {
        let stop = Stop::default();
        assert_eq!(stop.messages(), None);
        stop.raise(7);
        assert_eq!(stop.messages(), Some(7));
        stop.lower();
        assert!(!stop.is_raised());
    }
}
