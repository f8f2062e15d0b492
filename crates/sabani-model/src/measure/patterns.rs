//! Which hosts send to which at the same time: few patterns that together show what limits whom.
//!
//! 1. *Cover*: every host sends to some of the others, to different ones each time, so that after at most
//!    five patterns each pair has been seen once in each direction; of more than 81 hosts, a part of
//!    the pairs.
//! 2. *Bisect*: halves, quarters and eighths of the hosts, in their order, exchange all that they can.
//! 3. *Stress*: with the groups found so far, all send to other groups at once; then half of the
//!    groups to the other half, and back, so that trunks are loaded without traffic the other way.
//! 4. *Few*: a third of the groups exchange with all others, each third once. Only there the trunks of the few
//!    limit by themselves; else one of all the trunks could be missing, and those at the other ends would explain
//!    as much.
//! 5. *Fan*: the fastest hosts send to two others each, and receive from two.
//! 6. *Pairs*: half of the hosts send to their neighbours, and back, where hosts seem to do more if they only send or only
//!    receive, or nothing has shown that yet.
//! 7. *Hold back*: permutations that the graph is not made from, but must predict.

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::infer::{Observation, infer};

/// In at most so many patterns every pair is seen.
const COVER: usize = 5;
/// Fewer hosts than these at the same time show little of who shares what.
const DEGREE_MIN: usize = 4;
/// Most hosts that one host sends to at the same time.
const DEGREE_MAX: usize = 16;
/// Parts of the groups that exchange with the others, at most: each has less than half of the groups.
const FEW: usize = 4;
/// Hosts that are so much faster one way than both ways at once have something that both directions share.
const FASTER: f64 = 1.25;
/// Sizes of blocks: hosts divided by so much.
const BISECT: [usize; 3] = [2, 4, 8];

/// From which host to which one.
pub type Pattern = Vec<(usize, usize)>;

/// The patterns of one network, one after the other.
#[derive(Debug)]
pub struct Patterns {
    hosts: usize,
    planned: VecDeque<Step>,
    rng: ChaCha8Rng,
    /// Hosts in an order drawn, for covering.
    order: Vec<usize>,
    /// The groups to stress.
    groups: Option<Vec<Vec<usize>>>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Cover { part: usize, parts: usize },
    Bisect { block: usize },
    Across,
    Halves { back: bool },
    Few { part: usize },
    FanOut,
    FanIn,
    Pairs { back: bool },
}

impl Patterns {
    /// The same seed and the same observations give the same patterns.
    pub fn new(hosts: usize, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let order = shuffled(hosts, &mut rng);
        let mut blocks: Vec<_> = BISECT.iter().map(|parts| hosts.div_ceil(*parts)).collect();
        blocks.dedup();
        let bisect = blocks.into_iter().map(|block| Step::Bisect { block });
        let rest = [
            Step::Across,
            Step::Halves { back: false },
            Step::Halves { back: true },
            Step::FanOut,
            Step::FanIn,
            Step::Pairs { back: false },
            Step::Pairs { back: true },
        ];
        let few = (0..FEW).map(|part| Step::Few { part });
        Patterns {
            hosts,
            planned: cover(hosts).chain(bisect).chain(few).chain(rest).collect(),
            rng,
            order,
            groups: None,
        }
    }

    /// The next pattern, made with what has been seen so far; `None` when all have been used.
    pub fn next(&mut self, seen: &[Observation]) -> Option<Pattern> {
        loop {
            let step = self.planned.pop_front()?;
            let pattern = match step {
                Step::Cover { part, parts } => self.cover(part, parts),
                Step::Bisect { block } => self.bisect(block),
                Step::Across => across(self.groups(seen)),
                Step::Halves { back } => halves(self.groups(seen), back),
                Step::Few { part } => few(self.groups(seen), part),
                Step::FanOut => fan(self.groups(seen), seen),
                Step::FanIn => turned(fan(self.groups(seen), seen)),
                Step::Pairs { back } => pairs(self.groups(seen), seen, back),
            };
            if !pattern.is_empty() {
                return Some(pattern);
            }
        }
    }

