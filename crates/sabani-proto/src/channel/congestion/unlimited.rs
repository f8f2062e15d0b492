//! No window at all: for a sender that only keeps to a rate.

use super::{Acked, Controller};

#[derive(Debug)]
pub(super) struct Unlimited;

impl Controller for Unlimited {
    fn window(&self) -> f64 {
        f64::INFINITY
    }

    fn pace_gain(&self) -> f64 {
        1.0
    }

    fn on_acked(&mut self, _packets: f64, _limited: bool, _acked: &Acked) {}

    fn on_congestion(&mut self, _now_ns: u64) {}

    fn on_silence(&mut self) {}
}
