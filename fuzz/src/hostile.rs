//! A node with a hostile peer that has made a proper connection and then says whatever it likes.
//! The node must not panic, spin or take more memory than its budgets allow, and a friend that
//! talks to it meanwhile must not notice.

use std::time::Duration;

use sabani_proto::seal::{Checksum, Entropy, Initiator, Mode};
use sabani_proto::wire::{EntryMode, Frame, Frames, Hello, Kind, Prelude};
use sabani_proto::{Match, Node, Obstacle, PeerId, RecvTicket, Value};

use crate::HEAP;
use crate::encode::{self, Fields};
use crate::script::Script;
use crate::world::{Datagram, address, config, drain, live};

const MODE: Mode = Mode::Plain {
    checksum: Checksum::None,
};
const VICTIM: u32 = 0;
const FOE: u32 = 1;
const FRIEND: u32 = 2;
/// The budgets of `world::config`, their bookkeeping, and what the script queues by itself.
const HEAP_LIMIT: usize = 16 << 20;

/// Runs a script of the hostile peer's doings.
pub fn run(data: &[u8]) {
    let before = HEAP.allocated();
    let mut scene = Scene::new();
    let mut script = Script(data);
    while !script.is_over() {
        scene.step(&mut script);
        let used = HEAP.allocated().saturating_sub(before);
        assert!(used < HEAP_LIMIT, "{used} bytes in use");
    }
    scene.friend_gets_through();
}

struct Scene {
    victim: Node,
    friend: Node,
    foe: Foe,
    posted: Vec<RecvTicket>,
    sent: Vec<sabani_proto::SendTicket>,
    from_friend: u64,
    to_friend: u64,
    now_ns: u64,
}

/// What the hostile peer knows.
struct Foe {
    initiator: Option<Initiator>,
    entropy: Entropy,
    /// The connection's name at the victim.
    connection: u64,
    connections: u64,
    next_number: u64,
    largest_seen: u64,
    next_id: u64,
    /// The victim's newest limit, and what was charged to it.
    log_limit: u64,
    payload: Vec<u8>,
    past: Vec<Vec<u8>>,
}

impl Scene {
    fn new() -> Self {
        let mut nodes = [VICTIM, FRIEND].map(|id| {
            let mut node = Node::new(config(id, MODE), [id as u8; 32]);
            node.add_peer(PeerId(VICTIM + FRIEND - id), address(VICTIM + FRIEND - id));
            node
        });
        nodes[0].add_peer(PeerId(FOE), address(FOE));
        let [victim, friend] = nodes;
        let mut scene = Scene {
            victim,
            friend,
            foe: Foe::new(),
            posted: Vec::new(),
            sent: Vec::new(),
            from_friend: 0,
            to_friend: 0,
            now_ns: 1_000_000,
        };
        scene.connect(&mut Script(&[]));
        scene
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() {
            0..=159 => self.foe.add_frame(script),
            160..=199 => self.send_packet(script),
            200..=209 => self.pass(script.time_step()),
            210..=213 => self.connect(script),
            214..=216 => self.damaged(script),
            217..=220 => self.chat(),
            other => self.program(other, script),
        }
    }

    fn deliver(&mut self, mut bytes: Vec<u8>) {
        let len = bytes.len();
        self.victim
            .handle_datagrams(self.now_ns, address(FOE), None, len, false, &mut bytes);
        let mut out = Vec::new();
        drain(&mut self.victim, self.now_ns, &mut out);
        self.carry(out);
    }

    /// Brings datagrams where they go, and what they cause.
    fn carry(&mut self, mut out: Vec<Datagram>) {
        for _ in 0..10_000 {
            if out.is_empty() {
                return;
            }
            for mut datagram in std::mem::take(&mut out) {
                let node = if datagram.to == address(FOE) {
                    self.foe.listen(&datagram.bytes);
                    continue;
                } else if datagram.to == address(FRIEND) {
                    &mut self.friend
                } else {
                    &mut self.victim
                };
                let len = datagram.bytes.len();
                node.handle_datagrams(
                    self.now_ns,
                    datagram.from,
                    None,
                    len,
                    false,
                    &mut datagram.bytes,
                );
                drain(node, self.now_ns, &mut out);
            }
        }
        panic!("an endless exchange");
    }

