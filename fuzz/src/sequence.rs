//! Two real nodes over a network that a script makes lose, repeat, reorder, damage and delay
//! packets, while programs send, post, take, cancel, disconnect, reconnect and start anew. Whatever happens, each message
//! is received at most once, as it was sent and in order; and once the network behaves, all of
//! them are, unless a connection was lost on the way, which both programs must have been told.

use std::collections::HashSet;

use sabani_proto::seal::{Checksum, JobKey, JobKeys, Mode};
use sabani_proto::{
    Event, Match, Message, Node, Obstacle, PeerId, PeerLost, RecvTicket, SendError,
};

use crate::script::Script;
use crate::world::{Datagram, address, config, drain, live};

/// Virtual time after which everything must have arrived over a good network.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Packets remembered for replay.
const PAST: usize = 64;

/// Runs a script.
pub fn run(data: &[u8]) {
    let mut script = Script(data);
    let mut scene = Scene::new(&mut script);
    while !script.is_over() {
        scene.step(&mut script);
    }
    scene.settle();
}

struct Side {
    node: Node,
    lives: u8,
    /// Lengths of what it has sent, by tag.
    sent: Vec<usize>,
    /// Tags of what it has received.
    received: HashSet<u64>,
    posted: Vec<RecvTicket>,
    /// Receives were posted, so results may be collected in another order than they matched.
    out_of_order: bool,
    newest: Option<u64>,
}

struct Scene {
    mode: Mode,
    sides: [Side; 2],
    wire: Vec<Datagram>,
    past: Vec<Datagram>,
    now_ns: u64,
    /// A connection ended, so messages may be missing.
    broken: bool,
}

impl Scene {
    fn new(script: &mut Script<'_>) -> Self {
        let mode = match script.below(8) {
            0 => Mode::Sealed(JobKeys {
                current: JobKey::from_bytes([7; 32]),
                previous: None,
            }),
            1 | 2 => Mode::Plain {
                checksum: Checksum::None,
            },
            _ => Mode::Plain {
                checksum: Checksum::Crc32c,
            },
        };
        let side = |id| Side {
            node: fresh(id, &mode, 0),
            lives: 0,
            sent: Vec::new(),
            received: HashSet::new(),
            posted: Vec::new(),
            out_of_order: false,
            newest: None,
        };
        Scene {
            sides: [side(0), side(1)],
            mode,
            wire: Vec::new(),
            past: Vec::new(),
            now_ns: 1_000_000,
            broken: false,
        }
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let what = script.byte();
        let side = usize::from(what & 1);
        match what >> 1 {
            0..=24 => self.send(side, script),
            25..=29 => self.pass(script.time_step()),
            30..=49 => self.arrive(script.below(2) * script.below(256)),
            50..=54 => (0..8).for_each(|_| self.arrive(0)),
            55..=61 => self.lose(script),
            62..=67 => self.repeat(script),
            68..=73 => self.damage(script),
            74..=77 => self.glue(),
            78..=87 => drop(self.take(side)),
            88..=94 => self.post(side, script),
            95..=101 => self.collect(side),
            102..=105 => self.cancel(side, script),
            106 => {
                let len = 1_000 + script.number(200) as usize % 500;
                let to = address(1 - side as u32);
                self.sides[side].node.handle_too_big(self.now_ns, to, len);
            }
            107 => {
                let to = address(1 - side as u32);
                self.sides[side].node.handle_unreachable_hint(
                    self.now_ns,
                    to,
                    Obstacle::Network(111),
                );
            }
            108 if script.below(4) == 0 => self.restart(side),
            109 if script.below(8) == 0 => {
                self.sides[side].node.close();
                self.broken = true;
            }
            110 => self.set_connected(side, false),
            111 => self.set_connected(side, true),
            _ => self.fetch(side),
        }
    }

    fn set_connected(&mut self, side: usize, connected: bool) {
        let (node, peer) = (&mut self.sides[side].node, PeerId(1 - side as u32));
        let done = match connected {
            true => node.reconnect(self.now_ns, peer),
            false => node.disconnect(self.now_ns, peer),
        };
        assert!(matches!(done, Ok(()) | Err(SendError::Closed)));
    }

