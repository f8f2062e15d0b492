//! How much a sender may have on its way to a receiver. Where receivers grant credit, that is what may come unasked; else it is a window
//! of congestion control, which a loss makes smaller and what passes larger, and which a connection keeps.

use std::collections::HashMap;

/// A loss leaves so many packets at least, a timeout one.
const LEAST_PACKETS: f64 = 2.0;
/// What a loss leaves of it: CUBIC's (RFC 9438), and half of what came unasked.
const LEFT: f64 = 0.7;
const LEFT_UNASKED: f64 = 0.5;

/// So many packets make the delay of most queues grow so much that it doubles no longer (HyStart, RFC 9406).
const SLOW_PACKETS: f64 = 16.0;

/// A window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub bytes: f64,
    /// From here on it grows by a packet for each window that passes, and by as much as passes until then.
    slow_bytes: f64,
}

/// Those of all pairs of ranks, sender first, that have sent anything.
pub type Windows = HashMap<(usize, usize), Window>;

impl Window {
    /// Nothing has been lost yet.
    pub fn new(bytes: f64, packet_bytes: f64) -> Self {
        Window {
            bytes,
            slow_bytes: bytes.max(SLOW_PACKETS * packet_bytes),
        }
    }

    /// This part of what was on its way is lost, and what comes behind shows it: no more than has passed is on its way then (PRR,
    /// RFC 9937), and it soon grows to what is left of it.
    pub fn shrink(&mut self, lost: f64, packet_bytes: f64, granted: bool) {
        let left = if granted { LEFT_UNASKED } else { LEFT };
        let least = (LEAST_PACKETS * packet_bytes).min(self.bytes);
        self.slow_bytes = (left * self.bytes).max(least);
        let passed = if granted { left } else { left.min(1.0 - lost) };
        self.bytes = (passed * self.bytes).max(least);
    }

    /// Nothing shows a loss.
    pub fn begin_anew(&mut self, lost: f64, packet_bytes: f64, granted: bool) {
        self.shrink(lost, packet_bytes, granted);
        if !granted {
            self.bytes = packet_bytes;
        }
    }

    /// A message of so many bytes has passed. What has not filled half of it doesn't make it larger.
    pub fn grow(&mut self, bytes: f64, packet_bytes: f64) {
        if bytes < self.bytes / 2.0 {
            return;
        }
        let fast = bytes.min(self.slow_bytes - self.bytes).max(0.0);
        // A packet for each window that passes, which is larger each time.
        let whole = self.bytes + fast;
        self.bytes = (whole * whole + 2.0 * packet_bytes * (bytes - fast)).sqrt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: f64 = 1_000.0;

    #[test]
    fn a_window_doubles_at_first_and_then_grows_by_a_packet() {
        let mut window = Window::new(10_000.0, PACKET);
        window.grow(4_000.0, PACKET);
        assert_eq!(window.bytes, 10_000.0, "the message did not fill it");
        window.grow(5_000.0, PACKET);
        assert_eq!(window.bytes, 15_000.0);
        // It doubles to 16 packets; what passes after that are two windows.
        window.grow(34_000.0, PACKET);
        assert!((window.bytes - 17_950.0).abs() < 50.0, "{window:?}");
        assert_eq!(Window::new(40_000.0, PACKET).slow_bytes, 40_000.0);
    }

    #[test]
    fn a_loss_leaves_what_has_passed_and_it_grows_back_to_seven_tenths() {
        let mut window = Window::new(20_000.0, PACKET);
        window.shrink(0.6, PACKET, false);
        assert_eq!(window.bytes, 8_000.0);
        window.grow(6_000.0, PACKET);
        assert_eq!(window.bytes, 14_000.0);
        let mut window = Window::new(20_000.0, PACKET);
        window.shrink(0.1, PACKET, false);
        assert_eq!(window.bytes, 14_000.0);
        for _ in 0..20 {
            window.shrink(0.5, PACKET, false);
        }
        assert_eq!(window.bytes, 2.0 * PACKET);
        window.begin_anew(0.5, PACKET, false);
        assert_eq!(window.bytes, PACKET);
    }

    #[test]
    fn half_of_what_may_come_unasked_is_left_however_much_is_lost() {
        let mut window = Window::new(20_000.0, PACKET);
        window.shrink(0.9, PACKET, true);
        assert_eq!(window.bytes, 10_000.0);
        window.begin_anew(0.9, PACKET, true);
        assert_eq!(window.bytes, 5_000.0);
    }
}
