//! What may wait for this host's own link, and how fast that takes it.

use std::ops::RangeInclusive;

/// Nothing waits for longer: a thousand packets, Linux's usual queue, take 0.1 s at 120 Mbit/s.
const WAITS_NS: u64 = 100_000_000;
/// A train is one thing to queue disciplines and cards: what is to leave before it waits until all of it is on the wire once it has
/// begun. So it takes no longer than this, ...
const TRAIN_NS: f64 = 125_000.0;
/// ... and is so many packets at least, and at most: system calls cost more than packets do.
const TRAIN_PACKETS: RangeInclusive<usize> = 4..=64;
/// Bytes per nanosecond that the link is taken to carry until more is known: 8 packets at a time. Some trains show whether it carries
/// more; longer ones at once would have receivers grant to whoever sends them what all others wait for.
const ASSUMED_RATE: f64 = 0.1;
/// The link's rate is seen once so many times the longest train has left without a pause: of one that has left in part the system says
/// that all of it waits.
const TRAINS: u64 = 4;
/// By so much it is believed to rise at a time: what a shaper lets pass at once after a pause is soon gone.
const RISE: f64 = 2.0;

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

/// What has left for this host's own link lately.
#[derive(Debug, Default)]
pub(crate) struct OwnLink {
    /// To whom data left last, and when.
    last: Option<(u32, u64)>,
    /// When data left last for anybody but that one.
    others_ns: Option<u64>,
    /// Since when the link has been busy, and what had left by then.
    busy: Option<Unsent>,
    /// Bytes of the longest train before that, and of the longest since.
    longest: [u64; 2],
    /// What the system said last.
    seen: Unsent,
    /// Bytes that it takes in a nanosecond, if the system can be asked.
    rate: Option<f64>,
}

impl Unsent {
    /// What has left since, in bytes for each nanosecond. The system counts what waits as it is charged, so that it may be more than
    /// was handed over.
    fn rate_since(&self, before: &Unsent) -> f64 {
        self.left_since(before) as f64 / self.at_ns.saturating_sub(before.at_ns).max(1) as f64
    }

    fn left_since(&self, before: &Unsent) -> i64 {
        let left = |at: &Unsent| at.handed.wrapping_sub(at.waiting);
        left(self).wrapping_sub(left(before)) as i64
    }
}

impl OwnLink {
    /// Packets of the longest trains.
    pub const MOST_PACKETS: usize = *TRAIN_PACKETS.end();

    /// Data leave for a peer.
    #[inline]
    pub fn on_data(&mut self, peer: u32, bytes: usize, now_ns: u64) {
        self.longest[1] = self.longest[1].max(bytes as u64);
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

    /// The system says what waits. Between two times that something does the link was busy, if it is asked before every train; if
    /// nothing does, it may have been faster than that shows.
    pub fn on_unsent(&mut self, seen: Unsent) {
        let last = std::mem::replace(&mut self.seen, seen);
        let rate = *self.rate.get_or_insert(ASSUMED_RATE);
        if seen.waiting == 0 {
            self.busy = None;
            let shown = seen.rate_since(&last).min(RISE * rate);
            self.rate = Some(rate.max(shown));
            return;
        }
        let Some(busy) = self.busy else {
            return self.begin(seen);
        };
        let longest = self.longest[0].max(self.longest[1]);
        if seen.left_since(&busy) >= (TRAINS * longest).max(1) as i64 {
            let shown = seen.rate_since(&busy).min(RISE * rate);
            self.rate = Some(f64::midpoint(rate, shown));
            self.begin(seen);
        }
    }

    fn begin(&mut self, seen: Unsent) {
        self.busy = Some(seen);
        self.longest = [self.longest[1], 0];
    }

    /// Packets of one train of `segment` bytes each, at most.
    #[inline]
    pub fn train_packets(&self, segment: usize) -> usize {
        let (least, most) = TRAIN_PACKETS.into_inner();
        let taken = self.rate.map(|rate| (rate * TRAIN_NS) as usize / segment);
        taken.map_or(most, |packets| packets.clamp(least, most))
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

    const SEGMENT: usize = 1_472;

    /// Sends trains, as long as they may be, over a link that takes so many bytes in a nanosecond, as soon as `ahead` or fewer trains
    /// wait, and has the system asked before each.
    fn stream(link: &mut OwnLink, rate: f64, ahead: u64, from: Unsent) -> Unsent {
        let mut seen = from;
        // When the trains that wait will have left, and their bytes.
        let mut waits = std::collections::VecDeque::<(u64, u64)>::new();
        for _ in 0..300 {
            while waits.len() as u64 > ahead {
                seen.at_ns = seen.at_ns.max(waits[0].0);
                waits.pop_front();
            }
            seen.at_ns += 5_000;
            waits.retain(|(ends_ns, _)| *ends_ns > seen.at_ns);
            // Of a train that has left in part all waits.
            seen.waiting = waits.iter().map(|(_, bytes)| bytes).sum();
            link.on_unsent(seen);
            let bytes = link.train_packets(SEGMENT) * SEGMENT;
            link.on_data(1, bytes, seen.at_ns);
            let begins_ns = waits.back().map_or(seen.at_ns, |(ends_ns, _)| *ends_ns);
            waits.push_back((begins_ns + (bytes as f64 / rate) as u64, bytes as u64));
            seen.handed += bytes as u64;
        }
        seen
    }

    #[test]
    fn trains_are_as_long_as_the_link_takes_at_a_time() {
        let mut link = OwnLink::default();
        assert_eq!(link.train_packets(SEGMENT), 64, "nobody can ask");
        let mut seen = Unsent::default();
        for (mbit, packets) in [
            (100.0, 4..=4),
            (1_000.0, 9..=12),
            (3_000.0, 28..=36),
            (25_000.0, 64..=64),
            (50.0, 4..=4),
            (100_000.0, 64..=64),
        ] {
            for ahead in [2, 8] {
                seen = stream(&mut link, mbit / 8_000.0, ahead, seen);
                let most = link.train_packets(SEGMENT);
                assert!(
                    packets.contains(&most),
                    "{mbit} Mbit/s, {ahead} ahead: {most}"
                );
            }
        }
    }

    #[test]
    fn a_link_of_which_nothing_waits_soon_takes_the_longest_trains() {
        let mut link = OwnLink::default();
        let seen = stream(&mut link, 1e9, 0, Unsent::default());
        assert_eq!(link.train_packets(SEGMENT), 64);
        // A pause shows nothing.
        link.on_unsent(Unsent {
            at_ns: seen.at_ns + 1_000_000_000,
            ..seen
        });
        assert_eq!(link.train_packets(SEGMENT), 64);
    }

    #[test]
    fn what_is_sent_now_and_then_does_not_make_a_link_slow() {
        let mut link = OwnLink::default();
        let mut seen = Unsent::default();
        for _ in 0..100 {
            // Two trains; the second stands behind the first, which the system has not been told of yet.
            for _ in 0..2 {
                link.on_unsent(seen);
                link.on_data(1, 11_776, seen.at_ns);
                seen.handed += 11_776;
                seen.waiting += 11_776;
                seen.at_ns += 10_000;
            }
            seen.waiting = 0;
            seen.at_ns += 1_000_000;
        }
        assert_eq!(link.train_packets(SEGMENT), 8);
    }
}
