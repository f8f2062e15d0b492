//! Which resources a message between two ranks takes, and for how long.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::network::{Capacity, Estimate, Graph, Network, Transport, trunks_between};
use crate::share::Use;
use crate::task::Task;

/// What a message takes of all that it passes: two ports, what their hosts do both ways, and two trunks, unless groups lie in groups.
pub type Uses = SmallVec<[Use; 6]>;

/// Bytes on the wire besides each packet's payload: Ethernet, IP and UDP or TCP headers and about 30 of the
/// transport's own.
const HEADER_BYTES: f64 = 96.0;

/// Picks one value of an interval: the median, or another one for each replicate.
pub type Pick<'p> = dyn FnMut(Estimate) -> f64 + 'p;

/// A place that messages pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// What it is, for people.
    pub name: String,
    /// Nanoseconds for each byte; 0 if no limit is known.
    pub ns_per_byte: f64,
    /// Bytes that wait before it until further ones are lost; infinite if none are.
    pub queue_bytes: f64,
    /// The most that was tried, in bytes for each nanosecond.
    pub probed_bytes_per_ns: f64,
}

/// What a message of some length costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Its length.
    pub bytes: f64,
    /// Bytes on the wire.
    pub wire_bytes: f64,
    /// os(m).
    pub send_ns: f64,
    /// or(m).
    pub receive_ns: f64,
    /// g(m) between two hosts that have the network to themselves.
    pub gap_ns: f64,
}

/// Resources and costs, as seen by the ranks of a task over one transport. Everything has one value: the
/// median, or what one replicate assumes.
#[derive(Clone, Debug)]
pub struct Routes {
    /// All resources. Those near senders come first, those near receivers last.
    pub resources: Vec<Resource>,
    /// Nanoseconds to copy a byte.
    pub copy_ns_per_byte: f64,
    /// Nanoseconds to combine a byte.
    pub reduce_ns_per_byte: f64,
    transport: Transport,
    places: Places,
    /// Of the pair between which g(m) was measured.
    reference_ns_per_byte: f64,
    host_of_rank: Vec<usize>,
    groups_of_host: Vec<Vec<usize>>,
    hosts: usize,
    groups: usize,
}

/// Where in their intervals the curves lie: all points of a curve are off by as much.
#[derive(Clone, Copy, Debug)]
struct Places {
    send: f64,
    receive: f64,
    gap: f64,
    latency: f64,
}

impl Places {
    fn new(pick: &mut Pick) -> Self {
        let mut place = || {
            pick(Estimate {
                value: 0.0,
                low: -1.0,
                high: 1.0,
            })
        };
        Places {
            send: place(),
            receive: place(),
            gap: place(),
            latency: place(),
        }
    }
}

/// Of what is more than nothing. What is picked may lie outside of its interval, and not at nothing.
fn picked(estimate: Estimate, pick: &mut Pick) -> f64 {
    pick(estimate).max(estimate.value / 10.0)
}

/// Of a speed.
fn ns_per_byte(speed: Estimate, pick: &mut Pick) -> f64 {
    1e9 / picked(speed, pick)
}

impl Routes {
    /// From what was measured.
    pub fn new(network: &Network, transport: &Transport, task: &Task, pick: &mut Pick) -> Self {
        let graph = &network.graph;
        let mut routes = Routes {
            resources: resources(graph, pick),
            copy_ns_per_byte: ns_per_byte(network.copy_bytes_per_s, pick),
            reduce_ns_per_byte: ns_per_byte(network.reduce_bytes_per_s, pick),
            transport: transport.clone(),
            places: Places::new(pick),
            reference_ns_per_byte: 0.0,
            host_of_rank: task.host_of_rank.clone(),
            groups_of_host: graph.groups_of_hosts(),
            hosts: graph.hosts.len(),
            groups: graph.groups.len(),
        };
        routes.reference_ns_per_byte = routes.between_the_first_two();
        routes
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.host_of_rank.len()
    }

    /// What a message of so many bytes costs.
    pub fn cost(&self, bytes: usize) -> Cost {
        let point = self.transport.at(bytes as f64);
        Cost {
            bytes: point.bytes,
            wire_bytes: self.wire_bytes(point.bytes),
            send_ns: point.send_ns.at(self.places.send).max(0.0),
            receive_ns: point.receive_ns.at(self.places.receive).max(0.0),
            gap_ns: point.gap_ns.at(self.places.gap).max(1.0),
        }
    }

    /// Whether there is a queue that can overflow.
    pub fn can_overflow(&self) -> bool {
        let mut queues = self.resources.iter().map(|one| one.queue_bytes);
        queues.any(f64::is_finite)
    }

