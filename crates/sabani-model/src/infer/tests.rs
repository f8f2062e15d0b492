//! Graphs are found again from what flows get in networks drawn from seeds. The flows' rates come from a
//! model of its own: all grow in small steps until something is full.

use std::collections::HashMap;

use super::*;
use crate::measure::patterns::{Patterns, neighbours};
use crate::network::Host;

/// A network that is known.
struct Truth {
    out: Vec<f64>,
    into: Vec<f64>,
    both: Vec<f64>,
    /// For each host its group, and for each group what passes outwards and inwards.
    group: Vec<usize>,
    trunks: Vec<(f64, f64)>,
    /// How many equal trunks each of those is.
    paths: usize,
    /// Two groups each, in their order, have a trunk together that carries so much either way.
    outer: Option<f64>,
    /// Whether a host that waits for its group's trunk holds up what it sends within the group.
    holds_up: bool,
}

/// Numbers that look random.
struct Draw(u64);

impl Draw {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f64) as usize
    }
}

impl Truth {
    /// `groups` groups of `each` hosts at places drawn, with trunks that carry `part` of their hosts'
    /// traffic.
    fn grouped(groups: usize, each: usize, part: f64, draw: &mut Draw) -> Self {
        let hosts = groups * each;
        let mut group: Vec<usize> = (0..hosts).map(|host| host / each).collect();
        for at in (1..hosts).rev() {
            group.swap(at, draw.below(at + 1));
        }
        let trunk = each as f64 * part;
        Truth {
            out: vec![1.0; hosts],
            into: vec![1.0; hosts],
            both: vec![f64::INFINITY; hosts],
            group,
            trunks: vec![(trunk, trunk); groups],
            paths: 1,
            outer: None,
            holds_up: false,
        }
    }

    /// Capacities of all that a flow passes: its place, unique, and how much.
    fn way(&self, (from, to): (usize, usize)) -> Vec<(usize, f64)> {
        let hosts = self.out.len();
        let mut way = vec![
            (from, self.out[from]),
            (hosts + to, self.into[to]),
            (2 * hosts + from, self.both[from]),
            (2 * hosts + to, self.both[to]),
        ];
        let (ours, theirs) = (self.group[from], self.group[to]);
        if ours != theirs {
            let path = (from * 31 + to * 17) / 4 % self.paths;
            let place = |group: usize| 3 * hosts + 2 * (group * self.paths + path);
            let (out, into) = (self.trunks[ours].0, self.trunks[theirs].1);
            way.push((place(ours), out / self.paths as f64));
            way.push((place(theirs) + 1, into / self.paths as f64));
        }
        if let Some(outer) = self.outer.filter(|_| ours / 2 != theirs / 2) {
            let place = |group: usize| 3 * hosts + 2 * (self.trunks.len() * self.paths + group / 2);
            way.push((place(ours), outer));
            way.push((place(theirs) + 1, outer));
        }
        way
    }

    /// Rates by small steps, which differ by up to `unfair` from flow to flow: who shares a trunk does
    /// not get the same.
    fn observe(&self, flows: &[(usize, usize)], unfair: f64, draw: &mut Draw) -> Observation {
        const STEP: f64 = 1.0 / 512.0;
        let ways: Vec<_> = flows.iter().map(|&flow| self.way(flow)).collect();
        let steps: Vec<_> = flows
            .iter()
            .map(|_| STEP * (1.0 + unfair * (2.0 * draw.unit() - 1.0)))
            .collect();
        let mut left = HashMap::new();
        for &(place, capacity) in ways.iter().flatten() {
            left.insert(place, capacity);
        }
        let mut rates = vec![0.0; flows.len()];
        let mut grown = true;
        while grown {
            grown = false;
            for ((rate, way), step) in rates.iter_mut().zip(&ways).zip(&steps) {
                if way.iter().all(|(place, _)| left[place] >= *step) {
                    *rate += step;
                    grown = true;
                    for (place, _) in way {
                        *left.get_mut(place).unwrap() -= step;
                    }
                }
            }
        }
        if self.holds_up {
            self.hold_up(flows, &mut rates, draw);
        }
        for rate in &mut rates {
            *rate *= 1.0 + 0.03 * (2.0 * draw.unit() - 1.0);
        }
        Observation {
            flows: flows.to_vec(),
            rates,
        }
    }
}

