//! The transport and its socket, put together: receive, do what is due, send.

use std::net::SocketAddr;
use std::time::Instant;

use sabani_proto::{Node, Transmit};
use sabani_udp::{MAX_TRAIN_BYTES, RecvBatch, SendOutcome, Socket, Train};

use crate::poll_fd::PollFd;

/// Buffers of one receiving call.
const RECV_BUFFERS: usize = 16;
/// Receiving calls before it is the senders' turn.
const RECV_CALLS: usize = 4;
/// Looks at the socket for each look at the clock, while a call spins.
const LOOKS: usize = 4;
/// While datagrams keep coming, deadlines are looked at this often.
const DEADLINES_EVERY_NS: u64 = 20_000;
/// A call that brought less than this has emptied the socket, most likely: looking again would
/// only delay what came.
const LITTLE_BYTES: usize = 16 << 10;
/// A look at the socket that took longer was interrupted: what has come since is not known.
const INTERRUPTED_NS: u64 = 50_000;
/// Rounds of receiving that empty a full socket: its buffer holds about 10,000 datagrams.
const DRAIN_ROUNDS: usize = 1_024;
/// Trains of one sending call, and bytes that are not kept waiting for more of them: the peer takes
/// them in while the next are built.
const SEND_TRAINS: usize = 32;
const SEND_BYTES: usize = 16 << 10;

/// Small messages to a busy peer wait for others, as long as the program calls: for this part of the
/// round-trip time, which is long where much is queued on the way already.
const HOLD_PART: u64 = 8;
const HOLD_MIN_NS: u64 = 20_000;
const HOLD_MAX_NS: u64 = 80_000;
/// Bytes that are worth a system call of their own.
pub(crate) const TRAIN_BYTES: usize = 62 << 10;

/// After the system had no buffers, it is asked again so much later: the socket does not tell when.
const PAUSE_NS: u64 = 250_000;
/// A train that the system has no buffers for so long is lost. It is more than a full device queue:
/// some virtual devices refuse for ever, with this very error, what the far end does not take.
const REFUSED_NS: u64 = 20_000_000;

/// The system has no buffers.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    since_ns: u64,
    retry_ns: u64,
}

/// Everything behind the lock.
#[derive(Debug)]
pub(crate) struct Engine {
    pub node: Node,
    pub socket: Socket,
    pub poll_fd: Option<PollFd>,
    batch: RecvBatch,
    buffer: Vec<u8>,
    trains: Vec<(usize, Transmit)>,
    /// Trains that the socket did not take, and where in `blocked_bytes` they begin.
    blocked: Vec<(usize, Transmit)>,
    blocked_bytes: Vec<u8>,
    refusal: Option<Refusal>,
    start: Instant,
    pub now_ns: u64,
    /// Something has come since the socket was last found empty.
    unsettled: bool,
    /// When deadlines were last looked at.
    examined_ns: u64,
    /// When something last left.
    pub sent_ns: u64,
    /// When the socket was last looked at.
    pub looked_ns: u64,
    /// Sends since the clock was last read.
    pub unclocked: u32,
    hints: Vec<sabani_udp::IcmpHint>,
    /// Trains of the last sending call that did not simply leave.
    trouble: Vec<(usize, SendOutcome)>,
}

impl Engine {
    pub fn new(node: Node, socket: Socket, start: Instant) -> Self {
        Engine {
            node,
            socket,
            poll_fd: None,
            batch: RecvBatch::new(RECV_BUFFERS),
            buffer: vec![0; 2 * MAX_TRAIN_BYTES],
            trains: Vec::with_capacity(SEND_TRAINS),
            blocked: Vec::new(),
            blocked_bytes: Vec::new(),
            refusal: None,
            start,
            now_ns: 0,
            unsettled: false,
            examined_ns: 0,
            sent_ns: 0,
            looked_ns: 0,
            unclocked: 0,
            hints: Vec::new(),
            trouble: Vec::new(),
        }
    }

    /// Reads the clock.
    #[inline]
    pub fn clock(&mut self) -> u64 {
        self.now_ns = self.start.elapsed().as_nanos() as u64;
        self.unclocked = 0;
        self.now_ns
    }

    /// Whether the socket has refused to take more.
    pub fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Whether to go on as soon as the socket is writable.
    pub fn wants_room(&self) -> bool {
        self.is_blocked() && self.refusal.is_none()
    }

    /// When there is something to do, whatever happens.
    pub fn deadline_ns(&mut self) -> Option<u64> {
        let retry = self.refusal.map(|refusal| refusal.retry_ns);
        self.node.next_deadline().into_iter().chain(retry).min()
    }

    /// Receives, does what is due, sends. Returns whether anything was received.
    pub fn progress(&mut self) -> bool {
        let received = self.receive();
        if !received {
            self.clock();
        }
        self.finish_progress(received)
    }

