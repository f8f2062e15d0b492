//! A peer that loses more packets than the others: its path is narrower than our link. It may be shared with what other receivers
//! have granted; that we go slower by ourselves changes nothing there, so that the test of our link acquits it, and where all
//! send to all over a link in the middle, each packet went four times. Or others use most of our link, and a part of it is still more
//! than such a path carries. So once the test has acquitted the link, or while the others lose next to nothing, what such a
//! peer may have on its way shrinks with what it loses, and grows while it loses nothing, as under any congestion control:
//! all receivers do the same.

use super::Arrival;

/// A round lasts two round trips and this much, so that it shows what the one before has changed, ...
const ROUND_NS: u64 = 300_000;
/// ... and brings so many packets at least.
const ROUND_PACKETS: u32 = 16;
/// Fewer than this lost in a round are bad luck, ...
const LOST: u32 = 3;
/// ... and so is this part, beyond what the path loses by itself: links that lose 5 % are not slowed down.
const HARMLESS_LOSS: f64 = 0.1;
/// What a path loses by itself varies by this factor.
const OWN_VARIES: f64 = 1.5;
/// So many bad rounds in a row are no accident: messages begin with bursts.
const BAD_ROUNDS: u8 = 3;
/// Who loses so many times what all lose together, and more than chance explains (standard deviations), does not lose it where
/// the others pass.
const APART: f64 = 1.5;
const CHANCE: f64 = 3.0;
/// A path may hold more than the queue before the narrow link does, so that what is granted at once would overflow it: grants are
/// this part of the window at most, ...
const GRANTS: u64 = 32;
/// ... and leave at so many windows in a round trip, ...
const PACE: f64 = 1.25;
/// ... or as many more as came due while a host was this late.
const LATE_NS: u64 = 100_000;
/// A bad round costs this part of what it has lost, as a part of the window.
const CUT: f64 = 0.5;
/// The least window, in full packets.
const LEAST_PACKETS: u64 = 2;
/// After so many more bad rounds the path loses by itself, whatever we do.
const LEAST_ROUNDS: u8 = 8;
/// A good round brings a full packet more, and this part, which doubles with each one in a row: on long paths rounds are
/// few, and who was there for a while only should leave no trace ...
const GROWTH: u64 = 16;
/// ... up to this part.
const MOST_GROWTH: u64 = 2;
/// A window of so many times what the peer has used, and of a train of so many packets, is no bound.
const WIDE: u64 = 4;
const WIDE_PACKETS: u64 = 64;

/// What a round has brought, and what was missing of it.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    packets: u32,
    lost: u32,
}

/// What all peers lose, as a part of their packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Common {
    /// Together, if our link is not to blame for that.
    pub acquitted: Option<f64>,
    /// Those together that are not narrow, if there are others.
    pub others: Option<f64>,
}

impl Common {
    /// Whether a peer that has lost so much of so many packets loses more than that.
    fn is_exceeded(&self, lost: u32, packets: u32) -> bool {
        let (lost, packets) = (f64::from(lost), f64::from(packets));
        let is_apart = |others: f64| {
            let expected = others * packets;
            lost > APART * expected + CHANCE * expected.sqrt()
        };
        self.acquitted.is_some_and(|usual| lost > usual * packets)
            || self.others.is_some_and(is_apart)
    }
}

/// What one peer may have on its way because of what it loses, in charge.
#[derive(Debug)]
pub(super) struct Narrow {
    most: u64,
    /// What that grows to, as packets come: at once it would be a burst.
    goal: u64,
    /// The largest window of this round.
    held: u64,
    since_ns: u64,
    /// When the next grant may be made.
    next_ns: u64,
    round: Tally,
    /// The round before, of which what was late has come by now.
    before: Tally,
    /// Loss that the path was found to have by itself.
    own: f32,
    /// Rounds in a row that lost much, lost much with the least window, and did not.
    bad: u8,
    bad_at_least: u8,
    good: u8,
}

impl Default for Narrow {
    fn default() -> Self {
        Narrow {
            most: u64::MAX,
            goal: u64::MAX,
            held: 0,
            since_ns: 0,
            next_ns: 0,
            round: Tally::default(),
            before: Tally::default(),
            own: 0.0,
            bad: 0,
            bad_at_least: 0,
            good: 0,
        }
    }
}