impl Truth {
    /// Hosts that send out of their group get little more for what stays there, each as much more as is drawn.
    fn hold_up(&self, flows: &[(usize, usize)], rates: &mut [f64], draw: &mut Draw) {
        let leaves = |(from, to): (usize, usize)| self.group[from] != self.group[to];
        let more: Vec<_> = self.out.iter().map(|_| 1.5 + 2.0 * draw.unit()).collect();
        let mut slowest = HashMap::new();
        for (&flow, &rate) in flows.iter().zip(&*rates).filter(|(flow, _)| leaves(**flow)) {
            let least = slowest.entry(flow.0).or_insert(rate);
            *least = rate.min(*least);
        }
        for (&flow, rate) in flows.iter().zip(rates).filter(|(flow, _)| !leaves(**flow)) {
            if let Some(slowest) = slowest.get(&flow.0) {
                *rate = rate.min(slowest * more[flow.0]);
            }
        }
    }
}

/// For each host the smallest group that it is in.
fn partition(inferred: &Inferred, hosts: usize) -> Vec<usize> {
    let mut group = vec![usize::MAX; hosts];
    let mut sorted: Vec<_> = inferred.groups().enumerate().collect();
    sorted.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    for (index, hosts) in sorted {
        hosts.iter().for_each(|&host| group[host] = index);
    }
    group
}

/// Measures a network whose flows share as unevenly as that.
fn measured(truth: &Truth, unfair: f64, draw: &mut Draw) -> (Inferred, Vec<Observation>) {
    let hosts = truth.out.len();
    let mut patterns = Patterns::new(hosts, 7);
    let mut seen = Vec::new();
    while let Some(flows) = patterns.next(&seen) {
        seen.push(truth.observe(&flows, unfair, draw));
    }
    (infer(hosts, &seen, &neighbours(hosts)), seen)
}

fn graph(inferred: &Inferred, seen: &[Observation], hosts: usize) -> Graph {
    let names: Vec<String> = (0..hosts).map(|host| format!("host{host}")).collect();
    inferred.graph(&names, seen)
}

/// Two measurements of permutations, and how well they are predicted. Enough of them that chance says little.
fn checked(truth: &Truth, inferred: &Inferred, unfair: f64, draw: &mut Draw) -> Fit {
    let hosts = truth.out.len();
    let mut patterns = Patterns::new(hosts, 99);
    let held_out: Vec<_> = (0..16).map(|_| patterns.permutation()).collect();
    let mut observe = || -> Vec<Observation> {
        let observed = held_out
            .iter()
            .map(|flows| truth.observe(flows, unfair, draw));
        observed.collect()
    };
    let (once, again) = (observe(), observe());
    inferred.check(&once, &again)
}

#[test]
fn groups_behind_trunks_are_found_with_their_capacities() {
    // Many small groups are told apart only if flows share more evenly.
    for (groups, each, part, unfair) in [
        (8, 8, 0.5, 0.4),
        (2, 16, 0.4, 0.4),
        (8, 4, 0.5, 0.2),
        (4, 2, 0.5, 0.4),
    ] {
        let hosts = groups * each;
        for seed in 1..3 {
            let case = format!("{groups} groups of {each}, trunks of {part}, seed {seed}");
            let mut draw = Draw(seed);
            let truth = Truth::grouped(groups, each, part, &mut draw);
            let (found, seen) = measured(&truth, unfair, &mut draw);
            assert!(seen.len() <= 20, "{case}: {} patterns", seen.len());
            let alike = adjusted_rand(&partition(&found, hosts), &truth.group);
            let groups: Vec<_> = found.groups().collect();
            assert!(
                alike >= 0.98,
                "{case}: {alike}, {groups:?} of {:?}",
                truth.group
            );
            for group in &graph(&found, &seen, hosts).groups {
                for capacity in [&group.out, &group.into] {
                    let ratio = capacity.bytes_per_s.unwrap().value / truth.trunks[0].0;
                    assert!((0.93..1.07).contains(&ratio), "{case}: {ratio}");
                }
            }
            let fit = checked(&truth, &found, unfair, &mut draw);
            assert!(fit.is_good(), "{case}: {fit:?}");
        }
    }
}

/// Where flows share evenly, a pair of groups explains as much as one of them does; and a trunk by itself
/// leaves to others what they don't get, as long as theirs is not known.
#[test]
fn even_shares_do_not_hide_small_groups() {
    for (groups, each, part) in [
        (4, 2, 0.25),
        (4, 2, 0.5),
        (2, 4, 0.25),
        (8, 2, 0.5),
        (4, 4, 0.25),
    ] {
        for (unfair, in_order) in [(0.0, true), (0.0, false), (0.05, true), (0.05, false)] {
            let case = format!("{groups} of {each}, trunks of {part}, {unfair}, {in_order}");
            let mut draw = Draw(1);
            let mut truth = Truth::grouped(groups, each, part, &mut draw);
            if in_order {
                truth.group.sort_unstable();
            }
            let (found, _) = measured(&truth, unfair, &mut draw);
            let alike = adjusted_rand(&partition(&found, groups * each), &truth.group);
            let groups: Vec<_> = found.groups().collect();
            assert_eq!(alike, 1.0, "{case}: {groups:?} of {:?}", truth.group);
            let fit = checked(&truth, &found, unfair, &mut draw);
            assert!(fit.is_good() && fit.error_p90 < 0.1, "{case}: {fit:?}");
        }
    }
}

