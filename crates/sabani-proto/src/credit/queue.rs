//! How much may wait in the path's queue, and how much of that we use.
//!
//! A fixed small term starves when hosts answer late, a fixed large one makes short messages wait.
//! So the term begins small, grows while the link is not full, and shrinks slowly while it is.

/// Queue that a path is believed to have before anything is known, in full packets: the
/// shallowest port in common use (64 KiB).
pub(super) const FIRST_PACKETS: u64 = 48;
/// No queue is believed to hold less, and few paths work with less, in full packets: four grants of two.
const LEAST_PACKETS: u64 = 8;
/// The term covers this long at least: interrupts of hosts, and a train that is built at once.
const LEAST_NS: f64 = 100_000.0;
/// ... and this long at most. More is delay, and fills no link better, ...
const MOST_NS: f64 = 400_000.0;
/// ... but for this part of a round trip, which hosts and switches on the way may vary by: what is on its way has to cover
/// the usual round trip, and only the smallest is known. With less the rate falls, and what it takes for the path's content
/// with it, round by round.
const VARIES: f64 = 0.5;
/// A link that brings this part of its rate is full. The rate is a maximum, and as such a few
/// percent too high.
const FULL: f64 = 0.95;
/// The term shrinks by one part in so many with a round in which the link is full.
const SHRINKAGE: f64 = 64.0;
/// It grows by what covers so long at least, if that is less than a packet.
const STEP_NS: f64 = LEAST_NS / 8.0;
/// An overflow cuts the estimate to this.
const CUT: f64 = 0.7;
/// A size that overflowed is not come near again for this long, and for twice as long each time that it has overflowed again,
/// up to the most: what was lost for other reasons, of all sizes down to the least, must not hold a fast link for ten seconds.
const CAPPED_NS: u64 = 50_000_000;
const MOST_CAPPED_NS: u64 = 10_000_000_000;
/// So many round trips at least: over long paths it takes as many to come near it (128 messages of 4 MiB, 1 Gbit/s behind 10 Gbit/s and
/// 32 KiB, 20 ms there and back: 221 Mbit/s without, now 821; with twice as many 13 % go again at 40 ms).
const CAPPED_TRIPS: u64 = 8;
/// A queue of one size that is capped for so many times as long has overflowed again and again: growing while all go slower because of
/// that makes it overflow once more.
const OFTEN_TIMES: u64 = 4;
/// Of a queue that has overflowed this part is granted at a time at most, whatever a long path holds: it comes at once, maybe over a
/// cable that is faster than what is behind the queue (64 KiB before 1 Gbit/s, over 10 Gbit/s, 40 ms there and back, 256 MiB: 251 Mbit/s
/// without, half of it sent again, and 794 with 2 % again).
const PART_AT_ONCE: f64 = 0.25;
/// It is the same size if neither is more than so many times the other, and the last time is less than so many such times ago.
const SAME_SIZE: f64 = 2.0;
const SAME_TIMES: u64 = 4;
/// Near means this part of it.
const NEAR: f64 = 0.8;
/// Where hosts are late by more than that, a link whose rate is believed to be low would keep it low: trials cover so much,
/// if they bring half as much more as they are.
const TRIALS_NS: f64 = 8.0 * MOST_NS;
/// Rounds that bring less than this part of the rate are measured by what rounds usually bring: the rate is the largest
/// of samples, and where hosts are late it lies several times above all else.
const SELDOM: f64 = 0.5;
/// Weight of a round in what rounds usually bring.
const ROUND_WEIGHT: f64 = 0.25;
/// A larger term is kept if it brings half as much more as it is, within these: what a full link
/// brings differs by less than the one, and noisy hosts bring no more than the other.
const LEAST_GAIN: f64 = 0.05;
const MOST_GAIN: f64 = 0.15;
/// Rounds from a trial that brought nothing to the next, doubled each time up to the most.
const REST_ROUNDS: u32 = 8;
const MOST_REST_ROUNDS: u32 = 64;

