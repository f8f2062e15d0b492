//! Cables, switches and their output queues.

use std::collections::VecDeque;

use sabani_proto::Unsent;

use crate::datagram::{DatagramId, Ecn, Stop};
use crate::engine::{Action, Engine};
use crate::order::{Bands, Order};
use crate::{HostId, Link, Rng};

/// Names a switch of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SwitchId(pub u32);

/// Names an output port of a host or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u32);

/// What a cable may end at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A host.
    Host(HostId),
    /// A switch.
    Switch(SwitchId),
}

impl From<HostId> for Place {
    fn from(id: HostId) -> Self {
        Place::Host(id)
    }
}

impl From<SwitchId> for Place {
    fn from(id: SwitchId) -> Self {
        Place::Switch(id)
    }
}

/// A cable between two places, equal in both directions; [`crate::Network::port`] gives access to
/// each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Bits per second, headers included; zero: no limit. Default 10 Gb/s.
    pub bits_per_second: u64,
    /// Time on the way, in nanoseconds. Default 1 µs.
    pub delay_ns: u64,
    /// Largest datagram that passes, in bytes of UDP payload. Default 1,472.
    pub mtu: usize,
}

impl Default for Cable {
    fn default() -> Self {
        Cable {
            bits_per_second: 10_000_000_000,
            delay_ns: 1_000,
            mtu: 1_472,
        }
    }
}

/// Pause frames (802.3x): a switch silences the neighbour that fills its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// A neighbour is silenced while more than so many bytes that came from it wait.
    pub stop_above: u64,
    /// It may go on once no more than so many are left.
    pub go_at: u64,
}

/// How a switch queues. All sizes are in bytes as on the wire, headers included; what is being
/// sent does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// Bytes that may wait at each output port; more are dropped. Default: no limit.
    pub queue_bytes: u64,
    /// Bytes that may wait in the whole switch. Default: no limit.
    pub buffer_bytes: u64,
    /// A port may hold this many times what is free of the buffer: a dynamic threshold, which
    /// keeps one busy port from taking all of it. Default: no limit.
    pub alpha: f64,
    /// Datagrams that may be marked (ECN) are, if they find more bytes than this before them. Default:
    /// never.
    pub mark_above: u64,
    /// Silences neighbours rather than dropping, if the buffer has room for what they send until
    /// they hear of it. Default: no.
    pub pause: Option<Pause>,
    /// Of equally short ways, each pair of hosts takes one that is drawn for it by hashing with this number (ECMP).
    /// Default: all take the one whose cable was laid first.
    pub hash: Option<u64>,
}

impl Default for Switch {
    fn default() -> Self {
        Switch {
            queue_bytes: u64::MAX,
            buffer_bytes: u64::MAX,
            alpha: f64::INFINITY,
            mark_above: u64::MAX,
            pause: None,
            hash: None,
        }
    }
}

impl Switch {
    /// A switch that lets so many bytes wait at each port and drops what is more.
    pub fn drop_tail(queue_bytes: u64) -> Self {
        Switch {
            queue_bytes,
            ..Switch::default()
        }
    }

    /// Which of these ways a datagram goes.
    fn choose(&self, ways: &[PortId], from: HostId, to: HostId) -> Option<PortId> {
        match self.hash {
            Some(hash) if ways.len() > 1 => {
                let pair = u64::from(from.0) << 32 | u64::from(to.0);
                let drawn = Rng::new(hash ^ pair).below(ways.len() as u64);
                Some(ways[drawn as usize])
            }
            _ => ways.first().copied(),
        }
    }

    /// Whether `bytes` more may wait at a port at which `queued` do, and at all `held`.
    fn admits(&self, held: u64, queued: u64, bytes: u64) -> bool {
        let free = self.buffer_bytes.saturating_sub(held);
        let share = (self.alpha * free as f64) as u64;
        bytes <= free && queued + bytes <= self.queue_bytes.min(share)
    }
}

