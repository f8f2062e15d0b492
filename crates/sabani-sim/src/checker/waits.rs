//! How long messages take where nothing goes wrong.

use super::{Checker, Fate, Rule};
use crate::SEC;

impl Checker {
    /// No message may have taken longer than this, from its wish on, or from when calm set in. Where peers lost each
    /// other, what they had to find out first took its time.
    pub fn check_waits(&mut self, now_ns: u64, calm_ns: u64, within_ns: u64) {
        if self.parted > 0 {
            return;
        }
        self.judge_longest(now_ns, Rule::Wait, calm_ns, within_ns);
    }

    /// No message may have taken longer than this, from its wish on, or from when the last thing happened that a
    /// plan gives a time for: not even one that arrived in the end, while others went on.
    pub fn check_late(&mut self, now_ns: u64, last_ns: u64, within_ns: u64) {
        self.judge_longest(now_ns, Rule::Progress, last_ns, within_ns);
    }

    /// Looks at the message that took longest, counted from this time on.
    fn judge_longest(&mut self, now_ns: u64, rule: Rule, from_ns: u64, within_ns: u64) {
        let waits = self.ledger.messages().filter_map(|(from, to, sent)| {
            let Fate::Delivered { at_ns } = sent.fate else {
                return None;
            };
            let since_ns = sent.wish.since_ns.max(from_ns);
            Some((at_ns.saturating_sub(since_ns), from, to, sent.wish.len))
        });
        let Some((longest_ns, from, to, len)) = waits.max() else {
            return;
        };
        if longest_ns > within_ns {
            let [took, explained] = [longest_ns, within_ns].map(|ns| ns as f64 / SEC as f64);
            let what = format!(
                "{len} bytes from {from} to {to} took {took:.3} s, and nothing explains more than {explained:.3} s"
            );
            self.violated(now_ns, rule, what);
        }
    }
}
