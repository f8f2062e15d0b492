//! A process with its socket: a node, a finite buffer in front of it, and times at which it does
//! not run.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

use sabani_proto::seal::Opening;
use sabani_proto::{Config, KeyNews, Keyring, Node, Opened, Transmit, datagram_cost};

use crate::datagram::{DatagramId, Datagrams};
use crate::delay::StallClock;
use crate::traffic::Program;
use crate::{Clock, Delay, Rng, US};

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

/// A datagram that the process has not read.
#[derive(Debug)]
struct Unread {
    from: SocketAddr,
    marked: bool,
    bytes: Vec<u8>,
}

/// Datagrams that the kernel hands over as one.
#[derive(Clone, Copy, Debug)]
struct Train {
    from: SocketAddr,
    /// Length of each; the last may be shorter.
    segment: usize,
    count: u64,
    /// Switches marked them (ECN).
    marked: bool,
}

/// What the kernel holds for a process: datagrams that it has not read.
#[derive(Debug, Default)]
pub struct Socket {
    waiting: VecDeque<Unread>,
    /// What the kernel charges for them, in bytes.
    pub charged: u64,
    /// The most that was ever charged.
    pub charged_max: u64,
    /// Datagrams that found it full.
    pub overflows: u64,
    /// Datagrams that the process has read.
    pub read: u64,
    /// Those of them that a switch had marked (ECN).
    pub read_marked: u64,
    /// Bytes read since the recording last looked.
    pub(crate) recently_read_bytes: u64,
}

impl Socket {
    /// Whether there is room for a datagram of this length; counts what finds none.
    fn has_room(&mut self, len: usize, limit: u64) -> bool {
        let fits = self.charged + u64::from(datagram_cost(len)) <= limit;
        self.overflows += u64::from(!fits);
        fits
    }

    /// Queues a datagram.
    fn push(&mut self, unread: Unread) {
        self.charged += u64::from(datagram_cost(unread.bytes.len()));
        self.charged_max = self.charged_max.max(self.charged);
        self.waiting.push_back(unread);
    }

    /// The next datagrams that the kernel would hand over as one: equally long, from one address,
    /// marked alike, the last one perhaps shorter.
    fn pop_train(
        &mut self,
        most: u64,
        into: &mut Vec<u8>,
        datagrams: &mut Datagrams,
    ) -> Option<Train> {
        const MOST: u64 = 64;
        let first = self.waiting.front()?;
        let mut train = Train {
            from: first.from,
            segment: first.bytes.len(),
            count: 0,
            marked: first.marked,
        };
        into.clear();
        while self.waiting.front().is_some_and(|next| train.takes(next))
            && let Some(next) = self.waiting.pop_front()
        {
            let len = next.bytes.len();
            self.charged -= u64::from(datagram_cost(len));
            into.extend_from_slice(&next.bytes);
            datagrams.give_back(next.bytes);
            train.count += 1;
            if len < train.segment || len == 0 || train.count == most.min(MOST) {
                break;
            }
        }
        self.read += train.count;
        self.read_marked += train.count * u64::from(train.marked);
        self.recently_read_bytes += into.len() as u64;
        Some(train)
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

impl Train {
    /// Whether this datagram may be the next one in it.
    fn takes(&self, next: &Unread) -> bool {
        let alike = next.from == self.from && next.marked == self.marked;
        let len = next.bytes.len();
        alike && len <= self.segment && (len > 0 || self.count == 0)
    }
}

/// CPU time of a process for what it reads or sends. A turn of the process happens at one instant;
/// the time that it costs is paid after it, in slices of 20 µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// For each call of the system: one train of datagrams, in nanoseconds.
    pub call_ns: u64,
    /// For each datagram, in nanoseconds.
    pub packet_ns: u64,
    /// For each byte of it, in picoseconds.
    pub byte_ps: u64,
}

impl Cost {
    /// A train of so many datagrams with so many bytes.
    fn of(&self, packets: u64, bytes: usize) -> u64 {
        self.call_ns + packets * self.packet_ns + bytes as u64 * self.byte_ps / 1_000
    }
}

/// Most CPU time that a turn spends on reading, and again on sending, before the process looks at
/// the time once more.
const SLICE_NS: u64 = 20 * US;
/// Time from an arrival until a process runs.
const WAKE_NS: u64 = 2 * US;

/// The layer that seals and opens what a node leaves to it ([`Config::seal_below`], [`Config::open_below`]).
#[derive(Debug, Default)]
struct SealLayer {
    keyring: Keyring,
    news: Vec<KeyNews>,
    openings: Vec<Opening>,
}

impl SealLayer {
    /// Hears what there is to hear of keys.
    fn hear(&mut self, node: &mut Node) {
        node.take_key_news(&mut self.news);
        self.news.drain(..).for_each(|news| self.keyring.hear(news));
    }

