//! Is the loss ours? Loss that stays when we slow down belongs to the path; loss that goes was
//! congestion. No other test told random loss, a shared core link and a shallow queue apart. Where
//! switches mark packets (ECN) there is nothing to be tested: they say so themselves.

/// A round lasts two round trips and this much, so that it shows what the one before has changed.
const ROUND_NS: u64 = 1_000_000;
/// Fewer packets than this say nothing about a loss rate.
const ROUND_PACKETS: u32 = 16;
/// A test compares so many packets at least, the round that has raised the suspicion apart. What is lost is lost in bursts:
/// where messages begin, a queue of a few packets overflows whatever the pace, and the rest of them comes through. Of slow
/// paths a round is a part of a message, and the next one would find us guilty, again and again.
const TEST_PACKETS: u32 = 128;
/// So many less must be lost, or it was one burst less.
const TEST_LOST: f64 = 10.0;
/// Fewer than this lost in a round are bad luck.
const LOST: u32 = 3;
/// Fewer than this marked in a round are a train that met another.
const MARKED: u32 = 3;
/// Loss above the usual that is not worth a suspicion.
const MARGIN: f64 = 0.02;
/// More loss than this is never taken for what the link has carried.
const MOST_HARMLESS: f64 = 0.1;
/// More loss than this is never taken for the path's own. Of a window that holds several times what the queue does, most is
/// lost at any pace: a test would acquit it for ever, with up to ten packets sent for each that arrives.
const MOST_OWN: f64 = 0.5;
/// So much that the path was found to lose by itself, or so much lost at all, may be other receivers' doing.
const MUCH_OWN: f64 = 0.06;
const MUCH: f64 = 0.3;
/// A suspicion slows down to this.
const TEST_PACE: f64 = 0.7;
/// A suspicion that held costs this much.
const GUILTY_PACE: f64 = 0.9;
/// Regained with each round without suspicion.
const RECOVERY: f64 = 0.01;
/// After a test that found the path guilty, none for so many rounds.
const REST_ROUNDS: u32 = 50;
/// A gap counts once it has stayed for so long, and at most twice that: on hosts with several cores whole trains
/// overtake each other by tens of microseconds, and sometimes by hundreds.
const SETTLE_NS: u64 = 300_000;
/// Packets over which the usual loss is averaged.
const MEMORY: f64 = 2_000.0;

/// What a round has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// So much was lost that a queue must have overflowed, unless the path always loses so much.
    Overflow,
    /// Switches have marked so many that a queue must be nearly full.
    Marked,
    /// The path does: a test has shown it.
    Acquitted,
    /// Loss went when we slowed down.
    Guilty,
}

/// Where a test stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    None,
    /// A round has lost much: is it so with as many packets as a test takes?
    Doubting(Tally),
    /// Slowed down; what comes in this round left before that.
    Settling,
    /// What comes from now on shows the effect.
    Looking(Tally),
}

/// What rounds have brought and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    packets: u32,
    lost: u32,
}

impl Tally {
    fn loss(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.packets)
    }

    fn and(self, round: Tally) -> Tally {
        Tally {
            packets: self.packets.saturating_add(round.packets),
            lost: self.lost.saturating_add(round.lost),
        }
    }
}

/// Loss of each round, and how much slower than the link we go because of it.
#[derive(Debug)]
pub(super) struct Blame {
    since_ns: u64,
    received: u32,
    lost: u32,
    /// Gaps that may still be filled: those found since `settled_ns`, and those found in as long a time before.
    fresh: [u32; 2],
    settled_ns: u64,
    marked: u32,
    /// The most that was on its way at a time: in this round, in the last one, and in that before.
    on_way: [u64; 3],
    /// Mean loss; the part of it that a test has found to be the path's, and the most of that.
    mean: f64,
    usual: f64,
    proven: f64,
    slow: f64,
    test: Test,
    slow_before: f64,
    loss_before: f64,
    rest: u32,
}

impl Blame {
    pub fn new() -> Self {
        Blame {
            since_ns: 0,
            received: 0,
            lost: 0,
            fresh: [0; 2],
            settled_ns: 0,
            marked: 0,
            on_way: [0; 3],
            mean: 0.0,
            usual: 0.0,
            proven: 0.0,
            slow: 1.0,
            test: Test::None,
            slow_before: 1.0,
            loss_before: 0.0,
            rest: 0,
        }
    }

    /// Part of the link's rate to use.
    pub fn slow(&self) -> f64 {
        self.slow
    }

    /// Loss of late, whosever it is.
    pub fn mean_loss(&self) -> f64 {
        self.mean
    }

    /// We go slower to see whether less is lost.
    pub fn is_testing(&self) -> bool {
        matches!(self.test, Test::Settling | Test::Looking(_))
    }

    /// What a link carries is looked for anew, at any pace: a test would show nothing.
    pub fn give_up_test(&mut self) {
        if self.is_testing() {
            self.slow = self.slow_before;
            self.test = Test::None;
        }
    }

    /// Loss of late, if going slower changes nothing: a test has shown that of much of it, or there is so much that none
    /// would show anything.
    pub fn acquitted_loss(&self) -> Option<f64> {
        (self.usual >= MUCH_OWN || self.mean >= MUCH).then_some(self.mean)
    }

