//! What the programs on the hosts do: send what was planned, receive as they were told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sabani_proto::{
    Event, LinkState, Match, Message, Node, PeerId, RecvError, RecvTicket, SendError, SendTicket,
    Undelivered, Value,
};

use crate::HostId;
use crate::canary::Canary;
use crate::checker::{self, Checker, Content, Delivery, Rule, Wish};

/// Who looks on while a program runs, and when and where that is.
pub(crate) struct Scene<'a> {
    pub now_ns: u64,
    /// What the host's own clock shows.
    pub clock_ns: u64,
    pub host: HostId,
    pub checker: &'a mut Checker,
    pub canary: &'a mut Option<Canary>,
}

/// How a program receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Not at all.
    Nothing,
    /// Takes every message that matches, once it is complete.
    Take(Match),
    /// Throws every message away that matches, once it is announced.
    Discard(Match),
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

/// What a program tells apart. Each sort of message is received for itself, in its own order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sorting {
    /// Nothing: what it receives is of one sort.
    #[default]
    None,
    /// Who sent it, of so many hosts.
    Senders(u32),
    /// So many of the low bits of its class.
    ClassBits(u32),
}

impl Sorting {
    /// Each sort of the messages that are `wanted`.
    fn sorts(self, wanted: Match) -> Vec<Match> {
        match self {
            Sorting::None => vec![wanted],
            Sorting::Senders(hosts) => (0..hosts).map(|host| wanted.from(PeerId(host))).collect(),
            Sorting::ClassBits(bits) => {
                let values = 0..1 << bits;
                let mask = checker::tag((1 << bits) - 1, 0);
                let sort = |value| wanted.tag_mask(checker::tag(value, 0), mask);
                values.map(sort).collect()
            }
        }
    }
}

/// Throws away the oldest message that is wanted; returns whether there was one.
fn discard(wanted: Match, node: &mut Node, scene: &mut Scene<'_>) -> bool {
    let Some(envelope) = node.discard(&wanted) else {
        return false;
    };
    let Scene { now_ns, host, .. } = *scene;
    scene.checker.on_discarded(now_ns, host, node, &envelope);
    true
}

/// A message still to be sent.
#[derive(Clone, Debug)]
struct Planned {
    wish: Wish,
    /// Made when it is first tried.
    body: Option<Arc<Content>>,
}

/// One host's program.
#[derive(Debug)]
pub struct Program {
    /// How it receives. Default: takes everything.
    pub reading: Reading,
    /// What it tells apart. Default: nothing.
    pub sorting: Sorting,
    /// After receiving, it does not look at what comes for so long, in nanoseconds. Default: it
    /// always looks.
    pub nap_ns: u64,
    /// Each time that it has looked so often, it withdraws all its receives, and posts them anew.
    /// Zero, the default: never.
    pub withdraws_every: u32,
    /// Each time that it has looked so often, and has no receive posted, it throws away the oldest
    /// message of each sort, however much of it is here. Zero, the default: never.
    pub discards_every: u32,
    /// Answers this many messages with one of the same length.
    pub echoes: u64,
    /// Sends that were refused because a queue was full.
    pub refused: u64,
    /// Messages received.
    pub received: u64,
    /// Events of the node, oldest first.
    pub events: Vec<Event>,
    outbox: BTreeMap<HostId, VecDeque<Planned>>,
    /// For each sort, oldest first.
    posted: Vec<VecDeque<RecvTicket>>,
    tickets: Vec<(SendTicket, HostId, u64)>,
    /// When it wakes up.
    asleep_until_ns: u64,
    looks: u32,
    /// Receives that had ended when it fell asleep.
    ended: u64,
}

impl Default for Program {
    fn default() -> Self {
        Program {
            reading: Reading::Take(Match::any()),
            sorting: Sorting::None,
            nap_ns: 0,
            withdraws_every: 0,
            discards_every: 0,
            echoes: 0,
            refused: 0,
            received: 0,
            events: Vec::new(),
            outbox: BTreeMap::new(),
            posted: Vec::new(),
            tickets: Vec::new(),
            asleep_until_ns: 0,
            looks: 0,
            ended: 0,
        }
    }
}

impl Program {
    /// Plans a message: it is sent as soon as the queue takes it, after those planned before.
    pub(crate) fn plan(&mut self, to: HostId, wish: Wish, checker: &mut Checker) {
        checker.ledger.on_wished(wish.stream);
        let planned = Planned { wish, body: None };
        self.outbox.entry(to).or_default().push_back(planned);
    }

