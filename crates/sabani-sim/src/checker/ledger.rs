//! The life of every message, from a program's wish to send it to its delivery: facts, no verdicts.

use std::collections::BTreeMap;

use sabani_proto::Value;

use crate::HostId;

/// What becomes of an accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is under way.
    Waiting,
    /// The receiving program has it, since this time.
    Delivered {
        /// In nanoseconds.
        at_ns: u64,
    },
    /// The receiving program has thrown it away.
    Discarded,
    /// Its sender was told that it may be lost, or died: it may still arrive.
    Excused,
    /// It was worth something for some time only, and was dropped.
    Expired,
}

/// What a program wishes to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// For selective receives: the highest bits of the tag.
    pub class: u8,
    /// Bytes.
    pub len: usize,
    /// Whether the program asks to be told of the arrival.
    pub tracked: bool,
    /// How far the node is to go for it.
    pub value: Value,
    /// Number of the stream of traffic that it belongs to; scenarios count by it.
    pub stream: u32,
    /// Since when it has been wished, in nanoseconds.
    pub since_ns: u64,
}

/// A message that a node accepted.
#[derive(Clone, Debug)]
pub struct Sent {
    /// What the program wished.
    pub wish: Wish,
    /// What has become of it.
    pub fate: Fate,
    /// Incarnation of the process that it was accepted for, if that was known.
    pub(super) meant_for: Option<u64>,
    /// How often the receiver had died before.
    pub(super) deaths: u32,
    /// The sender was told that the receiver's library has it.
    pub(super) confirmed: bool,
    /// The receiver was told that it does not come.
    pub(super) missed: bool,
}

impl Sent {
    /// Whether the receiving program has had it.
    pub(super) fn was_had(&self) -> bool {
        matches!(self.fate, Fate::Delivered { .. } | Fate::Discarded)
    }

    /// From the program's wish to the delivery, in nanoseconds.
    pub fn time_ns(&self) -> Option<u64> {
        match self.fate {
            Fate::Delivered { at_ns } => Some(at_ns - self.wish.since_ns),
            _ => None,
        }
    }
}

/// Messages from one host to another, by their sequence number.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub sent: Vec<Sent>,
    /// By class: the sequence number after the last one delivered.
    pub next: BTreeMap<u8, u64>,
    /// Incarnation that the sender last heard of.
    pub peer: Option<u64>,
    /// How often the receiver has died.
    pub deaths: u32,
}

/// Messages of a stream, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCount {
    /// Wished by programs.
    pub wished: u64,
    /// Delivered, discarded, excused, or forgotten by a program that died.
    pub settled: u64,
}

/// Every message of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    pub(super) pairs: BTreeMap<(HostId, HostId), Pair>,
    streams: Vec<StreamCount>,
    waiting: u64,
    settled: u64,
}

impl Ledger {
    /// Sequence number of the next message of a pair.
    pub fn next_sequence(&self, from: HostId, to: HostId) -> u64 {
        self.pairs
            .get(&(from, to))
            .map_or(0, |pair| pair.sent.len() as u64)
    }

    /// All messages that nodes accepted, with sender and receiver.
    pub fn messages(&self) -> impl Iterator<Item = (HostId, HostId, &Sent)> {
        let pairs = self.pairs.iter();
        pairs.flat_map(|(&(from, to), pair)| pair.sent.iter().map(move |sent| (from, to, sent)))
    }

    /// How a stream of traffic gets on.
    pub fn stream(&self, stream: u32) -> StreamCount {
        let counts = self.streams.get(stream as usize);
        counts.copied().unwrap_or_default()
    }

    /// Messages of all streams that are delivered, excused or forgotten.
    pub(crate) fn settled(&self) -> u64 {
        self.settled
    }

    /// Whether every message accepted has been delivered or discarded, or is known to be lost.
    pub fn is_settled(&self) -> bool {
        self.waiting == 0
    }