    /// Takes over what a node has to send, and its events.
    fn fetch(&mut self, side: usize) {
        drain(&mut self.sides[side].node, self.now_ns, &mut self.wire);
        self.hear(side);
    }

    fn hear(&mut self, side: usize) {
        while let Some(event) = self.sides[side].node.next_event() {
            if let Event::Lost { why, .. } = event {
                let fault = matches!(why, PeerLost::Violation(_) | PeerLost::Accused);
                assert!(!fault, "honest nodes quarrel: {why}");
                self.broken = true;
            }
        }
    }

    fn send(&mut self, from: usize, script: &mut Script<'_>) {
        const SIZES: [usize; 12] = [
            0, 1, 8, 40, 64, 1_000, 1_024, 1_025, 3_000, 15_000, 20_000, 70_000,
        ];
        let len = SIZES[script.below(SIZES.len())];
        let side = &mut self.sides[from];
        let tag = side.sent.len() as u64;
        let body = pattern(from, tag, len);
        let to = PeerId(1 - from as u32);
        if side
            .node
            .send(self.now_ns, to, tag, body.into(), false)
            .is_ok()
        {
            side.sent.push(len);
        }
        if script.below(3) > 0 {
            self.fetch(from);
        }
    }

    fn pass(&mut self, step_ns: u64) {
        let until = self.now_ns + step_ns;
        for side in 0..2 {
            let mut now = self.now_ns;
            live(&mut self.sides[side].node, &mut now, until, &mut self.wire);
            self.hear(side);
        }
        self.now_ns = until;
    }

    fn pull(&mut self, at: usize) -> Option<Datagram> {
        if self.wire.is_empty() {
            return None;
        }
        let datagram = self.wire.remove(at % self.wire.len());
        if self.past.len() == PAST {
            self.past.remove(0);
        }
        self.past.push(datagram.clone());
        Some(datagram)
    }

    fn deliver(&mut self, mut datagram: Datagram, segment: usize) {
        let side = usize::from(datagram.to == address(1));
        let node = &mut self.sides[side].node;
        node.handle_datagrams(
            self.now_ns,
            datagram.from,
            None,
            segment,
            false,
            &mut datagram.bytes,
        );
        self.fetch(side);
    }

    fn arrive(&mut self, at: usize) {
        if let Some(datagram) = self.pull(at) {
            let segment = datagram.bytes.len();
            self.deliver(datagram, segment);
        }
    }

    fn lose(&mut self, script: &mut Script<'_>) {
        let _ = self.pull(script.below(2) * script.below(256));
    }

    /// A packet comes again, long afterwards perhaps.
    fn repeat(&mut self, script: &mut Script<'_>) {
        if !self.past.is_empty() {
            let datagram = self.past[script.below(PAST) % self.past.len()].clone();
            let segment = datagram.bytes.len();
            self.deliver(datagram, segment);
        }
    }

    /// A packet is changed on the way. Only a mode that would notice has to bear that.
    fn damage(&mut self, script: &mut Script<'_>) {
        let guarded = !matches!(
            self.mode,
            Mode::Plain {
                checksum: Checksum::None
            }
        );
        let Some(mut datagram) = self.pull(script.byte().into()).filter(|_| guarded) else {
            return;
        };
        if script.below(4) == 0 {
            datagram.bytes.truncate(script.byte().into());
        }
        for _ in 0..=script.below(3) {
            let at = script.number(16) as usize % datagram.bytes.len().max(1);
            if let Some(byte) = datagram.bytes.get_mut(at) {
                *byte ^= script.byte().max(1);
            }
        }
        let segment = datagram.bytes.len();
        self.deliver(datagram, segment);
    }

    /// The kernel hands over several datagrams as one.
    fn glue(&mut self) {
        let Some(mut train) = self.pull(0) else {
            return;
        };
        let segment = train.bytes.len();
        while self.wire.first().is_some_and(|next| {
            next.to == train.to && next.bytes.len() <= segment && train.bytes.len() % segment == 0
        }) {
            let next = self.pull(0).expect("one is there");
            train.bytes.extend_from_slice(&next.bytes);
        }
        self.deliver(train, segment);
    }

