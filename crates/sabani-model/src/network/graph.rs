//! Where what hosts send to each other has to pass: the hosts' own links, and trunks between groups of
//! hosts. Groups form trees, as switches do in most networks; a network that is nearly a tree is
//! described by the tree that explains the measurements best.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Estimate, MOST_SPEED, check_name, expect};

/// More hosts or groups make resources that nothing counts.
const MOST_HOSTS: usize = 1 << 18;
/// Each group knows all those that it lies in.
const MOST_DEPTH: usize = 64;

/// How much passes a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// What passes at most; `None` if no measurement was limited by this place.
    pub bytes_per_s: Option<Estimate>,
    /// The most that a measurement has sent through it. What loads it harder is not known.
    pub probed_bytes_per_s: f64,
    /// Bytes that wait before it when it is full, further ones are lost; `None` where that is not
    /// known, or where flow control of links keeps anything from being lost.
    pub queue_bytes: Option<Estimate>,
}

impl Capacity {
    /// Known exactly, with an endless queue.
    pub fn exact(bytes_per_s: f64) -> Self {
        Capacity {
            bytes_per_s: Some(Estimate::exact(bytes_per_s)),
            probed_bytes_per_s: bytes_per_s,
            queue_bytes: None,
        }
    }

    fn check(&self) -> Result<(), String> {
        if let Some(speed) = self.bytes_per_s {
            speed.check_speed("bytes_per_s")?;
        }
        expect(
            (0.0..=MOST_SPEED).contains(&self.probed_bytes_per_s),
            format_args!("probed_bytes_per_s is not from 0 to {MOST_SPEED:e}"),
        )?;
        if let Some(queue) = self.queue_bytes {
            queue.check("queue_bytes")?;
            expect(queue.value > 0.0, "queue_bytes is not positive")?;
        }
        Ok(())
    }
}

/// A host's link to the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// What it sends at most; without limit where others' ways in are all that limits. Its queue is the host's own and
    /// loses nothing.
    pub out: Capacity,
    /// What it receives at most, or without limit as what it sends; the queue is that of the switch's port towards it.
    pub into: Capacity,
    /// What it sends and receives at most, together, where that is less than the sum of both.
    pub both: Capacity,
}

impl Host {
    /// Whether a machine of this name may be it. Where several had the same, each has the rank that measured behind it.
    pub fn is_called(&self, name: &str) -> bool {
        let rest = self.name.strip_prefix(name);
        let is_rank = |rest: &str| rest.starts_with(" (rank ") && rest.ends_with(')');
        rest.is_some_and(|rest| rest.is_empty() || is_rank(rest))
    }
}

/// Hosts that reach the others over a trunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its hosts, as indices, without those of groups inside.
    pub hosts: Vec<usize>,
    /// The group that it lies in, as an index less than its own, if any.
    pub parent: Option<usize>,
    /// What its hosts send to others outside at most.
    pub out: Capacity,
    /// What its hosts receive from others outside at most.
    pub into: Capacity,
}

impl Group {
    /// A group on its own, whose trunks are not known.
    pub fn new(name: impl Into<String>, hosts: Vec<usize>) -> Self {
        Group {
            name: name.into(),
            hosts,
            parent: None,
            out: Capacity::default(),
            into: Capacity::default(),
        }
    }
}

/// Hosts and trunks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// The hosts, in the order of the ranks that have measured them.
    pub hosts: Vec<Host>,
    /// Groups behind trunks. Hosts in none of them are at the root of the tree.
    pub groups: Vec<Group>,
    /// What two processes of one host move between each other at most.
    pub local: Capacity,
    /// How well it predicts; `None` if that was not tried.
    #[serde(default)]
    pub fit: Option<Fit>,
}

/// How well a graph predicts rates of simultaneous traffic that it was not made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// How many patterns of simultaneous traffic were measured.
    pub patterns: usize,
    /// Median of the errors, as absolute differences of logarithms.
    pub error: f64,
    /// 90th percentile of the errors.
    pub error_p90: f64,
    /// Median difference between two measurements of the same.
    pub noise: f64,
}

impl Fit {
    /// An error that is not worth further patterns.
    const GOOD: f64 = 0.1;
    /// Errors may be so many times the noise: where transports share unevenly, max-min shares can't be
    /// more exact than that.
    const NOISES: f64 = 1.5;
    /// Nine of ten errors may be so many times what the median may be. Where links are chosen by hashing, most flows
    /// are as fast as a tree would have it, and some half as fast.
    const TAIL: f64 = 3.0;

    /// No difference of logarithms that is measured is larger: a factor of 20,000.
    const MOST_DIFFERENT: f64 = 10.0;
    /// More than this between two measurements of the same, as a difference of logarithms, and they say
    /// nothing: others use the network or the processors. Quiet networks stay below a tenth of it.
    const STEADY: f64 = 0.25;

