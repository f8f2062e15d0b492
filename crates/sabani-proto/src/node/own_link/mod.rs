//! What may wait for this host's own link.

mod rate;
mod trial;

use std::ops::RangeInclusive;

use rate::Rate;
use trial::Trial;

use crate::wire::ConnectionId;

/// Nothing waits for longer: a thousand packets, Linux's usual queue, take 0.1 s at 120 Mbit/s.
const WAITS_NS: u64 = 100_000_000;
/// Once so much waits as the link takes in this time, data wait in the node, until half of it has left: peers take turns here, and
/// what the link has been given leaves as it came. TCP on Linux lets 1 ms wait (`sk_pacing_shift`).
const AHEAD_NS: RangeInclusive<f64> = 500_000.0..=50_000_000.0;
/// It is so many of the longest trains at least.
const AHEAD_TRAINS: u64 = 2;
/// It grows by this factor each time that the link has run dry before this process came to give it more, ...
const MORE: f64 = 2.0;
/// ... and shrinks by this one with each train that had to wait and finds it busy: 350 of them weigh as much as once dry.
const LESS: f64 = 0.998;

/// What the system says of this host's own link ([`crate::Node::handle_unsent`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// When it was asked, in nanoseconds of the driver's clock.
    pub at_ns: u64,
    /// Bytes that had been handed to it by then for that link, in all.
    pub handed: u64,
    /// Bytes of those that had not left yet.
    pub waiting: u64,
}

impl Unsent {
    /// What has left since, in bytes for each nanosecond. The system counts what waits as it is charged, so that it may be more than
    /// was handed over.
    fn rate_since(&self, before: &Unsent) -> f64 {
        self.left_since(before) as f64 / self.time_since(before).max(1.0)
    }

    fn time_since(&self, before: &Unsent) -> f64 {
        self.at_ns.saturating_sub(before.at_ns) as f64
    }

    fn left_since(&self, before: &Unsent) -> i64 {
        let left = |at: &Unsent| at.handed.wrapping_sub(at.waiting);
        left(self).wrapping_sub(left(before)) as i64
    }
}

/// What has left for this host's own link lately, and what waits for it.
#[derive(Debug, Default)]
pub(crate) struct OwnLink {
    /// To whom data left last, and when.
    last: Option<(u32, u64)>,
    /// When data left last for anybody but that one.
    others_ns: Option<u64>,
    rate: Rate,
    /// What the system said last.
    seen: Unsent,
    /// Bytes that have been handed to it since.
    since: u64,
    /// So much waits that data wait in the node.
    is_full: bool,
    /// Some do.
    is_awaited: bool,
    /// What may wait, as the time that it takes the link; below the least there is if that is not known.
    ahead_ns: f64,
    trial: Trial,
}

impl OwnLink {
    /// Packets of the longest trains.
    pub const MOST_PACKETS: usize = Rate::MOST_PACKETS;

    /// Data leave for a peer.
    #[inline]
    pub fn on_data(&mut self, peer: u32, bytes: usize, now_ns: u64) {
        self.rate.on_train(bytes as u64);
        self.since += bytes as u64;
        self.is_full |= self.may_fill(now_ns) && self.waits(now_ns) >= self.most();
        if let Some((last, at_ns)) = self.last.replace((peer, now_ns))
            && last != peer
        {
            self.others_ns = Some(at_ns);
        }
    }

    /// Whether data for others may wait.
    #[inline]
    pub fn may_hold_others(&self, peer: u32, now_ns: u64) -> bool {
        let others_ns = match self.last {
            Some((last, at_ns)) if last != peer => Some(at_ns),
            _ => self.others_ns,
        };
        others_ns.is_some_and(|at_ns| now_ns < at_ns + WAITS_NS)
    }