    /// How many are still to come, at most.
    pub fn left(&self) -> usize {
        self.planned.len()
    }

    /// Covers all pairs once more, in another way.
    pub fn again(&mut self) {
        self.order = shuffled(self.hosts, &mut self.rng);
        self.planned.extend(cover(self.hosts));
        self.groups = None;
    }

    /// A permutation drawn, in which nobody sends to itself.
    pub fn permutation(&mut self) -> Pattern {
        let order = shuffled(self.hosts, &mut self.rng);
        let next = (0..self.hosts).map(|at| (order[at], order[(at + 1) % self.hosts]));
        next.collect()
    }

    fn cover(&self, part: usize, parts: usize) -> Pattern {
        let shifts = (1..self.hosts).skip(part).step_by(parts).take(DEGREE_MAX);
        let of = |shift: usize| {
            (0..self.hosts).map(move |at| (self.order[at], self.order[(at + shift) % self.hosts]))
        };
        shifts.flat_map(of).collect()
    }

    fn bisect(&self, block: usize) -> Pattern {
        let other = |host: usize| {
            let (at, within) = (host / block, host % block);
            (at ^ 1) * block + within
        };
        let pairs = (0..self.hosts).map(|host| (host, other(host)));
        pairs.filter(|(_, other)| *other < self.hosts).collect()
    }

    /// The innermost groups known after covering; hosts in none of them are one group.
    fn groups(&mut self, seen: &[Observation]) -> &[Vec<usize>] {
        let hosts = self.hosts;
        self.groups.get_or_insert_with(|| {
            let inferred = infer(hosts, seen, &neighbours(hosts));
            innermost(hosts, inferred.groups())
        })
    }
}

