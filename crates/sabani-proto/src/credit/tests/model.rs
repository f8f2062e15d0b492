//! A small network in virtual time: senders, one drop-tail port, one host that reads in batches.
//!
//! The senders keep the rules that the granter relies on and no others: they stay within their
//! windows, announce what they have, send again what an acknowledgement reports missing, and ask
//! for the tail. Acknowledgements arrive.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use super::super::{Arrival, CreditConfig, CreditPolicy, GrantOrder, Granter};
use crate::channel::{Data, datagram_cost};

/// A full datagram on the wire, and the message bytes in it.
const WIRE: u64 = 1_514;
const DATAGRAM: usize = 1_472;
const PAYLOAD: u64 = 1_416;
/// A request or an acknowledgement on the wire.
const SMALL: u64 = 140;
pub(super) const FULL: u64 = datagram_cost(DATAGRAM) as u64;

#[derive(Clone, Debug)]
pub(super) struct Network {
    pub senders: u32,
    /// Bits per second of the port; of each sender's own link.
    pub rate: f64,
    pub uplink: f64,
    /// Bytes that the port's queue holds.
    pub queue: u64,
    pub rtt_ns: u64,
    /// How late the host reads, and by how much that varies.
    pub wake_ns: u64,
    pub jitter_ns: u64,
    /// What the granter is told; zero: the truth.
    pub told_rtt_ns: u64,
    /// Packets lost at random, of 10,000.
    pub loss: u64,
    pub order: GrantOrder,
    pub seed: u64,
}

