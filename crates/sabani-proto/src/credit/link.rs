//! What the receiver knows of its own link, and how much may be on its way over it.

use super::blame::{Blame, Finding};
use super::narrow::Common;
use super::queue::{Brought, Queue};
use super::rate::{Bound, Rate, worth};
use super::startup::{self, Startup, Step};
use super::{Arrival, BASE_FULL, CreditConfig};

/// Round trip of a path before it is known, in nanoseconds: two hosts at one switch.
pub(super) const ASSUMED_RTT_NS: u64 = 100_000;
/// What a window of start-up takes before the rate is known, in nanoseconds: 25 Mbit/s.
const UNKNOWN_NS: u64 = 10_000_000;
/// A rate that has fallen to this part's inverse is not believed but looked for anew, if what may be on its way could no longer bring what
/// it was: else it is not that which keeps it low. (Where four flows shared a link in the middle, each doubled again and again what it had on
/// its way: 0.8 MB waited there, 0.13 s of 50 Mbit/s, and the same four in both directions took a tenth longer.)
/// It is not believed either where loss slows grants down to it: peers that paused for 70 ms left 40 kB/s, and what had come then was what had
/// been granted, for seconds.
const COLLAPSE: f64 = 4.0;
/// While loss is looked into, it is one that has fallen to this part's inverse: a test compares what is lost at one pace with what is lost at another,
/// but at 40 kB/s it takes 8 s.
const COLLAPSE_IN_TEST: f64 = COLLAPSE * COLLAPSE;
/// More of the queue's term than this is not granted at a time, in full packets: two trains.
const TRAINS: u64 = 128;
/// A long path's content is granted in so many parts, and one more is on its way while the room for
/// it is still being made.
const QUANTA: f64 = 64.0;
/// Paced grants of start-up may save up this part of the path's queue.
const STARTUP_BUCKET: f64 = 0.5;
/// So many who wait over a long path fill its queue with one window at once: 16 of them with 256 KiB each took 0.8 s over 50 ms, and
/// 0.2 s paced. Of fewer, trains show a fast link at once.
const CROWD: usize = 4;
/// What is shorter is not long, for all that is known: where many shake hands at a time, they fill the queue, and 64 KiB of it take
/// 2.6 ms at 200 Mbit/s. (With 1 ms, 400 who send 64 KiB each take up to 1.30 times the ideal there, and not 1.17.)
const LONG_NS: u64 = 4_000_000;
/// So many packets more leave in a round trip over a long path that seems to hold no more than a few, as the window of TCP grows by
/// one: where a few clumps come in a round trip, samples show a packet less of each, and a rate that start-up had left far
/// too low stayed there for seconds.
const MORE_PACKETS: f64 = 2.0;
const LOW_PACKETS: f64 = 64.0;
/// A sample spans at least this much once start-up is over: hosts read some tens of microseconds
/// late, which makes the largest of many short ones up to a seventh too high, and the queue's term
/// then grows to reach what no link carries.
const SAMPLE_LEAST_NS: u64 = 500_000;
/// A sample need not span more than this, however long the path: a program that sends now and then
/// would show its own rate, not the link's.
const SAMPLE_MOST_NS: u64 = 4_000_000;
/// Grants leave a little faster than the link's rate, or errors of its estimate would only ever
/// make it fall (with random loss, 600 ms: 0.79 of the link without, 0.86 with).
const PACE: f64 = 1.05;
/// While a larger window is tried the pace must not be the limit.
const TRIAL_PACE: f64 = 2.0;
/// The pace at which what is on its way grows to what may be: no faster, or all of it goes to whoever asks first, and where
/// all send to all that is the same host everywhere, whose uplink then has to bring what all others wait for.
const MOST_PACE: f64 = 1.5;
/// Leave to grant that may be saved up, beside what is granted at a time: what came due while a host was this late, in
/// nanoseconds, ...
const LATE_NS: f64 = 100_000.0;
/// ... or so many times as late as it usually is when grants are due (16 hosts that exchange 64 KiB at 1 Gbit/s, late by 0.3 ms: 0.20 of
/// their links with 100 us, and 0.36), ...
const LATE_TIMES: f64 = 2.0;
/// ... in the mean over so many times; ...
const LATE_MEAN: f64 = 8.0;
/// ... or this late at most, for so much the queue's term covers at most on short paths. There, who only receives saves up all of it. A
/// longer path carries as much by itself, and beside TCP it took 0.62 of the link for 0.57 (20 ms, 50 Mbit/s).
const MOST_LATE_NS: f64 = 400_000.0;
/// A host only receives if it has sent little for so many rounds: where all send to all, it does so now and then.
const RECEIVING_ROUNDS: u32 = 8;
/// A round of the queue's controller, in nanoseconds, if two round trips and so many packets as it must have room for are shorter.
const ROUND_NS: u64 = 1_000_000;
/// A host that sends this part of what it receives, or more, has words about credit wait behind its own data.
const DUPLEX_PART: u64 = 4;
/// So many peers are few.
const FEW: usize = 2;
/// So much more may be on its way then, as a multiple of the queue's term: credit that waits elsewhere keeps our
/// link idle, and does not lengthen our queue. Where few send, and where many do, whose uplinks are busy with others: with
/// four times there, 16 hosts that exchange 64 KiB get 0.70 of their links, with twice 0.74.
const DUPLEX_FEW: f64 = 4.0;
const DUPLEX_MANY: f64 = 2.0;
/// What may be on its way is granted in so many parts, ...
const PARTS: f64 = 2.0;
/// ... or these: the fewer there are, the more often all of them wait elsewhere at a time. Of what links carry,
/// with both: rings of 8 hosts 0.86 -> 0.91, pairs that exchange 1 MiB at a time 0.84 -> 0.90.
const DUPLEX_PARTS: f64 = 8.0;
/// Or in as many as take so long, or so many packets: a host that only receives may do so from one that receives as well, and is granted
/// more behind that. Slow links carried 0.75 of what they can to the last of three hosts in a row; on fast ones words are few enough.
/// (With two packets in each, and one packet in a hundred lost, a flow of 50 Mbit/s gets 0.86 of its link, and 0.90 with four.) Not on
/// longer paths: beside TCP, 20 ms and 50 Mbit/s, a flow took 0.72 of the link so, and takes half of it.
const PART_NS: f64 = 500_000.0;
const PART_PACKETS: u64 = 4;
/// Trials on short paths are shorter, so that a fast link is filled within a few of these.
const TRIAL_ROUND_NS: u64 = 300_000;