    /// The same for a call that waits: looks at the socket several times.
    #[inline]
    pub fn progress_waiting(&mut self) -> bool {
        let received = (0..LOOKS).any(|_| self.receive());
        if !received {
            self.clock();
        }
        self.finish_progress(received)
    }

    #[inline]
    fn finish_progress(&mut self, received: bool) -> bool {
        self.looked_ns = self.now_ns;
        if self.is_quiet(received) {
            return received;
        }
        self.do_due(received)
    }

    fn do_due(&mut self, mut received: bool) -> bool {
        // What waits in the socket may be what a deadline is about.
        if self.deadline_ns().is_some_and(|at| at <= self.now_ns) {
            received |= self.drain();
        }
        self.node.handle_deadline(self.now_ns);
        self.transmit();
        received
    }

    /// Takes what the socket holds, up to a bound, and up to what somebody waits for.
    fn receive(&mut self) -> bool {
        let ended = self.node.ended_receives();
        let mut any = false;
        for _ in 0..RECV_CALLS {
            match self.socket.recv(&mut self.batch) {
                Ok(0) => {
                    self.note_empty();
                    break;
                }
                Ok(_) => any = true,
                Err(error) => {
                    tracing::error!(%error, "receiving failed");
                    break;
                }
            }
            self.now_ns = self.start.elapsed().as_nanos() as u64;
            let mut bytes = 0;
            for received in self.batch.received() {
                bytes += received.bytes.len();
                self.node.handle_datagrams(
                    self.now_ns,
                    received.from,
                    received.to,
                    received.segment,
                    received.bytes,
                );
            }
            if bytes < LITTLE_BYTES || self.node.ended_receives() != ended {
                break;
            }
        }
        if any {
            self.unsettled = true;
            self.take_hints();
        }
        any
    }

    /// The socket was found empty.
    #[inline]
    fn note_empty(&mut self) {
        if self.unsettled {
            let looked_ns = self.now_ns;
            if self.clock() < looked_ns + INTERRUPTED_NS {
                self.unsettled = false;
                self.node.handle_empty(self.now_ns);
            }
        }
    }

    /// Whether there is nothing to do: what a call that spins finds nearly always. What has just come
    /// is to reach the program first, so deadlines are not even looked at then, unless it is time.
    #[inline]
    fn is_quiet(&mut self, received: bool) -> bool {
        if !self.blocked.is_empty() || self.node.has_queued() {
            return false;
        }
        if received && self.now_ns < self.examined_ns + DEADLINES_EVERY_NS {
            return true;
        }
        self.examined_ns = self.now_ns;
        self.deadline_ns().is_none_or(|at| at > self.now_ns)
    }

    /// Empties the socket, as far as that can be done in bounded time.
    fn drain(&mut self) -> bool {
        let rounds = (0..DRAIN_ROUNDS).take_while(|_| {
            self.socket.look_everywhere();
            self.receive()
        });
        rounds.count() > 0
    }

    /// Passes on what ICMP said.
    fn take_hints(&mut self) {
        self.socket.take_icmp_hints(&mut self.hints);
        for hint in self.hints.drain(..) {
            match hint.kind {
                sabani_udp::HintKind::Unreachable(_) => {
                    self.node.handle_unreachable_hint(self.now_ns, hint.to);
                }
                // A router's word on the MTU is forgeable: the path's own probes decide.
                sabani_udp::HintKind::TooBig { .. } => {}
            }
        }
    }

    /// Whether small messages to a peer this far away have waited for company long enough.
    pub fn has_held(&self, rtt_ns: u64) -> bool {
        let hold_ns = (rtt_ns / HOLD_PART).clamp(HOLD_MIN_NS, HOLD_MAX_NS);
        self.now_ns >= self.sent_ns + hold_ns
    }

    /// Sends what a call of the program has made due.
    #[inline]
    pub fn send_queued(&mut self) {
        if self.node.has_queued() {
            self.clock();
            self.transmit();
        }
    }

    /// Sends what may leave. Returns whether anything left.
    pub fn transmit(&mut self) -> bool {
        let mut any = false;
        while self.resume_blocked() && self.fill_trains() {
            any = true;
            self.sent_ns = self.now_ns;
            self.send_trains();
        }
        any
    }

    fn fill_trains(&mut self) -> bool {
        self.trains.clear();
        let mut used = 0;
        while used < SEND_BYTES && self.trains.len() < SEND_TRAINS && self.node.has_queued() {
            let room = &mut self.buffer[used..used + MAX_TRAIN_BYTES];
            let Some(train) = self.node.poll_transmit(self.now_ns, room) else {
                break;
            };
            self.trains.push((used, train));
            used += train.bytes;
        }
        !self.trains.is_empty()
    }