    /// The host that a rank runs on.
    pub fn host(&self, rank: usize) -> usize {
        self.host_of_rank[rank]
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// L of a message of so many bytes from one rank to another.
    pub fn latency_ns(&self, from: usize, to: usize, bytes: f64) -> f64 {
        let (from, to) = (self.host_of_rank[from], self.host_of_rank[to]);
        self.latency_over(self.trunks(from, to), bytes)
    }

    /// L of a message over so many trunks.
    pub fn latency_over(&self, trunks: usize, bytes: f64) -> f64 {
        let latency = self.transport.latency(trunks, bytes);
        latency.at(self.places.latency).max(0.0)
    }

    /// How many trunks lie between two hosts.
    pub fn trunks(&self, one: usize, other: usize) -> usize {
        trunks_between(&self.groups_of_host[one], &self.groups_of_host[other])
    }

    /// How many trunks lie between most hosts: the median of all pairs, of which there are as many between two groups as both have
    /// hosts together, so that they are not looked at one by one.
    pub fn usual_trunks(&self) -> usize {
        let mut sizes: BTreeMap<&[usize], usize> = BTreeMap::new();
        for groups in &self.groups_of_host {
            *sizes.entry(groups).or_default() += 1;
        }
        let sizes: Vec<_> = sizes.into_iter().collect();
        let mut pairs: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, (ours, size)) in sizes.iter().enumerate() {
            *pairs.entry(0).or_default() += size * (size - 1) / 2;
            for (theirs, others) in &sizes[..at] {
                *pairs.entry(trunks_between(ours, theirs)).or_default() += size * others;
            }
        }
        let mut left = pairs.values().sum::<usize>() / 2;
        let middle = pairs
            .into_iter()
            .find(|(_, count)| match left.checked_sub(*count) {
                Some(behind) => {
                    left = behind;
                    false
                }
                None => true,
            });
        middle.map_or(0, |(trunks, _)| trunks)
    }

    /// How long a message takes to pass everything if nothing else is on its way.
    pub fn alone_ns(&self, from: usize, to: usize, cost: &Cost) -> f64 {
        let uses = self.uses(from, to, cost);
        let times = uses.iter().map(|one| one.part * cost.wire_bytes);
        times.fold(0.0, f64::max)
    }

    /// What a message takes of each resource on its way, for each of its bytes on the wire.
    pub fn uses(&self, from: usize, to: usize, cost: &Cost) -> Uses {
        let (from, to) = (self.host_of_rank[from], self.host_of_rank[to]);
        let port = |ns_per_byte: f64| self.port_ns(ns_per_byte, cost);
        let trunk = |ns_per_byte: f64| self.full_bytes(cost) * ns_per_byte;
        let mut uses = Uses::new();
        let mut take = |resource: usize, ns: &dyn Fn(f64) -> f64| {
            let Resource {
                ns_per_byte,
                probed_bytes_per_ns,
                ..
            } = self.resources[resource];
            if ns_per_byte + probed_bytes_per_ns == 0.0 {
                return;
            }
            let ns = if ns_per_byte > 0.0 {
                ns(ns_per_byte)
            } else {
                0.0
            };
            uses.push(Use {
                resource: resource as u32,
                part: ns / cost.wire_bytes,
            });
        };
        if from == to {
            take(self.local(from), &port);
            return uses;
        }
        take(self.out(from), &port);
        take(self.both(from), &trunk);
        let (ours, theirs) = (&self.groups_of_host[from], &self.groups_of_host[to]);
        for &group in ours.iter().filter(|group| !theirs.contains(group)) {
            take(self.trunk_out(group), &trunk);
        }
        for &group in theirs.iter().filter(|group| !ours.contains(group)) {
            take(self.trunk_into(group), &trunk);
        }
        take(self.both(to), &trunk);
        take(self.into(to), &port);
        uses
    }

    /// How long the link of a sender's host is busy with a message; 0 if it stays there.
    pub fn sending_ns(&self, from: usize, to: usize, cost: &Cost) -> f64 {
        let (from, to) = (self.host_of_rank[from], self.host_of_rank[to]);
        let ns_per_byte = self.resources[self.out(from)].ns_per_byte;
        if from == to {
            0.0
        } else {
            self.port_ns(ns_per_byte, cost)
        }
    }

