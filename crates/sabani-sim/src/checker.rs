//! What must hold whatever the network does: every message that a node accepted arrives exactly
//! once, with its bytes unchanged and in order; what was meant for a dead process reaches no other;
//! queues stay within their bounds. Scenarios know nothing of these rules, and these rules nothing
//! of scenarios.

use std::collections::BTreeMap;
use std::fmt;

use sabani_proto::{Message, Node, PeerLost};

use crate::{HostId, Rng, SEC};

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// What was expected, and what happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at_ns as f64 / SEC as f64;
        write!(f, "at {seconds:.6} s: {}", self.what)
    }
}

/// What becomes of an accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waiting,
    Delivered,
    /// Its sender was told that it may be lost, or died: it may still arrive.
    Excused,
}

#[derive(Debug)]
struct Sent {
    len: usize,
    /// Incarnation of the process that it was accepted for, if that was known.
    meant_for: Option<u64>,
    /// How often the receiver had died before.
    deaths: u32,
    /// The sender was told that the receiver's library has it.
    confirmed: bool,
    fate: Fate,
}

/// Messages from one host to another, by their sequence number.
#[derive(Debug, Default)]
struct Pair {
    sent: Vec<Sent>,
    /// By class: the sequence number after the last one delivered.
    next: BTreeMap<u8, u64>,
    /// Incarnation that the sender last heard of.
    peer: Option<u64>,
    /// How often the receiver has died.
    deaths: u32,
}

impl Pair {
    fn waiting(&mut self) -> impl Iterator<Item = &mut Sent> {
        let sent = self.sent.iter_mut();
        sent.filter(|sent| sent.fate == Fate::Waiting)
    }
}

/// Follows every message from acceptance to delivery.
#[derive(Debug, Default)]
pub struct Checker {
    pairs: BTreeMap<(HostId, HostId), Pair>,
    violations: Vec<Violation>,
    /// Messages accepted by nodes.
    pub accepted: u64,
    /// Messages that programs received.
    pub delivered: u64,
    /// Messages whose senders were told that they may be lost.
    pub excused: u64,
}

/// Sequence numbers take the low bits of a tag, the class the highest eight.
const CLASS_SHIFT: u32 = 56;

/// The tag of a pair's message: its class, for selective receives, and its sequence number.
pub fn tag(class: u8, sequence: u64) -> u64 {
    u64::from(class) << CLASS_SHIFT | sequence
}

/// The mask under which tags of one class are equal.
pub const CLASS_MASK: u64 = 0xff << CLASS_SHIFT;

/// The bytes of a message: a function of its name.
pub fn body(from: HostId, to: HostId, tag: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    pattern(from, to, tag).fill(&mut bytes);
    bytes
}

fn pattern(from: HostId, to: HostId, tag: u64) -> Rng {
    Rng::new(tag ^ u64::from(from.0) << 20 ^ u64::from(to.0) << 40)
}

/// Where a message first differs from what was sent.
fn first_difference(from: HostId, to: HostId, tag: u64, bytes: &[u8]) -> Option<usize> {
    let mut expected = pattern(from, to, tag);
    for (at, chunk) in bytes.chunks(8).enumerate() {
        let word = expected.next_u64().to_le_bytes();
        if let Some(off) = (0..chunk.len()).find(|&off| chunk[off] != word[off]) {
            return Some(8 * at + off);
        }
    }
    None
}

impl Checker {
    /// Notes a broken rule.
    pub fn violated(&mut self, at_ns: u64, what: impl Into<String>) {
        let what = what.into();
        self.violations.push(Violation { at_ns, what });
    }

    /// Rules broken so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Sequence number of the next message of a pair.
    pub fn next_sequence(&self, from: HostId, to: HostId) -> u64 {
        self.pairs
            .get(&(from, to))
            .map_or(0, |pair| pair.sent.len() as u64)
    }

    /// A node accepted the pair's next message. `open`: it has a connection to the receiver.
    pub fn on_accepted(&mut self, from: HostId, to: HostId, len: usize, open: bool) {
        let pair = self.pairs.entry((from, to)).or_default();
        pair.sent.push(Sent {
            len,
            meant_for: pair.peer.filter(|_| open),
            deaths: pair.deaths,
            confirmed: false,
            fate: Fate::Waiting,
        });
        self.accepted += 1;
    }

