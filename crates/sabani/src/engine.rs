//! The transport and its socket, put together: receive, do what is due, send.

use std::sync::Arc;

use sabani_proto::{Node, Opened, PeerId};
use sabani_udp::Ecn;

use crate::layers::{Below, Clock, Doorbell, News, Report, Rest};
use crate::poll_fd::PollFd;
use crate::timing::{Stage, Timings};

/// Receiving calls before it is the senders' turn.
const RECV_CALLS: usize = 4;
/// Looks at the socket for each look at the clock, while a call spins.
const LOOKS: usize = 4;
/// A program that sends and sends looks at the socket this often, even if the window is open: a
/// look in vain takes half a microsecond.
const LOOK_NS: u64 = 50_000;
/// While datagrams keep coming, deadlines are looked at this often.
const DEADLINES_EVERY_NS: u64 = 20_000;
/// A call that brought less than this has emptied the socket, most likely: looking again would
/// only delay what came.
const LITTLE_BYTES: usize = 16 << 10;
/// Rounds of receiving that empty a full socket: its buffer holds about 10,000 datagrams.
const DRAIN_ROUNDS: usize = 1_024;

/// Small messages to a busy peer wait for others, as long as the program calls: for this part of the
/// round-trip time, which is long where much is queued on the way already.
const HOLD_PART: u64 = 8;
const HOLD_MIN_NS: u64 = 20_000;
const HOLD_MAX_NS: u64 = 80_000;
/// Sends that follow each other fast read the clock once in so many at most.
const MOST_SENDS_PER_CLOCK: u32 = 32;
/// Bytes that are worth a system call of their own.
pub(crate) const TRAIN_BYTES: usize = 62 << 10;

/// How much of what may leave does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    All,
    /// What waits for this peer until it fills no train any more, what waits for others, and words. The rest leaves
    /// with the next message, which saves a system call.
    Trains(PeerId),
}

/// A thread of the node's own that does all the work.
#[derive(Debug)]
struct Driver {
    /// Where it sleeps.
    bell: Arc<Doorbell>,
    at_work: bool,
}

/// Everything behind the lock.
#[derive(Debug)]
pub(crate) struct Engine {
    pub node: Node,
    pub below: Below,
    pub poll_fd: Option<PollFd>,
    clock: Clock,
    driver: Option<Driver>,
    /// When deadlines were last looked at.
    examined_ns: u64,
    /// When something last left.
    pub sent_ns: u64,
    /// When the socket was last looked at.
    looked_ns: u64,
    /// Sends since the clock was last read.
    unclocked: u32,
    /// It is read again after so many.
    sends_per_clock: u32,
    /// Whom the program sent to last, and when.
    sent_to: Option<(PeerId, u64)>,
    /// The rest of a message waits for the next.
    pub keeps_rest: bool,
    reports: Vec<Report>,
}

impl Engine {
    pub fn new(node: Node, below: Below, clock: Clock) -> Self {
        Engine {
            node,
            below,
            poll_fd: None,
            clock,
            driver: None,
            examined_ns: 0,
            sent_ns: 0,
            looked_ns: 0,
            unclocked: 0,
            sends_per_clock: 1,
            sent_to: None,
            keeps_rest: false,
            reports: Vec::new(),
        }
    }

    /// From now on only the thread that sleeps at this bell does any work.
    pub fn leave_to_driver(&mut self, bell: Arc<Doorbell>) {
        self.driver = Some(Driver {
            bell,
            at_work: false,
        });
    }

    /// What the driver does when it has the lock.
    pub fn drive(&mut self) -> bool {
        self.set_at_work(true);
        let received = self.progress_waiting();
        self.set_at_work(false);
        received
    }

    fn set_at_work(&mut self, at_work: bool) {
        if let Some(driver) = &mut self.driver {
            driver.at_work = at_work;
        }
    }

    /// Whether the caller leaves the work to the driver, which is called if there is some.
    #[inline]
    fn is_left_to_driver(&mut self) -> bool {
        match &self.driver {
            Some(driver) if !driver.at_work => {
                if self.node.has_queued() {
                    driver.bell.ring();
                }
                true
            }
            _ => false,
        }
    }

    /// Reads the clock.
    #[inline]
    pub fn clock(&mut self) -> u64 {
        self.unclocked = 0;
        self.clock.read()
    }