/// Whether what comes shows what the link carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    /// Somebody wants more credit.
    pub limited: bool,
    /// Peers do not use what they have.
    pub unused: bool,
    /// So many want any.
    pub waiting: usize,
    /// How many have sent lately.
    pub senders: u32,
}

/// A round of the queue's controller.
#[derive(Debug, Default)]
struct Round {
    since_ns: u64,
    worth: u64,
    limited: bool,
    /// Bytes that this host has sent meanwhile.
    sent: u64,
}

/// Rate, queue and pace of the receiver's link.
#[derive(Debug)]
pub(super) struct Link {
    /// Charge of the largest full datagram among those of present senders.
    full: u64,
    socket_share: f64,
    rtt_ns: u64,
    rate: Rate,
    queue: Queue,
    blame: Blame,
    startup: Option<Startup>,
    /// Rate at the end of start-up, or the largest since.
    settled: f64,
    /// Data have come since the socket was last empty.
    brought: bool,
    round: Round,
    /// This host has sent about as much as it has received: so many times the queue's term may be on its way.
    duplex: Option<f64>,
    /// Rounds in which something has come since this host last did so.
    receiving: u32,
    tokens: f64,
    tokens_ns: u64,
    /// How late this host usually is when grants are due.
    late_ns: f64,
    /// Many waited for credit at the last look, and their paths are long.
    crowded: bool,
    /// Changes whenever caps have.
    pub version: u64,
}