    /// Loss that is not worth a suspicion, as a part of all packets: the link carried that as well.
    pub fn harmless_loss(&self) -> f64 {
        self.mean.min(self.usual + MARGIN).min(MOST_HARMLESS)
    }

    pub fn add(&mut self, received: u32, lost: u32, late: u32) {
        self.received = self.received.saturating_add(received);
        self.fresh[0] = self.fresh[0].saturating_add(lost);
        let [newest, older] = &mut self.fresh;
        let mut late = late;
        for gaps in [newest, older, &mut self.lost] {
            let filled = late.min(*gaps);
            *gaps -= filled;
            late -= filled;
        }
    }

    /// Counts the gaps that have stayed.
    fn settle(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.settled_ns) < SETTLE_NS {
            return;
        }
        let [newest, older] = self.fresh;
        self.lost = self.lost.saturating_add(older);
        self.fresh = [0, newest];
        self.settled_ns = now_ns;
    }

    /// So many of those that were received had been marked.
    pub fn add_marked(&mut self, marked: u32) {
        self.marked = self.marked.saturating_add(marked);
    }

    /// So much charge is on its way now.
    #[inline]
    pub fn note_on_way(&mut self, charge: u64) {
        self.on_way[0] = self.on_way[0].max(charge);
    }

    /// The most that was on its way while what the last round has lost was sent: it takes a while until gaps count.
    pub fn most_on_way(&self) -> u64 {
        self.on_way.into_iter().fold(0, u64::max)
    }

    /// Ends the round if it is over; `starting`: the rate is not known yet, and going slower changes nothing.
    pub fn tick(&mut self, rtt_ns: u64, starting: bool, now_ns: u64) -> Option<Finding> {
        self.settle(now_ns);
        let packets = self.received.saturating_add(self.lost);
        let over = now_ns.saturating_sub(self.since_ns) > 2 * rtt_ns + ROUND_NS;
        if packets < ROUND_PACKETS || !over {
            return None;
        }
        let round = Tally {
            packets,
            lost: self.lost,
        };
        let overflow = self.lost >= LOST && round.loss() > (3.0 * self.usual + 0.03).min(MOST_OWN);
        let marked = self.marked >= MARKED;
        let verdict = self.judge(round, starting);
        self.received = 0;
        self.lost = 0;
        self.marked = 0;
        self.on_way = [0, self.on_way[0], self.on_way[1]];
        self.since_ns = now_ns;
        let marked = marked.then_some(Finding::Marked);
        marked.or(verdict).or(overflow.then_some(Finding::Overflow))
    }

    fn judge(&mut self, round: Tally, starting: bool) -> Option<Finding> {
        let weight = (f64::from(round.packets) / MEMORY).min(1.0);
        self.mean += weight * (round.loss() - self.mean);
        self.rest = self.rest.saturating_sub(1);
        match self.test {
            Test::None if !starting && self.is_suspicious(round) => {
                self.test = Test::Doubting(Tally::default());
            }
            Test::None => {
                self.slow = (self.slow + RECOVERY).min(1.0);
                self.usual = (self.usual + weight * (round.loss() - self.usual)).min(self.proven);
            }
            Test::Doubting(tally) => {
                let tally = tally.and(round);
                self.test = Test::Doubting(tally);
                if tally.packets >= TEST_PACKETS {
                    self.begin_test(tally);
                }
            }
            Test::Settling => self.test = Test::Looking(Tally::default()),
            Test::Looking(tally) => {
                let tally = tally.and(round);
                self.test = Test::Looking(tally);
                if tally.packets >= TEST_PACKETS {
                    return self.end_test(tally);
                }
            }
        }
        None
    }

    fn begin_test(&mut self, tally: Tally) {
        self.test = Test::None;
        if self.is_suspicious(tally) {
            self.test = Test::Settling;
            self.loss_before = tally.loss();
            self.slow_before = self.slow;
            self.slow *= TEST_PACE;
        }
    }

    /// Once it is known whether less is lost now.
    fn end_test(&mut self, tally: Tally) -> Option<Finding> {
        let (before, loss) = (self.loss_before, tally.loss());
        let finding = if loss >= MOST_OWN {
            self.slow = self.slow_before;
            Finding::Overflow
        } else if loss > 0.6 * before {
            self.usual = self.usual.max((loss + before) / 2.0);
            self.proven = self.usual;
            self.rest = REST_ROUNDS;
            self.slow = self.slow_before;
            Finding::Acquitted
        } else if (before - loss) * f64::from(tally.packets) >= TEST_LOST {
            // The path's own is what is left of it at most.
            self.usual = self.usual.min(loss);
            self.proven = self.proven.min(loss);
            self.slow = GUILTY_PACE * self.slow_before;
            Finding::Guilty
        } else {
            return None;
        };
        self.test = Test::None;
        Some(finding)
    }

    /// More than the path's own loss, allowing for chance: two standard deviations at 1 %. And not so much that a test shows
    /// nothing.
    fn is_suspicious(&self, tally: Tally) -> bool {
        let chance = 2.0 * (0.01 / f64::from(tally.packets)).sqrt();
        let is_more = tally.loss() > 1.5 * self.usual + MARGIN + chance;
        tally.lost >= LOST && is_more && tally.loss() < MOST_OWN && self.rest == 0
    }
}