    /// The system says what waits.
    pub fn on_unsent(&mut self, seen: Unsent) {
        self.rate.on_unsent(seen, self.seen);
        self.seen = seen;
        self.since = 0;
        self.is_full = match self.is_full {
            true => seen.waiting as f64 > self.most() / 2.0,
            false => self.may_fill(seen.at_ns) && seen.waiting as f64 >= self.most(),
        };
        if !self.is_full && std::mem::take(&mut self.is_awaited) {
            self.on_opened(seen.waiting == 0);
        }
    }

    /// Data that had to wait may leave, and find the link dry or not.
    fn on_opened(&mut self, is_dry: bool) {
        if let Some(rate) = self.rate.bytes_per_ns() {
            let by = if is_dry { MORE } else { LESS };
            self.ahead_ns = (self.most() / rate * by).min(*AHEAD_NS.end());
        }
    }

    /// Data wait in the node.
    pub fn on_deferred(&mut self) {
        self.is_awaited = true;
    }

    /// Whether data must wait now.
    #[inline]
    pub fn is_full(&mut self, now_ns: u64) -> bool {
        self.is_full &= self.opens_ns().is_some_and(|at_ns| now_ns < at_ns);
        self.is_full
    }

    /// When they may leave, if they must wait until then. The system is not asked before, and the rate may have risen: so one train
    /// leaves after as long as ever may wait.
    #[inline]
    pub fn opens_ns(&self) -> Option<u64> {
        let rate = self.rate.bytes_per_ns().filter(|_| self.is_full)?;
        let over = (self.seen.waiting + self.since) as f64 - self.most() / 2.0;
        let after_ns = (over.max(0.0) / rate).min(*AHEAD_NS.end());
        Some(self.seen.at_ns + after_ns as u64)
    }

    /// Bytes that may wait.
    fn most(&self) -> f64 {
        let least = (AHEAD_TRAINS * self.rate.longest()) as f64;
        let ahead_ns = self.ahead_ns.max(*AHEAD_NS.start());
        let taken = self.rate.bytes_per_ns().map(|rate| rate * ahead_ns);
        taken.map_or(f64::INFINITY, |taken| taken.max(least))
    }

    /// Whether data may have to wait: something did when the system was asked, and is not known to hold nothing up.
    #[inline]
    fn may_fill(&self, now_ns: u64) -> bool {
        self.seen.waiting > 0 && !self.trial.holds_nothing_up(now_ns)
    }

    /// Bytes that wait, as far as is known.
    fn waits(&self, now_ns: u64) -> f64 {
        let left = |rate| rate * now_ns.saturating_sub(self.seen.at_ns) as f64;
        (self.seen.waiting + self.since) as f64 - self.rate.bytes_per_ns().map_or(0.0, left)
    }

    /// Whether data that leave now should ask for an answer, to see whether it comes before their turn.
    #[inline]
    pub fn is_trial_due(&self, now_ns: u64) -> bool {
        self.may_fill(now_ns)
            && self.trial.is_due(now_ns)
            && self.waits(now_ns) >= self.most() / 2.0
    }

    /// What leaves now with this number does ask.
    pub fn try_with(&mut self, connection: ConnectionId, number: u64, now_ns: u64) {
        let rate = self.rate.bytes_per_ns().unwrap_or(f64::INFINITY);
        let waits_ns = (self.waits(now_ns) / rate) as u64;
        self.trial.begin(connection, number, now_ns, waits_ns);
    }

    /// A peer has what left up to this number.
    #[inline]
    pub fn on_answer(&mut self, connection: ConnectionId, largest: u64, now_ns: u64) {
        if self.trial.on_answer(connection, largest, now_ns) {
            self.is_full = false;
        }
    }