impl Narrow {
    /// What the peer may have on its way.
    #[inline]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Whether that is bounded.
    #[inline]
    pub fn is_bound(&self) -> bool {
        self.most != u64::MAX
    }

    /// What it may be granted at a time.
    #[inline]
    pub fn quantum(&self) -> u64 {
        self.most / GRANTS
    }

    /// When it may be granted more.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// It was granted so much.
    #[inline]
    pub fn on_grant(&mut self, charge: u64, rtt_ns: u64, now_ns: u64) {
        if self.is_bound() {
            let takes_ns = rtt_ns as f64 * charge as f64 / (PACE * self.most as f64);
            self.next_ns = self.next_ns.max(now_ns.saturating_sub(LATE_NS)) + takes_ns as u64;
        }
    }

    /// Takes in a batch of packets that were sent within `window`.
    #[inline]
    pub fn on_arrival(&mut self, arrival: &Arrival, window: u64) {
        self.held = self.held.max(window);
        if self.most < self.goal {
            // Within a round, which brings two windows.
            let more = arrival.charge / (2 * self.part());
            self.most = self.goal.min(self.most + more);
        }
        self.round.packets = self.round.packets.saturating_add(arrival.packets);
        self.round.lost = self.round.lost.saturating_add(arrival.lost);
        let mut late = arrival.late;
        for tally in [&mut self.before, &mut self.round] {
            let filled = late.min(tally.lost);
            tally.lost -= filled;
            late -= filled;
        }
    }

    /// Ends the round if it is over.
    #[inline]
    pub fn tick(&mut self, full: u64, common: Common, rtt_ns: u64, now_ns: u64) {
        let packets = self.round.packets.saturating_add(self.round.lost);
        let over = now_ns.saturating_sub(self.since_ns) > 2 * rtt_ns + ROUND_NS;
        if over && packets >= ROUND_PACKETS {
            self.since_ns = now_ns;
            self.end_round(full, common);
        }
    }

    /// Judges the round before, and begins the next one.
    fn end_round(&mut self, full: u64, common: Common) {
        let round = std::mem::replace(&mut self.before, std::mem::take(&mut self.round));
        let held = std::mem::take(&mut self.held);
        let packets = round.packets.saturating_add(round.lost);
        if packets == 0 {
            return;
        }
        let loss = f64::from(round.lost) / f64::from(packets);
        let harmless = HARMLESS_LOSS + OWN_VARIES * f64::from(self.own);
        let is_bad = loss > harmless && common.is_exceeded(round.lost, packets);
        match is_bad && round.lost >= LOST {
            true => self.shrink(held, loss, LEAST_PACKETS * full),
            false => self.grow(held, full),
        }
    }

    fn shrink(&mut self, held: u64, loss: f64, least: u64) {
        self.good = 0;
        self.bad = self.bad.saturating_add(1);
        if !self.is_bound() && self.bad < BAD_ROUNDS {
            return;
        }
        if self.most > least {
            let used = self.most.min(held) as f64;
            self.most = ((used * (1.0 - CUT * loss)) as u64).max(least);
            self.goal = self.most;
            return;
        }
        self.bad_at_least += 1;
        if self.bad_at_least == LEAST_ROUNDS {
            *self = Narrow {
                own: loss as f32,
                since_ns: self.since_ns,
                ..Narrow::default()
            };
        }
    }

    /// The part of the window by which a good round lets it grow.
    fn part(&self) -> u64 {
        (GROWTH >> self.good.min(8)).max(MOST_GROWTH)
    }

    fn grow(&mut self, held: u64, full: u64) {
        self.bad = 0;
        self.bad_at_least = 0;
        if !self.is_bound() {
            return;
        }
        let part = self.part();
        self.good = self.good.saturating_add(1);
        self.goal = self.most + full + self.most / part;
        if self.goal > WIDE * held + WIDE_PACKETS * full {
            self.most = u64::MAX;
            self.goal = u64::MAX;
            self.own = 0.0;
        } else if held < self.most {
            // Who does not use it all makes no burst of more.
            self.most = self.goal;
        }
    }
}
