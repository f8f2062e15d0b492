//! What must hold whatever the network does. Scenarios know nothing of these rules, and these rules
//! nothing of scenarios.
//!
//! | module | rules |
//! |---|---|
//! | [`ledger`] | none: the life of every message, which the others judge and scenarios measure |
//! | `content` | none: what is in messages |
//! | `delivery` | [`Rule::Once`], [`Rule::Order`], [`Rule::Bytes`], [`Rule::Blame`] |
//! | `resources` | [`Rule::Bounds`], [`Rule::Credit`] |
//! | `waits` | [`Rule::Wait`], and [`Rule::Progress`] of what has arrived |
//!
//! [`Rule::Progress`], [`Rule::Work`] and [`Rule::Closed`] are about time and turns: the
//! [`Network`](crate::Network) notices; [`Rule::Panic`], who runs a [`Plan`](crate::Plan).

mod content;
mod delivery;
pub mod ledger;
mod resources;
mod waits;

use std::fmt;

pub use content::Content;
pub use ledger::{Fate, Ledger, Sent, StreamCount, Wish};

use sabani_proto::{Message, Node};

use crate::{HostId, SEC};

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Every message that a node accepted is delivered once, to the process it was meant for.
    Once,
    /// Messages of one sender that match the same receives come in the order of sending.
    Order,
    /// A message's bytes are those that were sent.
    Bytes,
    /// Queues and memory stay within what the configuration allows.
    Bounds,
    /// What is settled holds no credit, no window and no memory.
    Credit,
    /// A node that has closed sends nothing.
    Closed,
    /// Once faults have stopped, everything is delivered before a deadline.
    Progress,
    /// While nothing goes wrong, no message takes longer than what it meets on its way explains.
    Wait,
    /// A turn of a host ends, and a host that has nothing to do sleeps.
    Work,
    /// Nobody is accused of breaking the protocol.
    Blame,
    /// Nothing panics.
    Panic,
}

impl Rule {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Once => "once",
            Rule::Order => "order",
            Rule::Bytes => "bytes",
            Rule::Bounds => "bounds",
            Rule::Credit => "credit",
            Rule::Closed => "closed",
            Rule::Progress => "progress",
            Rule::Wait => "wait",
            Rule::Work => "work",
            Rule::Blame => "blame",
            Rule::Panic => "panic",
        }
    }
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// Which.
    pub rule: Rule,
    /// What was expected, and what happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at_ns as f64 / SEC as f64;
        write!(f, "at {seconds:.6} s, {}: {}", self.rule.name(), self.what)
    }
}

/// Follows every message from acceptance to delivery, and every node's resources.
#[derive(Debug, Default)]
pub struct Checker {
    /// The messages.
    pub ledger: Ledger,
    violations: Vec<Violation>,
    /// Messages accepted by nodes.
    pub accepted: u64,
    /// Messages that programs received.
    pub delivered: u64,
    /// Messages whose senders were told that they may be lost.
    pub excused: u64,
    /// Times that a node was told that a connection ended.
    pub parted: u64,
}

/// Sequence numbers take the low bits of a tag, the class the highest eight.
const CLASS_SHIFT: u32 = 56;

/// The tag of a pair's message: its class, for selective receives, and its sequence number.
pub fn tag(class: u8, sequence: u64) -> u64 {
    u64::from(class) << CLASS_SHIFT | sequence
}

/// The mask under which tags of one class are equal.
pub const CLASS_MASK: u64 = 0xff << CLASS_SHIFT;

/// A message as a program was given it.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Who sent it.
    pub from: HostId,
    /// Whose program has it.
    pub to: HostId,
    /// Names the life of the receiving process.
    pub incarnation: u64,
    /// Its tag.
    pub tag: u64,
    /// Its bytes.
    pub body: &'a [u8],
}

impl<'a> Delivery<'a> {
    /// What `node`, at `to`, gave its program.
    pub fn new(to: HostId, node: &Node, message: &'a Message) -> Self {
        Delivery {
            from: HostId(message.source.0),
            to,
            incarnation: node.incarnation(),
            tag: message.tag,
            body: &message.body,
        }
    }

    fn sequence(&self) -> u64 {
        self.tag & !CLASS_MASK
    }

    fn class(&self) -> u8 {
        (self.tag >> CLASS_SHIFT) as u8
    }
}

impl Checker {
    /// Notes a broken rule.
    pub fn violated(&mut self, at_ns: u64, rule: Rule, what: impl Into<String>) {
        let what = what.into();
        self.violations.push(Violation { at_ns, rule, what });
    }

    /// Rules broken so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sabani_proto::{Config, Envelope, Match, PeerId, PeerLost, Value};

    use super::*;
    use crate::sealed;

    const FROM: HostId = HostId(0);
    const TO: HostId = HostId(0);