/// The smallest group of each host; hosts in none are together.
fn innermost<'g>(hosts: usize, groups: impl Iterator<Item = &'g [usize]>) -> Vec<Vec<usize>> {
    let mut known: Vec<_> = groups.collect();
    known.sort_by_key(|hosts| std::cmp::Reverse(hosts.len()));
    let mut group = vec![known.len(); hosts];
    for (index, hosts) in known.iter().enumerate() {
        hosts.iter().for_each(|&host| group[host] = index);
    }
    let mut groups = vec![Vec::new(); known.len() + 1];
    for (host, group) in group.into_iter().enumerate() {
        groups[group].push(host);
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// Everybody sends to another group, each group's hosts to as many others as there are.
fn across(groups: &[Vec<usize>]) -> Pattern {
    let from = groups.concat();
    let longest = groups.iter().map(Vec::len).max().unwrap_or(0);
    let row = |at: usize| {
        groups
            .iter()
            .filter_map(move |group| group.get(at).copied())
    };
    let mut to: Vec<usize> = (0..longest).flat_map(row).collect();
    let mut group = vec![0; from.len()];
    for (index, hosts) in groups.iter().enumerate() {
        hosts.iter().for_each(|&host| group[host] = index);
    }
    let apart = |one: usize, other: usize| match groups.len() {
        1 => one != other,
        _ => group[one] != group[other],
    };
    for at in 0..from.len() {
        if apart(from[at], to[at]) {
            continue;
        }
        let fits = |&other: &usize| apart(from[at], to[other]) && apart(from[other], to[at]);
        if let Some(other) = (0..from.len()).find(fits) {
            to.swap(at, other);
        }
    }
    let pairs = from.into_iter().zip(to);
    pairs.filter(|&(one, other)| apart(one, other)).collect()
}

/// One half of the groups sends to the other one; of a single group, one half of its hosts.
fn halves(groups: &[Vec<usize>], back: bool) -> Pattern {
    let ordered = groups.concat();
    let middle = match groups {
        [_] => ordered.len() / 2,
        _ => groups[..groups.len() / 2].iter().map(Vec::len).sum(),
    };
    let (one, other) = ordered.split_at(middle);
    if one.is_empty() || other.is_empty() {
        return Pattern::new();
    }
    one_way(one, other, back)
}

/// A part of the groups exchange with all others. Of two groups, the trunk of one limits all of that.
fn few(groups: &[Vec<usize>], part: usize) -> Pattern {
    let parts = match groups.len() {
        ..=2 => 0,
        4 => 4,
        _ => 3,
    };
    if part >= parts {
        return Pattern::new();
    }
    let of = |inside: bool| -> Vec<usize> {
        let numbered = groups.iter().enumerate();
        let chosen = numbered.filter(|(index, _)| (index % parts == part) == inside);
        chosen.flat_map(|(_, hosts)| hosts).copied().collect()
    };
    let (some, others) = (of(true), of(false));
    let there = one_way(&some, &others, false);
    let back = one_way(&some, &others, true);
    [there, back].concat()
}

/// All of some hosts send to all of others, or those to them. The hosts of the smaller side are shared by
/// those of the larger one; neighbours send to different groups.
fn one_way(one: &[usize], other: &[usize], back: bool) -> Pattern {
    const STRIDE: usize = 7;
    let most = one.len().max(other.len());
    let pair = |at: usize| (one[at % one.len()], other[at * STRIDE % other.len()]);
    let mut pairs: Pattern = (0..most).map(pair).collect();
    pairs.sort_unstable();
    pairs.dedup();
    if back { turned(pairs) } else { pairs }
}

/// Hosts that have moved most, each to two others, of its own group.
fn fan(groups: &[Vec<usize>], seen: &[Observation]) -> Pattern {
    let mut fastest = vec![0.0_f64; groups.iter().map(Vec::len).sum()];
    for seen in seen {
        let mut moved = vec![[0.0; 2]; fastest.len()];
        for (&(from, to), &rate) in seen.flows.iter().zip(&seen.rates) {
            moved[from][0] += rate;
            moved[to][1] += rate;
        }
        for (fastest, [out, into]) in fastest.iter_mut().zip(moved) {
            *fastest = fastest.max(out).max(into);
        }
    }
    let mut pattern = Pattern::new();
    for group in groups {
        let mut group = group.clone();
        group.sort_by(|&one, &other| fastest[other].total_cmp(&fastest[one]));
        let third = group.len() / 3;
        for at in 0..third {
            pattern.extend([third, 2 * third].map(|from| (group[at], group[from + at])));
        }
    }
    pattern
}

/// Neighbours in each group, of which one sends to the other. Nobody, if hosts that only sent or only received have done so
/// before and were no faster.
fn pairs(groups: &[Vec<usize>], seen: &[Observation], back: bool) -> Pattern {
    let has_fan = groups.iter().any(|group| group.len() / 3 > 0);
    let hosts = groups.concat();
    if has_fan && !hosts.iter().any(|&host| is_faster_one_way(host, seen)) {
        return Pattern::new();
    }
    let pairs = groups.iter().flat_map(|group| group.chunks_exact(2));
    let pairs = pairs.map(|pair| (pair[0], pair[1])).collect();
    if back { turned(pairs) } else { pairs }
}

/// Whether a host sent more than ever when it received nothing, or received more when it sent nothing.
fn is_faster_one_way(host: usize, seen: &[Observation]) -> bool {
    let [mut alone, mut both] = [[0.0_f64; 2]; 2];
    for seen in seen {
        let mut moved = [0.0; 2];
        for (&(from, to), &rate) in seen.flows.iter().zip(&seen.rates) {
            moved[0] += if from == host { rate } else { 0.0 };
            moved[1] += if to == host { rate } else { 0.0 };
        }
        let is_both = moved[0] > 0.0 && moved[1] > 0.0;
        let most = if is_both { &mut both } else { &mut alone };
        *most = [0, 1].map(|way| most[way].max(moved[way]));
    }
    (0..2).any(|way| both[way] > 0.0 && alone[way] > FASTER * both[way])
}

fn cover(hosts: usize) -> impl Iterator<Item = Step> {
    let others = hosts.saturating_sub(1);
    let parts = (others / DEGREE_MIN).clamp(1, COVER).min(others);
    (0..parts).map(move |part| Step::Cover { part, parts })
}

/// Sets of hosts that follow each other in the order of ranks: often those of a switch.
pub fn neighbours(hosts: usize) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..hosts).collect();
    let blocks = BISECT.iter().map(|parts| hosts.div_ceil(*parts));
    let sets = blocks.flat_map(|block| all.chunks(block).map(<[usize]>::to_vec));
    let mut sets: Vec<_> = sets.filter(|set| set.len() > 1).collect();
    sets.dedup();
    sets
}

