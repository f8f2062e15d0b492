//! What programs are given: each message once, with its own bytes, in the order of matching; and
//! what was meant for a dead process, to nobody.

use sabani_proto::{Envelope, Node, PeerLost, Value};

use super::{CLASS_MASK, Checker, Content, Delivery, Fate, Rule, Wish};
use crate::HostId;

/// The rule that a delivery breaks, and how.
type Judgement = Result<(), (Rule, String)>;

/// Where a message first differs from what was sent.
fn first_difference(from: HostId, to: HostId, tag: u64, bytes: &[u8]) -> Option<usize> {
    let sent = Content::of(from, to, tag, bytes.len());
    let sent = sent.as_ref();
    if bytes == sent {
        return None;
    }
    bytes.iter().zip(sent).position(|(byte, sent)| byte != sent)
}

impl Checker {
    /// A node accepted the pair's next message. `open`: it has a connection to the receiver.
    pub fn on_accepted(&mut self, from: HostId, to: HostId, wish: Wish, open: bool) {
        self.ledger.accept(from, to, wish, open);
        self.accepted += 1;
    }

    /// The sender was told that the receiver's library has the message.
    pub fn on_confirmed(&mut self, from: HostId, to: HostId, sequence: u64) {
        if let Some(pair) = self.ledger.pairs.get_mut(&(from, to)) {
            pair.sent[sequence as usize].confirmed = true;
        }
    }

    /// The sender was told that the message has expired. All of it may have arrived.
    pub fn on_expired(&mut self, now_ns: u64, from: HostId, to: HostId, sequence: u64) {
        let sent = self.ledger.sent(from, to, sequence);
        if sent.is_none_or(|sent| sent.wish.value == Value::Reliable) {
            let what =
                format!("message {sequence} from {from} to {to} has expired, yet is reliable");
            return self.violated(now_ns, Rule::Once, what);
        }
        self.ledger.expire(from, to, sequence);
    }

    /// The receiver was told that the message has expired: it must not have it, nor ever get it.
    pub fn on_missed(&mut self, now_ns: u64, to: HostId, envelope: &Envelope) {
        let (from, sequence) = (HostId(envelope.source.0), envelope.tag & !CLASS_MASK);
        let sent = self.ledger.sent(from, to, sequence);
        if sent.is_some_and(|sent| sent.missed || sent.was_had()) {
            let what =
                format!("message {sequence} from {from} to {to} has expired, and was told of");
            self.violated(now_ns, Rule::Once, what);
        }
        self.on_expired(now_ns, from, to, sequence);
        self.ledger.miss(from, to, sequence);
    }

    /// A sender made a connection to this incarnation.
    pub fn on_connected(&mut self, from: HostId, to: HostId, incarnation: u64) {
        self.ledger.pairs.entry((from, to)).or_default().peer = Some(incarnation);
    }

    /// A sender was told that a connection ended: what it had not been told to have arrived may
    /// be lost.
    pub fn on_lost(&mut self, now_ns: u64, from: HostId, to: HostId, why: &PeerLost, unsent: u64) {
        self.parted += 1;
        self.excused += self.ledger.excuse(from, to, |sent, deaths| {
            !sent.confirmed || sent.deaths < deaths
        });
        if let PeerLost::Violation(what) = why {
            let what = format!("{from} accuses {to}, which is innocent: {what}");
            self.violated(now_ns, Rule::Blame, what);
        }
        if matches!(why, PeerLost::Accused) {
            let what = format!("{to} accuses {from}, which is innocent");
            self.violated(now_ns, Rule::Blame, what);
        }
        if unsent > self.ledger.next_sequence(from, to) {
            let what = format!("{from} lost {unsent} messages to {to}, more than it had accepted");
            self.violated(now_ns, Rule::Once, what);
        }
    }