    fn wish() -> Wish {
        Wish {
            len: 100,
            ..Wish::default()
        }
    }

    /// A checker that knows of `count` messages, and a node that receives what it sends itself.
    fn world(count: u64) -> (Checker, Node) {
        let mut checker = Checker::default();
        for _ in 0..count {
            checker.on_accepted(FROM, TO, wish(), true);
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
            let content = Content::of(FROM, TO, tag(0, like), len);
            let bytes = content.as_ref();
            let sent = node.send_copy(0, PeerId(0), tag(0, sequence), bytes, false);
            sent.expect("a node takes messages to itself");
            let message = node.try_take(&Match::any()).expect("it is here");
            checker.on_delivered(7, Delivery::new(TO, node, &message));
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
            (&[(0, 0, 99)], "99 bytes: sent with 100"),
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
        checker.on_accepted(FROM, TO, wish(), true);
        let said = verdict(&mut checker, &mut node, &[(0, 0, 100)]);
        assert!(said.contains("meant for a process that is dead"), "{said}");
    }

    #[test]
    fn a_message_that_took_long_is_named_unless_something_went_wrong() {
        let waits = |calm_ns, within_ns, parted| {
            let (mut checker, mut node) = world(1);
            verdict(&mut checker, &mut node, &[(0, 0, 100)]);
            checker.parted = parted;
            checker.check_waits(7, calm_ns, within_ns);
            let rules = checker.violations().iter().map(|broken| broken.rule);
            rules.collect::<Vec<_>>()
        };
        assert_eq!(waits(0, 6, 0), [Rule::Wait], "it took 7 ns");
        assert_eq!(waits(0, 7, 0), []);
        assert_eq!(waits(1, 6, 0), [], "until then it was not calm");
        assert_eq!(waits(0, 6, 1), [], "peers have lost each other");
    }

    #[test]
    fn a_message_that_came_later_than_anything_may_is_named_whatever_went_wrong() {
        let late = |last_ns, within_ns| {
            let (mut checker, mut node) = world(1);
            verdict(&mut checker, &mut node, &[(0, 0, 100)]);
            checker.parted = 1;
            checker.check_late(7, last_ns, within_ns);
            let rules = checker.violations().iter().map(|broken| broken.rule);
            rules.collect::<Vec<_>>()
        };
        assert_eq!(late(0, 6), [Rule::Progress], "it took 7 ns");
        assert_eq!(late(0, 7), []);
        assert_eq!(late(1, 6), [], "until then something was to happen");
    }

    #[test]
    fn what_nodes_tell_of_a_message_must_be_true() {
        let told = |value, tell: &dyn Fn(&mut Checker, &mut Node)| {
            let (mut checker, mut node) = world(0);
            checker.on_accepted(FROM, TO, Wish { value, ..wish() }, true);
            tell(&mut checker, &mut node);
            let broken = checker.violations().iter().map(Violation::to_string);
            broken.collect::<Vec<_>>().join("; ")
        };
        let envelope = Envelope {
            source: PeerId(FROM.0),
            tag: tag(0, 0),
            len: 100,
            complete: false,
        };
        let within = Value::Within(Duration::from_secs(1));
        let late_ns = 2 * SEC;
        for (value, now_ns, expected) in [
            (Value::Reliable, late_ns, "has expired, yet is reliable"),
            (within, late_ns, ""),
            (Value::BestEffort, 0, ""),
        ] {
            let said = told(value, &|checker, _| checker.on_expired(now_ns, FROM, TO, 0));
            assert!(said.contains(expected), "{said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{said}");
        }
        let missed = |checker: &mut Checker| checker.on_missed(late_ns, TO, &envelope);
        let said = told(within, &|checker, node| {
            missed(checker);
            verdict(checker, node, &[(0, 0, 100)]);
        });
        assert!(said.contains("said to have expired before"), "{said}");
        let said = told(within, &|checker, node| {
            verdict(checker, node, &[(0, 0, 100)]);
            missed(checker);
        });
        assert!(said.contains("was told of"), "{said}");
        let lost = |why: PeerLost, unsent| {
            told(within, &|checker, _| {
                checker.on_lost(0, FROM, TO, &why, unsent)
            })
        };
        assert_eq!(lost(PeerLost::Closed, 1), "");
        assert!(lost(PeerLost::Closed, 2).contains("more than it had accepted"));
        assert!(lost(PeerLost::Accused, 0).contains("accuses"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let (mut checker, mut node) = world(3);
        verdict(&mut checker, &mut node, &[(0, 0, 100)]);
        assert!(!checker.ledger.is_settled());
        let (count, first) = checker.ledger.missing().expect("two are missing");
        assert_eq!(count, 2);
        assert!(first.starts_with("message 1 (100 bytes)"), "{first}");
    }
}
