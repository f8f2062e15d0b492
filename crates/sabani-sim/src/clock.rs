//! The clock of one host, which may run fast or slow.

/// Turns the simulation's time into a host's, and back. A host's clock never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// When its speed was last changed, in the simulation's time.
    since_ns: u64,
    /// What it showed then.
    shown_ns: u64,
    /// Parts per million by which it is fast; slow if negative.
    drift_ppm: i64,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    /// From now on it is fast by this many parts per million, or slow if negative; above
    /// −1,000,000. Default 0: real clocks stay within ±100.
    pub fn set_drift(&mut self, now_ns: u64, ppm: i64) {
        self.shown_ns = self.read(now_ns);
        self.since_ns = now_ns;
        self.drift_ppm = ppm.max(1 - MILLION as i64);
    }

    /// What it shows at this time.
    pub fn read(&self, now_ns: u64) -> u64 {
        let passed = now_ns.saturating_sub(self.since_ns);
        if self.drift_ppm == 0 {
            return self.shown_ns + passed;
        }
        let shown = i128::from(passed) * (MILLION + i128::from(self.drift_ppm)) / MILLION;
        self.shown_ns + shown as u64
    }

    /// The first moment at which it shows this or more.
    pub fn when(&self, shown_ns: u64) -> u64 {
        let ahead = shown_ns.saturating_sub(self.shown_ns);
        if self.drift_ppm == 0 {
            return self.since_ns.saturating_add(ahead);
        }
        let speed = (MILLION + i128::from(self.drift_ppm)) as u128;
        let passed = (u128::from(ahead) * MILLION as u128).div_ceil(speed);
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        self.since_ns.saturating_add(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, SEC};

    #[test]
    fn both_directions_agree_and_time_never_goes_back() {
        let mut rng = Rng::new(3);
        let (mut clock, mut now_ns, mut shown_ns) = (Clock::default(), 0, 0);
        for _ in 0..2_000 {
            now_ns += rng.below(SEC);
            assert!(clock.read(now_ns) >= shown_ns);
            let ppm = rng.below(400_000) as i64 - 200_000;
            clock.set_drift(now_ns, ppm);
            shown_ns = clock.read(now_ns);
            let target = shown_ns + rng.below(SEC);
            let at_ns = clock.when(target);
            assert!(clock.read(at_ns) >= target);
            assert!(at_ns == now_ns || clock.read(at_ns - 1) < target);
        }
    }

    #[test]
    fn a_fast_clock_shows_more() {
        let mut clock = Clock::default();
        clock.set_drift(SEC, 100);
        assert_eq!(clock.read(11 * SEC), 11 * SEC + 1_000_000);
    }
}
