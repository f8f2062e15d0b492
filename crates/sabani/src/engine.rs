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
/// A call that brought less than this has emptied the socket, most likely: looking again would
/// only delay what came.
const LITTLE_BYTES: usize = 16 << 10;
/// Trains of one sending call.
const SEND_TRAINS: usize = 32;

/// Small messages to a busy peer wait at most this long for others, as long as the program calls.
pub(crate) const HOLD_NS: u64 = 20_000;
/// Bytes that are worth a system call of their own.
pub(crate) const TRAIN_BYTES: usize = 62 << 10;

/// Everything behind the lock.
#[derive(Debug)]
pub(crate) struct Engine {
    pub node: Node,
    pub socket: Socket,
    pub poll_fd: Option<PollFd>,
    batch: RecvBatch,
    buffer: Vec<u8>,
    trains: Vec<(usize, Transmit)>,
    /// A train that the socket did not take, from this byte on.
    blocked: Option<(usize, Transmit)>,
    blocked_bytes: Vec<u8>,
    start: Instant,
    pub now_ns: u64,
    /// When something last left.
    pub sent_ns: u64,
    /// Sends since the clock was last read.
    pub unclocked: u32,
    hints: Vec<sabani_udp::IcmpHint>,
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
            blocked: None,
            blocked_bytes: Vec::new(),
            start,
            now_ns: 0,
            sent_ns: 0,
            unclocked: 0,
            hints: Vec::new(),
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
        self.blocked.is_some()
    }

    /// When the transport has something to do, whatever happens.
    pub fn deadline_ns(&mut self) -> Option<u64> {
        self.node.next_deadline()
    }

    /// Receives, does what is due, sends. Returns whether anything was received.
    pub fn progress(&mut self) -> bool {
        let received = self.receive();
        if !received {
            self.clock();
        }
        self.node.handle_deadline(self.now_ns);
        self.transmit();
        received
    }

    /// Takes what the socket holds, up to a bound.
    fn receive(&mut self) -> bool {
        let mut any = false;
        for _ in 0..RECV_CALLS {
            match self.socket.recv(&mut self.batch) {
                Ok(0) => break,
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
            if bytes < LITTLE_BYTES {
                break;
            }
        }
        if any {
            self.take_hints();
        }
        any
    }

    /// Passes on what ICMP said.
    fn take_hints(&mut self) {
        self.socket.take_icmp_hints(&mut self.hints);
        for hint in self.hints.drain(..) {
            match hint.kind {
                sabani_udp::HintKind::Unreachable(_) => self.node.handle_unreachable_hint(hint.to),
                // A router's word on the MTU is forgeable: the path's own probes decide.
                sabani_udp::HintKind::TooBig { .. } => {}
            }
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
        while used < MAX_TRAIN_BYTES / 2 && self.trains.len() < SEND_TRAINS {
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
        let train = |&(at, transmit): &(usize, Transmit)| Train {
            to: transmit.to,
            from: transmit.from,
            segment: transmit.segment,
            bytes: &self.buffer[at..at + transmit.bytes],
        };
        let mut trouble = Vec::new();
        let mut report = |index: usize, outcome: SendOutcome| {
            if outcome != SendOutcome::Sent {
                trouble.push((index, outcome));
            }
        };
        let sent = match self.trains.as_slice() {
            [one] => self.socket.send(&[train(one)], &mut report),
            many => {
                let many: Vec<_> = many.iter().map(train).collect();
                self.socket.send(&many, &mut report)
            }
        };
        if let Err(error) = sent {
            tracing::error!(%error, "sending failed");
        }
        for (index, outcome) in trouble {
            self.on_trouble(index, outcome);
        }
    }

    fn on_trouble(&mut self, index: usize, outcome: SendOutcome) {
        let (_, transmit) = self.trains[index];
        match outcome {
            SendOutcome::Blocked { taken_bytes } | SendOutcome::NoBuffers { taken_bytes } => {
                self.keep_blocked(index, taken_bytes);
            }
            SendOutcome::TooBig => {
                self.node
                    .handle_too_big(self.now_ns, transmit.to, transmit.segment);
            }
            SendOutcome::Failed(errno) => {
                self.warn_failed(transmit.to, errno);
                self.node.handle_unreachable_hint(transmit.to);
            }
            SendOutcome::Sent => {}
        }
    }

    /// Keeps the rest of the first train that the socket did not take; those behind it count as
    /// lost on the way, as at any full queue.
    fn keep_blocked(&mut self, index: usize, taken_bytes: usize) {
        let (at, mut transmit) = self.trains[index];
        self.blocked_bytes.clear();
        self.blocked_bytes
            .extend_from_slice(&self.buffer[at + taken_bytes..at + transmit.bytes]);
        transmit.bytes -= taken_bytes;
        self.blocked = Some((0, transmit));
    }

    /// Offers a kept train again; returns whether the way is free.
    #[inline]
    fn resume_blocked(&mut self) -> bool {
        let Some((at, mut transmit)) = self.blocked.take() else {
            return true;
        };
        let train = Train {
            to: transmit.to,
            from: transmit.from,
            segment: transmit.segment,
            bytes: &self.blocked_bytes[at..],
        };
        let mut taken = None;
        let mut report = |_: usize, outcome: SendOutcome| {
            if let SendOutcome::Blocked { taken_bytes } | SendOutcome::NoBuffers { taken_bytes } =
                outcome
            {
                taken = Some(taken_bytes);
            }
        };
        if let Err(error) = self.socket.send(&[train], &mut report) {
            tracing::error!(%error, "sending failed");
        }
        if let Some(taken) = taken {
            transmit.bytes -= taken;
            self.blocked = Some((at + taken, transmit));
        }
        self.blocked.is_none()
    }

    fn warn_failed(&self, to: SocketAddr, errno: i32) {
        let error = std::io::Error::from_raw_os_error(errno);
        tracing::warn!(%to, %error, "the system refused a datagram");
    }
}
