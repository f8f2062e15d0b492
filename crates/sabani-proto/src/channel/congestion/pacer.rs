//! Spreads what may leave over time (U12: slow write).

use super::lateness::Lateness;

/// A timer that fires sooner does nothing but fire.
const TICK_NS: u64 = 5_000;
/// What leaves at once takes at most this long at the pacer's rate: a train is cheaper than single
/// packets, but queues like a burst.
const BURST_NS: u64 = 1_000_000;
/// Packets that leave at once, at least and at most.
const BURST_PACKETS: [f64; 2] = [2.0, 64.0];
/// A round trip sees at least so many bursts.
const BURSTS: u64 = 8;

/// A bucket of charge that fills at a rate.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Charge that may leave; below zero after control frames, which don't wait.
    tokens: f64,
    burst: f64,
    /// Charge in a nanosecond; zero: no limit.
    rate: f64,
    filled_ns: u64,
    /// What the window has left.
    open: u32,
    lateness: Lateness,
}

impl Pacer {
    pub fn new(now_ns: u64) -> Self {
        Pacer {
            tokens: 0.0,
            burst: 0.0,
            rate: 0.0,
            filled_ns: now_ns,
            open: 0,
            lateness: Lateness::default(),
        }
    }

    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// What may leave at once of a window that is spread over a round trip.
    pub fn burst(rate: f64, full: u32, rtt_ns: u64) -> f64 {
        let burst_ns = BURST_NS.min(rtt_ns / BURSTS) as f64;
        let (least, most) = BURST_PACKETS
            .map(|packets| packets * f64::from(full))
            .into();
        (rate * burst_ns).clamp(least, most)
    }

    /// The same of a rate that the program has set, whatever the round trip: a timer that is late must not lower it.
    pub fn allowed_burst(rate: f64, full: u32) -> f64 {
        let least = BURST_PACKETS[0] * f64::from(full);
        (rate * BURST_NS as f64).max(least)
    }

    /// Lets in what has come since this was last done, at this rate and with such bursts from now on.
    pub fn refill(&mut self, rate: f64, burst: f64, now_ns: u64) {
        self.fill(rate, burst, burst, now_ns);
    }

    /// The same where the window has `open` left, and more at once for who wakes up late as a rule.
    pub fn refill_late(&mut self, rate: f64, burst: f64, full: u32, open: u32, now_ns: u64) {
        if now_ns > self.filled_ns {
            self.note_lateness(full, now_ns);
        }
        self.open = open;
        // Without this a sender that wakes up 1 ms late had two packets a time where a round trip takes 0.4 ms, and
        // never the half of its window that lets it grow.
        let behind = rate * self.lateness.usual_ns();
        self.fill(rate, burst, behind.max(burst), now_ns);
    }

    fn fill(&mut self, rate: f64, burst: f64, most: f64, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.filled_ns) as f64;
        self.tokens = (self.tokens + self.rate * passed_ns).min(most);
        self.burst = burst;
        self.filled_ns = now_ns;
        self.rate = rate;
    }

    /// How late it is for packets that only this has held back.
    fn note_lateness(&mut self, full: u32, now_ns: u64) {
        self.lateness.on_time(now_ns);
        if self.open < full {
            self.lateness.on_other_limit();
        } else if let Some(at_ns) = self.release_ns(full).filter(|&at_ns| at_ns <= now_ns) {
            self.lateness.on_late(now_ns - at_ns, now_ns);
        }
    }

    /// Charge that may leave now.
    pub fn left(&self) -> u32 {
        match self.rate > 0.0 {
            true => self.tokens.max(0.0) as u32,
            false => u32::MAX,
        }
    }

    pub fn take(&mut self, charge: u32, full: u32) {
        self.open = self.open.saturating_sub(charge);
        if self.rate > 0.0 {
            self.tokens -= f64::from(charge);
        }
        if self.left().min(self.open) < full {
            self.lateness.on_all_taken();
        }
    }

    /// When half a burst may leave; `None` if a packet may leave at once.
    pub fn release_ns(&self, full: u32) -> Option<u64> {
        let full = f64::from(full);
        if self.rate <= 0.0 || self.tokens >= full {
            return None;
        }
        let wanted = (self.burst / 2.0).max(full);
        let wait_ns = ((wanted - self.tokens) / self.rate).ceil() as u64;
        Some(self.filled_ns + wait_ns.max(TICK_NS))
    }
}