    /// g(m) of a port that is as fast as this, not as the one that was measured.
    fn port_ns(&self, ns_per_byte: f64, cost: &Cost) -> f64 {
        let faster = (ns_per_byte / self.reference_ns_per_byte).min(1.0);
        let slower_ns = self.full_bytes(cost) * (ns_per_byte - self.reference_ns_per_byte);
        (cost.gap_ns + slower_ns).max(cost.gap_ns * faster)
    }

    /// The payload that as many bytes on the wire have in full packets: capacities are those for that.
    fn full_bytes(&self, cost: &Cost) -> f64 {
        let packet_bytes = self.transport.recovery.packet_bytes;
        cost.wire_bytes * packet_bytes / (packet_bytes + HEADER_BYTES)
    }

    fn wire_bytes(&self, bytes: f64) -> f64 {
        let packets = (bytes / self.transport.recovery.packet_bytes)
            .ceil()
            .max(1.0);
        bytes + packets * HEADER_BYTES
    }

    /// Nanoseconds for each byte from the first host to the second one, each way at once; the pair of
    /// hosts between which messages were measured.
    fn between_the_first_two(&self) -> f64 {
        let ns_per_byte = |resource: usize| self.resources[resource].ns_per_byte;
        if self.hosts < 2 {
            return ns_per_byte(self.local(0));
        }
        let (ours, theirs) = (&self.groups_of_host[0], &self.groups_of_host[1]);
        let out = ours.iter().filter(|group| !theirs.contains(group));
        let into = theirs.iter().filter(|group| !ours.contains(group));
        let trunks = out
            .map(|&group| ns_per_byte(self.trunk_out(group)))
            .chain(into.map(|&group| ns_per_byte(self.trunk_into(group))));
        let both = [0, 1].map(|host| 2.0 * ns_per_byte(self.both(host)));
        let ports = [ns_per_byte(self.out(0)), ns_per_byte(self.into(1))];
        trunks.chain(both).chain(ports).fold(0.0, f64::max)
    }

    fn out(&self, host: usize) -> usize {
        host
    }

    fn local(&self, host: usize) -> usize {
        self.hosts + host
    }

    fn both(&self, host: usize) -> usize {
        2 * self.hosts + host
    }

    fn trunk_out(&self, group: usize) -> usize {
        3 * self.hosts + group
    }

    fn trunk_into(&self, group: usize) -> usize {
        3 * self.hosts + self.groups + group
    }

    fn into(&self, host: usize) -> usize {
        3 * self.hosts + 2 * self.groups + host
    }
}

/// All resources, in the order in which [`Routes`] counts them.
fn resources(graph: &Graph, pick: &mut Pick) -> Vec<Resource> {
    let mut all = Vec::with_capacity(4 * graph.hosts.len() + 2 * graph.groups.len());
    let mut add = |name: String, capacity: &Capacity| {
        let speed = capacity.bytes_per_s.map(|speed| picked(speed, pick));
        let ns_per_byte = speed.map_or(0.0, |speed| 1e9 / speed);
        let queue = capacity.queue_bytes.map(|queue| picked(queue, pick));
        let queue_bytes = queue.unwrap_or(f64::INFINITY);
        all.push(Resource {
            name,
            ns_per_byte,
            queue_bytes,
            probed_bytes_per_ns: capacity.probed_bytes_per_s / 1e9,
        });
    };
    let hosts = &graph.hosts;
    hosts
        .iter()
        .for_each(|host| add(format!("{} out", host.name), &host.out));
    for host in hosts {
        // Where nothing was measured within a host, its own link is the best guess.
        let known = |capacity: &&Capacity| capacity.bytes_per_s.is_some();
        let guesses = [&graph.local, &host.out, &host.into];
        let local = guesses.into_iter().find(known).unwrap_or(&graph.local);
        add(format!("{} itself", host.name), local);
    }
    for host in hosts {
        add(format!("{} both ways", host.name), &host.both);
    }
    for group in &graph.groups {
        add(format!("trunk out of {}", group.name), &group.out);
    }
    for group in &graph.groups {
        add(format!("trunk into {}", group.name), &group.into);
    }
    hosts
        .iter()
        .for_each(|host| add(format!("{} in", host.name), &host.into));
    all
}

#[cfg(test)]
mod tests {
    use sabani_collective::Collective;

    use super::*;
    use crate::network::Group;
    use crate::testing::{LINK, switched};

    fn routes(network: &Network) -> Routes {
        let ranks = network.graph.hosts.len();
        let task = Task::new(Collective::Barrier, ranks, 0, network);
        Routes::new(
            network,
            &network.transports["tcp"],
            &task,
            &mut |estimate| estimate.value,
        )
    }

