//! How much may wait in a host's own queue, before its link.
//!
//! What a node has handed over leaves in that order: words about credit behind data, a message to one peer behind a train to
//! another. Where a host sends to many, receivers grant more together than its link carries, and that queue grows to
//! tens of milliseconds. So a driver leaves little there, and has the node decide late what leaves next, as Linux does for its own
//! TCP (TCP small queues). Enough must wait for the link to have work until the driver runs again; how much that is shows by
//! itself: a queue that was full and is then found empty was too short (as in Linux's dynamic queue limits).

/// A queue is to hold what the link sends in this time, in nanoseconds: the driver is woken when half of it is gone.
const COVER_NS: f64 = 125_000.0;
/// ... or in this one, where drivers are late.
const MOST_COVER_NS: f64 = 16_000_000.0;
/// A queue is never shorter, in bytes: a few full datagrams of Ethernet.
const LEAST_BYTES: u64 = 8 << 10;
/// What may wait before anything is known: 0.2 ms at 10 Gbit/s.
const FIRST_BYTES: u64 = 256 << 10;
/// Looks are this far apart at least, in nanoseconds.
const LOOK_NS: u64 = 250_000;
/// ... and so far where nothing waited, as on devices without a queue.
const IDLE_LOOK_NS: u64 = 2_000_000;
/// Time that has turned out to be longer than necessary is taken back by one part in so many with each look.
const TAKEN_BACK: f64 = 16.0;
/// The largest rate is forgotten by one part in so many with each look.
const FORGOTTEN: f64 = 32.0;
/// A limit changes if it is off by one part in so many.
const TOLERANCE: u64 = 4;

/// What was seen at a look.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at_ns: u64,
    sent_bytes: u64,
    waiting_bytes: u64,
}

impl Seen {
    /// When the next look is due, unless the queue has been full.
    fn next_ns(&self) -> u64 {
        let apart_ns = match self.waiting_bytes {
            0 => IDLE_LOOK_NS,
            _ => LOOK_NS,
        };
        self.at_ns + apart_ns
    }
}

/// Keeps a host's own queue short, for drivers: the limit follows what the link sends, and how late the driver is.
#[derive(Debug)]
pub struct OwnQueue {
    most_bytes: u64,
    limit_bytes: u64,
    cover_ns: f64,
    /// What the link sends in each nanosecond: the largest of what was seen lately, for it may have rested between two looks.
    rate: f64,
    was_full: bool,
    seen: Option<Seen>,
}

impl OwnQueue {
    /// For a queue that takes so many bytes at most.
    pub fn new(most_bytes: u64) -> Self {
        OwnQueue {
            most_bytes,
            limit_bytes: FIRST_BYTES.min(most_bytes),
            cover_ns: COVER_NS,
            rate: 0.0,
            was_full: false,
            seen: None,
        }
    }

    /// Bytes that may wait; more is handed over when half of them are gone.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// The queue has taken no more.
    pub fn on_full(&mut self) {
        self.was_full = true;
    }

    /// Whether it is time to look at the queue.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.was_full || self.seen.is_none_or(|seen| now_ns >= seen.next_ns())
    }

    /// So many bytes have been handed over so far, and so many of them wait. Returns the limit if it has changed. To be called
    /// before more is handed over, if [`OwnQueue::is_due`].
    pub fn look(&mut self, sent_bytes: u64, waiting_bytes: u64, now_ns: u64) -> Option<u64> {
        let now = Seen {
            at_ns: now_ns,
            sent_bytes,
            waiting_bytes,
        };
        if std::mem::take(&mut self.was_full) {
            if waiting_bytes == 0 {
                self.seen = Some(now);
                self.cover_ns = (2.0 * self.cover_ns).min(MOST_COVER_NS);
                return self.set(2 * self.limit_bytes);
            }
            self.cover_ns -= (self.cover_ns - COVER_NS) / TAKEN_BACK;
        }
        if self.seen.is_some_and(|seen| now_ns < seen.next_ns()) {
            return None;
        }
        let before = self.seen.replace(now)?;
        let rate = left_per_ns(&before, &now)?;
        self.rate = rate.max(self.rate * (1.0 - 1.0 / FORGOTTEN));
        self.set((self.cover_ns * self.rate) as u64)
    }

    fn set(&mut self, limit_bytes: u64) -> Option<u64> {
        let limit_bytes = limit_bytes.max(LEAST_BYTES).min(self.most_bytes);
        let is_off = limit_bytes.abs_diff(self.limit_bytes) > self.limit_bytes / TOLERANCE;
        is_off.then(|| {
            self.limit_bytes = limit_bytes;
            limit_bytes
        })
    }
}