/// How the term is kept: a link is filled better by more, and others wait behind that.
#[derive(Debug)]
struct Habit {
    /// The least of it, as a part of [`LEAST_PACKETS`]: what counts on links so slow that a packet takes longer than hosts do.
    least: f64,
    /// Packets that a round has room for at least: of fewer, it would not be seen that one in sixteen was missing.
    round_packets: u64,
    /// Packets that a round may lack and still show a full link, since it ends between two: on slow links that is more than
    /// the part that it may lack anyway.
    lacking: f64,
    /// While all go slower because of loss, a link is full at that pace. For one alone it is not: where 5 % are lost within 1 ms, and
    /// each packet is acknowledged, it gets 0.83 of its link so, and 0.75 otherwise; but see [`OFTEN_TIMES`].
    at_pace: bool,
    /// It grows by one part in so many with a round in which the link is not full: it stays where one round in nine is not, or
    /// in five. ...
    growth: f64,
    /// ... By this part of a packet at least. ...
    step: f64,
    /// ... Not beyond what covers so much. It may be as much already, where start-up or a trial has found it to be of use.
    grown_ns: f64,
    /// Most rounds from one trial to the next: it makes all wait twice as long meanwhile.
    most_rest: u32,
}

/// For one peer that wants credit alone: nobody waits but itself.
const ALONE: Habit = Habit {
    least: 1.0,
    round_packets: 0,
    lacking: 0.0,
    at_pace: false,
    growth: 8.0,
    step: 1.0,
    grown_ns: f64::INFINITY,
    most_rest: MOST_REST_ROUNDS,
};

/// For several while this host sends as well: where all send to all, links that wait for credit cost more than messages that wait.
const EXCHANGING: Habit = Habit {
    growth: 16.0,
    ..ALONE
};

/// For several that only send here. With one peer's values short messages among seven long flows take 17 times as long as without them at 50
/// Mbit/s, and 20 times at 200 Mbit/s (the slowest of a hundred), with these 6 and 9 to 13 times; the flows lose one part in a hundred.
const AMONG_OTHERS: Habit = Habit {
    least: 0.25,
    round_packets: 24,
    lacking: 1.5,
    at_pace: true,
    growth: 16.0,
    step: 0.5,
    grown_ns: 4.0 * MOST_NS,
    most_rest: 4 * MOST_REST_ROUNDS,
};

/// What a round has brought in which credit was the limit throughout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Brought {
    pub rate: f64,
    /// The part of the link's rate that was to be used: less while loss is looked into.
    pub paced: f64,
    /// How many usual rounds it lasted to have room for packets: a term that makes others wait for long shrinks by as much more.
    pub stretch: f64,
    /// What a full packet more makes of that: rounds end between packets.
    pub packet: f64,
    /// This host has sent as well: peers that answer late are busy with others, whom more on its way would make wait.
    pub duplex: bool,
    /// One peer alone wants credit: nobody waits behind what it has on its way.
    pub alone: bool,
}

/// A doubled term, tried for one round.
#[derive(Clone, Copy, Debug)]
struct Trial {
    term_before: f64,
    /// Rate that shows that more is of use.
    rate: f64,
}

/// A size that overflowed.
#[derive(Clone, Copy, Debug)]
struct Cap {
    size: f64,
    since_ns: u64,
    lasts_ns: u64,
}

impl Cap {
    /// What overflows now shows the same queue once more.
    fn is_of(&self, size: f64, now_ns: u64) -> bool {
        let is_same = size < SAME_SIZE * self.size && self.size < SAME_SIZE * size;
        is_same && now_ns < self.since_ns + SAME_TIMES * self.lasts_ns
    }
}

/// What is used of any queue, where the socket's buffer has room for `most`.
fn least(full: u64, most: f64) -> f64 {
    ((LEAST_PACKETS * full) as f64).min(most)
}

/// So long, or what the round trip varies by.
fn lateness(late_ns: f64, rtt_ns: u64) -> f64 {
    late_ns.max(VARIES * rtt_ns as f64)
}

/// For how long a size that has overflowed for the first time is not come near again.
fn capped_ns(rtt_ns: u64) -> u64 {
    CAPPED_NS.max(CAPPED_TRIPS * rtt_ns)
}

/// Estimate of the queue and the term that is used of it, in charge.
#[derive(Debug)]
pub(super) struct Queue {
    size: f64,
    term: f64,
    least: f64,
    /// What the socket's buffer has room for.
    most: f64,
    /// What last overflowed.
    capped: Option<Cap>,
    /// What a round usually brings, in charge per nanosecond.
    usual: f64,
    /// Size before cuts for loss of which nobody knows yet whether it was ours.
    uncut: Option<f64>,
    trial: Option<Trial>,
    /// Loss found until then may be a trial's.
    trial_until_ns: u64,
    /// Rounds until the next trial, and after it, should it bring nothing.
    rest: u32,
    next_rest: u32,
    habit: &'static Habit,
}