impl Link {
    pub fn new(config: &CreditConfig) -> Self {
        let socket_share = config.socket_share();
        Link {
            full: BASE_FULL,
            socket_share: socket_share as f64,
            rtt_ns: 0,
            rate: Rate::default(),
            // Half, so that one peer that stalls leaves as much to others.
            queue: Queue::new(BASE_FULL, socket_share / 2),
            blame: Blame::new(),
            startup: Some(Startup::new(BASE_FULL, socket_share as f64)),
            settled: 0.0,
            brought: false,
            round: Round::default(),
            crowded: false,
            duplex: None,
            receiving: 0,
            tokens: 0.0,
            tokens_ns: 0,
            late_ns: 0.0,
            version: 0,
        }
    }

    #[inline]
    pub fn full(&self) -> u64 {
        self.full
    }

    /// Paths now carry datagrams of this charge at most.
    #[inline]
    pub fn set_full(&mut self, full: u64) {
        if full != self.full {
            self.full = full;
            self.queue.set_full(full);
            // Until that was known more or fewer of them were lost than the path loses of these.
            self.blame = Blame::new();
            if let Some(startup) = &mut self.startup {
                startup.set_full(full);
            }
            self.version += 1;
        }
    }

    /// Rate in charge per nanosecond; zero before it is known.
    pub fn rate(&self) -> f64 {
        self.rate.get()
    }

    /// Estimate of the path's queue, in charge.
    pub fn queue(&self) -> u64 {
        self.queue.size() as u64
    }

    /// What all peers lose; `alone`: there is but one.
    #[inline]
    pub fn common_loss(&self, alone: bool) -> Common {
        Common {
            acquitted: self.blame.acquitted_loss(),
            others: (!alone).then_some(self.blame.mean_loss()),
        }
    }

    /// How long what we keep in the queue takes to leave it.
    pub fn own_queue_ns(&self) -> u64 {
        match self.rate() {
            0.0 => 0,
            rate => (self.ahead() / rate) as u64,
        }
    }

    /// What may be on its way beyond the path's content.
    fn ahead(&self) -> f64 {
        let term = self.queue.term();
        match self.duplex {
            Some(times) => (times * term).min(self.queue.size() / 2.0).max(term),
            None => term,
        }
    }

    /// How long `charge` takes on the link.
    #[inline]
    pub fn path_ns(&self, charge: u64) -> u64 {
        match self.rate() {
            0.0 => UNKNOWN_NS,
            rate => (charge as f64 / rate) as u64,
        }
    }

    /// Usual round trip of those who send.
    pub fn rtt_ns(&self) -> u64 {
        if self.rtt_ns == 0 {
            ASSUMED_RTT_NS
        } else {
            self.rtt_ns
        }
    }

    /// What the link carries is not known yet.
    #[inline]
    pub fn is_starting(&self) -> bool {
        self.startup.is_some()
    }

    /// What one peer at this distance may have on its way if it is alone.
    #[inline]
    pub fn cap(&self, rtt_ns: u64) -> u64 {
        let path = self.rate() * rtt_ns as f64;
        let cap = match &self.startup {
            Some(startup) => startup.window().max(path + self.ahead()),
            None => self.blame.slow() * path * (1.0 + 1.0 / QUANTA) + self.ahead(),
        };
        (cap as u64).clamp(2 * self.full, u64::from(u32::MAX))
    }

    /// What all peers may hold together, those included that do not use it: the path's content and
    /// the socket's share.
    pub fn ceiling(&self) -> u64 {
        (self.rate() * self.rtt_ns() as f64 + self.socket_share) as u64
    }