    /// The sender was told that the receiver's library has the message.
    pub fn on_confirmed(&mut self, from: HostId, to: HostId, sequence: u64) {
        if let Some(pair) = self.pairs.get_mut(&(from, to)) {
            pair.sent[sequence as usize].confirmed = true;
        }
    }

    /// A sender made a connection to this incarnation.
    pub fn on_connected(&mut self, from: HostId, to: HostId, incarnation: u64) {
        self.pairs.entry((from, to)).or_default().peer = Some(incarnation);
    }

    /// A sender was told that a connection ended: what it had not been told to have arrived may
    /// be lost.
    pub fn on_lost(&mut self, now_ns: u64, from: HostId, to: HostId, why: &PeerLost, unsent: u64) {
        let pair = self.pairs.entry((from, to)).or_default();
        let deaths = pair.deaths;
        let mut excused = 0;
        for sent in pair.waiting() {
            if !sent.confirmed || sent.deaths < deaths {
                sent.fate = Fate::Excused;
                excused += 1;
            }
        }
        self.excused += excused;
        if let PeerLost::Violation(what) = why {
            let what = format!("{from} accuses {to}, which is innocent: {what}");
            self.violated(now_ns, what);
        }
        if matches!(why, PeerLost::Accused) {
            self.violated(now_ns, format!("{to} accuses {from}, which is innocent"));
        }
        if unsent > self.next_sequence(from, to) {
            let what = format!("{from} lost {unsent} messages to {to}, more than it had accepted");
            self.violated(now_ns, what);
        }
    }

    /// A host died: what it sent may be lost, and what it had received and not read.
    pub fn on_death(&mut self, host: HostId) {
        for (&(from, to), pair) in &mut self.pairs {
            if from != host && to != host {
                continue;
            }
            pair.deaths += u32::from(to == host);
            for sent in pair.waiting() {
                if from == host || sent.confirmed {
                    sent.fate = Fate::Excused;
                    self.excused += 1;
                }
            }
            if from == host {
                pair.peer = None;
            }
        }
    }

    /// A program received a message.
    pub fn on_delivered(&mut self, now_ns: u64, to: HostId, node: &Node, message: &Message) {
        let from = HostId(message.source.0);
        let sequence = message.tag & !CLASS_MASK;
        let class = (message.tag >> CLASS_SHIFT) as u8;
        let bytes = &message.body[..];
        match self.judge(from, to, node.incarnation(), sequence, class, bytes.len()) {
            Ok(()) => self.delivered += 1,
            Err(what) => {
                let what = format!("message {sequence} from {from} to {to}: {what}");
                return self.violated(now_ns, what);
            }
        }
        if let Some(at) = first_difference(from, to, message.tag, bytes) {
            let len = bytes.len();
            let what = format!(
                "message {sequence} from {from} to {to}, {len} bytes: byte {at} differs from what \
                 was sent"
            );
            self.violated(now_ns, what);
        }
    }

    fn judge(
        &mut self,
        from: HostId,
        to: HostId,
        incarnation: u64,
        sequence: u64,
        class: u8,
        len: usize,
    ) -> Result<(), String> {
        let pair = self.pairs.get_mut(&(from, to)).ok_or("never sent")?;
        let sent = pair.sent.get_mut(sequence as usize).ok_or("never sent")?;
        if sent.fate == Fate::Delivered {
            return Err("delivered twice".into());
        }
        if sent.len != len {
            return Err(format!("sent with {} bytes, came with {len}", sent.len));
        }
        if sent.meant_for.is_some_and(|meant| meant != incarnation) {
            return Err("meant for a process that is dead".into());
        }
        sent.fate = Fate::Delivered;
        let next = pair.next.entry(class).or_default();
        if sequence < *next {
            return Err(format!("out of order, after number {}", *next - 1));
        }
        *next = sequence + 1;
        Ok(())
    }

    /// The first message accepted, not delivered, and not known to be lost, and how many of them
    /// there are.
    pub fn missing(&self) -> Option<(usize, String)> {
        let waiting = self.pairs.iter().flat_map(|(&(from, to), pair)| {
            let sent = pair.sent.iter().enumerate();
            sent.filter(|(_, sent)| sent.fate == Fate::Waiting)
                .map(move |(sequence, sent)| (from, to, sequence, sent.len))
        });
        let mut waiting = waiting.peekable();
        let &(from, to, sequence, len) = waiting.peek()?;
        let first = format!("message {sequence} ({len} bytes) from {from} to {to}");
        Some((waiting.count(), first))
    }