    /// Packets of one train of `segment` bytes each, at most.
    #[inline]
    pub fn train_packets(&self, segment: usize) -> usize {
        self.rate.train_packets(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_for_others_may_wait_and_ones_own_do_not_count() {
        let mut link = OwnLink::default();
        assert!(!link.may_hold_others(1, 0));
        link.on_data(1, 100, 5);
        link.on_data(1, 100, 6);
        assert!(!link.may_hold_others(1, 6) && link.may_hold_others(2, 6));
        link.on_data(2, 100, 10);
        assert!(
            link.may_hold_others(1, 10)
                && link.may_hold_others(2, 10)
                && link.may_hold_others(3, 10)
        );
        link.on_data(2, 100, 6 + WAITS_NS);
        assert!(
            !link.may_hold_others(2, 6 + WAITS_NS),
            "what left for the first has gone by now"
        );
        assert!(link.may_hold_others(1, 6 + WAITS_NS));
    }

    /// A link of 1 Gbit/s to which so much is given as it may have, by a process that comes so late when it may give more. Returns the
    /// most that ever waited, in nanoseconds, and how often the link had run dry.
    fn fill(link: &mut OwnLink, turns: u32, late_ns: u64) -> (u64, u32) {
        const TRAIN: u64 = 14_720;
        let (mut seen, mut most, mut dry) = (link.seen, 0, 0);
        for _ in 0..turns {
            link.on_unsent(seen);
            dry += u32::from(seen.waiting == 0);
            // One call hands over one train, in 1 us.
            while !link.is_full(seen.at_ns) {
                link.on_data(1, TRAIN as usize, seen.at_ns);
                seen.at_ns += 1_000;
                seen.handed += TRAIN;
                seen.waiting += TRAIN - 125;
                link.on_unsent(seen);
            }
            link.on_deferred();
            most = most.max(seen.waiting * 8);
            let passed_ns = link.opens_ns().unwrap().saturating_sub(seen.at_ns) + late_ns;
            seen.at_ns += passed_ns;
            seen.waiting = seen.waiting.saturating_sub(passed_ns / 8);
        }
        (most, dry)
    }

    #[test]
    fn no_more_waits_than_keeps_the_link_busy() {
        let mut link = OwnLink::default();
        let (most_ns, dry) = fill(&mut link, 1_000, 20_000);
        assert!(most_ns < 800_000 && dry < 5, "{most_ns} {dry}");
        // For a process that comes late it is more, ...
        let (most_ns, _) = fill(&mut link, 50, 2_000_000);
        assert!((4_000_000..12_000_000).contains(&most_ns), "{most_ns}");
        let (_, dry) = fill(&mut link, 1_000, 2_000_000);
        assert!(dry <= 4, "{dry}");
        // ... and as little as before a while after it no longer does.
        fill(&mut link, 2_000, 20_000);
        let (most_ns, dry) = fill(&mut link, 100, 20_000);
        assert!(most_ns < 800_000 && dry == 0, "{most_ns} {dry}");
    }

    #[test]
    fn nothing_waits_in_the_node_where_nothing_waits_for_the_link() {
        let mut link = OwnLink::default();
        link.on_data(1, 1 << 20, 0);
        assert!(!link.is_full(0), "nobody can ask");
        link.on_unsent(Unsent::default());
        link.on_data(1, 1 << 20, 1_000);
        assert!(!link.is_full(1_000));
        assert_eq!(link.opens_ns(), None);
    }

    #[test]
    fn what_was_overtaken_holds_nothing_up() {
        let mut link = OwnLink::default();
        fill(&mut link, 100, 20_000);
        let mut seen = link.seen;
        seen.waiting = 50_000;
        link.on_unsent(seen);
        let now_ns = seen.at_ns;
        assert!(link.is_trial_due(now_ns));
        link.try_with(ConnectionId(1), 7, now_ns);
        link.on_data(1, 14_720, now_ns);
        assert!(link.is_full(now_ns) && !link.is_trial_due(now_ns));
        // It takes the link 0.4 ms to come to it.
        link.on_answer(ConnectionId(1), 7, now_ns + 100_000);
        assert!(!link.is_full(now_ns + 100_000));
        seen.waiting = 1_000_000;
        seen.at_ns += 100_000;
        link.on_unsent(seen);
        assert!(!link.is_full(seen.at_ns));
        seen.at_ns += 2_000_000_000;
        link.on_unsent(seen);
        assert!(link.is_full(seen.at_ns));
    }
}
