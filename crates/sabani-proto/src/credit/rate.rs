//! How fast the receiver's link is: the largest rate at which data came in lately.

/// A sample takes at least this long: shorter ones measure how a host reads, not what the link
/// carries.
const SAMPLE_NS: u64 = 60_000;
/// A host that never empties its socket for so long is what the link's end carries.
const BACKLOG_NS: u64 = 2_000_000;
/// ... and at least this many full packets, or the moments of two packets decide.
const SAMPLE_PACKETS: u64 = 12;
/// The window of the maximum lasts this many round trips,
const WINDOW_ROUND_TRIPS: u64 = 10;
/// ... or this long, so that a pause of a host does not make the link look slow.
const WINDOW_NS: u64 = 20_000_000;
/// Wire overhead of a datagram in bytes: UDP, IP and Ethernet headers.
const AROUND_DATAGRAM: u64 = 42;

/// What an arrival is worth as a measure of the link, in charge. Small datagrams are charged many
/// times what they take on the wire; a rate learned from them would be far too high for others.
pub(super) fn worth(charge: u64, bytes: u64, packets: u32) -> u64 {
    charge.min(2 * (bytes + AROUND_DATAGRAM * u64::from(packets)))
}

/// What keeps more from coming than does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Bound {
    /// What was granted.
    Credit,
    /// Those who send.
    #[default]
    Senders,
    /// We do, to see what it changes.
    Test,
}

/// A moment at which a sample begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    at_ns: u64,
    /// Everything that had come by then was read. If not, what comes next is a backlog, which a host
    /// takes in faster than any link.
    clean: bool,
}

/// Largest rate seen, in charge per nanosecond.
///
/// Samples lie between moments at which the socket was empty. What was kept from the socket itself
/// comes faster than any link as well: such a sample follows one that is as much too low, so the
/// lower of two neighbours counts.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Start and content of the sample under way; no sample before data came.
    start: Option<Start>,
    worth: u64,
    /// Since when there has been something to read.
    busy_ns: Option<u64>,
    last: Option<f64>,
    /// Largest in this window, and in the one before.
    best: f64,
    before: f64,
    window_ns: u64,
    /// The bound all through this window, or that of the senders.
    bound: Bound,
}

impl Rate {
    pub fn get(&self) -> f64 {
        self.best.max(self.before)
    }

    /// Nothing was on its way: what comes next begins a new sample. Returns whether there was one.
    pub fn pause(&mut self) -> bool {
        self.worth = 0;
        self.last = None;
        self.bound = Bound::Senders;
        self.start.take().is_some()
    }

    pub fn add(&mut self, worth: u64) {
        self.worth += worth;
    }

    /// Closes a sample if it is due; `empty`: all that has come was read. `least_ns` is the time it
    /// must span, `delivered` the part that usual loss leaves. Returns the time that it took.
    pub fn tick(
        &mut self,
        full: u64,
        least_ns: u64,
        delivered: f64,
        empty: bool,
        now_ns: u64,
    ) -> Option<u64> {
        let next = Start {
            at_ns: now_ns,
            clean: empty,
        };
        let Some(start) = self.start else {
            // When these came, nobody knows: the sample begins behind them.
            if self.worth > 0 {
                self.begin(next);
            }
            return None;
        };
        if empty && !start.clean {
            self.begin(next);
            return None;
        }
        let took_ns = now_ns.saturating_sub(start.at_ns);
        let is_due = match self.backlog_ns(empty, now_ns) {
            None => took_ns >= SAMPLE_NS,
            Some(backlog_ns) => backlog_ns >= BACKLOG_NS,
        };
        if !is_due || took_ns < least_ns || self.worth < SAMPLE_PACKETS * full {
            return None;
        }
        let rate = self.worth as f64 / took_ns as f64 / delivered;
        self.begin(next);
        if let Some(last) = self.last.replace(rate) {
            self.best = self.best.max(rate.min(last));
        }
        Some(took_ns)
    }

    fn begin(&mut self, start: Start) {
        self.start = Some(start);
        self.worth = 0;
        self.busy_ns = (!start.clean).then_some(start.at_ns);
    }

    /// For how long there has been something to read, if there still is. Not since the sample began: over a long path a
    /// window may come all at once, behind a pause of a round trip.
    fn backlog_ns(&mut self, empty: bool, now_ns: u64) -> Option<u64> {
        let since_ns = match self.busy_ns {
            _ if empty => None,
            None if self.worth > 0 => Some(now_ns),
            busy_ns => busy_ns,
        };
        self.busy_ns = since_ns;
        (!empty).then(|| now_ns.saturating_sub(since_ns.unwrap_or(now_ns)))
    }

    /// Lets old maxima go: at once after a window in which credit was the limit throughout, slowly
    /// if the senders were, and not at all while nothing comes, or less on purpose: a test of 128 packets took the rate of a link of
    /// 1 Mbit/s to a third, each sample being 0.7 of the one before.
    pub fn roll(&mut self, rtt_ns: u64, bound: Bound, now_ns: u64) {
        let over =
            now_ns.saturating_sub(self.window_ns) > WINDOW_NS.max(WINDOW_ROUND_TRIPS * rtt_ns);
        if !over {
            if self.bound != bound {
                self.bound = Bound::Senders;
            }
            return;
        }
        if self.best > 0.0 {
            let kept = match self.bound {
                Bound::Credit => 0.0,
                Bound::Senders => self.before * 15.0 / 16.0,
                Bound::Test => self.before,
            };
            self.before = self.best.max(kept);
            self.best = 0.0;
        }
        self.window_ns = now_ns;
        self.bound = bound;
    }
}