    /// A program wishes to send something.
    pub(crate) fn on_wished(&mut self, stream: u32) {
        self.count(stream).wished += 1;
    }

    /// A program died before it could send something.
    pub(crate) fn on_forgotten(&mut self, stream: u32) {
        self.settle(stream);
    }

    fn settle(&mut self, stream: u32) {
        self.count(stream).settled += 1;
        self.settled += 1;
    }

    fn count(&mut self, stream: u32) -> &mut StreamCount {
        let index = stream as usize;
        if self.streams.len() <= index {
            self.streams.resize(index + 1, StreamCount::default());
        }
        &mut self.streams[index]
    }

    pub(super) fn accept(&mut self, from: HostId, to: HostId, wish: Wish, open: bool) {
        let pair = self.pairs.entry((from, to)).or_default();
        pair.sent.push(Sent {
            wish,
            fate: Fate::Waiting,
            meant_for: pair.peer.filter(|_| open),
            deaths: pair.deaths,
            confirmed: false,
            missed: false,
        });
        self.waiting += 1;
    }

    /// The receiving program has had the message; it is known not to have had it before.
    pub(super) fn hand_over(&mut self, from: HostId, to: HostId, sequence: u64, fate: Fate) {
        let pair = self.pairs.entry((from, to)).or_default();
        let sent = &mut pair.sent[sequence as usize];
        let before = std::mem::replace(&mut sent.fate, fate);
        let stream = sent.wish.stream;
        if before == Fate::Waiting {
            self.waiting -= 1;
            self.settle(stream);
        }
    }

    /// A message that a node accepted.
    pub(super) fn sent(&self, from: HostId, to: HostId, sequence: u64) -> Option<&Sent> {
        self.pairs.get(&(from, to))?.sent.get(sequence as usize)
    }

    /// The receiver was told that a message does not come.
    pub(super) fn miss(&mut self, from: HostId, to: HostId, sequence: u64) {
        let pair = self.pairs.entry((from, to)).or_default();
        if let Some(sent) = pair.sent.get_mut(sequence as usize) {
            sent.missed = true;
        }
    }

    /// A message was dropped by its sender.
    pub(super) fn expire(&mut self, from: HostId, to: HostId, sequence: u64) {
        let pair = self.pairs.entry((from, to)).or_default();
        let sent = &mut pair.sent[sequence as usize];
        if sent.fate == Fate::Waiting {
            sent.fate = Fate::Expired;
            let stream = sent.wish.stream;
            self.waiting -= 1;
            self.settle(stream);
        }
    }

    /// Excuses the messages of a pair that wait and that `which` says yes to, given how often the
    /// receiver has died. Returns how many.
    pub(super) fn excuse(
        &mut self,
        from: HostId,
        to: HostId,
        which: impl Fn(&Sent, u32) -> bool,
    ) -> u64 {
        let Some(pair) = self.pairs.get_mut(&(from, to)) else {
            return 0;
        };
        let deaths = pair.deaths;
        let mut streams = Vec::new();
        for sent in &mut pair.sent {
            if sent.fate == Fate::Waiting && which(sent, deaths) {
                sent.fate = Fate::Excused;
                streams.push(sent.wish.stream);
            }
        }
        self.waiting -= streams.len() as u64;
        for &stream in &streams {
            self.settle(stream);
        }
        streams.len() as u64
    }

    /// The first message accepted, not delivered, and not known to be lost, and how many of them
    /// there are.
    pub fn missing(&self) -> Option<(usize, String)> {
        let waiting = self.pairs.iter().flat_map(|(&(from, to), pair)| {
            let sent = pair.sent.iter().enumerate();
            sent.filter(|(_, sent)| sent.fate == Fate::Waiting)
                .map(move |(sequence, sent)| (from, to, sequence, sent.wish.len))
        });
        let mut waiting = waiting.peekable();
        let &(from, to, sequence, len) = waiting.peek()?;
        let first = format!("message {sequence} ({len} bytes) from {from} to {to}");
        Some((waiting.count(), first))
    }
}