    /// The resources that a message takes, and for how long each.
    fn taken(routes: &Routes, from: usize, to: usize, bytes: usize) -> Vec<(String, f64)> {
        let cost = routes.cost(bytes);
        let uses = routes.uses(from, to, &cost);
        let limits = uses.iter().filter(|one| one.part > 0.0);
        let named = limits.map(|one| {
            let name = routes.resources[one.resource as usize].name.clone();
            (name, one.part * cost.wire_bytes)
        });
        named.collect()
    }

    #[test]
    fn a_message_on_its_own_takes_g_of_both_ports() {
        let network = switched(3);
        let taken = taken(&routes(&network), 0, 2, 50_000);
        let gap_ns = network.transports["tcp"].at(50_000.0).gap_ns.value;
        let names: Vec<_> = taken.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["host0 out", "host2 in"]);
        assert!(
            taken.iter().all(|(_, ns)| (ns - gap_ns).abs() < 1e-6),
            "{taken:?}"
        );
    }

    #[test]
    fn trunks_are_taken_by_what_leaves_a_group_only() {
        let mut network = switched(4);
        let mut group = Group::new("a", vec![0, 1]);
        group.out = Capacity::exact(LINK / 2.0);
        network.graph.groups = vec![group];
        let routes = routes(&network);
        assert_eq!(taken(&routes, 0, 1, 1000).len(), 2);
        assert_eq!(
            taken(&routes, 2, 0, 1000).len(),
            2,
            "the way in has no known limit"
        );
        let out = taken(&routes, 1, 3, 1_000_000);
        assert_eq!(out[1].0, "trunk out of a");
        assert!(
            (out[1].1 / (2.0 * 1e9 * 1e6 / LINK) - 1.0).abs() < 1e-3,
            "{out:?}"
        );
    }

    #[test]
    fn the_usual_trunks_are_the_median_of_all_pairs() {
        let of = |hosts: usize, groups: &[&[usize]]| {
            let mut network = switched(hosts);
            let named = groups.iter().map(|hosts| Group::new("a", hosts.to_vec()));
            network.graph.groups = named.collect();
            let routes = routes(&network);
            let pairs = (0..hosts).flat_map(|one| (0..one).map(move |other| (one, other)));
            let mut between: Vec<_> = pairs
                .map(|(one, other)| routes.trunks(one, other))
                .collect();
            between.sort_unstable();
            let middle = between.get(between.len() / 2).copied();
            assert_eq!(routes.usual_trunks(), middle.unwrap_or(0), "{groups:?}");
            routes.usual_trunks()
        };
        assert_eq!(of(1, &[]), 0);
        assert_eq!(of(4, &[&[0, 1]]), 1);
        assert_eq!(of(8, &[&[0, 1], &[2, 3], &[4, 5]]), 1);
        assert_eq!(of(8, &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]]), 2);
        assert_eq!(of(5, &[&[0, 1, 2, 3]]), 0);
        // Pairs of so many hosts have no room, one by one.
        let mut network = switched(2);
        network.graph.hosts = vec![network.graph.hosts[0].clone(); 200_000];
        network.graph.groups = vec![Group::new("a", (0..100_000).collect())];
        let task = Task::new(Collective::Barrier, 2, 0, &network);
        let tcp = &network.transports["tcp"];
        let routes = Routes::new(&network, tcp, &task, &mut |estimate| estimate.value);
        assert_eq!(routes.usual_trunks(), 1);
    }

    #[test]
    fn what_is_picked_of_speeds_and_queues_is_more_than_nothing() {
        let mut network = switched(2);
        let wide = Estimate {
            value: 1e5,
            low: 0.0,
            high: 2e5,
        };
        network.graph.hosts[1].into.bytes_per_s = Some(wide);
        network.graph.hosts[1].into.queue_bytes = Some(wide);
        let task = Task::new(Collective::Barrier, 2, 0, &network);
        let tcp = &network.transports["tcp"];
        // The least that a replicate picks lies beyond the interval.
        let routes = Routes::new(&network, tcp, &task, &mut |estimate| estimate.at(-1.1));
        let port = routes.resources.last().unwrap();
        assert_eq!((port.queue_bytes, port.ns_per_byte), (1e4, 1e5));
    }

    #[test]
    fn a_slower_host_takes_longer_by_its_own_speed() {
        let mut network = switched(3);
        network.graph.hosts[2].into = Capacity::exact(LINK / 10.0);
        let taken = taken(&routes(&network), 0, 2, 1_000_000);
        assert!(
            ((taken[1].1 - taken[0].1) / (9.0 * 8e6) - 1.0).abs() < 1e-3,
            "{taken:?}"
        );
    }
}