    fn pass(&mut self, step_ns: u64) {
        let until = self.now_ns + step_ns;
        while self.now_ns < until {
            let next = (self.now_ns + 50_000_000).min(until);
            let mut out = Vec::new();
            for node in [&mut self.victim, &mut self.friend] {
                let mut now = self.now_ns;
                live(node, &mut now, next, &mut out);
            }
            self.now_ns = next;
            self.carry(out);
        }
    }

    fn connect(&mut self, script: &mut Script<'_>) {
        let init = self.foe.init(script);
        self.deliver(init);
        if self.foe.connection != 0 {
            encode::frame(7, &[], &mut self.foe.payload);
            self.send_packet(&mut Script(&[]));
        }
    }

    fn send_packet(&mut self, script: &mut Script<'_>) {
        let packet = self.foe.packet(script);
        self.deliver(packet);
    }

    /// An old or fresh packet with a few bytes changed.
    fn damaged(&mut self, script: &mut Script<'_>) {
        let count = self.foe.past.len().max(1);
        let old = self.foe.past.get(script.below(count)).cloned();
        let mut bytes = old.unwrap_or_default();
        for _ in 0..script.below(4) {
            let at = script.number(0) as usize % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = script.byte();
            }
        }
        self.deliver(bytes);
    }

    /// The victim's program does something.
    fn program(&mut self, what: u8, script: &mut Script<'_>) {
        let to = PeerId(FOE);
        match what {
            221..=224 => {
                let len = [0, 40, 1_024, 5_000, 20_000, 100_000][script.below(6)];
                let values = [
                    Value::Reliable,
                    Value::BestEffort,
                    Value::Within(Duration::from_millis(20)),
                ];
                let (value, body) = (values[script.below(3)], vec![7; len].into());
                let sent = self
                    .victim
                    .send_valued(self.now_ns, to, 1, body, value, true);
                self.sent.extend(sent.ok().flatten());
            }
            225..=228 => {
                let buffer = [None, Some(vec![0; 64]), Some(vec![0; 70_000])];
                let buffer = buffer[script.below(3)].clone();
                let wanted = Match::any().from(to);
                let wanted = [wanted, wanted.tag(script.number(0))][script.below(2)];
                if self.posted.len() < 16 {
                    self.posted.push(self.victim.post(wanted, buffer));
                }
            }
            229..=233 => drop(self.victim.try_take(&Match::any().from(to))),
            234..=237 => {
                let victim = &mut self.victim;
                self.posted
                    .retain(|&ticket| victim.take_received(ticket).is_none());
                self.sent
                    .retain(|&ticket| victim.take_sent(ticket).is_none());
            }
            238..=241 => {
                if !self.posted.is_empty() {
                    let at = script.below(self.posted.len());
                    self.victim.cancel(self.posted.swap_remove(at));
                }
            }
            242..=244 => drop(self.victim.probe(&Match::any().from(to))),
            245..=247 => drop(std::iter::from_fn(|| self.victim.next_event()).count()),
            248 => {
                let len = script.number(1_400) as usize;
                self.victim.handle_too_big(self.now_ns, address(FOE), len);
            }
            249 => self.victim.handle_unreachable_hint(
                self.now_ns,
                address(FOE),
                Obstacle::Network(111),
            ),
            _ => drop((self.victim.stats(), self.victim.peer_stats(to))),
        }
        let mut out = Vec::new();
        drain(&mut self.victim, self.now_ns, &mut out);
        self.carry(out);
    }

    /// The friend and the victim exchange a message each.
    fn chat(&mut self) {
        let (mut a, mut b) = (vec![1; 100], vec![2; 3_000]);
        a[..8].copy_from_slice(&self.from_friend.to_le_bytes());
        b[..8].copy_from_slice(&self.to_friend.to_le_bytes());
        let to_victim = self
            .friend
            .send(self.now_ns, PeerId(VICTIM), 9, a.into(), false);
        self.from_friend += u64::from(to_victim.is_ok());
        let to_friend = self
            .victim
            .send(self.now_ns, PeerId(FRIEND), 9, b.into(), false);
        self.to_friend += u64::from(to_friend.is_ok());
        let mut out = Vec::new();
        drain(&mut self.friend, self.now_ns, &mut out);
        drain(&mut self.victim, self.now_ns, &mut out);
        self.carry(out);
    }

    fn friend_gets_through(&mut self) {
        self.chat();
        let (mut at_victim, mut at_friend) = (0, 0);
        for _ in 0..100 {
            self.pass(10_000_000);
            let wanted = Match::any().tag(9);
            while let Some(message) = self.victim.try_take(&wanted.from(PeerId(FRIEND))) {
                assert_eq!(message.body[..8], u64::to_le_bytes(at_victim));
                assert!(message.body.len() == 100 && message.body[8..].iter().all(|&b| b == 1));
                at_victim += 1;
            }
            while let Some(message) = self.friend.try_take(&wanted.from(PeerId(VICTIM))) {
                assert_eq!(message.body[..8], u64::to_le_bytes(at_friend));
                assert!(message.body.len() == 3_000 && message.body[8..].iter().all(|&b| b == 2));
                at_friend += 1;
            }
            if (at_victim, at_friend) == (self.from_friend, self.to_friend) {
                return;
            }
        }
        panic!(
            "friends are cut off: {at_victim} of {} and {at_friend} of {} messages",
            self.from_friend, self.to_friend
        );
    }
}