    /// A host died: what it sent may be lost, and what it had received and not read.
    pub fn on_death(&mut self, host: HostId) {
        let pairs: Vec<_> = self.ledger.pairs.keys().copied().collect();
        for (from, to) in pairs {
            if from == host || to == host {
                let excused = self
                    .ledger
                    .excuse(from, to, |sent, _| from == host || sent.confirmed);
                self.excused += excused;
            }
        }
        for (&(from, to), pair) in &mut self.ledger.pairs {
            pair.deaths += u32::from(to == host);
            if from == host {
                pair.peer = None;
            }
        }
    }

    /// A program received a message.
    pub fn on_delivered(&mut self, now_ns: u64, delivery: Delivery<'_>) {
        let verdict = self
            .is_expected(&delivery)
            .and_then(|()| self.deliver(now_ns, &delivery))
            .and_then(|()| self.is_unchanged(&delivery))
            .and_then(|()| self.is_in_order(&delivery));
        self.judge(now_ns, &delivery, verdict);
    }

    /// A program has thrown a message away, which counts as receiving it: once, and in its turn.
    pub fn on_discarded(&mut self, now_ns: u64, to: HostId, node: &Node, envelope: &Envelope) {
        let delivery = Delivery {
            from: HostId(envelope.source.0),
            to,
            incarnation: node.incarnation(),
            tag: envelope.tag,
            body: &[],
        };
        let verdict = self.is_expected(&delivery).and_then(|()| {
            let (from, sequence) = (delivery.from, delivery.sequence());
            self.ledger.hand_over(from, to, sequence, Fate::Discarded);
            self.is_in_order(&delivery)
        });
        self.judge(now_ns, &delivery, verdict);
    }

    fn judge(&mut self, now_ns: u64, delivery: &Delivery<'_>, verdict: Judgement) {
        if let Err((rule, what)) = verdict {
            let Delivery { from, to, body, .. } = *delivery;
            let (sequence, len) = (delivery.sequence(), body.len());
            let what = format!("message {sequence} from {from} to {to}, {len} bytes: {what}");
            self.violated(now_ns, rule, what);
        }
    }

    fn is_expected(&self, delivery: &Delivery<'_>) -> Judgement {
        let once = |what: &str| Err((Rule::Once, what.to_string()));
        let pair = self.ledger.pairs.get(&(delivery.from, delivery.to));
        let sent = pair.and_then(|pair| pair.sent.get(delivery.sequence() as usize));
        let Some(sent) = sent else {
            return once("never sent");
        };
        if sent.was_had() {
            return once("delivered twice");
        }
        if sent.missed {
            return once("said to have expired before");
        }
        if sent
            .meant_for
            .is_some_and(|meant| meant != delivery.incarnation)
        {
            return once("meant for a process that is dead");
        }
        Ok(())
    }

    fn deliver(&mut self, now_ns: u64, delivery: &Delivery<'_>) -> Judgement {
        let (from, to) = (delivery.from, delivery.to);
        let fate = Fate::Delivered { at_ns: now_ns };
        self.ledger.hand_over(from, to, delivery.sequence(), fate);
        self.delivered += 1;
        Ok(())
    }

    fn is_unchanged(&self, delivery: &Delivery<'_>) -> Judgement {
        let (from, to) = (delivery.from, delivery.to);
        let wished = self.ledger.pairs[&(from, to)].sent[delivery.sequence() as usize].wish;
        let what = if wished.len != delivery.body.len() {
            format!("sent with {}", wished.len)
        } else if let Some(at) = first_difference(from, to, delivery.tag, delivery.body) {
            format!("byte {at} differs from what was sent")
        } else {
            return Ok(());
        };
        Err((Rule::Bytes, what))
    }

    fn is_in_order(&mut self, delivery: &Delivery<'_>) -> Judgement {
        let (sequence, class) = (delivery.sequence(), delivery.class());
        let pair = self.ledger.pairs.get_mut(&(delivery.from, delivery.to));
        let next = pair.expect("expected").next.entry(class).or_default();
        if sequence < *next {
            let what = format!("out of order, after number {}", *next - 1);
            return Err((Rule::Order, what));
        }
        *next = sequence + 1;
        Ok(())
    }
}