    fn check(&self) -> Result<(), String> {
        let differences = [
            ("error", self.error),
            ("error_p90", self.error_p90),
            ("noise", self.noise),
        ];
        for (field, difference) in differences {
            expect(
                (0.0..=Self::MOST_DIFFERENT).contains(&difference),
                format_args!("fit: {field} is not from 0 to {}", Self::MOST_DIFFERENT),
            )?;
        }
        expect(
            self.error <= self.error_p90,
            "fit: error, a median, is above error_p90",
        )
    }

    /// Whether what was measured was so again when it was measured again.
    pub fn is_steady(&self) -> bool {
        self.noise <= Self::STEADY
    }

    /// The largest median of errors that is no reason to doubt the graph.
    fn most(&self) -> f64 {
        Self::GOOD.max(Self::NOISES * self.noise)
    }

    /// Whether the network is as the graph says, as far as one can see. If not, further patterns are tried, and if that does not help, predictions
    /// have wider intervals.
    pub fn is_good(&self) -> bool {
        self.error <= self.most() && self.error_p90 <= Self::TAIL * self.most()
    }

    /// Whether predictions may be worth something, with wider intervals perhaps.
    pub fn is_believable(&self) -> bool {
        self.is_steady() && self.error <= Self::STEADY
    }

    /// By what intervals of predictions are stretched, up and down, as a difference of logarithms: nothing if errors are
    /// as usual on a tree. What varies from one time to the next does so for predictions, too.
    pub fn widening(&self) -> f64 {
        let is_usual = self.error <= Self::GOOD && self.error_p90 <= Self::TAIL * Self::GOOD;
        if is_usual { 0.0 } else { self.error_p90 }
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (error, noise) = (100.0 * self.error.exp_m1(), 100.0 * self.noise.exp_m1());
        let tail = 100.0 * self.error_p90.exp_m1();
        write!(
            f,
            "held back: {error:.1} %, nine of ten {tail:.0} % ({noise:.1} % twice), "
        )?;
        f.write_str(match (self.is_steady(), self.is_good()) {
            (false, _) => "not to be believed",
            (true, false) => "no tree",
            (true, true) => "a tree",
        })
    }
}

impl Graph {
    /// For each host, the groups that it lies in, from the innermost.
    pub fn groups_of_hosts(&self) -> Vec<Vec<usize>> {
        let mut of_hosts = vec![Vec::new(); self.hosts.len()];
        for (index, group) in self.groups.iter().enumerate() {
            let chain = std::iter::successors(Some(index), |&at| self.groups[at].parent);
            let chain: Vec<_> = chain.collect();
            for &host in &group.hosts {
                of_hosts[host].clone_from(&chain);
            }
        }
        of_hosts
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.hosts.is_empty() {
            return Err("there are no hosts".to_owned());
        }
        expect(
            self.hosts.len().max(self.groups.len()) <= MOST_HOSTS,
            format_args!("there are more than {MOST_HOSTS} hosts or groups"),
        )?;
        let hosts = self.hosts.iter().map(|host| ("host", &host.name));
        let groups = self.groups.iter().map(|group| ("group", &group.name));
        for (what, name) in hosts.chain(groups) {
            check_name(what, name)?;
        }
        for host in &self.hosts {
            let capacities = [("out", host.out), ("into", host.into), ("both", host.both)];
            for (place, capacity) in capacities {
                let named = |what| format!("host {}: {place}: {what}", host.name);
                capacity.check().map_err(named)?;
            }
            if host.out.bytes_per_s.or(host.into.bytes_per_s).is_none() {
                return Err(format!("host {}: its own link is not known", host.name));
            }
        }
        let inside = |what| format!("local, between two processes of one host: {what}");
        self.local.check().map_err(inside)?;
        self.fit.map_or(Ok(()), |fit| fit.check())?;
        self.check_groups()?;
        self.check_limits()
    }

    /// Refuses hosts between which nothing would limit a message: it would take no time, and have no share.
    fn check_limits(&self) -> Result<(), String> {
        let chains = self.groups_of_hosts();
        let up = self.unlimited(&chains, |host| &host.out, |group| &group.out);
        let down = self.unlimited(&chains, |host| &host.into, |group| &group.into);
        let mut met = up
            .iter()
            .filter_map(|(place, from)| Some((from, down.get(place)?)));
        met.next().map_or(Ok(()), |(from, to)| {
            Err(format!(
                "neither what host {from} sends nor what host {to} receives is limited: one of both has a link that is not known"
            ))
        })
    }