/// With pause frames, a host that waits for its group's trunk sends less within the group, too. Whatever hosts of the
/// group are taken together, a trunk of theirs would make that slow.
#[test]
fn hosts_that_are_held_up_are_no_groups() {
    for seed in 1..3 {
        let mut draw = Draw(seed);
        let mut truth = Truth::grouped(8, 8, 0.25, &mut draw);
        truth.group.sort_unstable();
        truth.holds_up = true;
        let (found, _) = measured(&truth, 0.3, &mut draw);
        let alike = adjusted_rand(&partition(&found, 64), &truth.group);
        let groups: Vec<_> = found.groups().collect();
        assert!(alike >= 0.98, "seed {seed}: {alike}, {groups:?}");
    }
}

/// Where all trunks are full and it is known what hosts can do, any sixteen neighbours explain that flows are slow.
#[test]
fn neighbours_do_not_come_before_groups_that_were_seen() {
    let mut draw = Draw(2);
    let truth = Truth::grouped(16, 4, 0.5, &mut draw);
    let mut patterns = Patterns::new(64, 7);
    let mut seen = Vec::new();
    while let Some(flows) = patterns.next(&seen) {
        seen.push(truth.observe(&flows, 0.1, &mut draw));
    }
    for back in [false, true] {
        let within = (0..64).flat_map(|one| (one + 1..64).map(move |other| (one, other)));
        let within = within.filter(|&(one, other)| truth.group[one] == truth.group[other]);
        let mut free = [true; 64];
        let pairs: Vec<_> = within
            .filter(|&(one, other)| {
                let both = free[one] && free[other];
                free[one] &= !both;
                free[other] &= !both;
                both
            })
            .map(|(one, other)| if back { (other, one) } else { (one, other) })
            .collect();
        seen.push(truth.observe(&pairs, 0.1, &mut draw));
    }
    let found = infer(64, &seen, &neighbours(64));
    assert_eq!(adjusted_rand(&partition(&found, 64), &truth.group), 1.0);
}

#[test]
fn groups_within_groups_are_found() {
    let mut draw = Draw(9);
    let mut truth = Truth::grouped(8, 8, 0.5, &mut draw);
    truth.group.sort_unstable();
    truth.outer = Some(4.0);
    let (found, seen) = measured(&truth, 0.3, &mut draw);
    assert_eq!(adjusted_rand(&partition(&found, 64), &truth.group), 1.0);
    let groups = graph(&found, &seen, 64).groups;
    let outer = groups.iter().filter(|group| group.parent.is_none());
    assert_eq!(outer.count(), 4, "{groups:?}");
}

/// What one group exchanges with others passes their trunks, too: it takes patterns in which those are not full.
#[test]
fn every_group_has_its_trunk() {
    for (groups, each) in [(4, 2), (8, 2), (4, 8)] {
        let mut draw = Draw(3);
        let truth = Truth::grouped(groups, each, 0.5, &mut draw);
        let (found, _) = measured(&truth, 0.05, &mut draw);
        assert_eq!(found.groups().count(), groups, "{groups} of {each}");
    }
}

#[test]
fn neighbours_behind_a_trunk_that_binds_only_when_all_cross_it_are_found() {
    let mut draw = Draw(5);
    let mut truth = Truth::grouped(2, 8, 0.7, &mut draw);
    truth.group.sort_unstable();
    let (found, seen) = measured(&truth, 0.3, &mut draw);
    assert_eq!(adjusted_rand(&partition(&found, 16), &truth.group), 1.0);
    let trunk = &graph(&found, &seen, 16).groups[0];
    let ratio = trunk.out.bytes_per_s.unwrap().value / truth.trunks[0].0;
    assert!((0.93..1.07).contains(&ratio), "{ratio}");
}

#[test]
fn a_trunk_that_nothing_fills_is_not_invented() {
    let mut draw = Draw(6);
    let truth = Truth::grouped(4, 4, 1.5, &mut draw);
    let (found, seen) = measured(&truth, 0.3, &mut draw);
    assert_eq!(found.groups().count(), 0);
    for host in graph(&found, &seen, 16).hosts {
        assert!((0.93..1.07).contains(&host.out.bytes_per_s.unwrap().value));
        assert!(host.both.bytes_per_s.is_none());
    }
}