    /// Whether everything planned has been accepted, and everything tracked has been settled.
    pub fn is_idle(&self) -> bool {
        self.outbox.values().all(VecDeque::is_empty) && self.tickets.is_empty()
    }

    /// The process died: the plan of the next one is new.
    pub(crate) fn die(&mut self, checker: &mut Checker) {
        for planned in self.outbox.values().flatten() {
            checker.ledger.on_forgotten(planned.wish.stream);
        }
        *self = Program {
            reading: self.reading,
            sorting: self.sorting,
            nap_ns: self.nap_ns,
            withdraws_every: self.withdraws_every,
            discards_every: self.discards_every,
            events: std::mem::take(&mut self.events),
            received: self.received,
            refused: self.refused,
            ..Program::default()
        };
    }

    /// Does what can be done now; returns whether anything was.
    pub(crate) fn step(&mut self, node: &mut Node, scene: &mut Scene<'_>) -> bool {
        self.hear(node, scene);
        let received = self.receive(node, scene);
        self.confirm(node, scene);
        let sent = self.send(node, scene);
        received || sent
    }

    /// Fetches events.
    pub(crate) fn hear(&mut self, node: &mut Node, scene: &mut Scene<'_>) {
        let host = scene.host;
        while let Some(event) = node.next_event() {
            match &event {
                Event::Connected { peer, incarnation } => {
                    let to = HostId(peer.0);
                    scene.checker.on_connected(host, to, *incarnation);
                }
                Event::Lost {
                    peer,
                    why,
                    unsent_messages,
                } => {
                    self.confirm(node, scene);
                    let (now_ns, to) = (scene.now_ns, HostId(peer.0));
                    scene
                        .checker
                        .on_lost(now_ns, host, to, why, *unsent_messages);
                }
                Event::Expired { envelope } => {
                    scene.checker.on_missed(scene.now_ns, host, envelope);
                }
                Event::Secrets { .. } | Event::Changed { .. } | Event::Moved { .. } => {}
            }
            self.events.push(event);
        }
    }

    fn receive(&mut self, node: &mut Node, scene: &mut Scene<'_>) -> bool {
        if scene.now_ns < self.asleep_until_ns {
            return false;
        }
        let before = self.received;
        self.looks += 1;
        match self.reading {
            Reading::Nothing => {}
            Reading::Discard(wanted) => while discard(wanted, node, scene) {},
            Reading::Take(wanted) => {
                self.discard_some(wanted, node, scene);
                for sort in self.sorting.sorts(wanted) {
                    while let Some(message) = node.try_take(&sort) {
                        self.note(node, scene, &message);
                    }
                }
            }
            Reading::Post {
                wanted,
                ahead,
                buffer,
            } => {
                if self.looked(self.withdraws_every) {
                    self.withdraw(node);
                }
                self.discard_some(wanted, node, scene);
                let sorts = self.sorting.sorts(wanted);
                self.posted.resize(sorts.len(), VecDeque::new());
                for (index, &sort) in sorts.iter().enumerate() {
                    self.receive_sort(index, sort, (ahead, buffer), node, scene);
                }
            }
        }
        let received = self.received > before;
        if received && self.nap_ns > 0 {
            self.asleep_until_ns = scene.now_ns + self.nap_ns;
            self.ended = node.ended_receives();
        }
        received
    }

    /// Keeps receives posted for messages of one sort, and takes what has come to them.
    fn receive_sort(
        &mut self,
        index: usize,
        sort: Match,
        (ahead, buffer): (usize, usize),
        node: &mut Node,
        scene: &mut Scene<'_>,
    ) {
        loop {
            let posted = &mut self.posted[index];
            while posted.len() < ahead {
                let given = (buffer > 0).then(|| vec![0; buffer]);
                posted.push_back(node.post(sort, given));
            }
            // In the order of posting, for that is the order of the messages.
            let front = posted.front();
            let Some(result) = front.and_then(|&ticket| node.take_received(ticket)) else {
                return;
            };
            posted.pop_front();
            match result {
                Ok(message) => self.note(node, scene, &message),
                Err(RecvError::Expired { envelope, .. }) => {
                    scene.checker.on_missed(scene.now_ns, scene.host, &envelope);
                }
                Err(RecvError::PeerLost { .. }) => {}
                // What waits stays where it is, and the next receive would find it again.
                Err(error @ (RecvError::TooSmall { .. } | RecvError::TooLarge { .. })) => {
                    let what = format!("{} can't receive what has come: {error}", scene.host);
                    scene.checker.violated(scene.now_ns, Rule::Progress, what);
                    return;
                }
            }
        }
    }

