//! Whether what waits for the link holds anything up.

use crate::wire::ConnectionId;

/// What was overtaken once holds nothing up for so long.
const APART_NS: u64 = 1_000_000_000;
/// So often it is tried whether it can be, and each time that so many times what waited has left: an answer for each is one more packet.
const EVERY_NS: u64 = 10_000_000;
const EVERY_WAITS: u64 = 8;

/// A packet that left behind much else. Answered long before its turn, it shows that what waits holds nothing up: it goes another
/// way, or the system itself lets peers take turns. To hold data back is wrong then: whoever has a slow way would leave nothing to
/// those with a fast one.
#[derive(Debug, Default)]
pub(super) struct Trial {
    connection: ConnectionId,
    number: u64,
    /// Its turn comes no sooner, ...
    turn_ns: u64,
    /// ... and then there may be another one.
    next_ns: u64,
    /// Until then nothing is held up.
    apart_ns: u64,
}

impl Trial {
    /// Whether it is time for one.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns && !self.holds_nothing_up(now_ns)
    }

    /// What leaves now with this number asks for an answer. What waits takes the link so long, as far as is known.
    pub fn begin(&mut self, connection: ConnectionId, number: u64, now_ns: u64, waits_ns: u64) {
        *self = Trial {
            connection,
            number,
            turn_ns: now_ns + waits_ns / 2,
            next_ns: now_ns + EVERY_NS.max(EVERY_WAITS * waits_ns),
            ..*self
        };
    }

    /// A peer has what left up to this number; whether that shows that what waits holds nothing up.
    #[inline]
    pub fn on_answer(&mut self, connection: ConnectionId, largest: u64, now_ns: u64) -> bool {
        let shows =
            now_ns < self.turn_ns && self.connection == connection && self.number <= largest;
        if shows {
            self.turn_ns = 0;
            self.apart_ns = now_ns + APART_NS;
        }
        shows
    }

    /// Whether what waits was overtaken lately.
    #[inline]
    pub fn holds_nothing_up(&self, now_ns: u64) -> bool {
        now_ns < self.apart_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn an_answer_long_before_its_turn_shows_that_nothing_is_held_up() {
        let [one, other] = [1, 2].map(ConnectionId);
        let mut trial = Trial::default();
        for (begun_ns, answer, shows) in [
            (1, (one, 9, 2 * MS), false),
            (2 * APART_NS, (other, 9, MS), false),
            (4 * APART_NS, (one, 6, MS), false),
            (6 * APART_NS, (one, 7, 2 * MS - 1), true),
        ] {
            assert!(trial.is_due(begun_ns));
            trial.begin(one, 7, begun_ns, 4 * MS);
            assert!(!trial.is_due(begun_ns + EVERY_WAITS * 4 * MS - 1));
            let (from, largest, after_ns) = answer;
            let now_ns = begun_ns + after_ns;
            assert_eq!(trial.on_answer(from, largest, now_ns), shows, "{answer:?}");
            assert!(!trial.on_answer(from, largest, now_ns), "once");
            for (later_ns, lasts) in [(APART_NS - 1, shows), (APART_NS, false)] {
                assert_eq!(trial.holds_nothing_up(now_ns + later_ns), lasts);
            }
        }
    }
}