/// An output port: a queue, and one direction of a cable.
#[derive(Debug)]
pub struct Port {
    /// The cable's direction that leads away from here, with its faults. Its `queue_bytes` counts
    /// beside what the switch allows.
    pub link: Link,
    /// Times that a pause frame has silenced it.
    pub pauses: u64,
    at: Place,
    to: Place,
    /// The port at the other end of the cable.
    back: PortId,
    queue: VecDeque<DatagramId>,
    order: Order,
    queued_bytes: u64,
    queued_max: u64,
    /// The most that waited since somebody last asked.
    recent_max: u64,
    /// What has come by this port's cable and waits somewhere in the switch.
    brought_bytes: u64,
    /// The neighbour has been silenced.
    silences: bool,
    /// The neighbour has silenced this port.
    silenced: bool,
    /// [`Action::Free`] is on the agenda.
    scheduled: bool,
}

impl Port {
    fn new(at: Place, to: Place, back: PortId, cable: &Cable) -> Self {
        let mut link = Link::default();
        link.bits_per_second = cable.bits_per_second;
        link.delay_ns = cable.delay_ns;
        link.mtu = cable.mtu;
        Port {
            link,
            pauses: 0,
            at,
            to,
            back,
            queue: VecDeque::new(),
            order: match at {
                Place::Host(_) => Order::Bands(Bands::default()),
                Place::Switch(_) => Order::Came,
            },
            queued_bytes: 0,
            queued_max: 0,
            recent_max: 0,
            brought_bytes: 0,
            silences: false,
            silenced: false,
            scheduled: false,
        }
    }

    /// Whether what waits leaves in turn from now on, peer by peer, as with Linux's `fq_codel` or `fq`, or as with `pfifo_fast`: for the
    /// cable of a host.
    ///
    /// # Panics
    /// If something waits.
    pub fn take_turns(&mut self, in_turn: bool) {
        assert!(self.queue.is_empty(), "what waits has an order");
        self.order = match in_turn {
            true => Order::Turns(Box::default()),
            false => Order::Bands(Bands::default()),
        };
    }

    /// What waits leaves as it came from now on, words as well, as with Linux's `pfifo`, or a card that takes hundreds of packets at
    /// once: for the cable of a host.
    ///
    /// # Panics
    /// If something waits.
    pub fn keep_order(&mut self) {
        assert!(self.queue.is_empty(), "what waits has an order");
        self.order = Order::Came;
    }

    /// What is express waits for no more than the packet under way from now on, as with Linux's `cake`, which takes trains apart: for
    /// the cable of a host that does not take turns.
    ///
    /// # Panics
    /// If something waits.
    pub fn cut_trains(&mut self) {
        assert!(self.queue.is_empty(), "what waits has an order");
        self.order = Order::Bands(Bands::of_packets());
    }

    /// Bytes that wait, headers included.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// What its host has given to it and the wire has not: how much that was, and how much of it there still is.
    pub(crate) fn unsent(&self, at_ns: u64) -> Unsent {
        Unsent {
            at_ns,
            handed: self.link.counters.entered_bytes,
            waiting: self.queued_bytes + self.link.waiting_bytes(at_ns),
        }
    }

    /// The most that ever waited.
    pub fn queued_max(&self) -> u64 {
        self.queued_max
    }

    /// The most that has waited since this was last asked.
    pub(crate) fn take_recent_max(&mut self) -> u64 {
        std::mem::replace(&mut self.recent_max, self.queued_bytes)
    }

    /// What it belongs to, and what its cable leads to.
    pub fn ends(&self) -> (Place, Place) {
        (self.at, self.to)
    }
}

/// All switches and cables.
#[derive(Debug, Default)]
pub(crate) struct Fabric {
    pub switches: Vec<Switch>,
    /// Of each switch: bytes that wait in it.
    held_bytes: Vec<u64>,
    pub ports: Vec<Port>,
    /// Of each host: the port that its cable is plugged into.
    nics: Vec<Option<PortId>>,
    /// Of each host: the switch at the end of its cable, and the port there.
    exits: Vec<Option<(SwitchId, PortId)>>,
    /// Of each switch, as a destination: the ports by which each other one may send to it, in the order of laying.
    ways: Vec<Vec<Vec<PortId>>>,
    outdated: bool,
}

impl Fabric {
    pub fn add_switch(&mut self, switch: Switch) -> SwitchId {
        self.outdated = true;
        self.switches.push(switch);
        self.held_bytes.push(0);
        SwitchId(self.switches.len() as u32 - 1)
    }