    /// Whether every message has been delivered, or is known to be lost.
    pub fn is_settled(&self) -> bool {
        let mut sent = self.pairs.values().flat_map(|pair| &pair.sent);
        sent.all(|sent| sent.fate != Fate::Waiting)
    }

    /// A node's queues must stay within what its configuration allows. `largest` is the length of
    /// the largest single message in play.
    pub fn check_bounds(&mut self, now_ns: u64, host: HostId, node: &Node, largest: usize) {
        let config = node.config();
        let most = config.send_queue_bytes.max(largest) + largest.min(64 << 10) + (64 << 10);
        let mut broken = Vec::new();
        for peer in node.peer_ids() {
            let Some(stats) = node.peer_stats(peer) else {
                continue;
            };
            if stats.queued_bytes > most {
                broken.push(format!(
                    "{} bytes queued to peer {peer}",
                    stats.queued_bytes
                ));
            }
            if stats.backlog_bytes > config.log_window_max {
                broken.push(format!(
                    "a backlog of {} bytes from peer {peer}",
                    stats.backlog_bytes
                ));
            }
        }
        let unmatched = node.stats().unmatched_bytes;
        if unmatched > config.memory_bytes {
            broken.push(format!("{unmatched} bytes reserved for unmatched messages"));
        }
        for what in broken {
            self.violated(now_ns, format!("{host} exceeds its bounds: {what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use sabani_proto::{Config, Match, PeerId};

    use super::*;
    use crate::sealed;

    const FROM: HostId = HostId(0);
    const TO: HostId = HostId(0);

    /// A checker that knows of `count` messages, and a node that receives what it sends itself.
    fn world(count: u64) -> (Checker, Node) {
        let mut checker = Checker::default();
        for _ in 0..count {
            checker.on_accepted(FROM, TO, 100, true);
        }
        (
            checker,
            Node::new(Config::new(PeerId(0), sealed()), [1; 32]),
        )
    }

    /// Sequence number, number of the message whose bytes it has, and length.
    type Arrival = (u64, u64, usize);

    /// What the checker says when these messages arrive, with the bytes of `like`.
    fn verdict(checker: &mut Checker, node: &mut Node, arrivals: &[Arrival]) -> String {
        for &(sequence, like, len) in arrivals {
            let bytes = body(FROM, TO, tag(0, like), len);
            let sent = node.send_copy(0, PeerId(0), tag(0, sequence), &bytes, false);
            sent.expect("a node takes messages to itself");
            let message = node.try_take(&Match::any()).expect("it is here");
            checker.on_delivered(7, TO, node, &message);
        }
        let broken = checker.violations().iter().map(Violation::to_string);
        broken.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn each_rule_is_checked() {
        let cases: [(&[Arrival], &str); 6] = [
            (&[(0, 0, 100), (1, 1, 100)], ""),
            (&[(0, 0, 100), (0, 0, 100)], "delivered twice"),
            (&[(1, 1, 100), (0, 0, 100)], "out of order"),
            (&[(0, 1, 100)], "byte 0 differs"),
            (&[(0, 0, 99)], "sent with 100 bytes, came with 99"),
            (&[(2, 2, 100)], "never sent"),
        ];
        for (arrivals, expected) in cases {
            let (mut checker, mut node) = world(2);
            let said = verdict(&mut checker, &mut node, arrivals);
            assert!(said.contains(expected), "{said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{said}");
        }
    }

    #[test]
    fn the_dead_get_no_mail_through_the_living() {
        let (mut checker, mut node) = world(0);
        checker.on_connected(FROM, TO, node.incarnation() ^ 1);
        checker.on_accepted(FROM, TO, 100, true);
        let said = verdict(&mut checker, &mut node, &[(0, 0, 100)]);
        assert!(said.contains("meant for a process that is dead"), "{said}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let (mut checker, mut node) = world(3);
        verdict(&mut checker, &mut node, &[(0, 0, 100)]);
        assert!(!checker.is_settled());
        let (count, first) = checker.missing().expect("two are missing");
        assert_eq!(count, 2);
        assert!(first.starts_with("message 1 (100 bytes)"), "{first}");
    }
}