/// What the link has sent in each nanosecond between two looks, if it had something all the time, as far as that is known.
fn left_per_ns(before: &Seen, now: &Seen) -> Option<f64> {
    let handed_bytes = now.sent_bytes - before.sent_bytes;
    let left_bytes = (before.waiting_bytes + handed_bytes).saturating_sub(now.waiting_bytes);
    let took_ns = now.at_ns - before.at_ns;
    (before.waiting_bytes.min(now.waiting_bytes) > 0 && took_ns > 0)
        .then(|| left_bytes as f64 / took_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 4 << 20;

    /// A link behind a queue, and a program that has always more to send.
    struct Host {
        queue: OwnQueue,
        now_ns: u64,
        sent: u64,
        left: u64,
    }

    impl Host {
        fn new() -> Self {
            Host {
                queue: OwnQueue::new(MOST),
                now_ns: 0,
                sent: 0,
                left: 0,
            }
        }

        /// For so long the link sends so many bytes in each microsecond, as far as there are any, and the driver fills the queue
        /// whenever half of it is gone, but so much later. Returns what the link could have sent and did not, as a part of all.
        fn run(&mut self, bytes_per_us: u64, late_us: u64, for_ms: u64) -> f64 {
            let (mut idle, mut fills_at_us) = (0, Some(0));
            for us in 0..1_000 * for_ms {
                self.now_ns += 1_000;
                let left = bytes_per_us.min(self.sent - self.left);
                self.left += left;
                idle += bytes_per_us - left;
                if fills_at_us.is_none() && self.waiting() <= self.queue.limit_bytes() / 2 {
                    fills_at_us = Some(us + late_us);
                }
                if fills_at_us.is_some_and(|at_us| at_us <= us) {
                    self.fill();
                    fills_at_us = None;
                }
            }
            idle as f64 / (1_000 * for_ms * bytes_per_us) as f64
        }

        fn fill(&mut self) {
            if self.queue.is_due(self.now_ns) {
                self.queue.look(self.sent, self.waiting(), self.now_ns);
            }
            let limit = self.queue.limit_bytes();
            self.sent += limit - self.waiting().min(limit);
            self.queue.on_full();
        }

        fn waiting(&self) -> u64 {
            self.sent - self.left
        }
    }

    #[test]
    fn what_waits_is_what_the_link_sends_in_a_short_time() {
        for bytes_per_us in [100, 125, 1_250] {
            let mut host = Host::new();
            host.run(bytes_per_us, 20, 20);
            let idle = host.run(bytes_per_us, 20, 100);
            let covers_ns = host.queue.limit_bytes() / bytes_per_us * 1_000;
            assert!((80_000..180_000).contains(&covers_ns), "{covers_ns} ns");
            assert!(idle < 0.01, "{idle}");
        }
    }

    #[test]
    fn a_slow_link_still_has_a_few_datagrams() {
        let mut host = Host::new();
        host.run(6, 20, 200);
        assert_eq!(host.queue.limit_bytes(), LEAST_BYTES);
    }

    #[test]
    fn it_grows_where_the_driver_is_late_and_shrinks_when_it_is_not() {
        let mut host = Host::new();
        host.run(125, 2_000, 200);
        let idle = host.run(125, 2_000, 500);
        assert!(idle < 0.1, "{idle}");
        let late = host.queue.limit_bytes();
        assert!(late > 125 * 2_000, "{late}");
        host.run(125, 20, 500);
        assert!(host.queue.limit_bytes() < late / 4);
    }

    #[test]
    fn a_link_that_gets_faster_is_noticed() {
        let mut host = Host::new();
        host.run(12, 20, 100);
        assert!(host.queue.limit_bytes() <= 2 * LEAST_BYTES);
        host.run(1_250, 20, 50);
        let idle = host.run(1_250, 20, 50);
        assert!(idle < 0.05, "{idle}");
    }

    #[test]
    fn where_nothing_waits_nothing_is_limited() {
        let mut queue = OwnQueue::new(MOST);
        for look in 0..1_000 {
            assert_eq!(queue.look(look * 60_000, 0, look * IDLE_LOOK_NS), None);
        }
        assert_eq!(queue.limit_bytes(), FIRST_BYTES);
        assert_eq!(OwnQueue::new(10_000).limit_bytes(), 10_000);
    }
}