    /// Lays a cable; returns the ports at its ends.
    pub fn connect(&mut self, one: Place, other: Place, cable: &Cable) -> (PortId, PortId) {
        let first = self.ports.len() as u32;
        let (near, far) = (PortId(first), PortId(first + 1));
        self.ports.push(Port::new(one, other, far, cable));
        self.ports.push(Port::new(other, one, near, cable));
        for (end, port) in [(one, near), (other, far)] {
            if let Place::Host(host) = end {
                let room = self.nics.len().max(host.index() + 1);
                self.nics.resize(room, None);
                assert!(self.nics[host.index()].is_none(), "{host} has one cable");
                self.nics[host.index()] = Some(port);
            }
        }
        self.outdated = true;
        (near, far)
    }

    #[inline]
    pub fn nic(&self, host: HostId) -> Option<PortId> {
        self.nics.get(host.index()).copied().flatten()
    }

    /// The port at the other end of a port's cable.
    pub fn back(&self, port: PortId) -> PortId {
        self.port(port).back
    }

    fn port(&self, id: PortId) -> &Port {
        &self.ports[id.0 as usize]
    }

    fn port_mut(&mut self, id: PortId) -> &mut Port {
        &mut self.ports[id.0 as usize]
    }

    /// A datagram comes to a switch: it goes on by the port towards its host, if there is one.
    pub fn forward(&mut self, switch: SwitchId, id: DatagramId, engine: &mut Engine) {
        if std::mem::take(&mut self.outdated) {
            self.find_routes();
        }
        let datagram = &engine.datagrams[id];
        match self.route(switch, datagram.from, datagram.to) {
            Some(port) => self.enter(port, id, engine),
            None => engine.datagrams.remove(id),
        }
    }

    /// The port by which a switch sends what goes from one host to another.
    fn route(&self, switch: SwitchId, from: HostId, to: HostId) -> Option<PortId> {
        let (last, port) = self.exits.get(to.index()).copied().flatten()?;
        if switch == last {
            return Some(port);
        }
        let ways = &self.ways[last.0 as usize][switch.0 as usize];
        self.switches[switch.0 as usize].choose(ways, from, to)
    }

    /// A datagram comes to an output port: it is sent at once, waits, or is dropped.
    pub fn enter(&mut self, port: PortId, id: DatagramId, engine: &mut Engine) {
        let Port {
            link, at, queue, ..
        } = self.port_mut(port);
        let at = *at;
        if !link.accept(id, engine) {
            return;
        }
        let idle = queue.is_empty() && link.busy_until_ns <= engine.now_ns;
        if idle && !self.port(port).silenced {
            return self.start(port, id, engine);
        }
        let bytes = engine.datagrams[id].wire_bytes();
        let queued = self.port(port).queued_bytes;
        let (mut room, mut mark) = (true, false);
        if let Place::Switch(SwitchId(switch)) = at {
            let held = self.held_bytes[switch as usize];
            let switch = &self.switches[switch as usize];
            room = switch.admits(held, queued, bytes);
            mark = queued > switch.mark_above;
        }
        let link = &mut self.port_mut(port).link;
        if !room || queued.saturating_add(bytes) > link.queue_bytes {
            link.counters.queue_full += 1;
            return engine.datagrams.remove(id);
        }
        let ecn = &mut engine.datagrams[id].class.ecn;
        if mark && *ecn != Ecn::NotCapable {
            link.counters.marked += 1;
            *ecn = Ecn::Marked;
        }
        self.wait(port, id, bytes, engine);
    }

    /// A datagram waits at a port.
    fn wait(&mut self, port: PortId, id: DatagramId, bytes: u64, engine: &mut Engine) {
        let waits = self.port_mut(port);
        let place = waits.order.enter(&engine.datagrams[id], waits.queue.len());
        waits.queue.insert(place, id);
        waits.queued_bytes += bytes;
        waits.queued_max = waits.queued_max.max(waits.queued_bytes);
        waits.recent_max = waits.recent_max.max(waits.queued_bytes);
        if let Place::Switch(switch) = waits.at {
            self.hold(switch, id, bytes, engine);
        }
        self.schedule(port, engine);
    }

