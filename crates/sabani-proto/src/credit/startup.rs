//! Start-up: the window of a link of which nothing is known is doubled while that brings more.

/// Window with which a link of unknown rate begins, in full packets: a third of the shallowest
/// port, for many may begin at a time.
const START_PACKETS: u64 = 16;
/// Rounds without growth after which start-up is over.
const FLAT_ROUNDS: u8 = 3;
/// So many samples within one round trip have seen the link itself, not our window: the middle one
/// lies within a train.
const SHORT_SAMPLES: u8 = 3;
/// A rate is the lower one of so many samples.
const NEIGHBOURS: u8 = 2;
/// Growth of the rate that lets start-up go on.
const GROWTH: f64 = 1.25;
/// A rate that would bring this part of the window in a round trip is the window's, and not the link's. Over
/// long paths samples show what the window was before it was doubled, half of it, and a little less.
const WINDOWS_OWN: f64 = 0.4;
/// One that would bring more than so many windows in a round trip is the link's.
const WINDOWS_MOST: f64 = 1.25;
/// Grants of start-up, where they are paced, leave at so many windows in a round trip.
pub(super) const PACE: f64 = 2.0;
/// What has come in a round trip lets so many times as much come in the next.
const DOUBLED: f64 = 2.0;
/// Rounds for which a window that has overflowed is not doubled again, at most: twice as many each time, until the rate has
/// grown. Halved and doubled in turn, up to 85 % of the packets went again where messages are short, for these pause before
/// anything can be flat; ended, start-up left fast links with whatever rate it had seen.
const MOST_BACKOFF: u8 = 16;
/// A round of start-up is a round trip and this much, what it takes to read a batch.
const ROUND_NS: u64 = 60_000;

/// The smallest window of start-up.
fn least(full: u64) -> f64 {
    (START_PACKETS / 2 * full) as f64
}

/// What a look at start-up has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    None,
    /// The window was doubled.
    Doubled,
    /// The link's rate is known.
    Over,
}

/// How the window was used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// It was what kept senders back.
    pub limited: bool,
    /// Several send over a long path, in turn.
    pub in_clumps: bool,
    /// What was granted left over the round trip, and not at once.
    pub paced: bool,
}

/// Where start-up stands.
#[derive(Debug)]
pub(super) struct Startup {
    window: f64,
    /// What it may be at most, beyond what the path itself holds.
    most: f64,
    round_ns: u64,
    rate: f64,
    flat: u8,
    /// Window that a doubling has proven to be of use.
    proven: f64,
    limited: bool,
    sampled: bool,
    /// Charge that has come since the window was doubled.
    arrived: u64,
    /// What has come since the round began, as a measure of the link.
    brought: u64,
    /// Samples in a row of less than half a round trip.
    short: u8,
    /// Since when credit has been the limit without a pause, and samples in a row that began no sooner.
    limited_ns: Option<u64>,
    within: u8,
    overflowed: bool,
    /// The largest rate at an overflow.
    overflowed_rate: f64,
    /// Rounds for which the last overflow without a larger one keeps the window as it is, and those that are still to go.
    backoff: u8,
    hold: u8,
}

impl Startup {
    /// Of a link of which nothing is known.
    pub fn new(full: u64, most: f64) -> Self {
        Self::at((START_PACKETS * full) as f64, most)
    }

    /// Begins with so much; may become `most`, and, where it is paced, what the path holds.
    pub fn at(window: f64, most: f64) -> Self {
        Startup {
            window: window.min(most),
            most,
            round_ns: 0,
            rate: 0.0,
            flat: 0,
            proven: 0.0,
            limited: false,
            sampled: false,
            arrived: 0,
            brought: 0,
            short: 0,
            limited_ns: None,
            within: 0,
            overflowed: false,
            overflowed_rate: 0.0,
            backoff: 0,
            hold: 0,
        }
    }

    /// What may be on its way.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// A window has been too large.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// A window that a doubling has proven to be of use, or nothing.
    pub fn proven(&self) -> f64 {
        self.proven
    }

    /// So much has come, gaps included, and it is worth so much as a measure of the link.
    #[inline]
    pub fn add(&mut self, charge: u32, worth: u64) {
        self.arrived += u64::from(charge);
        self.brought += worth;
    }

