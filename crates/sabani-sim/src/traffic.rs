//! What the programs on the hosts do: send what was planned, receive as they were told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sabani_proto::{Event, LinkState, Match, Node, PeerId, RecvTicket, SendError, SendTicket};

use crate::{Checker, HostId, checker};

/// How a program receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Not at all.
    Nothing,
    /// Takes every message that matches, once it is complete.
    Take(Match),
    /// Keeps `ahead` receives posted, each with a buffer of its own if `buffer` is not zero.
    Post {
        /// What for.
        wanted: Match,
        /// How many at a time.
        ahead: usize,
        /// Bytes of each receive's buffer; zero: the node allocates.
        buffer: usize,
    },
}

/// A message still to be sent.
#[derive(Clone, Debug)]
struct Planned {
    class: u8,
    len: usize,
    tracked: bool,
    /// Made when it is first tried.
    body: Option<Arc<Vec<u8>>>,
}

/// One host's program.
#[derive(Debug)]
pub struct Program {
    /// How it receives. Default: takes everything.
    pub reading: Reading,
    /// Answers this many messages with one of the same length.
    pub echoes: u64,
    /// Sends that were refused because a queue was full.
    pub refused: u64,
    /// Messages received.
    pub received: u64,
    /// Events of the node, oldest first.
    pub events: Vec<Event>,
    outbox: BTreeMap<HostId, VecDeque<Planned>>,
    posted: VecDeque<RecvTicket>,
    tickets: Vec<(SendTicket, HostId, u64)>,
}

impl Default for Program {
    fn default() -> Self {
        Program {
            reading: Reading::Take(Match::any()),
            echoes: 0,
            refused: 0,
            received: 0,
            events: Vec::new(),
            outbox: BTreeMap::new(),
            posted: VecDeque::new(),
            tickets: Vec::new(),
        }
    }
}

impl Program {
    /// Plans a message: it is sent as soon as the queue takes it, after those planned before.
    pub fn plan(&mut self, to: HostId, class: u8, len: usize, tracked: bool) {
        let planned = Planned {
            class,
            len,
            tracked,
            body: None,
        };
        self.outbox.entry(to).or_default().push_back(planned);
    }

    /// Whether everything planned has been accepted, and everything tracked has been settled.
    pub fn is_idle(&self) -> bool {
        self.outbox.values().all(VecDeque::is_empty) && self.tickets.is_empty()
    }

    /// Gives up what was planned for a host.
    pub fn forget(&mut self, to: HostId) {
        self.outbox.remove(&to);
    }

    /// The process died: the plan of the next one is new.
    pub(crate) fn die(&mut self) {
        *self = Program {
            reading: self.reading,
            events: std::mem::take(&mut self.events),
            received: self.received,
            refused: self.refused,
            ..Program::default()
        };
    }

    /// Does what can be done now; returns whether anything was.
    pub(crate) fn step(
        &mut self,
        now_ns: u64,
        host: HostId,
        node: &mut Node,
        checker: &mut Checker,
    ) -> bool {
        self.hear(now_ns, host, node, checker);
        let received = self.receive(now_ns, host, node, checker);
        self.confirm(host, node, checker);
        let sent = self.send(now_ns, host, node, checker);
        received || sent
    }

    /// Fetches events.
    pub(crate) fn hear(
        &mut self,
        now_ns: u64,
        host: HostId,
        node: &mut Node,
        checker: &mut Checker,
    ) {
        while let Some(event) = node.next_event() {
            match &event {
                Event::Connected { peer, incarnation } => {
                    checker.on_connected(host, HostId(peer.0), *incarnation);
                }
                Event::Lost {
                    peer,
                    why,
                    unsent_messages,
                } => {
                    self.confirm(host, node, checker);
                    checker.on_lost(now_ns, host, HostId(peer.0), why, *unsent_messages);
                }
                Event::Secrets { .. } => {}
            }
            self.events.push(event);
        }
    }

    fn receive(
        &mut self,
        now_ns: u64,
        host: HostId,
        node: &mut Node,
        checker: &mut Checker,
    ) -> bool {
        let before = self.received;
        match self.reading {
            Reading::Nothing => {}
            Reading::Take(wanted) => {
                while let Some(message) = node.try_take(&wanted) {
                    self.note(now_ns, host, node, checker, &message);
                }
            }
            Reading::Post {
                wanted,
                ahead,
                buffer,
            } => loop {
                while self.posted.len() < ahead {
                    let given = (buffer > 0).then(|| vec![0; buffer]);
                    self.posted.push_back(node.post(wanted, given));
                }
                // In the order of posting, for that is the order of the messages.
                let front = self.posted.front();
                let Some(result) = front.and_then(|&ticket| node.take_received(ticket)) else {
                    break;
                };
                self.posted.pop_front();
                if let Ok(message) = result {
                    self.note(now_ns, host, node, checker, &message);
                }
            },
        }
        self.received > before
    }

    /// Records a message that the program has received, and answers it if it is to.
    pub(crate) fn note(
        &mut self,
        now_ns: u64,
        host: HostId,
        node: &Node,
        checker: &mut Checker,
        message: &sabani_proto::Message,
    ) {
        self.received += 1;
        checker.on_delivered(now_ns, host, node, message);
        if self.echoes > 0 {
            self.echoes -= 1;
            self.plan(HostId(message.source.0), 0, message.body.len(), false);
        }
    }

    /// Looks at sends whose arrival was asked for.
    fn confirm(&mut self, host: HostId, node: &mut Node, checker: &mut Checker) {
        self.tickets
            .retain(|&(ticket, to, sequence)| match node.take_sent(ticket) {
                None => true,
                Some(Ok(())) => {
                    checker.on_confirmed(host, to, sequence);
                    false
                }
                Some(Err(_)) => false,
            });
    }

    fn send(&mut self, now_ns: u64, host: HostId, node: &mut Node, checker: &mut Checker) -> bool {
        let mut any = false;
        for (&to, planned) in &mut self.outbox {
            while let Some(next) = planned.front_mut() {
                let sequence = checker.next_sequence(host, to);
                let tag = checker::tag(next.class, sequence);
                let (len, tracked) = (next.len, next.tracked);
                let body = next
                    .body
                    .get_or_insert_with(|| Arc::new(checker::body(host, to, tag, len)));
                let open = node
                    .peer_stats(PeerId(to.0))
                    .is_some_and(|stats| stats.state == LinkState::Open);
                match node.send(now_ns, PeerId(to.0), tag, body.clone().into(), tracked) {
                    Ok(ticket) => {
                        planned.pop_front();
                        any = true;
                        checker.on_accepted(host, to, len, open);
                        self.tickets
                            .extend(ticket.map(|ticket| (ticket, to, sequence)));
                    }
                    Err(SendError::Full { .. }) => {
                        self.refused += 1;
                        break;
                    }
                    // Said once; the event has been seen, and the next try makes a connection.
                    Err(SendError::PeerLost { .. }) => {}
                    Err(_) => {
                        planned.clear();
                        break;
                    }
                }
            }
        }
        any
    }
}