    /// What is granted at a time: a part of what may wait, so that several may be under way, and more
    /// on long paths, or acknowledgements would be half of all packets.
    pub fn quantum(&self) -> u64 {
        self.one_of(match self.duplex {
            Some(_) => DUPLEX_PARTS,
            None if self.is_short() => {
                let part = (PART_NS * self.rate()).max((PART_PACKETS * self.full) as f64);
                (self.ahead() / part).clamp(PARTS, DUPLEX_PARTS)
            }
            None => PARTS,
        })
    }

    /// One of so many parts of what may wait.
    fn one_of(&self, parts: f64) -> u64 {
        let at_once = self.queue.at_once();
        let quantum = match &self.startup {
            Some(startup) if self.is_paced() => (startup.window() / 6.0).min(at_once),
            Some(startup) => startup.window() / 6.0,
            None => {
                let path = self.rate() * self.rtt_ns() as f64;
                let ahead = (self.ahead() / parts).min((TRAINS * self.full) as f64);
                ahead + (path / QUANTA).min(at_once)
            }
        };
        // Whole packets, or the rest of each grant would be of no use.
        (quantum as u64 / self.full).max(2) * self.full
    }

    /// Something came from a peer at distance `rtt_ns` (0: unknown). What one loses that `is_narrow` it does not lose here.
    #[inline]
    pub fn on_arrival(&mut self, arrival: &Arrival, rtt_ns: u64, is_narrow: bool) {
        let worth = worth(arrival.charge, arrival.bytes, arrival.packets);
        self.rate.add(worth);
        self.round.worth += worth;
        self.brought |= worth > 0;
        if let Some(startup) = &mut self.startup {
            startup.add(arrival.advanced, worth);
        }
        if !is_narrow {
            self.blame.add(arrival.packets, arrival.lost, arrival.late);
        }
        self.blame.add_marked(arrival.marked);
        if rtt_ns > 0 && worth > 0 {
            self.rtt_ns = match self.rtt_ns {
                0 => rtt_ns,
                old => (7 * old + rtt_ns) / 8,
            };
        }
    }

    /// This host has sent as well.
    #[inline]
    pub fn on_sent(&mut self, bytes: u64) {
        self.round.sent += bytes;
    }

    /// So much charge is on its way now.
    #[inline]
    pub fn note_on_way(&mut self, charge: u64) {
        self.blame.note_on_way(charge);
    }

    /// Nobody waits for credit, and nothing that was granted is on its way.
    pub fn pause(&mut self) {
        if self.rate.pause() {
            self.queue.pause();
            self.round.limited = false;
        }
    }

    /// Draws conclusions from what was read; `empty`: nothing else has come.
    pub fn tick(&mut self, pressure: Pressure, empty: bool, now_ns: u64) {
        let Pressure {
            limited,
            unused,
            waiting,
            senders,
        } = pressure;
        let brought = match empty {
            true => std::mem::take(&mut self.brought),
            false => self.brought,
        };
        // Between the trains of start-up acknowledgements of our own messages may come, which show nothing.
        if self.startup.is_some() && !brought {
            return;
        }
        let rtt_ns = self.rtt_ns();
        let rate = self.rate();
        let least_ns = if self.startup.is_some() {
            0
        } else {
            rtt_ns.clamp(SAMPLE_LEAST_NS, SAMPLE_MOST_NS)
        };
        let delivered = 1.0 - self.blame.harmless_loss();
        let took_ns = self
            .rate
            .tick(self.full, least_ns, delivered, empty, now_ns);
        // While we go slower than the link, credit being the limit says nothing of it.
        let at_rate = self.blame.slow() == 1.0;
        let bound = match self.blame.is_testing() {
            true => Bound::Test,
            false if limited && !unused && at_rate => Bound::Credit,
            false => Bound::Senders,
        };
        self.rate.roll(rtt_ns, bound, now_ns);
        if self.rate() != rate {
            self.version += 1;
        }
        match self.blame.tick(rtt_ns, self.startup.is_some(), now_ns) {
            Some(Finding::Overflow) => self.on_overflow(now_ns),
            Some(Finding::Marked) => {
                self.on_overflow(now_ns);
                self.queue.on_guilty();
            }
            Some(Finding::Guilty) => self.queue.on_guilty(),
            Some(Finding::Acquitted) => self.queue.on_acquitted(),
            None => {}
        }
        let usage = startup::Use {
            limited,
            in_clumps: senders > 1 && self.rtt_ns() >= LONG_NS,
            paced: self.is_paced(),
        };
        self.crowded = waiting >= CROWD && self.rtt_ns() >= LONG_NS;
        if let Some(startup) = &mut self.startup {
            let rate = self.rate.get();
            match startup.tick(took_ns, rate, rtt_ns, usage, now_ns) {
                Step::None => {}
                Step::Doubled => self.version += 1,
                Step::Over => self.end_startup(limited, waiting, now_ns),
            }
        } else {
            self.tick_round(limited, waiting, now_ns);
            self.settled = self.settled.max(self.rate());
            if self.has_collapsed() {
                self.restart();
            }
        }
    }