    /// A datagram waits in a switch: its neighbour may have to be silenced.
    fn hold(&mut self, switch: SwitchId, id: DatagramId, bytes: u64, engine: &mut Engine) {
        self.held_bytes[switch.0 as usize] += bytes;
        let pause = self.switches[switch.0 as usize].pause;
        let came_by = engine.datagrams[id].came_by;
        let neighbour = self.port_mut(came_by);
        neighbour.brought_bytes += bytes;
        let stop = pause.is_some_and(|pause| neighbour.brought_bytes > pause.stop_above);
        if stop && !neighbour.silences {
            self.silence(came_by, true, engine);
        }
    }

    /// A datagram leaves a switch: its neighbour may go on.
    fn release(&mut self, switch: SwitchId, id: DatagramId, bytes: u64, engine: &mut Engine) {
        self.held_bytes[switch.0 as usize] -= bytes;
        let pause = self.switches[switch.0 as usize].pause;
        let came_by = engine.datagrams[id].came_by;
        let neighbour = self.port_mut(came_by);
        neighbour.brought_bytes -= bytes;
        let go = pause.is_none_or(|pause| neighbour.brought_bytes <= pause.go_at);
        if go && neighbour.silences {
            self.silence(came_by, false, engine);
        }
    }

    /// Tells the neighbour behind this port to be silent, or that it may go on.
    fn silence(&mut self, port: PortId, silent: bool, engine: &mut Engine) {
        let port = self.port_mut(port);
        port.silences = silent;
        let heard_ns = engine.now_ns + port.link.delay_ns;
        engine
            .agenda
            .push(heard_ns, Action::Pause(port.back, silent));
    }

    /// Makes sure that the port goes on when its wire is free.
    fn schedule(&mut self, port: PortId, engine: &mut Engine) {
        let waits = self.port_mut(port);
        if waits.scheduled || waits.silenced || waits.queue.is_empty() {
            return;
        }
        waits.scheduled = true;
        let at_ns = waits.link.busy_until_ns.max(engine.now_ns);
        engine.agenda.push(at_ns, Action::Free(port));
    }

    /// A pause frame reaches a port.
    pub fn pause(&mut self, port: PortId, silent: bool, engine: &mut Engine) {
        let heard = self.port_mut(port);
        heard.silenced = silent;
        heard.pauses += u64::from(silent);
        self.schedule(port, engine);
    }

    /// A port's wire is free: the next datagram leaves the queue. Returns the host whose queue
    /// that was.
    pub fn free(&mut self, port: PortId, engine: &mut Engine) -> Option<HostId> {
        let free = self.port_mut(port);
        free.scheduled = false;
        if free.silenced {
            return None;
        }
        let id = free.queue.pop_front()?;
        free.order.leave(&engine.datagrams[id]);
        let bytes = engine.datagrams[id].wire_bytes();
        free.queued_bytes -= bytes;
        let at = free.at;
        if let Place::Switch(switch) = at {
            self.release(switch, id, bytes, engine);
        }
        self.start(port, id, engine);
        self.schedule(port, engine);
        match at {
            Place::Host(host) => Some(host),
            Place::Switch(_) => None,
        }
    }

    /// A datagram goes onto the wire.
    fn start(&mut self, port: PortId, id: DatagramId, engine: &mut Engine) {
        let port = self.port_mut(port);
        let datagram = &mut engine.datagrams[id];
        port.order.begin(datagram);
        datagram.came_by = port.back;
        datagram.next = match port.to {
            Place::Host(host) => Stop::Path(host),
            Place::Switch(switch) => Stop::Switch(switch),
        };
        let sent_ns = engine.now_ns + port.link.wire_ns(datagram.wire_bytes());
        port.link.busy_until_ns = sent_ns;
        port.link.cross(id, sent_ns, engine);
    }

    /// Finds the shortest ways to each host.
    fn find_routes(&mut self) {
        self.exits = vec![None; self.nics.len()];
        for (index, port) in self.ports.iter().enumerate() {
            if let (Place::Switch(last), Place::Host(host)) = (port.at, port.to) {
                self.exits[host.index()] = Some((last, PortId(index as u32)));
            }
        }
        self.ways = (0..self.switches.len())
            .map(|goal| self.ways_to(goal))
            .collect();
    }

