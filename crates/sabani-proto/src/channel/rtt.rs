//! Round-trip time of one path (RFC 6298's estimator, samples as in RFC 9002).

/// Until the first sample: short enough that a lost first packet is found soon, long enough for a
/// path across a continent not to be asked twice.
const INITIAL_NS: u64 = 100_000_000;
/// Scheduling on a busy host moves answers by this much; asking again sooner is waste.
const GRANULARITY_NS: u64 = 100_000;
/// The smallest round trip is looked for anew this often, for paths change.
const MEMORY_MS: u32 = 10_000;

/// Smoothed round-trip time, in nanoseconds: of a packet that waits for no other of ours, as far as is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    smoothed_ns: u64,
    latest_ns: u64,
    /// What left before this tells nothing of the path.
    begun_ns: u64,
    /// Before the first sample: what a round trip takes at most, if that is known. This and the next two stop at 4.3 s.
    variation_ns: u32,
    min_ns: u32,
    /// The smallest since `since_ms`, in milliseconds and modulo 2^32, free of what was known to be before it on its way.
    recent_ns: u32,
    since_ms: u32,
}

/// Nanoseconds, 4.3 s at most.
fn short(ns: u64) -> u32 {
    ns.min(u32::MAX.into()) as u32
}

impl Rtt {
    /// Knows nothing, and learns from what leaves from now on: packets go another way.
    pub fn anew(now_ns: u64) -> Self {
        Rtt {
            begun_ns: now_ns,
            ..Rtt::default()
        }
    }

    /// There is no sample yet, but a round trip takes no longer than this.
    pub fn begin_below(&mut self, most_ns: u64) {
        if self.smoothed_ns == 0 {
            self.variation_ns = short(most_ns);
        }
    }

    /// What left before this is no measure any more: time has not passed here as it has for the peer.
    pub fn begin_at(&mut self, ns: u64) {
        self.begun_ns = self.begun_ns.max(ns);
    }

    /// What left at `sent_ns` has been answered; `delay_ns` is how long the peer says it held the
    /// answer back, and `behind_ns` how long it waited on its way for what had left before it.
    pub fn on_answer(&mut self, sent_ns: u64, now_ns: u64, delay_ns: u64, behind_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(sent_ns);
        // Nobody can hold back for longer than it took, except by a clock that runs fast.
        if sent_ns >= self.begun_ns && delay_ns <= elapsed_ns {
            self.take(elapsed_ns, delay_ns, behind_ns, now_ns);
        }
    }

    /// Takes a sample before all others; `delay_ns` is how long the peer says it held the answer back.
    pub fn on_sample(&mut self, elapsed_ns: u64, delay_ns: u64) {
        self.take(elapsed_ns, delay_ns, 0, 0);
    }

    fn take(&mut self, elapsed_ns: u64, delay_ns: u64, behind_ns: u64, now_ns: u64) {
        let now_ms = (now_ns / 1_000_000) as u32;
        let elapsed_ns = elapsed_ns.max(1);
        if self.smoothed_ns == 0 {
            let first = elapsed_ns.saturating_sub(delay_ns).max(1);
            *self = Rtt {
                smoothed_ns: first,
                variation_ns: short(first / 2),
                min_ns: short(first),
                latest_ns: first,
                recent_ns: short(first),
                since_ms: now_ms,
                ..*self
            };
            return;
        }
        // A delay that would take the sample below what the path can do is not believed.
        let sample = if elapsed_ns >= self.min_ns() + delay_ns {
            elapsed_ns - delay_ns
        } else {
            elapsed_ns.min(self.min_ns().max(elapsed_ns.saturating_sub(delay_ns)))
        };
        self.latest_ns = sample;
        let alone_ns = sample.saturating_sub(behind_ns);
        self.note_least(short(sample), short(alone_ns), now_ms);
        let sample = alone_ns.max(self.min_ns());
        let off = self.smoothed_ns.abs_diff(sample);
        self.variation_ns = short((3 * u64::from(self.variation_ns) + off) / 4);
        self.smoothed_ns = (7 * self.smoothed_ns + sample) / 8;
    }

    /// A shorter one is believed at once, a rise once there was no shorter one for long. Of that only what would have been
    /// without others of ours before it: else our own queue would lengthen itself.
    fn note_least(&mut self, sample_ns: u32, alone_ns: u32, now_ms: u32) {
        self.min_ns = self.min_ns.min(sample_ns);
        self.recent_ns = self.recent_ns.min(alone_ns);
        if now_ms.wrapping_sub(self.since_ms) > MEMORY_MS {
            self.min_ns = self.min_ns.max(self.recent_ns);
            self.smoothed_ns = self.smoothed_ns.max(self.min_ns());
            (self.recent_ns, self.since_ms) = (alone_ns, now_ms);
        }
    }

    /// Smoothed round trip; zero before the first sample.
    pub fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }

    /// The newest sample; zero before the first.
    pub fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// Shortest round trip of the last 10 to 20 s, or of the last few samples if they are older; zero before the first.
    #[inline]
    pub fn min_ns(&self) -> u64 {
        self.min_ns.into()
    }

    /// Mean deviation; zero before the first sample.
    pub fn variation_ns(&self) -> u64 {
        match self.smoothed_ns {
            0 => 0,
            _ => self.variation_ns.into(),
        }
    }

    /// How long an answer may take, beside the peer's own delay: SRTT + 4·var.
    pub fn patience_ns(&self) -> u64 {
        if self.smoothed_ns == 0 {
            return match u64::from(self.variation_ns) {
                0 => INITIAL_NS,
                most_ns => INITIAL_NS.min(most_ns + (most_ns / 2).max(GRANULARITY_NS)),
            };
        }
        self.smoothed_ns + (4 * self.variation_ns()).max(GRANULARITY_NS)
    }

    /// How much later than its successors a packet may arrive before it counts as lost: a round trip
    /// and this many eighths of one; `queued_ns` is what may be before it on its way.
    pub fn reorder_ns(&self, eighths: u8, queued_ns: u64) -> u64 {
        let queued_ns = queued_ns.min(self.latest_ns);
        let base = self.latest_ns.max(self.smoothed_ns + queued_ns);
        if base == 0 {
            return INITIAL_NS;
        }
        (base + base * u64::from(eighths) / 8).max(GRANULARITY_NS / 10)
    }
}