    /// It brings far less than it did, and more on its way, or sooner, may be what it lacks.
    fn has_collapsed(&self) -> bool {
        let lacks = self.settled * self.rtt_ns() as f64 > self.ahead();
        let is_below = |part: f64| self.rate() < self.settled / part;
        // Because of loss grants leave at what the link is believed to carry, and no faster.
        let is_slowed = self.blame.slow() < 1.0;
        match is_slowed && !lacks && self.blame.is_testing() {
            true => is_below(COLLAPSE_IN_TEST),
            false => (lacks || is_slowed) && is_below(COLLAPSE),
        }
    }

    /// The path was interrupted, or is another one: what it carries is found by doubling again.
    fn restart(&mut self) {
        let window = self.cap(self.rtt_ns()) as f64;
        self.startup = Some(Startup::at(window, self.socket_share));
        self.blame.give_up_test();
        self.queue.pause();
        self.version += 1;
    }

    fn on_overflow(&mut self, now_ns: u64) {
        self.version += 1;
        let (rate, rtt_ns) = (self.rate(), self.rtt_ns());
        let held = self.blame.most_on_way() as f64 - rate * rtt_ns as f64;
        self.queue.on_overflow(held, rtt_ns, now_ns);
        if let Some(startup) = &mut self.startup {
            startup.on_overflow(rate, self.full);
        }
    }

    /// What the link carries is known.
    fn end_startup(&mut self, limited: bool, waiting: usize, now_ns: u64) {
        let Some(startup) = self.startup.take() else {
            return;
        };
        let (rate, rtt_ns) = (self.rate(), self.rtt_ns());
        let proven = startup.proven() - rate * rtt_ns as f64;
        self.queue
            .settle(proven.max(0.0), waiting <= 1, rate, rtt_ns);
        self.settled = rate;
        self.tokens = self.bucket();
        self.tokens_ns = now_ns;
        self.start_round(limited, now_ns);
        self.version += 1;
    }

    fn tick_round(&mut self, limited: bool, waiting: usize, now_ns: u64) {
        // What is granted comes back after the round trip and the queue, whatever makes it wait.
        let loop_ns = self.rtt_ns() + self.own_queue_ns();
        let packets_ns = self.path_ns(self.queue.round_packets() * self.full);
        let least_ns = if self.queue.is_trying() {
            TRIAL_ROUND_NS.max(3 * loop_ns)
        } else {
            ROUND_NS.max(2 * loop_ns).max(packets_ns)
        };
        let took_ns = now_ns.saturating_sub(self.round.since_ns);
        self.round.limited &= limited;
        if took_ns <= least_ns {
            return;
        }
        if self.round.limited {
            let brought = Brought {
                rate: self.round.worth as f64 / took_ns as f64,
                paced: self.blame.slow(),
                stretch: (packets_ns as f64 / ROUND_NS as f64).max(1.0),
                packet: self.full as f64 / took_ns as f64,
                duplex: self.duplex.is_some(),
                alone: waiting <= 1,
            };
            self.queue
                .on_round(brought, self.rate(), self.rtt_ns(), now_ns);
        } else {
            self.queue.pause();
        }
        let times = if waiting <= FEW {
            DUPLEX_FEW
        } else {
            DUPLEX_MANY
        };
        self.duplex = (DUPLEX_PART * self.round.sent > self.round.worth).then_some(times);
        self.receiving = match self.duplex {
            Some(_) => 0,
            None => self
                .receiving
                .saturating_add(u32::from(self.round.worth > 0)),
        };
        self.version += 1;
        self.start_round(limited, now_ns);
    }