    fn send_trains(&mut self) {
        let Engine {
            socket,
            trains,
            buffer,
            trouble,
            ..
        } = self;
        let taken = offer(socket, trains, buffer, trouble);
        if taken < self.trains.len() {
            self.keep_blocked(taken);
        }
        self.note_refusal(true);
        self.settle_trouble(true);
    }

    /// Deals with trains that did not simply leave. `fresh` ones are in `trains`, others in
    /// `blocked`.
    fn settle_trouble(&mut self, fresh: bool) {
        for (index, outcome) in std::mem::take(&mut self.trouble) {
            let trains = if fresh { &self.trains } else { &self.blocked };
            let Some(&(_, transmit)) = trains.get(index) else {
                continue;
            };
            match outcome {
                SendOutcome::TooBig => {
                    self.node
                        .handle_too_big(self.now_ns, transmit.to, transmit.segment);
                }
                SendOutcome::Failed(errno) => {
                    self.note_failed(transmit.to, errno);
                    self.node.handle_unreachable_hint(self.now_ns, transmit.to);
                }
                _ => {}
            }
        }
    }

    /// Keeps the trains from this one on: the socket is full.
    fn keep_blocked(&mut self, from: usize) {
        let skip = taken_bytes(&self.trouble, from);
        self.blocked_bytes.clear();
        for (index, &(at, mut transmit)) in self.trains.iter().enumerate().skip(from) {
            let skip = if index == from { skip } else { 0 };
            let bytes = &self.buffer[at + skip..at + transmit.bytes];
            transmit.bytes -= skip;
            self.blocked.push((self.blocked_bytes.len(), transmit));
            self.blocked_bytes.extend_from_slice(bytes);
        }
    }

    /// Offers kept trains again; returns whether the way is free.
    #[inline]
    fn resume_blocked(&mut self) -> bool {
        if self.blocked.is_empty() {
            return true;
        }
        if let Some(refusal) = self.refusal
            && self.now_ns < refusal.retry_ns
        {
            return false;
        }
        let Engine {
            socket,
            blocked,
            blocked_bytes,
            trouble,
            ..
        } = self;
        let taken = offer(socket, blocked, blocked_bytes, trouble);
        let skip = taken_bytes(&self.trouble, taken);
        self.note_refusal(taken + skip > 0);
        self.settle_trouble(false);
        self.blocked.drain(..taken);
        if let Some((at, transmit)) = self.blocked.first_mut() {
            *at += skip;
            transmit.bytes -= skip;
        }
        self.give_up_refused();
        self.blocked.is_empty()
    }

    /// Notes whether the system had no buffers, and since when nothing has left.
    fn note_refusal(&mut self, left: bool) {
        let refused = matches!(
            self.trouble.last(),
            Some((_, SendOutcome::NoBuffers { .. }))
        );
        let before = self.refusal.filter(|_| !left);
        self.refusal = refused.then(|| Refusal {
            since_ns: before.map_or(self.now_ns, |refusal| refusal.since_ns),
            retry_ns: self.now_ns + PAUSE_NS,
        });
    }

    /// Counts a train as lost on the way that the system has refused for too long: it would hold up
    /// everybody else's.
    fn give_up_refused(&mut self) {
        if let Some(refusal) = self.refusal
            && self.now_ns >= refusal.since_ns + REFUSED_NS
        {
            self.refusal = None;
            self.blocked.remove(0);
        }
    }

    fn note_failed(&self, to: SocketAddr, errno: i32) {
        let error = std::io::Error::from_raw_os_error(errno);
        tracing::debug!(%to, %error, "the system refused a datagram");
    }
}

/// Offers trains to the socket; returns how many it is done with, and notes those that did not
/// simply leave.
fn offer(
    socket: &mut Socket,
    trains: &[(usize, Transmit)],
    bytes: &[u8],
    trouble: &mut Vec<(usize, SendOutcome)>,
) -> usize {
    let train = |&(at, transmit): &(usize, Transmit)| Train {
        to: transmit.to,
        from: transmit.from,
        segment: transmit.segment,
        bytes: &bytes[at..at + transmit.bytes],
    };
    let mut report = |index: usize, outcome: SendOutcome| {
        if outcome != SendOutcome::Sent {
            trouble.push((index, outcome));
        }
    };
    let settled = match trains {
        [one] => socket.send(&[train(one)], &mut report),
        many => {
            let many: Vec<_> = many.iter().map(train).collect();
            socket.send(&many, &mut report)
        }
    };
    settled.unwrap_or_else(|error| {
        tracing::error!(%error, "sending failed");
        trains.len()
    })
}

/// How much of a train that the socket stopped at went before.
fn taken_bytes(trouble: &[(usize, SendOutcome)], index: usize) -> usize {
    match trouble.last() {
        Some(&(
            at,
            SendOutcome::Blocked { taken_bytes } | SendOutcome::NoBuffers { taken_bytes },
        )) if at == index => taken_bytes,
        _ => 0,
    }
}
