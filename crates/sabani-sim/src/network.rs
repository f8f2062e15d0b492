//! Hosts, what joins them, and what happens to them in order of time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sabani_proto::seal::{JobKey, JobKeys, Mode};
use sabani_proto::{Config, Event, Message, Node, PeerId, PeerLost, SendError, Unsent};

use crate::canary::Canary;
use crate::checker::{Checker, Rule, Wish};
use crate::datagram::{Class, Datagram, DatagramId, Ecn, Stop};
use crate::engine::{Action, Engine};
use crate::fabric::{Cable, Fabric, Place, Port, PortId, Switch, SwitchId};
use crate::script::Script;
use crate::tcp::TcpFlow;
use crate::traffic::{Program, Scene};
use crate::{Host, HostId, Link, Recording, Rng, US};

/// A sealed mode under a fixed job key.
pub fn sealed() -> Mode {
    Mode::Sealed(JobKeys {
        current: JobKey::from_bytes([7; JobKey::LEN]),
        previous: None,
    })
}

/// A host's bounds are checked every so many turns for each host there is: a small part of a turn's
/// work.
const CHECK_EVERY: u64 = 4;
/// A host that runs this often in a row without doing anything spins.
const SPIN: u32 = 10_000;

/// What was sent to, and came from, an address at which there is no host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stranger {
    /// Bytes that hosts received from it.
    pub sent_bytes: u64,
    /// Bytes that hosts sent to it.
    pub received_bytes: u64,
}

/// A network in virtual time.
#[derive(Debug)]
pub struct Network {
    pub(crate) seed: u64,
    pub(crate) engine: Engine,
    pub(crate) hosts: Vec<Host>,
    by_addr: HashMap<SocketAddr, HostId>,
    /// Of each host: the others that it is introduced to. All, if nothing is said.
    circles: Option<Vec<BTreeSet<HostId>>>,
    links: HashMap<(HostId, HostId), Link>,
    pub(crate) fabric: Fabric,
    pub(crate) script: Script,
    pub(crate) tcp: Vec<TcpFlow>,
    pub(crate) recording: Option<Box<Recording>>,
    strangers: BTreeMap<SocketAddr, Stranger>,
    pub(crate) largest: usize,
    trace: u64,
    events: u64,
    packet_events: u64,
    train: Vec<u8>,
    batch: Vec<u8>,
    /// A planted bug.
    pub(crate) canary: Option<Canary>,
    /// Follows every message.
    pub checker: Checker,
}

impl Network {
    /// An empty network. The same seed and the same calls give the same run.
    pub fn new(seed: u64) -> Self {
        Network {
            seed,
            engine: Engine::new(seed),
            hosts: Vec::new(),
            by_addr: HashMap::new(),
            circles: None,
            links: HashMap::new(),
            fabric: Fabric::default(),
            script: Script::default(),
            tcp: Vec::new(),
            recording: None,
            strangers: BTreeMap::new(),
            largest: 0,
            trace: 0xcbf2_9ce4_8422_2325,
            events: 0,
            packet_events: 0,
            train: vec![0; 65_536],
            batch: Vec::new(),
            canary: None,
            checker: Checker::default(),
        }
    }

    /// Two hosts that know each other: numbers 0 and 1.
    pub fn pair(seed: u64, mode: &Mode) -> Self {
        Network::mesh(seed, 2, mode, |_| {})
    }

    /// `count` hosts that know each other, configured by `adjust`.
    pub fn mesh(seed: u64, count: u32, mode: &Mode, adjust: impl Fn(&mut Config)) -> Self {
        let mut net = Network::new(seed);
        for index in 0..count {
            let mut config = Config::new(PeerId(index), mode.clone());
            adjust(&mut config);
            net.add_host(config);
        }
        net.introduce();
        net
    }

    /// Adds a host that knows nobody yet.
    pub fn add_host(&mut self, config: Config) -> HostId {
        let id = HostId(self.hosts.len() as u32);
        let [_, high, middle, low] = (id.0 + 1).to_be_bytes();
        let addr = SocketAddr::from((Ipv4Addr::new(10, high, middle, low), 7_000));
        let host = Host::new(addr, config, &mut self.engine.rng);
        self.hosts.push(host);
        self.by_addr.insert(addr, id);
        id
    }

    /// Tells every host the addresses of all others.
    pub fn introduce(&mut self) {
        for id in self.host_ids() {
            self.introduce_to(id);
        }
    }