    fn start_round(&mut self, limited: bool, now_ns: u64) {
        self.round = Round {
            since_ns: now_ns,
            limited,
            ..Round::default()
        };
    }

    /// A path that carries little by itself.
    fn is_short(&self) -> bool {
        (self.rtt_ns() as f64) < MOST_LATE_NS
    }

    /// Whether grants wait for leave. In start-up they don't, for what comes at once shows what the link carries, unless
    /// many wait and paths are long, or a window has overflowed where they are not short: a queue of 16 packets let so many through in each
    /// round trip of 100 ms, and the rest went again, 67 times each.
    fn is_paced(&self) -> bool {
        match &self.startup {
            Some(startup) => self.crowded || (startup.has_overflowed() && !self.is_short()),
            None => true,
        }
    }

    /// Charge per nanosecond that grants may take. Not less than the queue's term for each round trip, on short paths
    /// up to [`MOST_PACE`], or to the rate that once was: a rate that was found to be low must be able to show that it is not. (It is where
    /// a link in the middle brought little, and then a near host sends: 64 KiB at 100 Mbit/s took 45 ms.) But while loss is looked into
    /// nothing would slow down.
    fn pace(&self) -> f64 {
        if let Some(startup) = &self.startup {
            return startup::PACE * startup.window() / self.rtt_ns() as f64;
        }
        let gain = if self.queue.is_trying() {
            TRIAL_PACE
        } else {
            PACE
        };
        let slow = self.blame.slow();
        if slow < 1.0 {
            return gain * slow * self.rate();
        }
        let rtt_ns = self.rtt_ns() as f64;
        let most = self.settled.max(MOST_PACE * self.rate());
        let least = (self.queue.term() / rtt_ns).min(most);
        let full = self.full as f64;
        let is_low = self.rtt_ns() >= LONG_NS && self.rate() * rtt_ns < LOW_PACKETS * full;
        let more = if is_low {
            MORE_PACKETS * full / rtt_ns
        } else {
            0.0
        };
        (gain * self.rate()).max(least) + more
    }

    /// Most leave to grant that the pacer saves up: on long paths what is granted at a time may fill the queue already.
    fn bucket(&self) -> f64 {
        // Not the smaller parts of slow links: hosts that are late would save up less, and get less.
        let quantum = self.one_of(self.duplex.map_or(PARTS, |_| DUPLEX_PARTS)) as f64;
        if self.startup.is_some() {
            return quantum.max(STARTUP_BUCKET * self.queue.size());
        }
        let late_ns = match self.is_short() && self.receiving >= RECEIVING_ROUNDS {
            true => MOST_LATE_NS,
            false => LATE_NS.max((LATE_TIMES * self.late_ns).min(MOST_LATE_NS)),
        };
        (quantum + late_ns * self.rate()).min(self.queue.term().max(quantum))
    }

    /// Grants that were due are looked at so much later.
    #[inline]
    pub fn note_late(&mut self, late_ns: u64) {
        let late_ns = (late_ns as f64).min(MOST_LATE_NS);
        self.late_ns += (late_ns - self.late_ns) / LATE_MEAN;
    }