impl Foe {
    fn new() -> Self {
        Foe {
            initiator: None,
            entropy: Entropy::from_seed([9; 32]),
            connection: 0,
            connections: 0,
            next_number: 0,
            largest_seen: 0,
            next_id: 0,
            log_limit: 0,
            payload: Vec::new(),
            past: Vec::new(),
        }
    }

    /// A proper first message, but for the values that the script changes.
    fn init(&mut self, script: &mut Script<'_>) -> Vec<u8> {
        self.connections += 1;
        let mut hello = encode::hello(FOE, VICTIM, self.connections);
        if !script.is_over() {
            hello.sender = PeerId(FOE + 3 * (script.below(8) / 7) as u32 * script.below(20) as u32);
            hello.features = script.number(3);
            hello.window = script.number(1 << 20) as u32;
            hello.ack_delay_us = script.number(1_000) as u32;
            hello.log_limit = script.number(1 << 18);
            hello.max_datagram = script.number(1_472) as u32;
        }
        let mut message = Vec::new();
        let initiator = Initiator::start(
            &MODE,
            b"sabani\x01",
            &hello.encode(),
            &mut self.entropy,
            &mut message,
        );
        self.initiator = initiator.ok();
        self.connection = 0;
        encode::init(self.connections, false, &message)
    }

    /// Takes in what the victim says.
    fn listen(&mut self, bytes: &[u8]) {
        let Ok((prelude, _)) = Prelude::parse(bytes) else {
            panic!("the node sends nonsense");
        };
        match prelude.kind {
            Kind::Reply => self.finish(&bytes[Prelude::LEN..]),
            Kind::Data if prelude.connection.0 == self.connections => {
                self.largest_seen = self.largest_seen.max(prelude.packet_number);
                for frame in Frames::new(&bytes[Prelude::LEN..]) {
                    if let Frame::LogLimit(limit) = frame.expect("the node's frames are good") {
                        self.log_limit = limit;
                    }
                }
            }
            _ => {}
        }
        self.keep(bytes.to_vec());
    }

    fn finish(&mut self, body: &[u8]) {
        let len = u32::from_le_bytes(*body.first_chunk().expect("a reply has a length"));
        let message = &body[4..4 + len as usize];
        let finished = self.initiator.as_mut().map(|it| it.finish(message));
        if let Some(Ok((payload, _, _))) = finished {
            let hello = Hello::decode(&payload).expect("the node's hello is good");
            self.connection = hello.connection.0;
            self.log_limit = hello.log_limit;
            (self.next_number, self.largest_seen, self.next_id) = (0, 0, 0);
        }
    }