    /// Tells every host the addresses of those in its circle alone, now and when it starts anew: what all hosts know of
    /// all others grows with the square of their number.
    pub(crate) fn introduce_circles(&mut self, circles: Vec<BTreeSet<HostId>>) {
        self.circles = Some(circles);
        self.introduce();
    }

    /// Those that a host is introduced to, in the order of their numbers.
    pub(crate) fn circle(&self, id: HostId) -> Vec<HostId> {
        match &self.circles {
            Some(circles) => circles[id.index()].iter().copied().collect(),
            None => self.host_ids().filter(|&other| other != id).collect(),
        }
    }

    /// Tells a host the addresses of all others, or of those in its circle.
    pub fn introduce_to(&mut self, id: HostId) {
        let others = self.circle(id).into_iter();
        let others = others.map(|other| (PeerId(other.0), self.hosts[other.index()].addr));
        let others: Vec<_> = others.collect();
        let Some(node) = &mut self.hosts[id.index()].node else {
            return;
        };
        for (other, addr) in others {
            node.add_peer(other, addr);
        }
    }

    /// The seed of this run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Virtual time in nanoseconds; starts at one millisecond.
    pub fn now_ns(&self) -> u64 {
        self.engine.now_ns
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Those of them that were a datagram's arrival at a switch, a port or a host, or its departure
    /// from a queue.
    pub fn packet_events(&self) -> u64 {
        self.packet_events
    }

    /// A digest of everything that crossed the network, and when.
    pub fn trace_hash(&self) -> u64 {
        self.trace
    }

    /// Random numbers for the scenario, from the same seed.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.engine.rng
    }