/// The numbers below `count` in any order.
pub fn shuffled(count: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        let below = u128::from(rng.next_u64()) * (at as u128 + 1);
        order.swap(at, (below >> 64) as usize);
    }
    order
}

fn turned(pattern: Pattern) -> Pattern {
    pattern.into_iter().map(|(from, to)| (to, from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_covered_once_in_each_direction() {
        for hosts in [2, 3, 5, 8, 9, 64] {
            let mut patterns = Patterns::new(hosts, 1);
            let mut times = vec![vec![0; hosts]; hosts];
            for _ in cover(hosts) {
                for (from, to) in patterns.next(&[]).unwrap() {
                    times[from][to] += 1;
                }
            }
            for (from, row) in times.iter().enumerate() {
                for (to, times) in row.iter().enumerate() {
                    assert_eq!(*times, usize::from(from != to), "{from} to {to} of {hosts}");
                }
            }
        }
    }

    #[test]
    fn nobody_sends_to_itself_and_few_patterns_are_enough() {
        for hosts in [2, 3, 6, 17, 64, 200] {
            let mut patterns = Patterns::new(hosts, 3);
            let mut count = 0;
            while let Some(pattern) = patterns.next(&[]) {
                assert!(pattern.iter().all(|(from, to)| from != to));
                assert!(pattern.iter().all(|(from, to)| *from.max(to) < hosts));
                count += 1;
            }
            assert!(count <= 20, "{count} patterns");
        }
    }

    /// What each flow gets of hosts at one switch that move so much both ways together, and one way at most 1.
    fn seen(pattern: Pattern, sum: f64) -> Observation {
        let degree = |host: usize| {
            let flows = pattern.iter();
            flows
                .filter(|(from, to)| *from == host || *to == host)
                .count() as f64
        };
        let sent = |host: usize| pattern.iter().filter(|(from, _)| *from == host).count() as f64;
        let got = |host: usize| pattern.iter().filter(|(_, to)| *to == host).count() as f64;
        let share = |&(from, to): &(usize, usize)| {
            let ways = (1.0 / sent(from)).min(1.0 / got(to));
            let sums = sum / degree(from).max(degree(to));
            ways.min(sums)
        };
        Observation {
            rates: pattern.iter().map(share).collect(),
            flows: pattern,
        }
    }

    #[test]
    fn pairs_are_tried_one_way_where_that_is_faster() {
        for (sum, expected) in [(2.0, 0), (1.2, 2)] {
            let mut patterns = Patterns::new(12, 1);
            let mut observed = Vec::new();
            let mut one_way = vec![0; 12];
            let mut tried = 0;
            while let Some(pattern) = patterns.next(&observed) {
                let is_pairs = pattern.len() == 6 && patterns.left() < 2;
                tried += usize::from(is_pairs);
                for (from, _) in pattern.iter().filter(|_| is_pairs) {
                    one_way[*from] += 1;
                }
                observed.push(seen(pattern, sum));
            }
            assert_eq!(tried, expected, "sum {sum}");
            assert!(
                one_way.iter().all(|times| *times == expected / 2),
                "{one_way:?}"
            );
        }
    }
}