    fn keep(&mut self, packet: Vec<u8>) {
        if self.past.len() == 64 {
            self.past.remove(0);
        }
        self.past.push(packet);
    }

    /// The frames so far as a packet, under the next number or another.
    fn packet(&mut self, script: &mut Script<'_>) -> Vec<u8> {
        let number = match script.byte() {
            0..=199 => self.next_number,
            200..=230 => self.next_number + script.number(0) % 300,
            _ => script.number(self.next_number),
        } & Prelude::MAX_PACKET_NUMBER;
        if number < 1 << 40 {
            self.next_number = self.next_number.max(number + 1);
        }
        let mut packet = encode::prelude(0, script.byte() & 3, number, self.connection);
        packet.append(&mut self.payload);
        self.keep(packet.clone());
        packet
    }

    fn add_frame(&mut self, script: &mut Script<'_>) {
        if self.payload.len() > 1_400 {
            return;
        }
        let fields = Fields::default();
        let id = script.number(self.next_id) as u32;
        let (kind, body) = match script.below(15) {
            0..=2 => (1, self.entries(script)),
            3 | 4 => {
                let total = script.number(4_096);
                let offset = script.number(total);
                let len = script.below(64);
                let body = fields.u32(id).u64(total).u64(offset);
                (2, body.bytes(&vec![script.byte(); len]))
            }
            5 => (3, self.ack(script)),
            6 => (4, fields.u32(id).u64(script.number(10_000))),
            7 => (5, fields.u64(script.number(1 << 18))),
            8 => (6, fields.u64(script.number(self.log_limit))),
            9 => (9, fields.u64(script.number(self.next_number))),
            10 if script.byte() == 0 => (8, fields.u32(u32::from(script.byte()))),
            10 => (7, fields),
            11 => (12 + script.below(3) as u8, fields.u64(script.number(9))),
            12 => {
                let mut number = || script.number(20_000) as u32;
                let body = (0..6).fold(fields, |body, _| body.u32(number()));
                (15 + script.below(2) as u8, body)
            }
            13 => (17, fields.u32(id)),
            _ => (
                script.byte(),
                fields.bytes(&vec![script.byte(); script.below(40)]),
            ),
        };
        encode::frame(kind, &body.0, &mut self.payload);
    }

    fn entries(&mut self, script: &mut Script<'_>) -> Fields {
        let first = match script.byte() {
            0..=127 => self.next_id,
            _ => script.number(self.next_id),
        };
        let count = script.below(6);
        let mut log = Vec::new();
        for _ in 0..count {
            let tag = script.number(0);
            let entry = match script.below(8) {
                0..=3 => {
                    let body = vec![script.byte(); script.below(100)];
                    encode::entry(EntryMode::Inline, tag, body.len() as u64, &body)
                }
                4 => encode::entry(EntryMode::Eager, tag, script.number(4_096), &[]),
                5 | 6 => encode::entry(EntryMode::Granted, tag, script.number(50_000), &[]),
                _ => vec![script.byte(); 5],
            };
            log.extend_from_slice(&entry);
        }
        if first == self.next_id {
            self.next_id += count as u64;
        }
        let count = if script.byte() > 240 {
            script.number(0) as u32
        } else {
            count as u32
        };
        Fields::default().u32(first as u32).u32(count).bytes(&log)
    }

    fn ack(&self, script: &mut Script<'_>) -> Fields {
        let largest = match script.byte() {
            0..=200 => self.largest_seen,
            _ => script.number(self.largest_seen),
        };
        let first = match script.byte() {
            0..=100 => (largest as u32).wrapping_add(1),
            _ => script.number(1) as u32,
        };
        let mut body = Fields::default()
            .u64(largest)
            .u32(first)
            .u32(script.number(1_000) as u32)
            .u32(script.number(0) as u32)
            .u32(script.number(1 << 20) as u32);
        for _ in 0..script.below(40) / 36 * script.below(40) {
            body = body
                .u32(script.number(1) as u32)
                .u32(script.number(1) as u32);
        }
        body
    }
}