    /// All hosts.
    pub fn host_ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len() as u32).map(HostId)
    }

    /// One host.
    pub fn host(&mut self, id: HostId) -> &mut Host {
        &mut self.hosts[id.index()]
    }

    /// One direction of a path between two hosts; made when it is first used. Between hosts that
    /// have no cables it is all there is, with the defaults of [`Link`]. If both have one, it comes
    /// behind the receiver's cable, and changes nothing unless it is told to.
    pub fn link(&mut self, from: HostId, to: HostId) -> &mut Link {
        let cabled = self.is_cabled(from, to);
        let fresh = || {
            if cabled {
                Link::transparent()
            } else {
                Link::default()
            }
        };
        self.links.entry((from, to)).or_insert_with(fresh)
    }

    /// Whether what passes between two hosts goes over cables.
    fn is_cabled(&self, from: HostId, to: HostId) -> bool {
        self.nic(from).is_some() && self.nic(to).is_some()
    }

    /// Adds a switch without cables.
    pub fn add_switch(&mut self, switch: Switch) -> SwitchId {
        self.fabric.add_switch(switch)
    }

    /// Lays a cable; returns the output ports at its two ends. Datagrams take a shortest way.
    ///
    /// # Panics
    /// If a host has a cable already.
    pub fn connect(
        &mut self,
        one: impl Into<Place>,
        other: impl Into<Place>,
        cable: &Cable,
    ) -> (PortId, PortId) {
        self.fabric.connect(one.into(), other.into(), cable)
    }

    /// One switch.
    pub fn switch(&mut self, id: SwitchId) -> &mut Switch {
        &mut self.fabric.switches[id.0 as usize]
    }

    /// One output port.
    pub fn port(&mut self, id: PortId) -> &mut Port {
        &mut self.fabric.ports[id.0 as usize]
    }

    /// The output port of a host that has a cable.
    pub fn nic(&self, host: HostId) -> Option<PortId> {
        self.fabric.nic(host)
    }

    /// The output port at the other end of a host's cable: where what it receives may wait.
    pub fn port_to(&self, host: HostId) -> Option<PortId> {
        self.nic(host).map(|nic| self.fabric.back(nic))
    }

    /// Adjusts every path between the hosts that are there now.
    pub fn links(&mut self, adjust: impl Fn(&mut Link)) {
        for from in self.host_ids() {
            for to in self.host_ids().filter(|&to| to != from) {
                adjust(self.link(from, to));
            }
        }
    }

    /// What passed between the hosts and an address without a host.
    pub fn stranger(&self, addr: SocketAddr) -> Stranger {
        self.strangers.get(&addr).copied().unwrap_or_default()
    }

    /// All addresses without a host that something was sent to or came from.
    pub fn strangers(&self) -> impl Iterator<Item = (&SocketAddr, &Stranger)> {
        self.strangers.iter()
    }

    /// The program at `from` sends a message of `len` bytes, as soon as its node takes it.
    pub fn send(&mut self, from: HostId, to: HostId, len: usize) {
        self.send_as(from, to, 0, len, false);
    }

    /// Like [`Network::send`], in a class of its own for selective receives, and perhaps asking
    /// to be told of the arrival.
    pub fn send_as(&mut self, from: HostId, to: HostId, class: u8, len: usize, tracked: bool) {
        let wish = Wish {
            class,
            len,
            tracked,
            ..Wish::default()
        };
        self.send_wish(from, to, wish);
    }

    /// Like [`Network::send`], with all that can be wished; from now on. The dead wish nothing.
    pub fn send_wish(&mut self, from: HostId, to: HostId, wish: Wish) {
        if self.hosts[from.index()].node.is_none() {
            return;
        }
        let since_ns = self.now_ns();
        self.largest = self.largest.max(wish.len);
        let program = &mut self.hosts[from.index()].program;
        program.plan(to, Wish { since_ns, ..wish }, &mut self.checker);
        self.wake(from, since_ns);
    }

    /// The program at `id` ends all connections; from when they have ended, its node must be
    /// silent.
    pub fn close(&mut self, id: HostId) {
        let host = self.host(id);
        if let Some(node) = &mut host.node {
            node.close();
            host.closing = true;
            self.kick(id);
        }
    }

    /// Whether all connections of all hosts have ended.
    pub fn is_closed(&self) -> bool {
        let mut nodes = self.hosts.iter().filter_map(|host| host.node.as_ref());
        nodes.all(Node::is_closed)
    }

    /// Makes the process at `id` run soon, because the scenario did something with its node.
    pub fn kick(&mut self, id: HostId) {
        self.wake(id, self.now_ns());
    }

    /// Records a message that the scenario itself received.
    pub fn note_received(&mut self, id: HostId, message: &Message) {
        self.with_program(id, |program, node, scene| {
            program.note(node, scene, message);
        })
        .expect("the host has crashed");
    }

    /// Does something with the program of a host that runs.
    fn with_program<T>(
        &mut self,
        id: HostId,
        act: impl FnOnce(&mut Program, &mut Node, &mut Scene<'_>) -> T,
    ) -> Option<T> {
        let now_ns = self.now_ns();
        let host = &mut self.hosts[id.index()];
        let mut scene = Scene {
            now_ns,
            clock_ns: host.clock.read(now_ns),
            host: id,
            checker: &mut self.checker,
            canary: &mut self.canary,
        };
        let node = host.node.as_mut()?;
        Some(act(&mut host.program, node, &mut scene))
    }

    /// The program at `id`, if it runs, disconnects from all its peers, or reconnects to them.
    pub fn set_connected(&mut self, id: HostId, connected: bool) {
        let host = &mut self.hosts[id.index()];
        let clock_ns = host.clock.read(self.engine.now_ns);
        let Some(node) = &mut host.node else {
            return;
        };
        for peer in node.peer_ids().collect::<Vec<_>>() {
            let done = match connected {
                true => node.reconnect(clock_ns, peer),
                false => node.disconnect(clock_ns, peer),
            };
            assert!(matches!(done, Ok(()) | Err(SendError::Closed)), "{done:?}");
        }
        self.kick(id);
    }

    /// The host is reached at another port from now on (a NAT has forgotten it), or at another
    /// address altogether if it is `far`. It does not know, and nobody is told.
    pub fn relocate(&mut self, id: HostId, far: bool) {
        let addr = &mut self.hosts[id.index()].addr;
        self.by_addr.remove(addr);
        match (far, addr.ip()) {
            (true, IpAddr::V4(ip)) => {
                addr.set_ip(Ipv4Addr::from_bits(ip.to_bits() + (1 << 24)).into())
            }
            _ => addr.set_port(addr.port() + 1),
        }
        self.by_addr.insert(*addr, id);
    }

    /// The process at `id` dies without a word.
    pub fn crash(&mut self, id: HostId) {
        self.with_program(id, |program, node, scene| program.hear(node, scene));
        let host = &mut self.hosts[id.index()];
        (host.closing, host.closed) = (false, false);
        host.node = None;
        host.socket = Default::default();
        host.is_blocked = false;
        host.busy_until_ns = self.engine.now_ns;
        host.program.die(&mut self.checker);
        self.checker.on_death(id);
    }

    /// A new process starts at the address of a dead one, with fresh randomness. It knows the
    /// same peers if `knows_peers`.
    pub fn restart(&mut self, id: HostId, knows_peers: bool) {
        if self.hosts[id.index()].node.is_some() {
            self.crash(id);
        }
        let seed = self.engine.rng.seed();
        let host = &mut self.hosts[id.index()];
        host.start(Node::new(host.config.clone(), seed));
        if knows_peers {
            self.introduce_to(id);
        }
        self.wake(id, self.now_ns());
    }

    /// Delivers a datagram of an outsider's making, from any address, at once.
    pub fn inject(&mut self, from: SocketAddr, to: HostId, bytes: Vec<u8>) {
        if !self.by_addr.contains_key(&from) {
            self.strangers.entry(from).or_default().sent_bytes += bytes.len() as u64;
        }
        let id = self.engine.datagrams.insert(Datagram {
            source: from,
            from: to,
            to,
            next: Stop::Host(to),
            class: Class::default(),
            came_by: PortId(0),
            nth: 0,
            bytes,
        });
        self.engine.arrive(self.engine.now_ns, id);
    }

    /// Sends a datagram of the scenario's making from a host to another, past its node.
    pub fn emit(&mut self, from: HostId, to: HostId, bytes: &[u8]) {
        let to = self.host(to).addr;
        let class = Class {
            ecn: Ecn::Capable,
            ..Class::default()
        };
        self.carry(from, to, bytes, bytes.len(), class);
    }

    fn wake(&mut self, id: HostId, at_ns: u64) {
        let canary = self.canary.as_mut();
        if canary.is_some_and(|canary| canary.forgets_wake(id)) {
            return;
        }
        let host = &mut self.hosts[id.index()];
        let at_ns = at_ns.max(host.busy_until_ns).max(self.engine.now_ns);
        if at_ns < host.wake_at_ns {
            host.wake_at_ns = at_ns;
            self.engine.agenda.push(at_ns, Action::Wake(id));
        }
    }

    /// Runs until this time.
    pub fn run_until(&mut self, until_ns: u64) {
        while self.next_turn(until_ns).is_some() {}
    }

    /// Runs until a process has had a turn, and returns whose it is; `None` if nobody had one until
    /// this time. What a scenario does with the node then is done at that moment; it must
    /// [`kick`](Network::kick) the host.
    pub fn next_turn(&mut self, until_ns: u64) -> Option<HostId> {
        while let Some((at_ns, action)) = self.engine.agenda.pop_until(until_ns) {
            self.engine.now_ns = at_ns;
            self.events += 1;
            self.engine.tell(self.events, self.checker.delivered);
            let woken = match action {
                Action::Wake(id) => Some((id, self.hosts[id.index()].turns)),
                _ => None,
            };
            self.happen(action);
            if let Some((id, turns)) = woken
                && self.hosts[id.index()].turns > turns
            {
                return Some(id);
            }
        }
        self.engine.now_ns = self.engine.now_ns.max(until_ns);
        None
    }

    fn happen(&mut self, action: Action) {
        let engine = &mut self.engine;
        match action {
            Action::Arrive(id) => self.arrive(id),
            Action::Free(port) => {
                self.packet_events += 1;
                if let Some(host) = self.fabric.free(port, engine) {
                    self.unblock(host, port);
                }
            }
            Action::Pause(port, silent) => self.fabric.pause(port, silent, engine),
            Action::Wake(id) => self.turn(id),
            Action::Script(number) => self.follow_script(number),
            Action::Sample => self.sample(),
        }
    }

    /// Runs for this long.
    pub fn run_for(&mut self, duration_ns: u64) {
        self.run_until(self.engine.now_ns + duration_ns);
    }

    /// Runs for a step, or for as many as pass until something happens, or until `until_ns`.
    pub(crate) fn run_steps(&mut self, step_ns: u64, until_ns: u64) {
        let next_ns = self.engine.agenda.next_ns().min(until_ns);
        let steps = next_ns.saturating_sub(self.now_ns()).div_ceil(step_ns);
        self.run_for(steps.max(1) * step_ns);
    }

    /// A datagram comes to its next stop.
    fn arrive(&mut self, id: DatagramId) {
        self.packet_events += 1;
        let engine = &mut self.engine;
        match engine.datagrams[id].next {
            Stop::Path(to) => {
                let datagram = &mut engine.datagrams[id];
                datagram.next = Stop::Host(to);
                match self.links.get_mut(&(datagram.from, to)) {
                    Some(link) => link.carry(id, engine),
                    None => self.deliver(id, to),
                }
            }
            Stop::Switch(switch) => self.fabric.forward(switch, id, engine),
            Stop::Host(to) => self.deliver(id, to),
        }
    }

    /// A datagram comes to a host's socket.
    fn deliver(&mut self, id: DatagramId, to: HostId) {
        if self.takes_segment(id) {
            return;
        }
        let host = &mut self.hosts[to.index()];
        if host.receive(id, &mut self.engine.datagrams) {
            let reaction_ns = host.reaction_ns;
            self.wake(to, self.engine.now_ns + reaction_ns);
        }
    }

    /// A host's cable has sent something: the process goes on if it waits for that and half of its
    /// buffer is free.
    fn unblock(&mut self, id: HostId, nic: PortId) {
        let queued_bytes = self.port(nic).queued_bytes();
        let host = &mut self.hosts[id.index()];
        if host.is_blocked && queued_bytes <= host.send_buffer_bytes / 2 {
            host.is_blocked = false;
            self.wake(id, self.now_ns());
        }
    }

    /// The process runs: the driving contract, and its program, until neither has more to do.
    fn turn(&mut self, id: HostId) {
        let host = &mut self.hosts[id.index()];
        if host.wake_at_ns != self.engine.now_ns {
            return;
        }
        host.wake_at_ns = u64::MAX;
        host.busy_until_ns = host.runs_at(self.engine.now_ns);
        if let Some(canary) = &mut self.canary {
            host.busy_until_ns += canary.oversleeps_ns(id);
        }
        if host.busy_until_ns > self.engine.now_ns {
            return self.wake(id, self.now_ns());
        }
        let engine = &mut self.engine;
        let handled = host.drive(engine.now_ns, &mut self.batch, &mut engine.datagrams);
        let mut spent_ns = 0;
        let mut did = handled > 0;
        did |= self.transmit(id, &mut spent_ns);
        while self.step_program(id) {
            did = true;
            self.transmit(id, &mut spent_ns);
        }
        did |= self.transmit(id, &mut spent_ns);
        self.rest(id, did);
    }

    fn step_program(&mut self, id: HostId) -> bool {
        self.with_program(id, |program, node, scene| program.step(node, scene))
            .unwrap_or(false)
    }

    /// Step 6 of the driving contract: sleep until the next deadline.
    fn rest(&mut self, id: HostId, did: bool) {
        let (now_ns, largest) = (self.now_ns(), self.largest);
        let check_every = CHECK_EVERY * self.hosts.len() as u64;
        let host = &mut self.hosts[id.index()];
        let Some(node) = &mut host.node else {
            return;
        };
        host.turns += 1;
        host.idle_turns = if did { 0 } else { host.idle_turns + 1 };
        if host.idle_turns == SPIN {
            let what = format!("{id} wakes again and again for nothing");
            self.checker.violated(now_ns, Rule::Work, what);
        }
        if host.turns.is_multiple_of(check_every) {
            self.checker
                .check_bounds(now_ns, id, &host.config, node, largest);
        }
        let closes_now = host.closing && !host.closed && node.is_closed();
        host.closed |= closes_now;
        let wake_at_ns = if host.is_behind() {
            Some(now_ns)
        } else {
            host.reaction_ns = host.wake.draw(&mut self.engine.rng);
            let deadline_ns = host.deadline_ns(now_ns);
            deadline_ns.map(|at_ns| at_ns.max(now_ns) + host.reaction_ns)
        };
        if let Some(at_ns) = wake_at_ns {
            self.wake(id, at_ns);
        }
        self.misbehave(id, closes_now);
    }

    /// What a planted bug makes a host do that rests.
    fn misbehave(&mut self, id: HostId, closes_now: bool) {
        let Some(canary) = &mut self.canary else {
            return;
        };
        canary.on_turn(id);
        let last = canary.last_words(closes_now);
        if canary.spins(id) {
            self.wake(id, self.now_ns() + US);
        }
        if let Some((to, bytes)) = last {
            self.check_open(id, bytes.len());
            self.carry(id, to, &bytes, bytes.len(), Class::default());
        }
    }

    /// Step 4 of the driving contract, as far as time and the host's cable allow.
    fn transmit(&mut self, id: HostId, spent_ns: &mut u64) -> bool {
        const ENDLESS: u32 = 100_000;
        let now_ns = self.engine.now_ns;
        let mut train = std::mem::take(&mut self.train);
        let mut count = 0;
        while self.may_send(id)
            && let Some(transmit) = self.hosts[id.index()].next_train(now_ns, spent_ns, &mut train)
        {
            count += 1;
            if count == ENDLESS {
                let what = format!("{id} never stops sending");
                self.checker.violated(now_ns, Rule::Work, what);
                break;
            }
            if let Some(canary) = &mut self.canary {
                let datagrams = &mut train[..transmit.bytes];
                canary.tamper(transmit.to, datagrams, transmit.segment);
            }
            let bytes = &train[..transmit.bytes];
            let class = Class {
                ecn: Ecn::of(transmit.ecn),
                express: transmit.express,
                behind: 0,
            };
            self.check_open(id, bytes.len());
            self.carry(id, transmit.to, bytes, transmit.segment, class);
        }
        self.train = train;
        count > 0
    }

    /// A node that has closed is silent. What else a host may run is not: TCP beside it, for one.
    fn check_open(&mut self, id: HostId, bytes: usize) {
        if self.hosts[id.index()].closed {
            let what = format!("{id} has closed, yet sends {bytes} bytes");
            self.checker.violated(self.now_ns(), Rule::Closed, what);
        }
    }

    /// Whether a host's cable takes more.
    fn may_send(&mut self, id: HostId) -> bool {
        let Some(nic) = self.nic(id) else {
            return true;
        };
        let now_ns = self.engine.now_ns;
        let port = self.port(nic);
        let (queued_bytes, unsent) = (port.queued_bytes(), port.unsent(now_ns));
        let host = &mut self.hosts[id.index()];
        host.is_blocked = queued_bytes >= host.send_buffer_bytes;
        if let Some(node) = &mut host.node
            && host.tells_unsent
        {
            let at_ns = host.clock.read(now_ns);
            node.handle_unsent(Unsent { at_ns, ..unsent });
        }
        !host.is_blocked
    }

    /// Puts datagrams of `segment` bytes on their way; the last may be shorter.
    fn carry(&mut self, from: HostId, to: SocketAddr, train: &[u8], segment: usize, class: Class) {
        let Some(&to) = self.by_addr.get(&to) else {
            self.strangers.entry(to).or_default().received_bytes += train.len() as u64;
            return;
        };
        let cable = self.nic(from).filter(|_| self.is_cabled(from, to));
        let engine = &mut self.engine;
        let packets = train.len().div_ceil(segment.max(1)) as u16;
        for (bytes, behind) in train.chunks(segment).zip((0..packets).rev()) {
            let words = [engine.now_ns, u64::from(from.0) << 32 | u64::from(to.0)];
            digest(&mut self.trace, &words);
            digest(&mut self.trace, &[bytes.len() as u64, head(bytes)]);
            let bytes = engine.datagrams.buffer(bytes);
            let id = engine.datagrams.insert(Datagram {
                source: self.hosts[from.index()].addr,
                from,
                to,
                next: Stop::Host(to),
                class: Class { behind, ..class },
                came_by: PortId(0),
                nth: 0,
                bytes,
            });
            match cable {
                Some(nic) => self.fabric.enter(nic, id, engine),
                None => self.links.entry((from, to)).or_default().carry(id, engine),
            }
        }
    }

    /// Why connections ended at a host, in order.
    pub fn losses(&mut self, id: HostId) -> Vec<PeerLost> {
        let events = self.host(id).program.events.iter();
        events
            .filter_map(|event| match event {
                Event::Lost { why, .. } => Some(why.clone()),
                _ => None,
            })
            .collect()
    }
}

/// FNV-1a over words.
fn digest(trace: &mut u64, words: &[u64]) {
    for &word in words {
        *trace = (*trace ^ word).wrapping_mul(0x100_0000_01b3);
    }
}

/// The first bytes of a datagram.
fn head(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = bytes.len().min(8);
    head[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(head)
}