    /// Full packets now have this charge.
    pub fn set_full(&mut self, full: u64) {
        self.window = self.window.max(least(full));
    }

    /// Looks at what has come; `rate` is that of the link, as far as it is known, and a sample of it that was closed took
    /// `took_ns`.
    pub fn tick(
        &mut self,
        took_ns: Option<u64>,
        rate: f64,
        rtt_ns: u64,
        usage: Use,
        now_ns: u64,
    ) -> Step {
        let Use {
            limited,
            in_clumps,
            paced,
        } = usage;
        self.on_sample(took_ns, rtt_ns, limited, now_ns);
        let path = rate * rtt_ns as f64;
        // They have not if they show what the window lets come, and more since it was doubled: a sender that has little to
        // send at a time spreads it over the round trip, and so do acknowledgements from then on. What comes in clumps comes
        // at the pace of its grants.
        let is_links = match in_clumps {
            true => path >= PACE * WINDOWS_MOST * self.window,
            false => {
                let settled = self.has_turned() && rate < GROWTH * self.rate;
                path >= WINDOWS_MOST * self.window || settled
            }
        };
        // Samples between pauses have no neighbour, and show no rate.
        if self.short >= SHORT_SAMPLES && is_links {
            return Step::Over;
        }
        let round_ns = now_ns.saturating_sub(self.round_ns);
        let over = round_ns > rtt_ns + ROUND_NS;
        if !over || !self.limited || !self.has_turned() {
            return Step::None;
        }
        let grew = self.rate > 0.0 && rate >= GROWTH * self.rate;
        // What several send in turn lies apart, and the lower one of two samples shows a part of it.
        let per_trip = match in_clumps {
            true => path.max(self.brought as f64 / round_ns as f64 * rtt_ns as f64),
            false => path,
        };
        let too_small = per_trip >= WINDOWS_OWN * self.window;
        if grew {
            self.proven = self.window;
        }
        self.round_ns = now_ns;
        self.brought = 0;
        self.rate = rate;
        self.limited = false;
        let held = self.hold > 0 && rate < GROWTH * self.overflowed_rate;
        self.hold = self.hold.saturating_sub(1);
        if rate == 0.0 || grew || too_small {
            self.flat = 0;
            if held {
                return Step::None;
            }
            // A socket has to hold what comes at once, and not what a long path does.
            let path = if paced { DOUBLED * per_trip } else { 0.0 };
            self.window = (DOUBLED * self.window).min((self.most + path).max(self.window));
            self.arrived = 0;
            return Step::Doubled;
        }
        self.flat += u8::from(std::mem::take(&mut self.sampled));
        match self.flat < FLAT_ROUNDS {
            true => Step::None,
            false => Step::Over,
        }
    }

    /// Takes in a sample, if one was closed. What came before credit was the limit shows the senders, and not the
    /// window; and the lower of two neighbours counts.
    fn on_sample(&mut self, took_ns: Option<u64>, rtt_ns: u64, limited: bool, now_ns: u64) {
        self.limited |= limited;
        let since_ns = self.limited_ns.filter(|_| limited);
        self.limited_ns = limited.then_some(since_ns.unwrap_or(now_ns));
        let Some(took_ns) = took_ns else {
            return;
        };
        self.short = match took_ns < rtt_ns / 2 {
            true => self.short.saturating_add(1),
            false => 0,
        };
        let within = since_ns.is_some_and(|since_ns| since_ns + took_ns <= now_ns);
        self.within = if within {
            self.within.saturating_add(1)
        } else {
            0
        };
        self.sampled |= self.within >= NEIGHBOURS;
    }

    /// Something has overflowed: half the window has to do, for a while.
    pub fn on_overflow(&mut self, rate: f64, full: u64) {
        self.overflowed = true;
        if rate >= GROWTH * self.overflowed_rate {
            self.overflowed_rate = rate;
            self.backoff = 0;
        } else {
            self.backoff = (2 * self.backoff).clamp(1, MOST_BACKOFF);
        }
        self.hold = self.backoff;
        self.window = (self.window / 2.0).max(least(full));
    }

    /// As much has come as the window held before it was doubled: before that, nothing shows what
    /// the doubling has brought. On a slow link that takes many round trips.
    fn has_turned(&self) -> bool {
        self.round_ns == 0 || 2.0 * self.arrived as f64 >= self.window
    }
}