    /// Opens datagrams, as far as it has been told of keys.
    fn open<'a>(&'a mut self, bytes: &'a mut [u8], segment: usize) -> Opened<'a> {
        self.openings.clear();
        self.keyring.open(bytes, segment, &mut self.openings);
        Opened {
            bytes,
            segment,
            openings: &self.openings,
        }
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
    seal: SealLayer,
    /// What the program does.
    pub program: Program,
    /// Unread datagrams.
    pub socket: Socket,
    /// Time to read and handle datagrams. Default 200 ns for each.
    pub reading: Cost,
    /// Time to build and send datagrams. Default: none.
    pub sending: Cost,
    /// Most datagrams that it takes in before it sends. Default: what a slice of time allows.
    pub batch: u64,
    /// Time from an arrival, or a deadline, until a process that sleeps runs. Default 2 µs.
    pub wake: Delay,
    /// When others have its processor. Default: never.
    pub(crate) stalls: Option<StallClock>,
    /// Bytes that may wait for its cable, if it has one; the process sends more when half of them
    /// are gone. Default 4 MiB: what a node asks of its socket.
    pub send_buffer_bytes: u64,
    /// It can be asked what still waits for its cable ([`Node::handle_unsent`]). Default: yes.
    pub tells_unsent: bool,
    /// Its clock, which may run fast or slow.
    pub clock: Clock,
    /// It does not run before this time.
    pub busy_until_ns: u64,
    /// Its program ends all connections.
    pub(crate) closing: bool,
    /// They have ended.
    pub(crate) closed: bool,
    /// Its cable has enough to do; it is woken when half of that is done.
    pub(crate) is_blocked: bool,
    /// When it is to run next.
    pub(crate) wake_at_ns: u64,
    /// How long it takes it to wake up from this sleep.
    pub(crate) reaction_ns: u64,
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
            seal: SealLayer::default(),
            program: Program::default(),
            socket: Socket::default(),
            reading: Cost {
                packet_ns: 200,
                ..Cost::default()
            },
            sending: Cost::default(),
            batch: u64::MAX,
            wake: Delay::fixed(WAKE_NS),
            stalls: None,
            send_buffer_bytes: 4 << 20,
            tells_unsent: true,
            clock: Clock::default(),
            busy_until_ns: 0,
            closing: false,
            closed: false,
            is_blocked: false,
            wake_at_ns: u64::MAX,
            reaction_ns: WAKE_NS,
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

    /// A new process takes the place of what was there.
    pub(crate) fn start(&mut self, node: Node) {
        self.node = Some(node);
        self.seal = SealLayer::default();
    }

    /// A datagram arrives; returns whether somebody may read it.
    pub(crate) fn receive(&mut self, id: DatagramId, datagrams: &mut Datagrams) -> bool {
        let limit = self.config.socket_buffer_bytes;
        let len = datagrams[id].bytes.len();
        if self.node.is_none() || !self.socket.has_room(len, limit) {
            datagrams.remove(id);
            return false;
        }
        let (from, bytes, marked) = datagrams.take(id);
        self.socket.push(Unread {
            from,
            marked,
            bytes,
        });
        true
    }

    /// Steps 2 and 3 of the driving contract, for one slice of time. Returns how many datagrams
    /// were handled.
    pub(crate) fn drive(
        &mut self,
        now_ns: u64,
        buffer: &mut Vec<u8>,
        datagrams: &mut Datagrams,
    ) -> u64 {
        let Some(node) = &mut self.node else {
            return 0;
        };
        self.seal.hear(node);
        let clock_ns = self.clock.read(now_ns);
        let (mut handled, mut spent_ns) = (0, 0);
        while spent_ns < SLICE_NS
            && handled < self.batch
            && let Some(train) = self
                .socket
                .pop_train(self.batch - handled, buffer, datagrams)
        {
            let marked = train.marked && self.config.ecn;
            let opened = self.seal.open(buffer, train.segment);
            node.handle_opened(clock_ns, train.from, None, marked, opened);
            handled += train.count;
            spent_ns += self.reading.of(train.count, buffer.len());
        }
        if self.socket.is_empty() {
            if handled > 0 {
                node.handle_empty(clock_ns);
            }
            if node.next_deadline().is_some_and(|at| at <= clock_ns) {
                node.handle_deadline(clock_ns);
            }
        }
        self.pay(now_ns, spent_ns);
        handled
    }

    /// Step 4 of the driving contract: the next train to send, until a slice of time is spent.
    pub(crate) fn next_train(
        &mut self,
        now_ns: u64,
        spent_ns: &mut u64,
        train: &mut [u8],
    ) -> Option<Transmit> {
        if *spent_ns >= SLICE_NS {
            return None;
        }
        let clock_ns = self.clock.read(now_ns);
        let mut transmit = self.node.as_mut()?.poll_transmit(clock_ns, train)?;
        if let Some(unsealed) = transmit.unsealed.take() {
            unsealed.seal(&mut train[..transmit.bytes], transmit.segment);
        }
        let packets = transmit.bytes.div_ceil(transmit.segment.max(1)) as u64;
        let cost_ns = self.sending.of(packets, transmit.bytes);
        *spent_ns += cost_ns;
        self.pay(now_ns, cost_ns);
        Some(transmit)
    }

    /// Times that the process has run.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// When a process that would run now does run.
    pub(crate) fn runs_at(&mut self, now_ns: u64) -> u64 {
        let runs_ns = match &mut self.stalls {
            Some(stalls) => stalls.runs_at(now_ns),
            None => now_ns,
        };
        self.busy_until_ns.max(runs_ns)
    }

    fn pay(&mut self, now_ns: u64, cost_ns: u64) {
        self.busy_until_ns = self.busy_until_ns.max(now_ns) + cost_ns;
    }

    /// Whether it has work that does not wait for anything but time to do it.
    pub(crate) fn is_behind(&self) -> bool {
        let Some(node) = &self.node else {
            return false;
        };
        !self.socket.is_empty() || (node.has_queued() && !self.is_blocked)
    }

    /// When the process must run although nothing comes.
    pub(crate) fn deadline_ns(&mut self, now_ns: u64) -> Option<u64> {
        let node = self.node.as_mut()?;
        let clock_ns = node.next_deadline();
        let node_ns = clock_ns.map(|clock_ns| self.clock.when(clock_ns));
        let program_ns = self.program.deadline_ns(now_ns, node);
        node_ns.into_iter().chain(program_ns).min()
    }
}