    /// What has been done since the last lap was this.
    #[inline]
    pub fn lap(&mut self, stage: Stage) {
        self.clock.lap(stage);
    }

    /// Whether somebody wants to know where the time goes.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.clock.watch.is_some()
    }

    /// Where the time went, if that is wanted.
    pub fn timings(&self) -> Option<Timings> {
        self.clock.watch.as_ref().map(|watch| watch.timings)
    }

    /// When the clock was last read.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns
    }

    /// When there is something to do, whatever happens.
    pub fn deadline_ns(&mut self) -> Option<u64> {
        let retry = self.below.retry_ns();
        self.node.next_deadline().into_iter().chain(retry).min()
    }

    /// What to sleep on; `None` if there is something to do.
    pub fn rest(&self) -> Option<Rest> {
        self.below.rest(self.node.has_queued())
    }

    /// Receives, does what is due, sends. Returns whether anything was received, or a receive has ended
    /// because what it waits for does not come.
    pub fn progress(&mut self) -> bool {
        self.progress_after(1, Leave::All)
    }

    /// The same for a call that sends.
    pub fn progress_sending(&mut self, leave: Leave) -> bool {
        self.progress_after(1, leave)
    }

    /// The same for a call that waits: looks at the socket several times.
    #[inline]
    pub fn progress_waiting(&mut self) -> bool {
        self.progress_after(LOOKS, Leave::All)
    }

    /// The same for one that sleeps if nothing is there.
    pub fn progress_everywhere(&mut self) -> bool {
        self.below.look_everywhere();
        self.progress()
    }

    #[inline]
    fn progress_after(&mut self, looks: usize, leave: Leave) -> bool {
        if self.is_left_to_driver() {
            self.clock();
            return false;
        }
        let received = (0..looks).any(|_| self.receive());
        if !received {
            self.clock();
        }
        self.looked_ns = self.clock.now_ns;
        if self.is_quiet(received) {
            return received;
        }
        self.do_due(received, leave)
    }

    fn do_due(&mut self, mut received: bool, leave: Leave) -> bool {
        let is_due = self.deadline_ns().is_some_and(|at| at <= self.clock.now_ns);
        // What waits in the socket may be what a deadline is about.
        if is_due {
            received |= self.drain();
        }
        let ended = self.node.ended_receives();
        self.node.handle_deadline(self.clock.now_ns);
        self.transmit(if is_due { Leave::All } else { leave });
        received || self.node.ended_receives() != ended
    }

    /// Takes what has come, up to a bound, and up to what somebody waits for.
    fn receive(&mut self) -> bool {
        let ended = self.node.ended_receives();
        let mut any = false;
        for _ in 0..RECV_CALLS {
            let Some(bytes) = self.take_batch() else {
                break;
            };
            any = true;
            if bytes < LITTLE_BYTES || self.node.ended_receives() != ended {
                break;
            }
        }
        self.hear_reports();
        any
    }

    /// Takes what came together; returns how many bytes that was.
    #[inline]
    fn take_batch(&mut self) -> Option<usize> {
        match self.below.receive(&mut self.clock) {
            News::Nothing => None,
            News::Emptied => {
                self.node.handle_empty(self.clock.now_ns);
                None
            }
            News::Batch(arrivals) => {
                let mut bytes = 0;
                for (received, openings) in arrivals.received() {
                    bytes += received.bytes.len();
                    let datagrams = Opened {
                        bytes: received.bytes,
                        segment: received.segment,
                        openings,
                    };
                    self.node.handle_opened(
                        self.clock.now_ns,
                        received.from,
                        received.to,
                        received.ecn == Ecn::Marked,
                        datagrams,
                    );
                }
                self.clock.lap(Stage::ChannelIn);
                self.below.expect(self.node.expected_bytes());
                Some(bytes)
            }
        }
    }

    /// Whether there is nothing to do: what a call that spins finds nearly always. What has just come
    /// is to reach the program first, so deadlines are not even looked at then, unless it is time.
    #[inline]
    fn is_quiet(&mut self, received: bool) -> bool {
        if self.below.is_blocked() || self.node.has_queued() {
            return false;
        }
        if received && self.clock.now_ns < self.examined_ns + DEADLINES_EVERY_NS {
            return true;
        }
        self.examined_ns = self.clock.now_ns;
        self.deadline_ns().is_none_or(|at| at > self.clock.now_ns)
    }

    /// Empties the socket, as far as that can be done in bounded time.
    fn drain(&mut self) -> bool {
        let rounds = (0..DRAIN_ROUNDS).take_while(|_| {
            self.below.look_everywhere();
            self.receive()
        });
        rounds.count() > 0
    }

    /// Takes in what was heard of peers' addresses.
    #[inline]
    fn hear_reports(&mut self) {
        if !self.below.has_reports() {
            return;
        }
        self.below.take_reports(&mut self.reports);
        for report in self.reports.drain(..) {
            let now_ns = self.clock.now_ns;
            match report {
                Report::TooBig { to, bytes } => self.node.handle_too_big(now_ns, to, bytes),
                Report::Unsent(looks) => {
                    for seen in looks {
                        self.node.handle_unsent(seen);
                    }
                }
                Report::SourceGone { local } => self.node.handle_source_gone(local),
                Report::Unreachable { to, obstacle } => {
                    self.node.handle_unreachable_hint(now_ns, to, obstacle);
                }
            }
        }
    }

    /// Whether nobody has looked at the socket for a while, as of when the clock was last read.
    pub fn is_look_due(&self) -> bool {
        self.now_ns() >= self.looked_ns + LOOK_NS
    }

    /// Whether small messages to a peer this far away have waited for company long enough.
    pub fn has_held(&self, rtt_ns: u64) -> bool {
        let hold_ns = (rtt_ns / HOLD_PART).clamp(HOLD_MIN_NS, HOLD_MAX_NS);
        self.now_ns() >= self.sent_ns + hold_ns
    }

    /// The program sends to this peer. When it sent last, if that was to this one as well.
    #[inline]
    pub fn note_send(&mut self, to: PeerId) -> Option<u64> {
        let before = self.sent_to.replace((to, self.now_ns()));
        before.and_then(|(peer, sent_ns)| (peer == to).then_some(sent_ns))
    }

    /// Whether the clock is to be read for one more send.
    #[inline]
    pub fn is_clock_due(&mut self) -> bool {
        self.unclocked += 1;
        self.unclocked >= self.sends_per_clock
    }

    /// Reads the clock for a send that follows one to the same peer, or not; whether the program sends in a row.
    pub fn clock_send(&mut self, before_ns: Option<u64>) -> bool {
        let read_ns = self.now_ns();
        let now_ns = self.clock();
        // Of sends that follow each other slowly each reads it: what waits for company would wait for the last of them.
        self.sends_per_clock = match now_ns < read_ns + HOLD_MIN_NS {
            true => MOST_SENDS_PER_CLOCK.min(2 * self.sends_per_clock),
            false => 1,
        };
        if let Some((_, sent_ns)) = &mut self.sent_to {
            *sent_ns = now_ns;
        }
        before_ns.is_some_and(|before_ns| now_ns < before_ns + HOLD_MAX_NS)
    }

    /// Sends what a call of the program has made due.
    #[inline]
    pub fn send_queued(&mut self) {
        if self.node.has_queued() {
            self.clock();
            self.transmit(Leave::All);
        }
    }

    /// Sends what may leave. Returns whether anything left.
    pub fn transmit(&mut self, leave: Leave) -> bool {
        if self.is_left_to_driver() {
            return false;
        }
        self.node.keep_rest(match leave {
            Leave::All => None,
            Leave::Trains(to) => Some((to, TRAIN_BYTES)),
        });
        let mut any = false;
        while self.has_enough(leave) && self.below.pass(&mut self.node, &mut self.clock) {
            any = true;
            self.sent_ns = self.clock.now_ns;
            self.hear_reports();
        }
        self.node.keep_rest(None);
        self.keeps_rest = leave != Leave::All;
        any
    }

    #[inline]
    fn has_enough(&self, leave: Leave) -> bool {
        match leave {
            Leave::All => true,
            Leave::Trains(to) => {
                let now_ns = self.clock.now_ns;
                self.node.waiting(to).bytes >= TRAIN_BYTES || self.node.may_send_beside(now_ns, to)
            }
        }
    }
}
