//! CUBIC (RFC 9438).

use super::{Acked, Controller, FIRST_WINDOW, LEAST_WINDOW};

/// What is left of the window after a loss.
const BETA: f64 = 0.7;
/// How steep the curve is, in packets per second cubed.
const C: f64 = 0.4;
/// What Reno-friendly growth adds in a round trip, so that it has the same share as Reno.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[derive(Debug)]
pub(super) struct Cubic {
    window: f64,
    /// Where slow start ends.
    threshold: f64,
    /// The window at which packets were last lost.
    max: f64,
    /// The growth since then, if it has begun.
    epoch: Option<Epoch>,
    acked_ns: u64,
}

/// Growth after a loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began_ns: u64,
    /// Seconds until the window is what it was.
    plateau_s: f64,
    /// What Reno's window would be.
    reno: f64,
    /// The window before the loss.
    prior: f64,
}

impl Cubic {
    pub fn new() -> Self {
        Cubic {
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            max: 0.0,
            epoch: None,
            acked_ns: 0,
        }
    }

    fn begin_epoch(&self, prior: f64, now_ns: u64) -> Epoch {
        Epoch {
            began_ns: now_ns,
            plateau_s: ((self.max - self.window).max(0.0) / C).cbrt(),
            reno: self.window,
            prior,
        }
    }

    /// The curve, so many nanoseconds after the loss.
    fn curve(&self, epoch: &Epoch, since_ns: u64) -> f64 {
        C * (since_ns as f64 / 1e9 - epoch.plateau_s).powi(3) + self.max
    }

    fn avoid(&mut self, packets: f64, acked: &Acked) {
        let epoch = self.epoch;
        let mut epoch = epoch.unwrap_or_else(|| self.begin_epoch(self.window, acked.now_ns));
        let alpha = if epoch.reno < epoch.prior { ALPHA } else { 1.0 };
        epoch.reno += alpha * packets / self.window;
        self.epoch = Some(epoch);
        let since_ns = acked.now_ns.saturating_sub(epoch.began_ns);
        if self.curve(&epoch, since_ns) < epoch.reno {
            self.window = self.window.max(epoch.reno);
            return;
        }
        let target = self.curve(&epoch, since_ns + acked.smoothed_ns);
        let target = target.clamp(self.window, 1.5 * self.window);
        self.window += (target - self.window) / self.window * packets;
    }
}

impl Controller for Cubic {
    fn window(&self) -> f64 {
        self.window
    }

    fn pace_gain(&self) -> f64 {
        if self.window < self.threshold {
            2.0
        } else {
            1.25
        }
    }

    fn on_acked(&mut self, packets: f64, limited: bool, acked: &Acked) {
        let passed_ns = acked.now_ns.saturating_sub(self.acked_ns);
        self.acked_ns = acked.now_ns;
        if !limited {
            // Time in which the window was not needed does not count.
            if let Some(epoch) = &mut self.epoch {
                epoch.began_ns += passed_ns;
            }
        } else if self.window < self.threshold {
            self.window += packets;
        } else {
            self.avoid(packets, acked);
        }
    }

    fn on_congestion(&mut self, now_ns: u64) {
        let prior = self.window;
        // Who loses before it has what it had leaves room for newcomers.
        self.max = match prior < self.max {
            true => prior * (1.0 + BETA) / 2.0,
            false => prior,
        };
        self.window = (prior * BETA).max(LEAST_WINDOW);
        self.threshold = self.window;
        self.epoch = Some(self.begin_epoch(prior, now_ns));
    }

    fn on_silence(&mut self) {
        self.threshold = (self.window * BETA).max(LEAST_WINDOW);
        self.max = self.window;
        self.window = LEAST_WINDOW;
        self.epoch = None;
    }
}