impl Queue {
    pub fn new(full: u64, most: u64) -> Self {
        let most = most as f64;
        let least = least(full, most);
        Queue {
            size: ((FIRST_PACKETS * full) as f64).min(most),
            term: least,
            least,
            most,
            capped: None,
            usual: 0.0,
            uncut: None,
            trial: None,
            trial_until_ns: 0,
            rest: 0,
            next_rest: REST_ROUNDS,
            habit: &ALONE,
        }
    }

    /// Full packets now have this charge.
    pub fn set_full(&mut self, full: u64) {
        self.least = least(full, self.most);
        self.size = self.size.max(self.least);
    }

    pub fn size(&self) -> f64 {
        self.size
    }

    /// What is used of the queue. At most half, for standing credit may be on its way as well.
    pub fn term(&self) -> f64 {
        self.term
    }

    /// What may come at once.
    pub fn at_once(&self) -> f64 {
        match self.capped {
            Some(_) => PART_AT_ONCE * self.size,
            None => f64::INFINITY,
        }
    }

    /// Packets that a round has room for at least.
    pub fn round_packets(&self) -> u64 {
        self.habit.round_packets
    }

    pub fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Start-up has found that so much beyond the path itself is of use and does no harm.
    pub fn settle(&mut self, proven: f64, alone: bool, rate: f64, rtt_ns: u64) {
        let proven = proven.min(self.useful(rate, rtt_ns)).max(LEAST_NS * rate);
        self.size = self.size.max(2.0 * proven).min(2.0 * self.most);
        (self.habit, self.term) = match alone {
            true => (&ALONE, self.term.max(proven)),
            false => (&AMONG_OTHERS, proven.min(lateness(MOST_NS, rtt_ns) * rate)),
        };
        self.bound(rate);
        self.rest = 0;
    }

    /// A round is over; `best` is the link's rate.
    pub fn on_round(&mut self, round: Brought, best: f64, rtt_ns: u64, now_ns: u64) {
        self.habit = match (round.alone, round.duplex) {
            (true, _) => &ALONE,
            (false, true) => &EXCHANGING,
            (false, false) => &AMONG_OTHERS,
        };
        match self.trial.take() {
            Some(trial) => self.end_trial(trial, round.rate, now_ns),
            None => self.resize(&round, best, rtt_ns, now_ns),
        }
        self.bound(best);
        match self.rest.min(self.habit.most_rest).checked_sub(1) {
            Some(rest) => self.rest = rest,
            None => self.try_more(best, round.duplex, rtt_ns, now_ns),
        }
    }

    fn end_trial(&mut self, trial: Trial, rate: f64, now_ns: u64) {
        self.trial_until_ns = now_ns;
        if rate < trial.rate {
            self.term = trial.term_before;
            self.rest = self.next_rest;
            self.next_rest = (2 * self.next_rest).min(self.habit.most_rest);
        } else {
            self.size = self.size.max(2.0 * self.term);
            self.next_rest = REST_ROUNDS;
            self.rest = 0;
        }
    }

    fn resize(&mut self, round: &Brought, best: f64, rtt_ns: u64, now_ns: u64) {
        let habit = self.habit;
        self.usual = match self.usual {
            0.0 => round.rate,
            usual => usual + ROUND_WEIGHT * (round.rate - usual),
        };
        let lacking = ((1.0 - FULL) * best).max(habit.lacking * round.packet);
        let at_pace = habit.at_pace
            || self
                .capped
                .is_some_and(|cap| cap.lasts_ns >= OFTEN_TIMES * capped_ns(rtt_ns));
        let full = best * if at_pace { round.paced } else { 1.0 };
        if round.rate < full - lacking {
            let packet = self.least / LEAST_PACKETS as f64;
            let step = (STEP_NS * best).clamp(habit.step * packet, packet);
            let more = (self.term / habit.growth).max(step);
            let most = self.covers(habit.grown_ns, best, rtt_ns).max(self.term);
            self.term = (self.term + more).min(most);
            self.extend(best, rtt_ns, now_ns);
        } else {
            let times = (self.term / (MOST_NS * best)).clamp(1.0, round.stretch);
            self.term -= self.term / SHRINKAGE * times;
        }
    }

