//! What chance decides.

use super::{ACTIVE, Hosts, MS, Plan, Size, Time, US};
use crate::Rng;

/// Throws from a plan's seed.
pub(super) struct Dice(pub(super) Rng);

impl Dice {
    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.0.below(from.len() as u64) as usize].clone()
    }

    pub(super) fn maybe<T>(
        &mut self,
        probability: f64,
        value: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.0.chance(probability).then(|| value(self))
    }

    pub(super) fn size(&mut self, from: &[u64]) -> Size {
        Size(self.pick(from))
    }

    pub(super) fn time_below(&mut self, bound_ns: u64) -> Time {
        // Whole microseconds are easier to read.
        Time(self.0.below(bound_ns / US) * US)
    }

    pub(super) fn host(&mut self, hosts: u32) -> u32 {
        self.0.below(u64::from(hosts)) as u32
    }

    /// A moment in the run; often one at which something has just been sent.
    pub(super) fn moment(&mut self, plan: &Plan) -> Time {
        if plan.traffic.is_empty() || self.0.chance(0.5) {
            return self.time_below(ACTIVE);
        }
        let stream = self.pick(&plan.traffic);
        let within = self.pick(&[100 * US, MS, 20 * MS]);
        Time(stream.at.0 + self.time_below(within).0)
    }

    /// Two different hosts.
    pub(super) fn pair(&mut self, hosts: u32) -> (Hosts, Hosts) {
        let from = self.host(hosts);
        let to = (from + 1 + self.host(hosts - 1)) % hosts;
        (Hosts::one(from), Hosts::one(to))
    }
}