    /// The groups, and the whole network, that a host reaches over links without limit, with the name of one that does.
    fn unlimited<'g>(
        &'g self,
        chains: &[Vec<usize>],
        own: impl Fn(&Host) -> &Capacity,
        trunk: impl Fn(&Group) -> &Capacity,
    ) -> BTreeMap<Option<usize>, &'g str> {
        let is_unlimited = |link: &Capacity| link.bytes_per_s.is_none();
        let mut reached = BTreeMap::new();
        for (host, chain) in self.hosts.iter().zip(chains) {
            if !is_unlimited(own(host)) || !is_unlimited(&host.both) {
                continue;
            }
            let groups = chain.iter().map(|&at| Some(at));
            for place in groups.chain([None]) {
                reached.entry(place).or_insert(&*host.name);
                if place.is_some_and(|at| !is_unlimited(trunk(&self.groups[at]))) {
                    break;
                }
            }
        }
        reached
    }

    fn check_groups(&self) -> Result<(), String> {
        let mut grouped = vec![false; self.hosts.len()];
        let mut depths = Vec::with_capacity(self.groups.len());
        for (index, group) in self.groups.iter().enumerate() {
            let bad = |what: &str| Err(format!("group {}: {what}", group.name));
            if group.parent.is_some_and(|parent| parent >= index) {
                return bad("its parent does not come before it");
            }
            let depth = 1 + group.parent.map_or(0, |parent| depths[parent]);
            if depth > MOST_DEPTH {
                return bad("it lies in more groups than any switches make");
            }
            depths.push(depth);
            for &host in &group.hosts {
                match grouped.get_mut(host) {
                    None => return bad("there is no such host"),
                    Some(true) => return bad("a host is in two groups"),
                    Some(grouped) => *grouped = true,
                }
            }
            for (place, capacity) in [("out", group.out), ("into", group.into)] {
                let named = |what| format!("group {}: {place}: {what}", group.name);
                capacity.check().map_err(named)?;
            }
        }
        Ok(())
    }
}

/// How many trunks lie between two hosts that lie in these groups.
pub fn trunks_between(ours: &[usize], theirs: &[usize]) -> usize {
    let beside = |ours: &[usize], theirs: &[usize]| {
        let trunks = ours.iter().filter(|group| !theirs.contains(group));
        trunks.count()
    };
    beside(ours, theirs) + beside(theirs, ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_from_inside_to_outside() {
        let mut network = crate::testing::switched(4);
        let outer = Group::new("outer", vec![1]);
        let inner = Group {
            parent: Some(0),
            ..Group::new("inner", vec![2, 3])
        };
        network.graph.groups = vec![outer, inner];
        let expected = [vec![], vec![0], vec![1, 0], vec![1, 0]];
        assert_eq!(network.graph.groups_of_hosts(), expected);
        let trunks = |one: usize, other: usize| trunks_between(&expected[one], &expected[other]);
        assert_eq!([0, 1, 2, 3].map(|host| trunks(0, host)), [0, 1, 2, 2]);
        assert_eq!([0, 1, 2, 3].map(|host| trunks(2, host)), [2, 1, 0, 0]);
    }

    #[test]
    fn a_host_is_known_by_its_name_also_where_the_rank_stands_behind_it() {
        let mut host = crate::testing::switched(2).graph.hosts.remove(0);
        let mut is_called = |own: &str, name: &str| {
            host.name = own.to_owned();
            host.is_called(name)
        };
        assert!(is_called("node1", "node1"));
        assert!(is_called("localhost (rank 12)", "localhost"));
        assert!(!is_called("node12", "node1"));
        assert!(!is_called("node1", "node12"));
    }

    #[test]
    fn hosts_without_limits_of_their_own_need_a_trunk_between_them_that_has_one() {
        let with = |groups: Vec<Group>| {
            let mut graph = crate::testing::switched(4).graph;
            graph.hosts[1].out.bytes_per_s = None;
            graph.hosts[2].into.bytes_per_s = None;
            graph.groups = groups;
            graph.check()
        };
        let group = |hosts: [usize; 2], out: Option<f64>, into: Option<f64>| {
            let capacity = |speed: Option<f64>| speed.map(Capacity::exact).unwrap_or_default();
            Group {
                out: capacity(out),
                into: capacity(into),
                ..Group::new("near", hosts.into())
            }
        };
        for unlimited in [
            vec![],
            vec![group([0, 1], None, Some(1e9))],
            vec![group([2, 3], Some(1e9), None)],
            vec![group([1, 2], Some(1e9), Some(1e9))],
        ] {
            let why = with(unlimited).unwrap_err();
            assert!(
                why.contains("what host host1 sends nor what host host2"),
                "{why}"
            );
        }
        assert_eq!(with(vec![group([0, 1], Some(1e9), None)]), Ok(()));
        assert_eq!(with(vec![group([2, 3], None, Some(1e9))]), Ok(()));
    }

    #[test]
    fn a_tree_has_no_tail_of_flows_that_are_far_slower() {
        let fit = |error, error_p90, noise| Fit {
            error,
            error_p90,
            noise,
            ..Fit::default()
        };
        let tree = fit(0.05, 0.2, 0.01);
        assert!(tree.is_good() && tree.widening() == 0.0);
        for hashed in [fit(0.01, 0.7, 0.01), fit(0.3, 0.7, 0.01)] {
            assert!(!hashed.is_good() && hashed.widening() == 0.7);
        }
        // As uneven as it is from one time to the next: no fault of the graph, but predictions are no better than that.
        let uneven = fit(0.15, 0.5, 0.12);
        assert!(uneven.is_good() && uneven.widening() == 0.5);
    }
}
