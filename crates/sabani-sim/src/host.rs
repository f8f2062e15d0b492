//! A process with its socket: a node, a finite buffer in front of it, and times at which it does
//! not run.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

use sabani_proto::{Config, Node, datagram_cost};

use crate::traffic::Program;
use crate::{Rng, US};

/// Names a host of a network; its node's [`sabani_proto::PeerId`] is the same number, unless its
/// configuration says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub u32);

impl HostId {
    /// Where hosts are kept.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {}", self.0)
    }
}

/// What the kernel holds for a process: datagrams that it has not read.
#[derive(Debug, Default)]
pub struct Socket {
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    /// What the kernel charges for them, in bytes.
    pub charged: u64,
    /// The most that was ever charged.
    pub charged_max: u64,
    /// Datagrams that found it full.
    pub overflows: u64,
}

impl Socket {
    /// Queues a datagram, if there is room.
    fn push(&mut self, from: SocketAddr, bytes: Vec<u8>, limit: u64) -> bool {
        let cost = u64::from(datagram_cost(bytes.len()));
        if self.charged + cost > limit {
            self.overflows += 1;
            return false;
        }
        self.charged += cost;
        self.charged_max = self.charged_max.max(self.charged);
        self.waiting.push_back((from, bytes));
        true
    }

    /// The next datagrams that the kernel would hand over as one: equally long, from one address,
    /// the last one perhaps shorter.
    fn pop_train(&mut self, into: &mut Vec<u8>) -> Option<(SocketAddr, usize, u64)> {
        const MOST: u64 = 64;
        let (from, first) = self.pop()?;
        let segment = first.len();
        into.clear();
        into.extend_from_slice(&first);
        let mut count = 1;
        while count < MOST && self.front_len(from).is_some_and(|len| len <= segment) {
            let (_, next) = self.pop()?;
            into.extend_from_slice(&next);
            count += 1;
            if next.len() < segment {
                break;
            }
        }
        Some((from, segment, count))
    }

    fn pop(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        let (from, bytes) = self.waiting.pop_front()?;
        self.charged -= u64::from(datagram_cost(bytes.len()));
        Some((from, bytes))
    }

    /// Length of the next datagram, if it comes from this address and is not empty.
    fn front_len(&self, from: SocketAddr) -> Option<usize> {
        let (next, bytes) = self.waiting.front()?;
        (*next == from && !bytes.is_empty()).then_some(bytes.len())
    }

    /// Datagrams waiting.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// A process of the job.
#[derive(Debug)]
pub struct Host {
    /// Where it is reached.
    pub addr: SocketAddr,
    /// How its node behaves; used again when it restarts.
    pub config: Config,
    /// The protocol; `None` after a crash.
    pub node: Option<Node>,
    /// What the program does.
    pub program: Program,
    /// Unread datagrams.
    pub socket: Socket,
    /// Time to handle one datagram, in nanoseconds. Default 200.
    pub packet_ns: u64,
    /// Time from an arrival, or a deadline, until the process runs, in nanoseconds. Default 2 µs.
    pub wake_ns: u64,
    /// It does not run before this time.
    pub busy_until_ns: u64,
    /// When it is to run next.
    pub(crate) wake_at_ns: u64,
    /// Times in a row that it ran without doing anything.
    pub(crate) idle_turns: u32,
    pub(crate) turns: u64,
}

impl Host {
    pub(crate) fn new(addr: SocketAddr, config: Config, rng: &mut Rng) -> Self {
        Host {
            addr,
            node: Some(Node::new(config.clone(), rng.seed())),
            config,
            program: Program::default(),
            socket: Socket::default(),
            packet_ns: 200,
            wake_ns: 2 * US,
            busy_until_ns: 0,
            wake_at_ns: u64::MAX,
            idle_turns: 0,
            turns: 0,
        }
    }

    /// The node of a host that runs.
    ///
    /// # Panics
    /// If it has crashed.
    pub fn node(&mut self) -> &mut Node {
        self.node.as_mut().expect("the host has crashed")
    }

    /// A datagram arrives; returns whether somebody may read it.
    pub(crate) fn receive(&mut self, from: SocketAddr, bytes: Vec<u8>) -> bool {
        let limit = self.config.socket_buffer_bytes;
        self.node.is_some() && self.socket.push(from, bytes, limit)
    }

    /// Steps 2 and 3 of the driving contract. Returns how many datagrams were handled.
    pub(crate) fn drive(&mut self, now_ns: u64, buffer: &mut Vec<u8>) -> u64 {
        let Some(node) = &mut self.node else {
            return 0;
        };
        let mut handled = 0;
        while let Some((from, segment, count)) = self.socket.pop_train(buffer) {
            node.handle_datagrams(now_ns, from, None, segment, buffer);
            handled += count;
        }
        if node.next_deadline().is_some_and(|at| at <= now_ns) {
            node.handle_deadline(now_ns);
        }
        self.busy_until_ns = self.busy_until_ns.max(now_ns) + handled * self.packet_ns;
        handled
    }
}
