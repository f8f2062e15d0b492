//! Hosts and trunks whose capacities are known: what flows get from them.

use super::{Observation, quantile};
use crate::network::{Capacity, Estimate, Graph, Host};
use crate::share::{Demand, MaxMin, Use};

/// Loads that come so close to the largest one are taken for measurements of the capacity.
const PLATEAU: f64 = 0.93;
/// What a host sends and receives together limits it if it is at most this part of both by themselves.
const SUM_LIMITS: f64 = 0.85;
/// A trunk limits if it carries at most this part of what its hosts do by themselves.
const TRUNK_LIMITS: f64 = 0.95;
/// So many hosts are no faster than a fast one: the fastest of all may have been measured too fast.
const FAST: f64 = 0.75;
/// So many times as much with two others as with one is twice as much.
const TWICE: f64 = 1.6;
/// Bytes per second that no link carries: what a flow gets between hosts that nothing was seen of yet,
/// such as streams of processes that got no processor.
const UNSEEN: f64 = 1e300;
/// A resource is full if so little of it is left.
const FULL: f64 = 1e-6;

/// A trunk, and who is behind it.
#[derive(Clone, Debug)]
pub struct Trunk {
    /// All hosts behind it, ascending.
    pub hosts: Vec<usize>,
    /// For each host: whether it is behind it.
    holds: Vec<bool>,
    out: f64,
    into: f64,
}

/// A tree of resources. Capacities are in bytes per second, infinite where nothing limits.
#[derive(Clone, Debug)]
pub struct Tree {
    out: Vec<f64>,
    into: Vec<f64>,
    both: Vec<f64>,
    pub trunks: Vec<Trunk>,
}

/// What passes a place, of all flows.
#[derive(Clone, Copy)]
enum Place<'t> {
    Out(usize),
    Into(usize),
    Both(usize),
    TrunkOut(&'t Trunk),
    TrunkInto(&'t Trunk),
}

/// Out of hosts, or into them: the place, and of a flow the host in question and the other one.
type Way = (
    fn(usize) -> Place<'static>,
    fn((usize, usize)) -> [usize; 2],
);

impl Trunk {
    /// Whether each of both holds hosts that the other one doesn't, and some are behind both.
    pub fn overlaps(&self, other: &Trunk) -> bool {
        let common = self.hosts.iter().filter(|host| other.holds[**host]).count();
        common > 0 && common < self.hosts.len().min(other.hosts.len())
    }

    /// Whether a flow passes it, outwards or inwards.
    pub fn is_passed(&self, (from, to): (usize, usize)) -> bool {
        self.holds[from] != self.holds[to]
    }

    /// Whether another one's hosts are all on one side of it, together with others; that is the smaller side, or either of
    /// two that are equal, for the rest of the network is around nobody.
    fn is_around(&self, other: &Trunk) -> bool {
        [true, false].into_iter().any(|side| {
            let size = self.holds.iter().filter(|holds| **holds == side).count();
            let holds = |host: &usize| self.holds[*host] == side;
            let is_smaller = 2 * size <= self.holds.len();
            is_smaller && other.hosts.len() < size && other.hosts.iter().all(holds)
        })
    }

    /// Its hosts that are behind none of the others.
    pub fn without(&self, others: &[Trunk]) -> Vec<usize> {
        let alone = |host: &usize| !others.iter().any(|other| other.holds[*host]);
        self.hosts.iter().copied().filter(alone).collect()
    }

    /// Whether both hold the same hosts.
    pub fn equals(&self, other: &Trunk) -> bool {
        self.hosts == other.hosts
    }
}

impl Place<'_> {
    fn is_passed(self, (from, to): (usize, usize)) -> bool {
        match self {
            Place::Out(host) => from == host,
            Place::Into(host) => to == host,
            Place::Both(host) => from == host || to == host,
            Place::TrunkOut(trunk) => trunk.holds[from] && !trunk.holds[to],
            Place::TrunkInto(trunk) => trunk.holds[to] && !trunk.holds[from],
        }
    }

    /// What passed it at a time.
    fn load(self, seen: &Observation) -> f64 {
        let flows = seen.flows.iter().zip(&seen.rates);
        let passing = flows.filter(|(flow, _)| self.is_passed(**flow));
        passing.map(|(_, rate)| rate).sum()
    }

    /// What passed it at all times.
    fn loads(self, observations: &[Observation]) -> Vec<f64> {
        observations.iter().map(|seen| self.load(seen)).collect()
    }
}

