//! How fast the link takes what it is given, and how long trains may be.

use std::ops::RangeInclusive;

use super::Unsent;

/// A train is one thing to queue disciplines and cards: what is to leave before it waits until all of it is on the wire once it has
/// begun. So it takes no longer than this, ...
const TRAIN_NS: f64 = 125_000.0;
/// ... and is so many packets at least, and at most: system calls cost more than packets do.
const TRAIN_PACKETS: RangeInclusive<usize> = 4..=64;
/// Bytes per nanosecond that the link is taken to carry until more is known: 8 packets at a time. Some trains show whether it carries
/// more; longer ones at once would have receivers grant to whoever sends them what all others wait for.
const ASSUMED: f64 = 0.1;
/// It is seen once so many times the longest train has left without a pause: of one that has left in part the system says that all of
/// it waits.
const TRAINS: u64 = 4;
/// So many times what has left, and two of the longest trains, would have done so at the known rate: it has fallen.
const SLOWER: f64 = 4.0;
/// By so much it is believed to rise at a time: what a shaper lets pass at once after a pause is soon gone.
const RISE: f64 = 2.0;

/// The link's rate.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Since when the link has been busy, and what had left by then.
    busy: Option<Unsent>,
    /// Bytes of the longest train before that, and of the longest since.
    longest: [u64; 2],
    /// Bytes that it takes in a nanosecond, if the system can be asked.
    bytes_per_ns: Option<f64>,
}

impl Rate {
    /// Packets of the longest trains.
    pub const MOST_PACKETS: usize = *TRAIN_PACKETS.end();

    /// A train leaves.
    #[inline]
    pub fn on_train(&mut self, bytes: u64) {
        self.longest[1] = self.longest[1].max(bytes);
    }

    /// Bytes of the longest train lately.
    pub fn longest(&self) -> u64 {
        self.longest[0].max(self.longest[1])
    }

    /// Bytes that the link takes in a nanosecond, if the system can be asked.
    #[inline]
    pub fn bytes_per_ns(&self) -> Option<f64> {
        self.bytes_per_ns
    }

    /// The system says what waits, and what did before. Between two times that something does the link was busy, if it is asked
    /// before every train; if nothing does, it may have been faster than that shows.
    pub fn on_unsent(&mut self, seen: Unsent, last: Unsent) {
        let known = *self.bytes_per_ns.get_or_insert(ASSUMED);
        if seen.waiting == 0 {
            self.busy = None;
            let shown = seen.rate_since(&last).min(RISE * known);
            self.bytes_per_ns = Some(known.max(shown));
            return;
        }
        let Some(busy) = self.busy else {
            return self.begin(seen);
        };
        if seen.left_since(&busy) >= (TRAINS * self.longest()).max(1) as i64 {
            let shown = seen.rate_since(&busy).min(RISE * known);
            self.bytes_per_ns = Some(f64::midpoint(known, shown));
            self.begin(seen);
        } else if self.longest() > 0
            && known * seen.time_since(&busy) > SLOWER * self.left_at_most(seen, busy)
        {
            self.bytes_per_ns = Some(known / 2.0);
            self.begin(seen);
        }
    }

    /// Bytes that have left since then at most, parts of trains as well.
    fn left_at_most(&self, seen: Unsent, before: Unsent) -> f64 {
        seen.left_since(&before).max(0) as f64 + (2 * self.longest()) as f64
    }

    fn begin(&mut self, seen: Unsent) {
        self.busy = Some(seen);
        self.longest = [self.longest[1], 0];
    }

    /// Packets of one train of `segment` bytes each, at most.
    #[inline]
    pub fn train_packets(&self, segment: usize) -> usize {
        let (least, most) = TRAIN_PACKETS.into_inner();
        let taken = self
            .bytes_per_ns
            .map(|rate| (rate * TRAIN_NS) as usize / segment);
        taken.map_or(most, |packets| packets.clamp(least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: usize = 1_472;

    /// A link's rate, as the system tells of it.
    #[derive(Default)]
    struct Asked {
        rate: Rate,
        seen: Unsent,
    }

    impl Asked {
        fn ask(&mut self, seen: Unsent) {
            self.rate.on_unsent(seen, self.seen);
            self.seen = seen;
        }

        /// Sends trains, as long as they may be, over a link that takes so many bytes in a nanosecond, as soon as `ahead` or fewer
        /// trains wait, and has the system asked before each.
        fn stream(&mut self, rate: f64, ahead: u64) {
            let mut seen = self.seen;
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
                self.ask(seen);
                let bytes = (self.packets() * SEGMENT) as u64;
                self.rate.on_train(bytes);
                let begins_ns = waits.back().map_or(seen.at_ns, |(ends_ns, _)| *ends_ns);
                waits.push_back((begins_ns + (bytes as f64 / rate) as u64, bytes));
                seen.handed += bytes;
            }
        }

        fn packets(&self) -> usize {
            self.rate.train_packets(SEGMENT)
        }
    }

    #[test]
    fn trains_are_as_long_as_the_link_takes_at_a_time() {
        let mut link = Asked::default();
        assert_eq!(link.packets(), 64, "nobody can ask");
        for (mbit, packets) in [
            (100.0, 4..=4),
            (1_000.0, 9..=12),
            (3_000.0, 28..=36),
            (25_000.0, 64..=64),
            (50.0, 4..=4),
            (100_000.0, 64..=64),
        ] {
            for ahead in [2, 8] {
                link.stream(mbit / 8_000.0, ahead);
                let most = link.packets();
                assert!(
                    packets.contains(&most),
                    "{mbit} Mbit/s, {ahead} ahead: {most}"
                );
            }
        }
    }

    #[test]
    fn a_link_that_has_become_slow_is_known_before_much_has_left() {
        let mut link = Asked::default();
        link.stream(0.125, 4);
        assert!(link.packets() > 8);
        // 2 Mbit/s; the system is asked every 5 ms, or when half of what was given it may have left.
        let mut seen = link.seen;
        seen.waiting = 60_000;
        let begun_ns = seen.at_ns;
        while link.packets() > 4 {
            seen.at_ns += 5_000_000;
            seen.waiting -= 1_250;
            link.ask(seen);
        }
        assert!(seen.at_ns - begun_ns < 50_000_000, "{seen:?}");
    }

    #[test]
    fn a_link_of_which_nothing_waits_soon_takes_the_longest_trains() {
        let mut link = Asked::default();
        link.stream(1e9, 0);
        assert_eq!(link.packets(), 64);
        // A pause shows nothing.
        let at_ns = link.seen.at_ns + 1_000_000_000;
        link.ask(Unsent { at_ns, ..link.seen });
        assert_eq!(link.packets(), 64);
    }

    #[test]
    fn what_is_sent_now_and_then_does_not_make_a_link_slow() {
        let mut link = Asked::default();
        let mut seen = Unsent::default();
        for _ in 0..100 {
            // Two trains; the second stands behind the first, which the system has not been told of yet.
            for _ in 0..2 {
                link.ask(seen);
                link.rate.on_train(11_776);
                seen.handed += 11_776;
                seen.waiting += 11_776;
                seen.at_ns += 10_000;
            }
            seen.waiting = 0;
            seen.at_ns += 1_000_000;
        }
        assert_eq!(link.packets(), 8);
    }
}