    /// Rounds are interrupted: what a trial brings can't be told.
    pub fn pause(&mut self) {
        if let Some(trial) = self.trial.take() {
            self.term = trial.term_before;
        }
    }

    /// Something on the path has overflowed, while it held so much of ours at most. That says nothing of a queue that is
    /// believed to hold far less: start-up's window may overflow a queue whatever it holds.
    pub fn on_overflow(&mut self, held: f64, rtt_ns: u64, now_ns: u64) {
        if let Some(trial) = self.trial.take() {
            self.cap(2.0 * self.term, rtt_ns, now_ns);
            self.term = trial.term_before;
            self.trial_until_ns = now_ns;
            self.rest = self.habit.most_rest;
        } else if now_ns > self.trial_until_ns + 2 * rtt_ns {
            let overflowed = self.size.max(held);
            self.cap(overflowed, rtt_ns, now_ns);
            self.uncut.get_or_insert(self.size);
            self.size = (CUT * overflowed).max(self.least).min(self.size);
            self.term = self.term.min(self.size / 2.0);
        }
    }

    /// Loss went when less was on its way: the cuts were right.
    pub fn on_guilty(&mut self) {
        self.uncut = None;
    }

    /// Loss stayed: the cuts were wrong.
    pub fn on_acquitted(&mut self) {
        if let Some(size) = self.uncut.take() {
            self.size = self.size.max(size);
            self.capped = None;
        }
    }

    fn useful(&self, rate: f64, rtt_ns: u64) -> f64 {
        self.covers(MOST_NS, rate, rtt_ns)
    }

    /// What covers so much, between the least and what the socket's buffer has room for.
    fn covers(&self, late_ns: f64, rate: f64, rtt_ns: u64) -> f64 {
        (lateness(late_ns, rtt_ns) * rate)
            .max(self.least)
            .min(self.most)
    }

    /// So much has overflowed. While it is capped, that is the same event once more.
    fn cap(&mut self, size: f64, rtt_ns: u64, now_ns: u64) {
        let lasts_ns = match self.capped {
            Some(cap) if now_ns < cap.since_ns + cap.lasts_ns => cap.lasts_ns,
            Some(cap) if cap.is_of(size, now_ns) => (2 * cap.lasts_ns).min(MOST_CAPPED_NS),
            _ => capped_ns(rtt_ns),
        };
        self.capped = Some(Cap {
            size,
            since_ns: now_ns,
            lasts_ns,
        });
    }

    fn is_capped(&self, size: f64, now_ns: u64) -> bool {
        self.capped
            .is_some_and(|cap| size > NEAR * cap.size && now_ns < cap.since_ns + cap.lasts_ns)
    }

    fn extend(&mut self, rate: f64, rtt_ns: u64, now_ns: u64) {
        let size = self.size * 9.0 / 8.0;
        if self.term > self.size / 2.0
            && size <= 2.0 * self.useful(rate, rtt_ns)
            && !self.is_capped(size, now_ns)
        {
            self.size = size;
        }
    }

    fn bound(&mut self, rate: f64) {
        let high = (self.size / 2.0).min(self.most);
        let low = (LEAST_NS * rate)
            .max(self.habit.least * self.least)
            .min(high);
        self.term = self.term.clamp(low, high);
    }

    fn try_more(&mut self, rate: f64, duplex: bool, rtt_ns: u64, now_ns: u64) {
        let useful = self.useful(rate, rtt_ns);
        let most = match duplex {
            true => useful,
            false => self.covers(TRIALS_NS, rate, rtt_ns),
        };
        let term = (2.0 * self.term).min(most);
        let beyond = term > self.size / 2.0 && self.is_capped(2.0 * term, now_ns);
        if term < 1.25 * self.term || beyond {
            return;
        }
        let half = (term - self.term) / (rate * rtt_ns as f64 + self.term) / 2.0;
        let seldom = !duplex && self.usual < SELDOM * rate;
        let gain = match seldom || term > useful {
            true => half.max(LEAST_GAIN),
            false => half.clamp(LEAST_GAIN, MOST_GAIN),
        };
        self.trial = Some(Trial {
            term_before: self.term,
            rate: (1.0 + gain) * if seldom { self.usual } else { rate },
        });
        self.term = term;
    }
}