/// The largest loads, and what they say of the capacity: their median, and from the least to the
/// greatest of them. The median of several is not as easily too high as the largest.
fn plateau(loads: &[f64]) -> Estimate {
    let most = loads.iter().copied().fold(0.0, f64::max);
    let mut high: Vec<f64> = loads
        .iter()
        .copied()
        .filter(|load| *load >= PLATEAU * most)
        .collect();
    let value = quantile(&mut high, 0.5);
    Estimate {
        value,
        low: quantile(&mut high, 0.0),
        high: most,
    }
}

fn capacity(loads: &[f64]) -> f64 {
    match plateau(loads).value {
        0.0 => f64::INFINITY,
        value => value,
    }
}

impl Tree {
    /// Hosts at one switch, with the loads seen as capacities.
    pub fn of_hosts(hosts: usize, observations: &[Observation]) -> Self {
        let of = |place: fn(usize) -> Place<'static>| {
            (0..hosts)
                .map(|host| capacity(&place(host).loads(observations)))
                .collect()
        };
        Tree {
            out: of(Place::Out),
            into: of(Place::Into),
            both: vec![f64::INFINITY; hosts],
            trunks: Vec::new(),
        }
    }

    /// Hosts that never sent and received together as much as each by itself, and what both were at
    /// most.
    pub fn possible_sums(&self, observations: &[Observation]) -> Vec<(usize, f64)> {
        let sum = |host| (host, capacity(&Place::Both(host).loads(observations)));
        let sums = (0..self.both.len()).map(sum);
        sums.filter(|&(host, sum)| sum <= SUM_LIMITS * (self.out[host] + self.into[host]))
            .collect()
    }

    /// Limits what a host sends and receives together.
    pub fn set_sum(&mut self, host: usize, sum: f64) {
        self.both[host] = sum;
    }

    /// A trunk for these hosts, with the loads seen as capacities where those are less than what the
    /// hosts by themselves could do.
    pub fn trunk_of(&self, hosts: Vec<usize>, observations: &[Observation]) -> Trunk {
        let mut holds = vec![false; self.out.len()];
        hosts.iter().for_each(|&host| holds[host] = true);
        let trunk = Trunk {
            hosts,
            holds,
            out: f64::INFINITY,
            into: f64::INFINITY,
        };
        let limit = |place: Place, hosts: &[f64]| {
            let carried = capacity(&place.loads(observations));
            let alone: f64 = trunk.hosts.iter().map(|&host| hosts[host]).sum();
            if carried <= TRUNK_LIMITS * alone {
                carried
            } else {
                f64::INFINITY
            }
        };
        let out = limit(Place::TrunkOut(&trunk), &self.out);
        let into = limit(Place::TrunkInto(&trunk), &self.into);
        Trunk { out, into, ..trunk }
    }

    /// The trunks that it lies within.
    pub fn around(&self, trunk: &Trunk) -> Vec<Trunk> {
        let outer = self.trunks.iter().filter(|other| other.is_around(trunk));
        outer.cloned().collect()
    }

    /// The trunks of some of its hosts.
    pub fn inside(&self, trunk: &Trunk) -> Vec<Trunk> {
        let inside = |other: &&Trunk| {
            other.hosts.len() < trunk.hosts.len()
                && other.hosts.iter().all(|&host| trunk.holds[host])
        };
        self.trunks.iter().filter(inside).cloned().collect()
    }

    /// What flows get that are there at the same time: max-min shares. More than any link carries where
    /// nothing is known of the hosts.
    pub fn rates(&self, flows: &[(usize, usize)]) -> Vec<f64> {
        let uses: Vec<_> = flows.iter().map(|&flow| self.uses(flow)).collect();
        let mut shares = MaxMin::default();
        let solved = shares.solve(self.resources(), uses.iter().map(|uses| Demand::all(uses)));
        solved.iter().map(|share| share.rate).collect()
    }

    /// Forgets limits that explain nothing: no flow is bound by them at any time.
    pub fn settle(&mut self, observations: &[Observation]) {
        let mut full = vec![false; self.resources()];
        for seen in observations {
            let uses: Vec<_> = seen.flows.iter().map(|&flow| self.uses(flow)).collect();
            let mut shares = MaxMin::default();
            shares.solve(full.len(), uses.iter().map(|uses| Demand::all(uses)));
            for one in uses.iter().flatten().filter(|one| one.part > 0.0) {
                full[one.resource as usize] |= shares.left(one.resource) < FULL;
            }
        }
        let hosts = self.out.len();
        for (host, limit) in self.both.iter_mut().enumerate() {
            if !full[2 * hosts + host] {
                *limit = f64::INFINITY;
            }
        }
        for (index, trunk) in self.trunks.iter_mut().enumerate() {
            let at = 3 * hosts + 2 * index;
            for (limit, full) in [(&mut trunk.out, full[at]), (&mut trunk.into, full[at + 1])] {
                if !full {
                    *limit = f64::INFINITY;
                }
            }
        }
    }

    /// Where hosts send twice as much to two as they ever did otherwise, or as a fast one and they themselves can take, it is the
    /// others' way in that limits flows, and nobody's way out, be it tried or not; and the other way round. Those that did so only through
    /// trunks, and not as much, say nothing.
    pub fn forget_what_the_other_ends_limit(&mut self, observations: &[Observation]) {
        let hosts = self.out.len();
        let ways: [Way; 2] = [
            (Place::Out, |(from, to)| [from, to]),
            (Place::Into, |(from, to)| [to, from]),
        ];
        for (index, way) in ways.into_iter().enumerate() {
            let others = [&self.into, &self.out][index];
            let known = others.iter().copied().filter(|speed| speed.is_finite());
            let one_takes = quantile(&mut known.collect::<Vec<_>>(), FAST);
            let tried = (0..hosts).filter_map(|host| {
                let tried = self.by_two(host, way, observations)?;
                let is_unlimited = tried.is_unlimited(one_takes.max(others[host]));
                (is_unlimited || tried.beside_trunks).then_some(is_unlimited)
            });
            let mut unlimited = tried.peekable();
            if unlimited.peek().is_some() && unlimited.all(|unlimited| unlimited) {
                [&mut self.out, &mut self.into][index].fill(f64::INFINITY);
                // Not both are free: something limits.
                return;
            }
        }
    }

    /// What a host carried with two others, and without; `None` if either never was.
    fn by_two(
        &self,
        host: usize,
        (place, ends): Way,
        observations: &[Observation],
    ) -> Option<ByTwo> {
        let own = |seen: &Observation| -> Vec<(usize, usize)> {
            let flows = seen.flows.iter().copied();
            flows.filter(|&flow| ends(flow)[0] == host).collect()
        };
        let is_by_two = |seen: &Observation| {
            let with = |other: usize| {
                let ends = seen.flows.iter().map(|&flow| ends(flow));
                ends.filter(|[_, at]| *at == other).count()
            };
            let own = own(seen);
            own.len() == 2 && own.iter().all(|&flow| with(ends(flow)[1]) == 1)
        };
        let passes_none =
            |flow: &(usize, usize)| !self.trunks.iter().any(|trunk| trunk.is_passed(*flow));
        let beside_trunks = |seen: &Observation| own(seen).iter().all(passes_none);
        let (by_two, others): (Vec<_>, Vec<_>) =
            observations.iter().partition(|seen| is_by_two(seen));
        let most = |such: &[&Observation]| {
            let loads = such.iter().map(|seen| place(host).load(seen));
            loads.fold(0.0, f64::max)
        };
        let (with_two, otherwise) = (most(&by_two), most(&others));
        (with_two > 0.0 && otherwise > 0.0).then(|| ByTwo {
            with_two,
            otherwise,
            beside_trunks: by_two.into_iter().any(beside_trunks),
        })
    }

    fn resources(&self) -> usize {
        3 * self.out.len() + 2 * self.trunks.len()
    }

    fn uses(&self, flow: (usize, usize)) -> Vec<Use> {
        let (from, to) = flow;
        let hosts = self.out.len();
        let mut uses = Vec::with_capacity(8);
        let mut take = |resource: usize, capacity: f64| {
            uses.push(Use {
                resource: resource as u32,
                part: 1.0 / capacity,
            });
        };
        take(from, self.out[from].min(UNSEEN));
        take(hosts + to, self.into[to]);
        take(2 * hosts + from, self.both[from]);
        take(2 * hosts + to, self.both[to]);
        for (index, trunk) in self.trunks.iter().enumerate() {
            let at = 3 * hosts + 2 * index;
            if Place::TrunkOut(trunk).is_passed(flow) {
                take(at, trunk.out);
            } else if Place::TrunkInto(trunk).is_passed(flow) {
                take(at + 1, trunk.into);
            }
        }
        uses
    }

    /// Trunks, those that hold others before those.
    pub fn outermost_first(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.trunks.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(self.trunks[index].hosts.len()));
        order
    }

    /// The hosts, as they are kept in a file.
    pub fn hosts(&self, names: &[String], observations: &[Observation]) -> Graph {
        let known = |place: Place, limit: f64| described(place, limit, observations);
        let host = |(index, name): (usize, &String)| Host {
            name: name.clone(),
            out: known(Place::Out(index), self.out[index]),
            into: known(Place::Into(index), self.into[index]),
            both: known(Place::Both(index), self.both[index]),
        };
        Graph {
            hosts: names.iter().enumerate().map(host).collect(),
            ..Graph::default()
        }
    }

    /// What passes a trunk outwards and inwards, as it is kept in a file.
    pub fn trunk(&self, trunk: &Trunk, observations: &[Observation]) -> (Capacity, Capacity) {
        let known = |place: Place, limit: f64| described(place, limit, observations);
        (
            known(Place::TrunkOut(trunk), trunk.out),
            known(Place::TrunkInto(trunk), trunk.into),
        )
    }
}

/// The most that a host carried.
struct ByTwo {
    /// When it had flows with two others, of which neither had any with somebody else.
    with_two: f64,
    /// At other times. If nothing limits the host, that may be more than one other takes, for it had flows with several.
    otherwise: f64,
    /// Whether it had flows with two that passed no trunk: else that may be what limited them.
    beside_trunks: bool,
}

impl ByTwo {
    /// Whether the others limited it, of whom a fast one, and it itself the other way, take no more than so much: a fast host is so both ways.
    fn is_unlimited(&self, one_takes: f64) -> bool {
        let fills_both = one_takes > 0.0 && self.with_two >= 2.0 * PLATEAU * one_takes;
        fills_both || self.with_two >= TWICE * self.otherwise
    }
}

/// A capacity with its interval; without one if nothing was limited by it.
fn described(place: Place, limit: f64, observations: &[Observation]) -> Capacity {
    let seen = plateau(&place.loads(observations));
    Capacity {
        bytes_per_s: limit.is_finite().then_some(seen),
        probed_bytes_per_s: seen.high,
        queue_bytes: None,
    }
}