    /// Lets time pass for the pacer.
    #[inline]
    pub fn refill(&mut self, now_ns: u64) {
        if self.is_paced() {
            let bucket = self.bucket();
            let elapsed = now_ns.saturating_sub(self.tokens_ns) as f64;
            self.tokens = (self.tokens + elapsed * self.pace()).min(bucket);
            self.tokens_ns = now_ns;
        }
    }

    /// Takes leave for `charge` of grants; otherwise how long until there is leave.
    pub fn take(&mut self, charge: u64) -> Result<(), u64> {
        let charge = charge as f64;
        if !self.is_paced() {
            return Ok(());
        }
        if self.tokens >= charge {
            self.tokens -= charge;
            return Ok(());
        }
        Err(((charge - self.tokens) / self.pace()).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Data, datagram_cost};
    use crate::credit::CreditPolicy;

    const FULL: u64 = datagram_cost(1_472) as u64;
    const RTT_NS: u64 = 100_000;

    /// A link over which two send who want credit.
    struct Path {
        link: Link,
        now_ns: u64,
    }

    impl Path {
        /// So many packets come in this time, and so many are lost.
        fn bring(&mut self, packets: u32, lost: u32, took_ns: u64) {
            self.now_ns += took_ns;
            let charge = u64::from(packets) * FULL;
            let arrival = Arrival {
                charge,
                bytes: u64::from(packets) * 1_472,
                packets,
                lost,
                advanced: (charge + u64::from(lost) * FULL) as u32,
                data: Data::Long,
                ..Arrival::default()
            };
            let pressure = Pressure {
                limited: true,
                unused: false,
                waiting: 2,
                senders: 2,
            };
            self.link.on_arrival(&arrival, RTT_NS, false);
            self.link.tick(pressure, true, self.now_ns);
        }

        /// The same until that holds, but not for ever.
        fn bring_until(&mut self, packets: [u32; 2], took_ns: u64, is: impl Fn(&Link) -> bool) {
            let [packets, lost] = packets;
            for _ in 0..10_000 {
                if is(&self.link) {
                    return;
                }
                self.bring(packets, lost, took_ns);
            }
            panic!("{:?}", self.link);
        }
    }

    #[test]
    fn a_low_rate_that_loss_slows_grants_down_to_is_looked_for_anew_once_that_was_tested() {
        let config = CreditConfig {
            socket_bytes: 8 << 20,
            full_cost: FULL as u32,
            window_max: u32::MAX,
            expected_peers: 2,
            policy: CreditPolicy::default(),
        };
        let mut path = Path {
            link: Link::new(&config),
            now_ns: 0,
        };
        const MS: u64 = 1_000_000;
        path.bring_until([5, 0], MS, |link| !link.is_starting());
        let settled = path.link.rate();
        let low_ns = (2.0 * FULL as f64 / settled * 1.5 * COLLAPSE) as u64;
        path.bring_until([2, 0], low_ns, |link| link.rate() < settled / COLLAPSE);
        assert!(
            !path.link.is_starting(),
            "more on its way would not bring it"
        );
        path.bring_until([2, 1], low_ns, |link| link.blame.is_testing());
        path.bring_until([2, 0], low_ns, |link| {
            let tests = link.blame.is_testing();
            assert!(!(tests && link.is_starting()), "a test goes slower");
            !tests
        });
        assert!(path.link.is_starting(), "{:?}", path.link);
        // A rate that is hardly one is not tested.
        path.bring_until([5, 0], MS, |link| !link.is_starting());
        path.bring_until([5, 0], MS, |link| link.blame.slow() == 1.0);
        path.bring_until([2, 0], 70 * MS, |link| {
            link.rate() < settled / COLLAPSE_IN_TEST
        });
        path.bring_until([2, 1], 70 * MS, Link::is_starting);
        assert!(!path.link.blame.is_testing(), "{:?}", path.link);
    }
}