    /// For each switch, the ports that bring what it sends nearer to a goal.
    fn ways_to(&self, goal: usize) -> Vec<Vec<PortId>> {
        let cables = || {
            let ports = self.ports.iter().enumerate();
            ports.filter_map(|(index, port)| match (port.at, port.to) {
                (Place::Switch(from), Place::Switch(to)) => {
                    Some((PortId(index as u32), from.0 as usize, to.0 as usize))
                }
                _ => None,
            })
        };
        let mut hops = vec![usize::MAX; self.switches.len()];
        hops[goal] = 0;
        let mut reached = VecDeque::from([goal]);
        while let Some(at) = reached.pop_front() {
            for (_, from, _) in cables().filter(|&(_, _, to)| to == at) {
                if hops[from] == usize::MAX {
                    hops[from] = hops[at] + 1;
                    reached.push_back(from);
                }
            }
        }
        let mut ways = vec![Vec::new(); hops.len()];
        for (port, from, _) in cables().filter(|&(_, from, to)| hops[to] < hops[from]) {
            ways[from].push(port);
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_buffer_is_divided_by_the_dynamic_threshold() {
        let mut switch = Switch {
            buffer_bytes: 100_000,
            alpha: 1.0,
            ..Switch::default()
        };
        assert!(switch.admits(0, 0, 100_000));
        assert!(switch.admits(50_000, 49_000, 1_000));
        assert!(!switch.admits(50_000, 49_001, 1_000), "only half of it");
        switch.alpha = f64::INFINITY;
        assert!(switch.admits(50_000, 50_000, 50_000));
        assert!(!switch.admits(50_000, 50_000, 50_001), "it is full");
    }

    #[test]
    fn routes_are_short_and_in_the_order_of_laying() {
        let mut fabric = Fabric::default();
        let [a, b, c] = [0; 3].map(|_| fabric.add_switch(Switch::default()));
        let cable = Cable::default();
        let far = HostId(5);
        fabric.connect(a.into(), b.into(), &cable);
        let (straight, _) = fabric.connect(a.into(), c.into(), &cable);
        fabric.connect(a.into(), c.into(), &cable);
        fabric.connect(b.into(), c.into(), &cable);
        let (_, last) = fabric.connect(far.into(), c.into(), &cable);
        fabric.find_routes();
        let route = |from, to| fabric.route(from, HostId(9), to);
        assert_eq!(route(a, far), Some(straight));
        assert_eq!(route(c, far), Some(last));
        assert_eq!(route(a, HostId(4)), None);
        assert_eq!(fabric.nic(far), Some(PortId(8)));
        assert_eq!(fabric.back(PortId(8)), last);
    }

    #[test]
    fn a_hash_spreads_pairs_of_hosts_over_equally_short_ways() {
        let mut fabric = Fabric::default();
        let switches = [Some(1), Some(2), None, None, None].map(|hash| {
            fabric.add_switch(Switch {
                hash,
                ..Switch::default()
            })
        });
        let cable = Cable::default();
        let [near, far, spines @ ..] = switches;
        let ups = spines.map(|spine| {
            fabric.connect(spine.into(), far.into(), &cable);
            fabric.connect(near.into(), spine.into(), &cable).0
        });
        for host in 0..64 {
            let leaf = switches[usize::from(host >= 32)];
            fabric.connect(HostId(host).into(), leaf.into(), &cable);
        }
        fabric.find_routes();
        let taken = |up: &PortId| {
            let pairs = (0..32).flat_map(|from| (32..64).map(move |to| (HostId(from), HostId(to))));
            let by_it = pairs.filter(|(from, to)| fabric.route(near, *from, *to) == Some(*up));
            by_it.count()
        };
        let taken = ups.each_ref().map(taken);
        assert_eq!(taken.iter().sum::<usize>(), 32 * 32);
        let third = 32 * 32 / 3;
        assert!(
            taken.iter().all(|pairs| pairs.abs_diff(third) < third / 5),
            "{taken:?}"
        );
        // Within a leaf there is but one way.
        let neighbour = fabric.route(near, HostId(0), HostId(1));
        assert_eq!(
            neighbour.map(|port| fabric.port(port).to),
            Some(Place::Host(HostId(1)))
        );
    }
}