impl Default for Network {
    fn default() -> Self {
        Network {
            senders: 1,
            rate: 1e9,
            uplink: 1e9,
            queue: 64 << 10,
            rtt_ns: 100_000,
            wake_ns: 15_000,
            jitter_ns: 5_000,
            told_rtt_ns: 0,
            loss: 0,
            order: GrantOrder::default(),
            seed: 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(u32, u64),
    /// A packet reaches the port.
    Port(usize),
    /// ... and the host.
    Host(usize),
    Wake,
    Deadline,
    Ack(usize),
    Poll(u32, u64),
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    sender: u32,
    number: u64,
    /// Which packet of all that the sender's messages make; `None`: a request.
    piece: Option<u64>,
    ask: bool,
    announced: u64,
}

#[derive(Clone, Debug)]
struct Ack {
    sender: u32,
    largest: u64,
    window: u64,
    missing: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Flight,
    Settled,
}

#[derive(Debug, Default)]
struct Sender {
    /// Pieces announced, and those sent for the first time.
    announced: u64,
    next: u64,
    again: VecDeque<u64>,
    /// Piece, charge sent up to and with the packet, fate; by packet number.
    sent: Vec<(Option<u64>, u64, Fate)>,
    charge: u64,
    limit: u64,
    largest: Option<u64>,
    settled: usize,
    polls: u32,
    timer: u64,
    uplink_ns: u64,
    last_ns: u64,
}

#[derive(Debug, Default)]
struct Receiver {
    pieces: u64,
    announced: u64,
    got: Vec<bool>,
    largest: Option<u64>,
    largest_charge: u64,
    missing: BTreeSet<u64>,
    owed: bool,
    batch: Arrival,
}

#[derive(Debug)]
pub(super) struct Model {
    network: Network,
    pub granter: Granter,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    random: u64,
    packets: Vec<Packet>,
    acks: Vec<Ack>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    port_ns: u64,
    socket: Vec<usize>,
    awake: bool,
    deadline_ns: Option<u64>,
    pub drops: u64,
    pub max_queue: u64,
    pub data_sent: u64,
    pub finished: Vec<u64>,
}

impl Model {
    pub fn new(network: Network) -> Self {
        let config = CreditConfig {
            socket_bytes: 8 << 20,
            full_cost: FULL as u32,
            window_max: u32::MAX,
            expected_peers: 1,
            policy: CreditPolicy::Paced(network.order),
        };
        let mut model = Model {
            granter: Granter::new(config),
            now_ns: 1,
            events: BinaryHeap::new(),
            order: 0,
            random: network.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            packets: Vec::new(),
            acks: Vec::new(),
            senders: (0..network.senders).map(|_| Sender::default()).collect(),
            receivers: (0..network.senders).map(|_| Receiver::default()).collect(),
            port_ns: 0,
            socket: Vec::new(),
            awake: false,
            deadline_ns: None,
            drops: 0,
            max_queue: 0,
            data_sent: 0,
            finished: Vec::new(),
            network,
        };
        for peer in 0..model.network.senders {
            model.senders[peer as usize].limit = u64::from(model.granter.admit(peer, 1));
        }
        model
    }

    /// Message bytes per second that the wire could carry without our headers (as the issue counts).
    fn payload_rate(&self) -> f64 {
        self.network.rate / 8.0 * DATAGRAM as f64 / WIRE as f64
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below.max(1)
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at_ns, self.order, event)));
    }

    /// Pieces received, over all senders.
    fn delivered(&self) -> u64 {
        self.receivers.iter().map(|receiver| receiver.pieces).sum()
    }

    /// Part of the port's payload rate that `pieces` in `elapsed_ns` are.
    fn goodput(&self, pieces: u64, elapsed_ns: u64) -> f64 {
        (pieces * PAYLOAD) as f64 / (elapsed_ns as f64 * 1e-9) / self.payload_rate()
    }

    /// All senders begin a message of so many packets within 30 µs, again and again, 5 ms after the
    /// last round has ended.
    pub fn incast(&mut self, pieces: u64, rounds: u32) -> Incast {
        let senders = u64::from(self.network.senders);
        let all = senders * pieces;
        let bytes = (all * PAYLOAD) as f64;
        let ideal_ns = bytes / self.payload_rate() * 1e9 + self.network.rtt_ns as f64;
        let (mut busy_ns, mut times) = (0, Vec::new());
        let sent_before = self.data_sent;
        for _ in 0..rounds {
            let start_ns = self.now_ns + 5_000_000;
            self.run_until(start_ns, u64::MAX);
            self.now_ns = start_ns;
            self.finished.clear();
            for sender in 0..self.network.senders {
                let at_ns = start_ns + self.random(30_000);
                self.at(at_ns, Event::Start(sender, pieces));
            }
            self.run_until(start_ns + 5_000_000_000, senders);
            assert_eq!(self.finished.len() as u64, senders, "a round does not end");
            busy_ns += self.now_ns - start_ns;
            let took = |at_ns: &u64| (at_ns - start_ns) as f64 / ideal_ns;
            times.extend(self.finished.iter().map(took));
        }
        times.sort_by(f64::total_cmp);
        let all = all * u64::from(rounds);
        Incast {
            goodput: self.goodput(all, busy_ns),
            extra: (self.data_sent - sent_before - all) as f64 / all as f64,
            p99: times[times.len() * 99 / 100],
        }
    }

    /// All senders have more to send than ever gets through. Returns the goodput from `from_ns` on,
    /// after `until_ns`.
    pub fn flows(&mut self, from_ns: u64, until_ns: u64) -> f64 {
        for sender in 0..self.network.senders {
            self.start(sender, 1 << 22);
        }
        self.run_until(from_ns, u64::MAX);
        let before = self.delivered();
        (self.max_queue, self.drops) = (0, 0);
        self.run_until(until_ns, u64::MAX);
        self.goodput(self.delivered() - before, until_ns - from_ns)
    }

    /// A sender begins a message of so many packets within 100 µs.
    pub fn start(&mut self, sender: u32, pieces: u64) {
        let at_ns = self.now_ns + self.random(100_000);
        self.at(at_ns, Event::Start(sender, pieces));
    }

    /// Pieces received from one sender.
    pub fn delivered_by(&self, sender: u32) -> u64 {
        self.receivers[sender as usize].pieces
    }

    /// Lets time pass until `until_ns`, or until so many messages have ended.
    pub fn run_until(&mut self, until_ns: u64, messages: u64) {
        while let Some(&Reverse((at_ns, _, event))) = self.events.peek() {
            if at_ns > until_ns || self.finished.len() as u64 >= messages {
                return;
            }
            self.events.pop();
            self.now_ns = at_ns;
            match event {
                Event::Start(sender, pieces) => self.on_start(sender, pieces),
                Event::Port(packet) => self.on_port(packet),
                Event::Host(packet) => self.on_host(packet),
                Event::Wake => self.on_wake(),
                Event::Deadline if self.deadline_ns == Some(at_ns) => self.grant(),
                Event::Deadline => {}
                Event::Ack(ack) => self.on_ack(ack),
                Event::Poll(sender, timer) => self.on_poll(sender, timer),
            }
        }
    }

    fn on_start(&mut self, sender: u32, pieces: u64) {
        let now_ns = self.now_ns;
        let state = &mut self.senders[sender as usize];
        // Standing credit that was not used in time is forgotten.
        if now_ns > state.last_ns + super::super::DECAY_NS {
            state.limit = state.limit.min(state.charge);
        }
        state.announced += pieces;
        if state.charge + FULL * pieces > state.limit {
            self.send(sender, None, true);
        }
        self.fill(sender);
    }

    fn fill(&mut self, sender: u32) {
        loop {
            let state = &mut self.senders[sender as usize];
            let again = state.again.pop_front();
            let piece = again.unwrap_or(state.next);
            if piece >= state.announced {
                break;
            }
            if state.charge + FULL > state.limit {
                if again.is_some() {
                    state.again.push_front(piece);
                }
                break;
            }
            state.next = state.next.max(piece + 1);
            let last = state.again.is_empty() && state.next == state.announced;
            self.send(sender, Some(piece), last);
        }
        self.arm(sender);
    }

    fn send(&mut self, sender: u32, piece: Option<u64>, ask: bool) {
        let now_ns = self.now_ns;
        let state = &mut self.senders[sender as usize];
        let number = state.sent.len() as u64;
        state.charge += if piece.is_some() { FULL } else { 0 };
        state.sent.push((piece, state.charge, Fate::Flight));
        let bytes = if piece.is_some() { WIRE } else { SMALL };
        let start_ns = state.uplink_ns.max(now_ns);
        state.uplink_ns = start_ns + (bytes as f64 * 8e9 / self.network.uplink) as u64;
        state.last_ns = now_ns;
        self.packets.push(Packet {
            sender,
            number,
            piece,
            ask,
            announced: state.announced,
        });
        self.data_sent += u64::from(piece.is_some());
        let at_ns = self.senders[sender as usize].uplink_ns + self.network.rtt_ns / 4;
        self.at(at_ns, Event::Port(self.packets.len() - 1));
    }

    fn on_port(&mut self, packet: usize) {
        let bytes = match self.packets[packet].piece {
            Some(_) => WIRE,
            None => SMALL,
        };
        let waiting_ns = self.port_ns.saturating_sub(self.now_ns);
        let waiting = (waiting_ns as f64 * self.network.rate / 8e9) as u64;
        if waiting + bytes > self.network.queue + WIRE || self.random(10_000) < self.network.loss {
            self.drops += 1;
            return;
        }
        self.max_queue = self.max_queue.max(waiting + bytes);
        let takes_ns = bytes as f64 * 8e9 / self.network.rate;
        self.port_ns = self.port_ns.max(self.now_ns) + takes_ns.ceil() as u64;
        self.at(self.port_ns + self.network.rtt_ns / 4, Event::Host(packet));
    }

    fn on_host(&mut self, packet: usize) {
        self.socket.push(packet);
        if !self.awake {
            self.awake = true;
            let delay_ns = self.network.wake_ns + self.random(self.network.jitter_ns);
            self.at(self.now_ns + delay_ns, Event::Wake);
        }
    }

    fn on_wake(&mut self) {
        self.awake = false;
        let mut touched = BTreeSet::new();
        for packet in std::mem::take(&mut self.socket) {
            let packet = self.packets[packet];
            touched.insert(packet.sender);
            self.receive(&packet);
        }
        for peer in touched {
            let receiver = &mut self.receivers[peer as usize];
            let mut batch = std::mem::take(&mut receiver.batch);
            batch.remaining = (receiver.announced - receiver.pieces) * FULL;
            batch.rtt_ns = match self.network.told_rtt_ns {
                0 => self.network.rtt_ns + self.network.wake_ns,
                told => told,
            };
            self.granter.on_arrival(peer, &batch, self.now_ns);
        }
        self.grant();
    }

    fn receive(&mut self, packet: &Packet) {
        let charge = self.senders[packet.sender as usize].sent[packet.number as usize].1;
        let receiver = &mut self.receivers[packet.sender as usize];
        receiver.owed |= packet.ask;
        receiver.batch.packets += 1;
        receiver.batch.data = Data::Long;
        match receiver.largest {
            Some(largest) if packet.number < largest => {
                if receiver.missing.remove(&packet.number) {
                    receiver.batch.late += 1;
                }
            }
            largest => {
                let next = largest.map_or(0, |largest| largest + 1);
                receiver.missing.extend(next..packet.number);
                receiver.batch.lost += (packet.number - next) as u32;
                receiver.owed |= packet.number > next;
                receiver.batch.advanced += (charge - receiver.largest_charge) as u32;
                receiver.largest = Some(packet.number);
                receiver.largest_charge = charge;
            }
        }
        if packet.announced > receiver.announced {
            receiver.announced = packet.announced;
            receiver.got.resize(packet.announced as usize, false);
        }
        let Some(piece) = packet.piece else {
            return;
        };
        receiver.batch.charge += FULL;
        receiver.batch.bytes += DATAGRAM as u64;
        if !std::mem::replace(&mut receiver.got[piece as usize], true) {
            receiver.pieces += 1;
            if receiver.pieces == receiver.announced {
                receiver.owed = true;
                self.finished.push(self.now_ns);
            }
        }
    }

    fn grant(&mut self) {
        let receivers = &mut self.receivers;
        self.granter.on_empty(self.now_ns);
        self.granter.run(self.now_ns, &mut |peer, _| {
            receivers[peer as usize].owed = true
        });
        for peer in 0..self.network.senders {
            let window = u64::from(self.granter.window(peer));
            let receiver = &mut self.receivers[peer as usize];
            if !std::mem::take(&mut receiver.owed) {
                continue;
            }
            let Some(largest) = receiver.largest else {
                continue;
            };
            self.acks.push(Ack {
                sender: peer,
                largest,
                window,
                missing: receiver.missing.iter().copied().collect(),
            });
            let jitter_ns = self.random(self.network.jitter_ns);
            let at_ns = self.now_ns + self.network.rtt_ns / 2 + self.network.wake_ns + jitter_ns;
            self.at(at_ns, Event::Ack(self.acks.len() - 1));
        }
        self.deadline_ns = self.granter.next_deadline();
        if let Some(at_ns) = self.deadline_ns {
            assert!(at_ns > self.now_ns, "a deadline in the past");
            self.at(at_ns, Event::Deadline);
        }
    }

    fn on_ack(&mut self, ack: usize) {
        let ack = self.acks[ack].clone();
        let state = &mut self.senders[ack.sender as usize];
        state.last_ns = self.now_ns;
        state.polls = 0;
        if state.largest.is_none_or(|largest| ack.largest >= largest) {
            state.largest = Some(ack.largest);
            state.limit = state
                .limit
                .max(state.sent[ack.largest as usize].1 + ack.window);
        }
        let mut missing = ack.missing.iter().copied().peekable();
        let mut request_lost = false;
        for number in state.settled..=ack.largest as usize {
            while missing.peek().is_some_and(|&gap| (gap as usize) < number) {
                missing.next();
            }
            let lost = missing.peek() == Some(&(number as u64));
            let (piece, _, fate) = &mut state.sent[number];
            if std::mem::replace(fate, Fate::Settled) == Fate::Flight && lost {
                match piece {
                    Some(piece) => state.again.push_back(*piece),
                    None => request_lost = true,
                }
            }
        }
        state.settled = state.settled.max(ack.largest as usize + 1);
        if request_lost {
            self.send(ack.sender, None, true);
        }
        self.fill(ack.sender);
    }

    /// Asks for the tail, should no answer come.
    fn arm(&mut self, sender: u32) {
        let rtt_ns = self.network.rtt_ns + 2 * self.network.wake_ns;
        let state = &mut self.senders[sender as usize];
        state.timer += 1;
        if state.settled == state.sent.len() {
            return;
        }
        let queued_ns = state.uplink_ns.saturating_sub(self.now_ns);
        let patience_ns = (2 * rtt_ns + self.network.jitter_ns + 300_000) << state.polls.min(10);
        let event = Event::Poll(sender, state.timer);
        self.at(self.now_ns + queued_ns + patience_ns, event);
    }

    fn on_poll(&mut self, sender: u32, timer: u64) {
        let state = &mut self.senders[sender as usize];
        if state.timer != timer {
            return;
        }
        state.polls += 1;
        if let Some((piece, _, fate)) = state.sent.last_mut() {
            *fate = Fate::Settled;
            let piece = *piece;
            self.send(sender, piece, true);
        }
        self.arm(sender);
    }
}

/// What came of rounds of many-to-one: goodput while they lasted, packets sent again, and the time
/// of messages in parts of the ideal.
#[derive(Debug)]
pub(super) struct Incast {
    pub goodput: f64,
    pub extra: f64,
    pub p99: f64,
}