#[test]
fn unequal_hosts_and_such_that_share_one_way_for_both_directions_are_found() {
    let mut draw = Draw(7);
    let mut truth = Truth::grouped(1, 24, 1.0, &mut draw);
    truth.trunks[0] = (f64::INFINITY, f64::INFINITY);
    (truth.out[3], truth.into[3]) = (0.25, 0.5);
    (truth.out[5], truth.into[5]) = (2.0, 2.0);
    truth.both[8] = 1.0;
    let (found, seen) = measured(&truth, 0.2, &mut draw);
    let hosts = graph(&found, &seen, 24).hosts;
    let near = |capacity: &crate::network::Capacity, expected: f64| {
        let value = capacity.bytes_per_s.unwrap().value;
        assert!(
            (value / expected - 1.0).abs() < 0.07,
            "{value} is not {expected}"
        );
    };
    near(&hosts[3].out, 0.25);
    near(&hosts[3].into, 0.5);
    near(&hosts[5].out, 2.0);
    near(&hosts[5].into, 2.0);
    near(&hosts[8].both, 1.0);
    assert!(hosts[9].both.bytes_per_s.is_none());
}

/// Each group has two trunks; which one a flow takes depends on both its ends.
#[test]
fn hashed_trunks_are_no_tree_and_that_is_said() {
    let mut draw = Draw(8);
    let mut truth = Truth::grouped(4, 6, 0.3, &mut draw);
    truth.paths = 2;
    let (found, _) = measured(&truth, 0.05, &mut draw);
    let fit = checked(&truth, &found, 0.05, &mut draw);
    assert!(!fit.is_good(), "{fit:?}");
    assert!(fit.widening() > 0.1, "{fit:?}");
}

/// As in a lab, whose hosts send as fast as they can until a port holds it up.
#[test]
fn what_limits_the_other_end_limits_nobody_at_this_one() {
    // Where flows share unevenly, one that is held up nowhere else may get more than a port's share, and its host more than one port.
    for (fast, groups, each, unfair) in [
        (0, 1, 8, 0.1),
        (0, 1, 8, 0.9),
        (1, 1, 8, 0.1),
        (1, 1, 8, 0.9),
        (0, 2, 4, 0.1),
        (0, 2, 4, 0.9),
        (1, 2, 4, 0.1),
        (1, 2, 4, 0.9),
        (2, 2, 4, 0.1),
        (2, 2, 4, 0.9),
        (2, 1, 8, 0.9),
    ] {
        let mut draw = Draw(3);
        let mut truth = Truth::grouped(groups, each, 0.5, &mut draw);
        let hosts = groups * each;
        let [slow_out, slow_into] = [fast != 0, fast != 1];
        truth.out = vec![if slow_out { 1.0 } else { 8.0 }; hosts];
        truth.into = vec![if slow_into { 1.0 } else { 8.0 }; hosts];
        let (found, seen) = measured(&truth, unfair, &mut draw);
        for host in graph(&found, &seen, hosts).hosts {
            let case = format!("{fast}, {groups} of {each}, {unfair}: {host:?}");
            assert_eq!(host.out.bytes_per_s.is_some(), slow_out, "{case}");
            assert_eq!(host.into.bytes_per_s.is_some(), slow_into, "{case}");
        }
    }
}

/// They send twice as much to two as most hosts take, and no more than their links carry.
#[test]
fn a_few_fast_hosts_are_limited_as_all_are() {
    let mut draw = Draw(5);
    let mut truth = Truth::grouped(1, 8, 1.0, &mut draw);
    for host in [2, 5] {
        (truth.out[host], truth.into[host]) = (2.0, 2.0);
    }
    let (found, seen) = measured(&truth, 0.1, &mut draw);
    for host in graph(&found, &seen, 8).hosts {
        assert!(host.out.bytes_per_s.is_some(), "{host:?}");
        assert!(host.into.bytes_per_s.is_some(), "{host:?}");
    }
}

/// A process that gets no processor while it is measured receives nothing. What another time shows counts.
#[test]
fn flows_that_moved_nothing_say_nothing_of_their_hosts() {
    let flows = vec![(0, 1), (1, 0)];
    let of = |rates: [f64; 2]| Observation {
        flows: flows.clone(),
        rates: rates.to_vec(),
    };
    let names = ["a", "b"].map(String::from);
    let speeds = |seen: &[Observation]| {
        let inferred = infer(2, seen, &neighbours(2));
        let graph = inferred.graph(&names, seen);
        let speed = |host: &Host| host.out.bytes_per_s.map(|speed| speed.value);
        [0, 1].map(|host| speed(&graph.hosts[host]))
    };
    assert_eq!(speeds(&[of([0.0; 2])]), [None; 2]);
    assert_eq!(speeds(&[of([0.0, 5e8])]), [None, Some(5e8)]);
    let later = [of([0.0; 2]), of([1e9, 5e8])];
    assert_eq!(speeds(&later), [Some(1e9), Some(5e8)]);
}