    fn restart(&mut self, side: usize) {
        let this = &mut self.sides[side];
        this.lives = this.lives.wrapping_add(1);
        this.node = fresh(side as u32, &self.mode, this.lives);
        this.posted.clear();
        self.broken = true;
    }

    fn accept(&mut self, side: usize, message: Message, in_order: bool) {
        let from = 1 - side;
        assert_eq!(message.source, PeerId(from as u32));
        let len = self.sides[from].sent.get(message.tag as usize).copied();
        assert_eq!(len, Some(message.body.len()), "tag {}", message.tag);
        assert!(*message.body == *pattern(from, message.tag, message.body.len()));
        let this = &mut self.sides[side];
        assert!(
            this.received.insert(message.tag),
            "{} came twice",
            message.tag
        );
        if in_order && !this.out_of_order {
            assert!(this.newest < Some(message.tag), "out of order");
            this.newest = Some(message.tag);
        }
    }

    fn take(&mut self, side: usize) -> bool {
        let Some(message) = self.sides[side].node.try_take(&Match::any()) else {
            return false;
        };
        self.accept(side, message, true);
        true
    }

    fn post(&mut self, side: usize, script: &mut Script<'_>) {
        let this = &mut self.sides[side];
        let buffer = [None, Some(vec![1; 100]), Some(vec![2; 70_000])];
        let buffer = buffer[script.below(3)].clone();
        let any = Match::any();
        let wanted = [any, any.tag_mask(script.number(0), 3)][script.below(2)];
        if this.posted.len() < 16 {
            this.posted.push(this.node.post(wanted, buffer));
            this.out_of_order = true;
        }
    }

    fn collect(&mut self, side: usize) {
        for ticket in std::mem::take(&mut self.sides[side].posted) {
            match self.sides[side].node.take_received(ticket) {
                None => self.sides[side].posted.push(ticket),
                Some(Ok(message)) => self.accept(side, message, false),
                Some(Err(_)) => {}
            }
        }
    }

    fn cancel(&mut self, side: usize, script: &mut Script<'_>) {
        let this = &mut self.sides[side];
        if this.posted.is_empty() {
            return;
        }
        let ticket = this
            .posted
            .swap_remove(script.below(256) % this.posted.len());
        if let (Some(Ok(message)), _) = this.node.cancel(ticket) {
            self.accept(side, message, false);
        }
    }

    /// The network behaves from now on, and programs take what comes.
    fn settle(&mut self) {
        let end = self.now_ns + PATIENCE_NS;
        for side in 0..2 {
            self.set_connected(side, true);
        }
        while self.now_ns < end {
            for side in 0..2 {
                while !self.sides[side].posted.is_empty() {
                    self.cancel(side, &mut Script(&[]));
                }
                while self.take(side) {}
                self.fetch(side);
            }
            if self.is_done() {
                return;
            }
            match self.wire.is_empty() {
                true => self.pass(1_000_000),
                false => self.now_ns += 20_000,
            }
            for _ in 0..self.wire.len() {
                self.arrive(0);
            }
        }
        assert!(self.broken, "messages are missing although nothing failed");
    }

    fn is_done(&mut self) -> bool {
        let settled = self.sides.iter_mut().all(|side| side.node.is_settled());
        let arrived =
            |from: usize| self.sides[1 - from].received.len() == self.sides[from].sent.len();
        settled && (self.broken || (arrived(0) && arrived(1)))
    }
}

fn fresh(id: u32, mode: &Mode, lives: u8) -> Node {
    let mut node = Node::new(config(id, mode.clone()), [id as u8 + 2 * lives; 32]);
    node.add_peer(PeerId(1 - id), address(1 - id));
    node
}

/// The body of a message: nothing else has the same.
fn pattern(from: usize, tag: u64, len: usize) -> Vec<u8> {
    let key = (tag * 2 + from as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..len)
        .map(|at| (key.rotate_left(at as u32 % 64) >> 56) as u8 ^ (at >> 6) as u8)
        .collect()
}