    /// Whether it has looked another so many times.
    fn looked(&self, every: u32) -> bool {
        every > 0 && self.looks.is_multiple_of(every)
    }

    /// Throws away the oldest message of each sort, if it is time for that.
    fn discard_some(&self, wanted: Match, node: &mut Node, scene: &mut Scene<'_>) {
        if self.looked(self.discards_every) && self.posted.iter().all(VecDeque::is_empty) {
            for sort in self.sorting.sorts(wanted) {
                discard(sort, node, scene);
            }
        }
    }

    /// Withdraws all receives; what has come to them stays in the node.
    fn withdraw(&mut self, node: &mut Node) {
        for ticket in self.posted.drain(..).flatten() {
            node.abandon(ticket);
        }
    }

    /// When it must run although nothing comes and its node has nothing to do: when it wakes up
    /// and something has come meanwhile.
    pub(crate) fn deadline_ns(&self, now_ns: u64, node: &Node) -> Option<u64> {
        let came = node.unmatched_messages() > 0 || node.ended_receives() > self.ended;
        (self.asleep_until_ns > now_ns && came).then_some(self.asleep_until_ns)
    }

    /// Records a message that the program has received, and answers it if it is to.
    pub(crate) fn note(&mut self, node: &Node, scene: &mut Scene<'_>, message: &Message) {
        self.received += 1;
        let Scene {
            now_ns,
            host,
            checker,
            canary,
            ..
        } = scene;
        let delivery = Delivery::new(*host, node, message);
        let mut tell = |delivery: Delivery<'_>| checker.on_delivered(*now_ns, delivery);
        match canary {
            Some(canary) => canary.hand_over(delivery, &mut tell),
            None => tell(delivery),
        }
        if self.echoes > 0 {
            self.echoes -= 1;
            let wish = Wish {
                len: message.body.len(),
                since_ns: scene.now_ns,
                ..Wish::default()
            };
            self.plan(HostId(message.source.0), wish, scene.checker);
        }
    }

    /// Looks at sends whose arrival was asked for.
    fn confirm(&mut self, node: &mut Node, scene: &mut Scene<'_>) {
        self.tickets
            .retain(|&(ticket, to, sequence)| match node.take_sent(ticket) {
                None => true,
                Some(Ok(())) => {
                    scene.checker.on_confirmed(scene.host, to, sequence);
                    false
                }
                Some(Err(Undelivered::Expired)) => {
                    let Scene { now_ns, host, .. } = *scene;
                    scene.checker.on_expired(now_ns, host, to, sequence);
                    false
                }
                Some(Err(Undelivered::PeerLost(_))) => false,
            });
    }

    fn send(&mut self, node: &mut Node, scene: &mut Scene<'_>) -> bool {
        let Scene {
            clock_ns,
            host,
            checker,
            ..
        } = scene;
        let mut any = false;
        for (&to, planned) in &mut self.outbox {
            while let Some(next) = planned.front_mut() {
                let sequence = checker.ledger.next_sequence(*host, to);
                let wish = next.wish;
                let tag = checker::tag(wish.class, sequence);
                let body = next
                    .body
                    .get_or_insert_with(|| Arc::new(Content::of(*host, to, tag, wish.len)));
                let open = node
                    .peer_state(PeerId(to.0))
                    .is_some_and(LinkState::is_connected);
                // What may expire is always tracked: somebody must tell of it.
                let tracked = wish.tracked || wish.value != Value::Reliable;
                match node.send_valued(
                    *clock_ns,
                    PeerId(to.0),
                    tag,
                    body.clone().into(),
                    wish.value,
                    tracked,
                ) {
                    Ok(ticket) => {
                        planned.pop_front();
                        any = true;
                        checker.on_accepted(*host, to, wish, open);
                        self.tickets
                            .extend(ticket.map(|ticket| (ticket, to, sequence)));
                    }
                    Err(SendError::Full { .. }) => {
                        self.refused += 1;
                        break;
                    }
                    // Until the program reconnects, or the peer's does.
                    Err(SendError::Disconnected { .. }) => break,
                    // Said once; the event has been seen, and the next try makes a connection.
                    Err(SendError::PeerLost { .. }) => {}
                    Err(_) => {
                        for forgotten in planned.drain(..) {
                            checker.ledger.on_forgotten(forgotten.wish.stream);
                        }
                        break;
                    }
                }
            }
        }
        self.outbox.retain(|_, planned| !planned.is_empty());
        any
    }
}
